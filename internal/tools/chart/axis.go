package chart

import (
	"math"
	"slices"
	"strconv"
)

// Axis is the x or y axis. A linear axis begins at 0; on a logarithmic axis 0 is drawn at a power of ten below all
// other numbers.
type Axis struct {
	Name string
	Text func(float64) string
	Log  bool

	low, high  float64 // numbers, or their logarithms
	start, end float64 // pixels
}

// mark is a text at a position.
type mark struct {
	At   float64
	Text string
}

// headroom is the minimum factor between a number on a logarithmic axis and the first or last mark: the number's label
// needs space.
const headroom = 1.3

// span sets the range of the axis and returns the round numbers to mark along y.
func (a *Axis) span(numbers []float64) (even []float64) {
	least, limit := math.Inf(1), slices.Max(numbers)
	for _, n := range numbers {
		if n > 0 {
			least = min(least, n)
		}
	}
	switch {
	case !a.Log:
		step := axisSteps(limit/4, limit/4)[0]
		for n := 0.0; n < limit+step; n += step {
			even = append(even, n)
		}
		a.high = even[len(even)-1]
	case a.start > a.end: // along y
		even = axisSteps(least/headroom, limit*headroom)
		a.low, a.high = math.Log10(even[0]), math.Log10(even[len(even)-1])
	default:
		a.low, a.high = math.Log10(least), math.Log10(limit)
		if slices.Contains(numbers, 0) {
			a.low--
		}
	}
	return even
}

// axisSteps returns 1, 2 and 5 times powers of ten, from the last one not above least to the first one not below most.
func axisSteps(least, limit float64) (all []float64) {
	for unit := math.Pow(10, math.Floor(math.Log10(least))); ; unit *= 10 {
		for _, n := range []float64{1, 2, 5} {
			if n *= unit; n <= least {
				all = all[:0]
			}
			if all = append(all, n); n >= limit {
				return all
			}
		}
	}
}

// at returns the position of a number.
func (a *Axis) at(n float64) float64 {
	part := n
	if a.Log {
		part = a.low
		if n > 0 {
			part = math.Log10(n)
		}
	}
	return a.start + (a.end-a.start)*(part-a.low)/(a.high-a.low)
}

func (a *Axis) marks(numbers []float64) (all []mark) {
	for _, n := range numbers {
		all = append(all, mark{a.at(n), a.Text(n)})
	}
	return all
}

// FormatCount formats a number such as 300 k.
func FormatCount(n float64) string {
	switch {
	case n >= 1e6:
		return decimals(n/1e6) + " M"
	case n >= 1e3:
		return decimals(n/1e3) + " k"
	}
	return decimals(n)
}

// FormatSeconds formats a number of seconds.
func FormatSeconds(seconds float64) string {
	switch {
	case seconds == 0:
		return "0 s"
	case seconds < 1:
		return decimals(seconds*1e3) + " ms"
	}
	return decimals(seconds) + " s"
}

// FormatBytes formats a number of bytes.
func FormatBytes(n float64) string {
	for _, unit := range []string{"B", "kB", "MB"} {
		if n < 1000 {
			return decimals(n) + " " + unit
		}
		n /= 1000
	}
	return decimals(n) + " GB"
}

// decimals formats a number with two digits, or as a whole one.
func decimals(n float64) string {
	if n < 10 {
		return strconv.FormatFloat(n, 'g', 2, 64)
	}
	return strconv.FormatFloat(n, 'f', 0, 64)
}
