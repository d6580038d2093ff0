package bus

import (
	"slices"
	"testing"
)

func TestPace(t *testing.T) {
	var p pace
	got := []int{p.most()}
	for _, sent := range []int{1000, 300, 150, 75} {
		p.heard(false, sent)
		got = append(got, p.most())
	}
	p.heard(false, 1)
	got = append(got, p.most())
	for range 11 {
		p.heard(true, p.most())
		got = append(got, p.most())
	}
	want := []int{1000, 500, 150, 75, 37, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
