package store

import "testing"

// TestFitting checks that a notification has as many alerts as fit together, and at least one.
func TestFitting(t *testing.T) {
	for _, c := range []struct {
		sizes []int
		want  int
	}{{nil, 0}, {[]int{5}, 1}, {[]int{50}, 1}, {[]int{50, 1}, 1}, {[]int{4, 6, 1}, 2}, {[]int{4, 5, 1}, 3}, {[]int{4, 7, 1}, 1}} {
		if got := fitting(c.sizes, 10); got != c.want {
			t.Errorf("%v: %d, want %d", c.sizes, got, c.want)
		}
	}
}
