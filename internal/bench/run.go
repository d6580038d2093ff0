// Package bench measures the cost of the engine on top of the database: the same work is done by the whole engine and
// by plain SQL, alternating.
package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Shape is the kind of work of a run.
type Shape string

// The shapes.
const (
	Finish     Shape = "finish"     // each job raises an alert and is moved to the history
	Reschedule Shape = "reschedule" // each job is checked without an alert and rescheduled
	Mixed      Shape = "mixed"      // half of the jobs finish, half are rescheduled
	Create     Shape = "create"     // jobs are created over HTTP, 10,000 at a time
	Events     Shape = "events"     // jobs are created from the events of a stream
	Due        Shape = "due"        // due jobs are read, beside few and beside many pending ones
	Latency    Shape = "latency"    // a node raises an alert for each job, all of one slot
)

// Shapes are all shapes, in the order of display.
var Shapes = []Shape{Finish, Reschedule, Mixed, Create, Events, Due, Latency}

// Drains reports whether the shape settles due jobs; only those are measured with several nodes and old transactions.
func (s Shape) Drains() bool { return s == Finish || s == Reschedule || s == Mixed }

// ends returns how many of the jobs end with the check.
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

// Backlog is the shape of inserting the pending jobs before all others.
const Backlog Shape = "backlog"

// Fill is the only way of Backlog.
const Fill = "fill"

// Options are the options of Run.
type Options struct {
	DatabaseURL string // Postgres, in a schema that is created and dropped; empty: SQLite
	Dir         string // an empty folder, for SQLite's file and for a broker
	Shapes      []Shape
	Jobs        int // due jobs per round
	Rounds      int // number of measurements of each way, alternating
	Nodes       int // if more than one: also measure this number of nodes on one database
	// Pending is the number of other pending jobs, due in some days. They are inserted once.
	Pending int
	// Few is the number of pending jobs that Due compares Pending with; 0: FewPending.
	Few int
	// Scattered distributes the due jobs among the pending ones, each on a separate page, instead of side by side.
	// Pending must be at least ScatteredAt times Jobs. Postgres only.
	Scattered bool
	// OldSnapshot also measures the engine while an old transaction keeps the database from removing deleted rows.
	// Postgres only.
	OldSnapshot bool
	// Measured is called with each round; nil: not called.
	Measured func(Result)
	// Progress is called with the progress of long preparations; nil: not called.
	Progress func(what string, done, all int)
}

func (o Options) progress(what string, done, all int) {
	if o.Progress != nil {
		o.Progress(what, done, all)
	}
}

// The ways to do the work. Several nodes are a separate way.
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
	WAL   int64         `json:"wal_bytes,omitempty"` // written by the database; 0: unknown
	CPU   time.Duration `json:"cpu_ns,omitempty"`    // of this process; 0: unknown
	// Memory is the maximum memory of this process during the round, in bytes.
	Memory int64 `json:"memory_bytes,omitempty"`
	// Images is the number of full-page images in the server's log; 0: unknown.
	Images int64 `json:"full_page_images,omitempty"`
	// Buffers is the number of database pages touched by one read; 0: unknown.
	Buffers int64 `json:"buffers,omitempty"`
	// Idle is the number of database pages that a sweep touched per shard when nothing was left to do; 0: not measured.
	Idle float64 `json:"idle_buffers,omitempty"`
	// P50, P99 and Most are of single reads, or of the delays of alerts after their slot; 0: not measured.
	P50  time.Duration `json:"p50_ns,omitempty"`
	P99  time.Duration `json:"p99_ns,omitempty"`
	Most time.Duration `json:"most_ns,omitempty"`

	text int64 // bytes of written text
}

// Rate returns jobs per second.
func (r Result) Rate() float64 { return float64(r.Jobs) / r.Took.Seconds() }

// String returns the line read by programs that compare several systems.
func (r Result) String() string {
	line := fmt.Sprintf("RESULT deadman-%s %s n=%d sec=%.3f rate=%.0f", r.Shape, r.Way, r.Jobs, r.Took.Seconds(), r.Rate())
	if r.WAL > 0 {
		line += fmt.Sprintf(" walB/row=%d", r.WAL/int64(r.Jobs))
	}
	if r.CPU > 0 {
		line += fmt.Sprintf(" cpu_us/row=%.1f", float64(r.CPU.Nanoseconds())/1e3/float64(r.Jobs))
	}
	extra := func(name, format string, value float64) {
		if value > 0 {
			line += fmt.Sprintf(" %s="+format, name, value)
		}
	}
	extra("memMB", "%.0f", float64(r.Memory)/(1<<20))
	extra("fpi", "%.0f", float64(r.Images))
	extra("buffers", "%.0f", float64(r.Buffers))
	extra("idle_buffers", "%.1f", r.Idle)
	extra("p50ms", "%.2f", r.P50.Seconds()*1e3)
	extra("p99ms", "%.2f", r.P99.Seconds()*1e3)
	extra("maxms", "%.2f", r.Most.Seconds()*1e3)
	return line
}

// Run measures each shape by each way, round by round, alternating the ways so that other load of the machine affects
// all of them. It removes everything it creates in the database before it returns. It returns ErrInterrupted if ctx is
// cancelled.
func Run(ctx context.Context, o Options) (results []Result, err error) {
	defer func() { err = called(ctx, err) }()
	g, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.close(context.WithoutCancel(ctx))) }()
	report := func(r Result) {
		results = append(results, r)
		if o.Measured != nil {
			o.Measured(r)
		}
	}
	if o.Pending > 0 {
		begun := time.Now()
		if err := g.pend(ctx, o); err != nil {
			return nil, fmt.Errorf("insert %d pending jobs: %w", o.Pending, err)
		}
		report(Result{Shape: Backlog, Way: Fill, Jobs: o.Pending, Took: time.Since(begun)})
	}
	for _, shape := range o.Shapes {
		if err := runShape(ctx, g, shape, o, report); err != nil {
			return results, err
		}
	}
	return results, g.pends(ctx)
}

// runShape measures one shape by each way.
func runShape(ctx context.Context, g database, shape Shape, o Options, report func(Result)) (err error) {
	ways, over, err := waysOf(ctx, g, shape, o)
	if err != nil {
		return fmt.Errorf("%s: %w", shape, err)
	}
	defer func() { err = errors.Join(err, over(context.WithoutCancel(ctx))) }()
	var first *Result
	for round := range o.Rounds {
		for i := range ways {
			way := ways[(i+round)%len(ways)]
			r, err := way.measure(ctx)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", shape, way.name, err)
			}
			if first == nil {
				first = &r
			}
			if err := r.like(*first); err != nil {
				return err
			}
			report(r)
		}
	}
	return nil
}

// like checks that two ways wrote the same amount of text: otherwise they did different work.
func (r Result) like(other Result) error {
	if more := r.text - other.text; 50*max(more, -more) > other.text {
		return fmt.Errorf("%s: %s writes %d bytes of text a job and %s %d, more than 2 %% apart: they can't be compared",
			r.Shape, r.Way, r.text/int64(r.Jobs), other.Way, other.text/int64(other.Jobs))
	}
	return nil
}

// quantiles sets the quantiles of single durations.
func (r *Result) quantiles(took []time.Duration) {
	slices.Sort(took)
	r.P50, r.P99, r.Most = took[len(took)/2], took[len(took)*99/100], took[len(took)-1]
}

// contender is one way to do the work of a shape, from empty tables to a check of the result.
type contender struct {
	name    string
	measure func(ctx context.Context) (Result, error)
}

// waysOf returns the ways to do the work of a shape; over releases their shared resources. The others are compared with
// the first.
func waysOf(ctx context.Context, g database, shape Shape, o Options) (ways []contender, over func(context.Context) error, err error) {
	over = func(context.Context) error { return nil }
	switch shape {
	case Create:
		ways, err = createWays(ctx, g, o)
		return ways, over, err
	case Events:
		return eventsWays(ctx, g, o)
	case Due:
		return dueWays(ctx, g, o)
	case Latency:
		return latencyWays(ctx, g, o)
	default:
		for _, d := range drainingsOf(g, shape, o) {
			ways = append(ways, contender{d.name, d.measure})
		}
		return ways, over, nil
	}
}

// WaysOf returns the number of ways measured in each round of a shape.
func (o Options) WaysOf(shape Shape) int {
	switch shape {
	case Create, Events, Due:
		return 2
	case Latency:
		return 1
	default:
		return len(drainingsOf(nil, shape, o))
	}
}
