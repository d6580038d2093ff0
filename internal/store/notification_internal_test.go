package store

import "testing"

// A message has as many alerts as are not too large together, and one at least.
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
