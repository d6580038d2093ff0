package lookup

import "time"

// Limits bound what a source is asked, and what it can hold up. A zero is the default.
type Limits struct {
	Concurrency int           // batches that are asked about at once; 4
	Waiting     int           // batches that may wait in line; 8
	Rate        float64       // keys asked about in a second at most; 0: any
	OpenAfter   int           // failures of the source in a row, after which it is left alone; 5
	OpenFor     time.Duration // how long it is left alone before one batch tries again; 10 s
}
