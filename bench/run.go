// Package bench measures what the engine costs on top of the database: the same work is done by
// the whole engine and by bare SQL that has none, in turn.
package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Shape is a kind of work that all due jobs of a run make.
type Shape string

// The shapes.
const (
	Finish     Shape = "finish"     // each job says an alert and goes to the history
	Reschedule Shape = "reschedule" // each job is looked at, says nothing, and is to be looked at again
	Mixed      Shape = "mixed"      // half of them the one, half the other
)

// Shapes are all shapes, in the order in which people are shown them.
var Shapes = []Shape{Finish, Reschedule, Mixed}

// ends is how many of so many jobs are over after a look.
func (s Shape) ends(jobs int) int {
	switch s {
	case Finish:
		return jobs
	case Mixed:
		return jobs / 2
	default:
		return 0
	}
}

// Options say what to measure.
type Options struct {
	DatabaseURL string // Postgres, in a schema that is made and dropped again; empty: SQLite
	Dir         string // an empty folder for SQLite's file
	Shapes      []Shape
	Jobs        int // due jobs of a round
	Rounds      int // times that each way is measured, in turn
	Nodes       int // more than one: so many nodes on one database are measured, too
	// Measured is told of each round.
	Measured func(Result)
}

// The ways to do the work. Several nodes are a way of their own.
const (
	Floor  = "floor"
	Engine = "engine"
)

// Result is one round of one way.
type Result struct {
	Shape Shape         `json:"shape"`
	Way   string        `json:"way"`
	Jobs  int           `json:"jobs"`
	Took  time.Duration `json:"took_ns"`
	WAL   int64         `json:"wal_bytes,omitempty"` // that the database wrote; 0: it doesn't say
	CPU   time.Duration `json:"cpu_ns,omitempty"`    // of this process; 0: the system doesn't say

	text int64 // bytes of the texts that were written
}

// Rate is jobs a second.
func (r Result) Rate() float64 { return float64(r.Jobs) / r.Took.Seconds() }

// String is the line that programs read which compare several systems.
func (r Result) String() string {
	line := fmt.Sprintf("RESULT deadman-%s %s n=%d sec=%.3f rate=%.0f", r.Shape, r.Way, r.Jobs, r.Took.Seconds(), r.Rate())
	if r.WAL > 0 {
		line += fmt.Sprintf(" walB/row=%d", r.WAL/int64(r.Jobs))
	}
	if r.CPU > 0 {
		line += fmt.Sprintf(" cpu_us/row=%.1f", float64(r.CPU.Nanoseconds())/1e3/float64(r.Jobs))
	}
	return line
}

// Run measures each shape by each way, round by round, the ways in turn so that what the machine
// does besides falls on all of them. What it makes in the database is gone when it returns.
func Run(ctx context.Context, o Options) (results []Result, err error) {
	g, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.close(context.WithoutCancel(ctx))) }()
	for _, shape := range o.Shapes {
		ways := waysOf(g, shape, o)
		var first *Result
		for round := range o.Rounds {
			for i := range ways {
				way := ways[(i+round)%len(ways)]
				r, err := measure(ctx, g, shape, o.Jobs, way)
				if err != nil {
					return results, fmt.Errorf("%s, %s: %w", shape, way.name, err)
				}
				if first == nil {
					first = &r
				}
				if err := r.like(*first); err != nil {
					return results, err
				}
				results = append(results, r)
				if o.Measured != nil {
					o.Measured(r)
				}
			}
		}
	}
	return results, nil
}

// like reports whether two ways wrote as much: else one of them does other work.
func (r Result) like(other Result) error {
	if more := r.text - other.text; 50*max(more, -more) > other.text {
		return fmt.Errorf("%s: %s writes %d bytes of text a job and %s %d, more than 2 %% apart: they can't be compared",
			r.Shape, r.Way, r.text/int64(r.Jobs), other.Way, other.text/int64(other.Jobs))
	}
	return nil
}

// way is one way to do the work of a shape.
type way struct {
	name string
	// ready makes what the way needs beside the jobs; do does the work; over ends what ready began.
	ready func(ctx context.Context) (do func(ctx context.Context) error, over func() error, err error)
}

func waysOf(g ground, shape Shape, o Options) []way {
	bare := way{Floor, func(context.Context) (func(context.Context) error, func() error, error) {
		return func(ctx context.Context) error { return g.bare(ctx, shape) }, func() error { return nil }, nil
	}}
	engine := func(name string, n int) way {
		return way{name, func(ctx context.Context) (func(context.Context) error, func() error, error) {
			c, err := startNodes(ctx, g.store, n, nil)
			if err != nil {
				return nil, nil, err
			}
			return func(ctx context.Context) error { return c.drain(ctx, o.Jobs) }, c.stop, nil
		}}
	}
	ways := []way{bare, engine(Engine, 1)}
	if o.Nodes > 1 {
		ways = append(ways, engine(fmt.Sprintf("nodes=%d", o.Nodes), o.Nodes))
	}
	return ways
}

// measure fills the tables, has a way do the work, and checks that it was done once.
func measure(ctx context.Context, g ground, shape Shape, jobs int, w way) (r Result, err error) {
	if err := g.fill(ctx, shape, jobs); err != nil {
		return r, fmt.Errorf("fill: %w", err)
	}
	do, over, err := w.ready(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, over()) }()
	before, err := g.written(ctx)
	if err != nil {
		return r, err
	}
	cpu, begun := processTime(), time.Now()
	if err := do(ctx); err != nil {
		return r, err
	}
	r = Result{Shape: shape, Way: w.name, Jobs: jobs, Took: time.Since(begun), CPU: processTime() - cpu}
	after, err := g.written(ctx)
	if err != nil {
		return r, err
	}
	r.WAL = after - before
	r.text, err = g.check(ctx, shape, jobs)
	return r, err
}

// Summary is what all rounds of a way came to.
type Summary struct {
	Shape   Shape         `json:"shape"`
	Way     string        `json:"way"`
	Rate    float64       `json:"jobs_per_second"` // the median
	Least   float64       `json:"least"`           // of all rounds
	Most    float64       `json:"most"`
	OfFloor float64       `json:"of_floor"`          // the median as a part of the floor's
	WAL     int64         `json:"wal_bytes_per_job"` // the median; 0: it is not known
	CPU     time.Duration `json:"cpu_ns_per_job"`    // the median; 0: it is not known
}

// Summarize puts the rounds of each way together, in the order in which they came.
func Summarize(results []Result) (all []Summary) {
	floor := 0.0
	for _, way := range waysIn(results) {
		var rates, wal, cpu []float64
		for _, r := range results {
			if r.Shape == way.Shape && r.Way == way.Way {
				rates = append(rates, r.Rate())
				wal = append(wal, float64(r.WAL)/float64(r.Jobs))
				cpu = append(cpu, float64(r.CPU)/float64(r.Jobs))
			}
		}
		s := Summary{
			Shape: way.Shape, Way: way.Way, Rate: median(rates), Least: slices.Min(rates), Most: slices.Max(rates),
			WAL: int64(median(wal)), CPU: time.Duration(median(cpu)),
		}
		if s.Way == Floor {
			floor = s.Rate
		}
		s.OfFloor = s.Rate / floor
		all = append(all, s)
	}
	return all
}

// waysIn are the ways that were measured, the floor of each shape first.
func waysIn(results []Result) (ways []Result) {
	for _, r := range results {
		of := Result{Shape: r.Shape, Way: r.Way}
		if !slices.Contains(ways, of) {
			ways = append(ways, of)
		}
	}
	return ways
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}
