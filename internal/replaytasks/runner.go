// Package replaytasks runs replays of rules over the events of streams in the background, within bounds of time, events,
// memory and results.
package replaytasks

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	futurejobs "deadman/future_jobs"
)

// Streams reads what streams store. bus.Streams implements it.
type Streams interface {
	// Lack describes the events since a time that a stream has deleted; empty: none. subjects name the stream in the text.
	Lack(ctx context.Context, stream string, subjects []string, since time.Time) (string, error)
	// Replay returns the events of a stream on the subjects from a time up to a sequence. An error ends it.
	Replay(ctx context.Context, stream string, subjects []string, since time.Time, through uint64) iter.Seq2[futurejobs.Event, error]
}

// Limits bound the tasks.
type Limits struct {
	Range  time.Duration // from Request.Since to the start
	Time   time.Duration // of a task
	Events int64
	Bytes  int64 // of the bodies of the events
	Memory int   // bytes of pending jobs

	Alerts     int // that a result keeps
	AlertBytes int // of their texts and keys

	Keep      time.Duration // of an ended task
	KeptTasks int           // ended tasks of a tenant
	KeptNode  int           // ended tasks of all tenants
}

// DefaultLimits are the limits of a node.
var DefaultLimits = Limits{
	Range: 366 * futurejobs.Day, Time: 2 * time.Minute, Events: 2_000_000, Bytes: 1 << 30, Memory: 128 << 20,
	Alerts: 500, AlertBytes: 256 << 10, Keep: 15 * time.Minute, KeptTasks: 3, KeptNode: 30,
}

var (
	// ErrRequest means that a request is out of range, or lacks the answers of a source. The error names the remedy.
	ErrRequest = errors.New("the replay cannot begin")
	// ErrStopping means that the node stops.
	ErrStopping = errors.New("the node is shutting down; start the replay on another node")
)

// Options configure a Runner.
type Options struct {
	Streams Streams
	Limits  Limits
	Node    string // name, for users
	Now     func() time.Time
	Log     *slog.Logger
}

// Runner runs tasks, and keeps their results for a while. It is safe for concurrent use.
type Runner struct {
	Options

	mu      sync.Mutex
	tasks   []*task // in the order of their starts
	closed  bool
	running sync.WaitGroup
}

// New returns a runner.
func New(o Options) *Runner { return &Runner{Options: o} }

// expireInterval is the time between removals of expired tasks.
const expireInterval = time.Minute

// Run removes expired tasks until ctx ends. It then cancels the running tasks, and waits for their end.
func (r *Runner) Run(ctx context.Context) error {
	tick := time.NewTicker(expireInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.expire()
			continue
		case <-ctx.Done():
		}
		break
	}
	r.mu.Lock()
	r.closed = true
	for _, t := range r.tasks {
		t.cancel(ErrStopping)
	}
	r.mu.Unlock()
	r.running.Wait()
	return nil
}

// Start begins a task, which outlives ctx. ended is called once the task has ended, unless Start returns an error. The error is
// ErrRequest, ErrStopping, of the replay or of the streams.
func (r *Runner) Start(ctx context.Context, q Request, ended func()) (Task, error) {
	t, err := newTask(ctx, q, r.Options)
	if err != nil {
		return Task{}, err
	}
	r.expire()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return Task{}, ErrStopping
	}
	r.makeRoom(q.Tenant)
	r.tasks = append(r.tasks, t)
	running, stop := context.WithTimeoutCause(context.WithoutCancel(ctx), r.Limits.Time, fmt.Errorf("it took more than %s; %s", r.Limits.Time, shorterRange))
	running, t.cancel = context.WithCancelCause(running)
	r.running.Go(func() {
		defer stop()
		t.run(running)
		ended()
	})
	return t.snapshot(), nil
}

// Task returns a task of an owner.
func (r *Runner) Task(owner, id string) (Task, error) {
	t, err := r.find(owner, id)
	if err != nil {
		return Task{}, err
	}
	return t.snapshot(), nil
}

// Cancel cancels a running task, or removes an ended one.
func (r *Runner) Cancel(owner, id string) error {
	t, err := r.find(owner, id)
	if err != nil {
		return err
	}
	if t.snapshot().State == Running {
		t.cancel(errCancelled)
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tasks = slices.DeleteFunc(r.tasks, func(one *task) bool { return one == t })
	return nil
}

// find returns a task, or futurejobs.ErrNotFound for an unknown one and for that of another owner.
func (r *Runner) find(owner, id string) (*task, error) {
	r.expire()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.tasks {
		if t.state.ID == id && t.owner == owner {
			return t, nil
		}
	}
	return nil, fmt.Errorf("replay %s on node %s: %w; a replay is known to the node and to the token that started it, until %s after its end: ask that node, or start the replay again",
		id, r.Node, futurejobs.ErrNotFound, r.Limits.Keep)
}

// expire removes the tasks that ended long ago.
func (r *Runner) expire() {
	now := r.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tasks = slices.DeleteFunc(r.tasks, func(t *task) bool {
		s := t.snapshot()
		return s.State != Running && !now.Before(s.ExpiresAt)
	})
}

// makeRoom removes the oldest ended tasks of a tenant, and of all, beyond the limits. r.mu is held.
func (r *Runner) makeRoom(tenant string) {
	r.removeOldest(r.Limits.KeptTasks, func(t *task) bool { return t.tenant == tenant })
	r.removeOldest(r.Limits.KeptNode, func(*task) bool { return true })
}

func (r *Runner) removeOldest(kept int, counts func(*task) bool) {
	ended := func(t *task) bool { return counts(t) && t.snapshot().State != Running }
	n := 0
	for _, t := range r.tasks {
		if ended(t) {
			n++
		}
	}
	r.tasks = slices.DeleteFunc(r.tasks, func(t *task) bool {
		if n < kept || !ended(t) {
			return false
		}
		n--
		return true
	})
}

// newID returns an id that no client can guess.
func newID() string { return uuid.NewString() }
