// Package bench measures what the engine costs on top of the database: the same work is done by
// the whole engine and by bare SQL that has none, in turn.
package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Shape is a kind of work that all due jobs of a run make.
type Shape string

// The shapes.
const (
	Finish     Shape = "finish"     // each job says an alert and goes to the history
	Reschedule Shape = "reschedule" // each job is looked at, says nothing, and is to be looked at again
	Mixed      Shape = "mixed"      // half of them the one, half the other
	Create     Shape = "create"     // jobs are made that are asked for by HTTP, 10,000 at a time
	Events     Shape = "events"     // jobs are made of the events of a stream
	Due        Shape = "due"        // due jobs are read, beside few that wait and beside many
	Latency    Shape = "latency"    // a node says an alert of each job, all of one slot
)

// Shapes are all shapes, in the order in which people are shown them.
var Shapes = []Shape{Finish, Reschedule, Mixed, Create, Events, Due, Latency}

// Drains reports whether due jobs are settled: that is what several nodes and old transactions are measured with.
func (s Shape) Drains() bool { return s == Finish || s == Reschedule || s == Mixed }

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

// Backlog is the shape of what is put in before all others.
const Backlog Shape = "backlog"

// Fill is the way of Backlog: there is but one.
const Fill = "fill"

// Options say what to measure.
type Options struct {
	DatabaseURL string // Postgres, in a schema that is made and dropped again; empty: SQLite
	Dir         string // an empty folder, for SQLite's file and for a broker
	Shapes      []Shape
	Jobs        int // due jobs of a round
	Rounds      int // times that each way is measured, in turn
	Nodes       int // more than one: so many nodes on one database are measured, too
	// Pending is how many jobs wait besides, due in some days. They are put in once.
	Pending int
	// Few is what Due compares Pending with; 0: FewPending.
	Few int
	// Scattered has the due jobs lie among those that wait, each on a page of its own, and not side by
	// side. Pending is at least ScatteredAt times Jobs. Postgres only.
	Scattered bool
	// OldSnapshot measures the engine also while a transaction elsewhere keeps the database from forgetting
	// what is gone. Postgres only.
	OldSnapshot bool
	// Measured is told of each round; nil: nobody is.
	Measured func(Result)
	// Progress is told how much is done of something that takes long before the rounds; nil: nobody is.
	Progress func(what string, done, all int)
}

func (o Options) progress(what string, done, all int) {
	if o.Progress != nil {
		o.Progress(what, done, all)
	}
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
	// Memory is the most that this process had in use meanwhile, in bytes.
	Memory int64 `json:"memory_bytes,omitempty"`
	// Images is how many whole pages the server put into its log; 0: it doesn't say.
	Images int64 `json:"full_page_images,omitempty"`
	// Buffers is how many pages of the database one read touched; 0: it doesn't say.
	Buffers int64 `json:"buffers,omitempty"`
	// Idle is how many pages of the database a sweep touched for each shard, when nothing was left
	// to do; 0: it wasn't measured.
	Idle float64 `json:"idle_buffers,omitempty"`
	// P50, P99 and Most are of single reads, or of alerts after their slot; 0: they weren't measured.
	P50  time.Duration `json:"p50_ns,omitempty"`
	P99  time.Duration `json:"p99_ns,omitempty"`
	Most time.Duration `json:"most_ns,omitempty"`

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

// Run measures each shape by each way, round by round, the ways in turn so that what the machine
// does besides falls on all of them. What it makes in the database is gone when it returns.
// It returns ErrInterrupted where ctx is cancelled.
func Run(ctx context.Context, o Options) (results []Result, err error) {
	defer func() { err = called(ctx, err) }()
	g, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.close(context.WithoutCancel(ctx))) }()
	told := func(r Result) {
		results = append(results, r)
		if o.Measured != nil {
			o.Measured(r)
		}
	}
	if o.Pending > 0 {
		begun := time.Now()
		if err := g.pend(ctx, o); err != nil {
			return nil, fmt.Errorf("put in %d jobs that wait: %w", o.Pending, err)
		}
		told(Result{Shape: Backlog, Way: Fill, Jobs: o.Pending, Took: time.Since(begun)})
	}
	for _, shape := range o.Shapes {
		if err := runShape(ctx, g, shape, o, told); err != nil {
			return results, err
		}
	}
	return results, g.pends(ctx)
}

// runShape measures one shape by each way.
func runShape(ctx context.Context, g database, shape Shape, o Options, told func(Result)) (err error) {
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
			told(r)
		}
	}
	return nil
}

// like reports whether two ways wrote as much: else one of them does other work.
func (r Result) like(other Result) error {
	if more := r.text - other.text; 50*max(more, -more) > other.text {
		return fmt.Errorf("%s: %s writes %d bytes of text a job and %s %d, more than 2 %% apart: they can't be compared",
			r.Shape, r.Way, r.text/int64(r.Jobs), other.Way, other.text/int64(other.Jobs))
	}
	return nil
}

// contender is one way to do the work of a shape, from empty tables to a check of what came of it.
type contender struct {
	name    string
	measure func(ctx context.Context) (Result, error)
}

// waysOf are the ways to do the work of a shape; over takes away what they share. The first is what
// the others are compared with.
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

// WaysOf is how many ways are measured in each round of a shape.
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
