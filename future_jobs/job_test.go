package futurejobs

import (
	"fmt"
	"testing"
)

func TestTurnsAreFair(t *testing.T) {
	const keys, turns = 10_000, 20
	counts := make([]int, turns)
	for i := range keys {
		key := fmt.Sprint("key-", i)
		turn := SpreadIndex("herd", key, turns)
		if turn != SpreadIndex("herd", key, turns) {
			t.Fatalf("the turn of %s is another each time", key)
		}
		counts[turn]++
	}
	// The chi-square statistic with 19 degrees of freedom exceeds 50 once in ten thousand samples.
	chi := 0.0
	for _, n := range counts {
		off := float64(n) - keys/turns
		chi += off * off / (keys / turns)
	}
	if chi > 50 {
		t.Errorf("chi-square %.1f: %v", chi, counts)
	}
	moved := 0
	for i := range 100 {
		key := fmt.Sprint("key-", i)
		if SpreadIndex("herd", key, turns) != SpreadIndex("another", key, turns) {
			moved++
		}
	}
	if moved < 80 {
		t.Errorf("of 100 keys %d have another turn in another rule", moved)
	}
}
