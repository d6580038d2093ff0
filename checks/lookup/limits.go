package lookup

import (
	"cmp"
	"time"
)

// Limits bound what a source is asked, and what it can hold up. A zero is the default.
type Limits struct {
	Concurrency int           // batches that are asked about at once; 4
	Waiting     int           // batches that may wait in line; 8
	Rate        float64       // keys asked about in a second on average, and at once; 0: any
	OpenAfter   int           // failures of the source in a row, after which it is left alone; 5
	OpenFor     time.Duration // how long it is left alone before one batch tries again; 10 s
}

// WithDefaults are the limits with the defaults in the place of zeros.
func (l Limits) WithDefaults() Limits {
	l.Concurrency, l.Waiting = cmp.Or(l.Concurrency, 4), cmp.Or(l.Waiting, 8)
	l.OpenAfter, l.OpenFor = cmp.Or(l.OpenAfter, 5), cmp.Or(l.OpenFor, 10*time.Second)
	return l
}
