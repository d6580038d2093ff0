package bus

import (
	"slices"
	"testing"
)

func TestPace(t *testing.T) {
	var p pacer
	got := []int{p.window()}
	for _, sent := range []int{1000, 300, 150, 75} {
		p.record(false, sent)
		got = append(got, p.window())
	}
	p.record(false, 1)
	got = append(got, p.window())
	for range 11 {
		p.record(true, p.window())
		got = append(got, p.window())
	}
	want := []int{1000, 500, 150, 75, 37, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
