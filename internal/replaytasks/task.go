package replaytasks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/replay"
	"deadman/rules"
	"deadman/rules/document"
)

// Request requests a replay of a rule from a time until now.
type Request struct {
	rules.Replayable
	Since  time.Time
	Found  json.RawMessage // the answer to all lookups, an object or null; nil: none
	Owner  string          // reads the task
	Tenant string          // shares the limit of kept tasks
}

// State is the state of a task.
type State string

// The states of a task.
const (
	Running   State = "running"
	Done      State = "done"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// Task is the state of a task at one time.
type Task struct {
	ID        string
	Rule      string
	Version   int32 // 0: not saved
	Node      string
	State     State
	Since     time.Time
	Until     time.Time
	StartedAt time.Time
	EndedAt   time.Time // zero: it runs
	ExpiresAt time.Time // zero: it runs

	Events   int64     // played
	PlayedTo time.Time // time of the last of them
	Raised   int64     // firing alerts so far
	Read     uint64    // sequences of the streams read so far
	Range    uint64    // sequences from the first event of each stream up to its last of the request; 0: unknown yet
	Reason   string    // why it failed or was cancelled
	Warnings []string
	Result   *ReplayResult // nil: it is not done
}

// Progress returns the part of the sequences of the streams that was read, from 0 to 1.
func (t Task) Progress() float64 {
	switch {
	case t.State == Done:
		return 1
	case t.Range == 0:
		return 0
	}
	return float64(t.Read) / float64(t.Range)
}

// ReplayResult is the result of a task that is done, as the API returns it.
type ReplayResult struct {
	Alerts    []ReplayedAlert    `json:"alerts" nullable:"false" doc:"Alerts that the rule would have raised, in order of time; at most 500, and fewer if their texts are long."`
	Further   int64              `json:"further_alerts,omitempty" doc:"Number of alerts that the list omits."`
	Summary   *replay.RuleResult `json:"summary" doc:"Counts of jobs and alerts."`
	Timeline  *replay.Timeline   `json:"timeline,omitempty" doc:"Firing alerts over time. Absent without an alert."`
	Histogram *replay.Histogram  `json:"histogram,omitempty" doc:"Time until the jobs were resolved, and the steps. Absent without a resolved job."`
}

// ReplayedAlert is an alert of a replay. It has no id, as no such alert exists.
type ReplayedAlert struct {
	Slot     time.Time       `json:"slot" doc:"Nominal time of the alert."`
	Entity   string          `json:"entity" doc:"Entity type."`
	Key      string          `json:"key" doc:"Key of the entity."`
	Step     string          `json:"step,omitempty" doc:"Step of the escalation."`
	Severity alerts.Severity `json:"severity" doc:"Severity of the alert."`
	Status   alerts.Status   `json:"status" doc:"Status of the alert."`
	Text     string          `json:"text" doc:"Text of the alert."`
	Since    time.Time       `json:"since,omitzero" doc:"Start of the job."`
}

const (
	shorterRange = "choose a shorter range, or run deadman replay --stream, which has no such limit"

	// maxDisorder is the tolerance for messages out of order of time, that of deadman replay.
	maxDisorder = time.Minute
)

// errCancelled is the cause of the end of a task that its owner cancelled.
var errCancelled = errors.New("it was cancelled")

// task is a running or ended task.
type task struct {
	owner, tenant string
	cancel        context.CancelCauseFunc
	options       Options
	reads         []rules.StreamBinding
	replay        *replay.Replay
	size          int64 // bytes of the played events
	kept          int   // bytes of the kept alerts
	result        ReplayResult

	mu    sync.Mutex
	state Task
}

// newTask checks the request, and prepares the replay.
func newTask(ctx context.Context, q Request, o Options) (*task, error) {
	now := o.Now().UTC()
	switch {
	case !q.Since.Before(now):
		return nil, fmt.Errorf("%w: since %s is not in the past", ErrRequest, q.Since.Format(time.RFC3339))
	case now.Sub(q.Since) > o.Limits.Range:
		return nil, fmt.Errorf("%w: since %s is more than %s ago; %s", ErrRequest, q.Since.Format(time.RFC3339), document.Duration(o.Limits.Range), shorterRange)
	}
	answers, err := q.lookups()
	if err != nil {
		return nil, err
	}
	t := &task{owner: q.Owner, tenant: q.Tenant, options: o, reads: q.Reads, state: Task{
		ID: newID(), Rule: q.Document.Name, Version: q.Version, Node: o.Node, State: Running, Since: q.Since, Until: now, StartedAt: now, PlayedTo: q.Since,
	}, result: ReplayResult{Alerts: []ReplayedAlert{}}}
	if t.replay, err = replay.New(ctx, []document.Document{q.Document}, q.Calendars, answers, q.Since); err != nil {
		return nil, err
	}
	t.replay.MaxBytes, t.replay.Raise = o.Limits.Memory, t.keep
	t.state.Warnings, err = t.warnings(ctx, q)
	return t, err
}

// lookups returns the answers to the lookups of the rule.
func (q Request) lookups() (*replay.Lookups, error) {
	source := q.Document.Lookup.SourceName()
	switch {
	case source == "" && q.Found != nil:
		return nil, fmt.Errorf("%w: rule %s has no lookup; leave out the lookup result", ErrRequest, q.Document.Name)
	case source == "":
		return nil, nil
	case q.Found == nil:
		return nil, fmt.Errorf("%w: rule %s queries source %s, whose past answers are unknown; give one lookup result for all checks, or run deadman replay --lookups with a file of past answers",
			ErrRequest, q.Document.Name, source)
	}
	answers, err := replay.SameAnswer(source, q.Found)
	if err != nil {
		return nil, fmt.Errorf("%w: lookup result: %w; write an object, or null if no record exists", ErrRequest, err)
	}
	return answers, nil
}

// warnings returns the gaps of the streams.
func (t *task) warnings(ctx context.Context, q Request) (all []string, err error) {
	for _, subject := range q.Unstored {
		all = append(all, fmt.Sprintf("No stream stores all events on %s. The replay lacks the others.", subject))
	}
	if h := q.Document.Trigger.Heartbeat; h != nil {
		all = append(all, "Pings over HTTP are in no stream; the replay has only the events of the heartbeat.")
	}
	for _, stream := range t.streams() {
		subjects, _ := t.readsOf(stream)
		lack, err := t.options.Streams.Lack(ctx, stream, subjects, q.Since)
		if err != nil {
			return nil, err
		}
		if lack != "" {
			all = append(all, lack)
		}
	}
	return all, nil
}

// streams returns the names of the streams that the rule reads.
func (t *task) streams() []string {
	names := make(map[string]bool)
	for _, read := range t.reads {
		names[read.Stream] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// readsOf returns the subjects that the rule reads from a stream, up to a sequence.
func (t *task) readsOf(stream string) (subjects []string, through uint64) {
	for _, read := range t.reads {
		if read.Stream == stream {
			subjects, through = append(subjects, read.Subject), max(through, read.From)
		}
	}
	return subjects, through
}

// open opens the events of the streams, up to the last message of the request.
func (t *task) open(ctx context.Context) *replay.Stream {
	var stored []iter.Seq2[futurejobs.Event, error]
	for _, stream := range t.streams() {
		subjects, through := t.readsOf(stream)
		stored = append(stored, t.counted(t.options.Streams.Replay(ctx, stream, subjects, t.state.Since, through), through))
	}
	return replay.NewStream(stored...)
}

// counted counts the sequences of a stream that are read, of those up to through.
func (t *task) counted(stored iter.Seq2[futurejobs.Event, error], through uint64) iter.Seq2[futurejobs.Event, error] {
	return func(yield func(futurejobs.Event, error) bool) {
		var last uint64
		for e, err := range stored {
			if err == nil {
				t.countRead(last, e.Seq, through)
				last = e.Seq
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// countRead counts the sequences of a stream after last; 0: none was read.
func (t *task) countRead(last, seq, through uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last == 0 {
		last = seq - 1
		t.state.Range += through - last
	}
	t.state.Read += seq - last
}

// run plays the events, and records the end.
func (t *task) run(ctx context.Context) {
	var summary *replay.Summary
	err := errors.New("internal error; the log of the node has the cause")
	defer func() {
		if p := recover(); p != nil {
			t.options.Log.Error("replay failed", "rule", t.state.Rule, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
		t.end(ctx, summary, err)
	}()
	summary, err = t.play(ctx)
}

func (t *task) play(ctx context.Context) (*replay.Summary, error) {
	stored := t.open(ctx)
	defer stored.Close()
	sorted := replay.NewSorted(stored, maxDisorder)
	for {
		e, _, err := sorted.Next()
		switch {
		case errors.Is(err, io.EOF):
			return t.replay.Finish(ctx, t.state.Until)
		case errors.Is(err, replay.ErrOrder):
			return nil, errors.New("the events are not in order of time; run deadman replay --stream with --max-disorder")
		case err != nil:
			return nil, t.unreadable(ctx, err)
		case e.Time.Before(t.state.Since):
			continue
		case e.Time.After(t.state.Until):
			return t.replay.Finish(ctx, t.state.Until)
		}
		if err := t.count(e); err != nil {
			return nil, err
		}
		if err := t.replay.Event(ctx, e); err != nil {
			return nil, err
		}
	}
}

// unreadable logs why the streams cannot be read, and returns an error without names of streams, which tenants do not see.
func (t *task) unreadable(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		t.options.Log.Error("replay failed: its streams cannot be read", "rule", t.state.Rule, "err", err)
	}
	return errors.New("the broker does not deliver the events; the log of the node has the cause; start the replay again, and see /readyz")
}

// count counts an event, and returns an error beyond the limits.
func (t *task) count(e replay.Event) error {
	l := t.options.Limits
	t.mu.Lock()
	defer t.mu.Unlock()
	switch t.size += int64(len(e.Data)); {
	case t.state.Events >= l.Events:
		return fmt.Errorf("the streams have more than %d events in the range; %s", l.Events, shorterRange)
	case t.size > l.Bytes:
		return fmt.Errorf("the events of the range have more than %d bytes; %s", l.Bytes, shorterRange)
	}
	t.state.Events++
	t.state.PlayedTo = e.Time
	return nil
}

// keep keeps an alert for the result, as long as there is room.
func (t *task) keep(a alerts.Alert) error {
	if a.Status == alerts.Firing {
		t.mu.Lock()
		t.state.Raised++
		t.mu.Unlock()
	}
	l := t.options.Limits
	t.kept += len(a.Text) + len(a.Key) + len(a.Step)
	if len(t.result.Alerts) >= l.Alerts || t.kept > l.AlertBytes {
		t.result.Further++
		return nil
	}
	t.result.Alerts = append(t.result.Alerts, ReplayedAlert{a.Slot, a.Entity, a.Key, a.Step, a.Severity, a.Status, a.Text, a.Since})
	return nil
}

// end records the end of the task.
func (t *task) end(ctx context.Context, s *replay.Summary, err error) {
	cause := context.Cause(ctx)
	if errors.Is(err, replay.ErrMemory) {
		err = fmt.Errorf("%w; %s", err, shorterRange)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state.EndedAt = t.options.Now().UTC()
	t.state.ExpiresAt = t.state.EndedAt.Add(t.options.Limits.Keep)
	switch {
	case err == nil:
		rule := s.Rules[0]
		t.result.Summary, t.result.Timeline, t.result.Histogram = rule, s.Timeline(), rule.Histogram()
		rule.Shrink()
		t.state.State, t.state.Result = Done, &t.result
	case errors.Is(cause, errCancelled), errors.Is(cause, ErrStopping):
		t.state.State, t.state.Reason = Cancelled, cause.Error()
	default:
		t.state.State, t.state.Reason = Failed, cmp.Or(cause, err).Error()
		t.options.Log.Info("replay ended early", slog.String("rule", t.state.Rule), slog.String("reason", t.state.Reason))
	}
	if t.replay, t.reads = nil, nil; t.state.Result == nil {
		t.result = ReplayResult{}
	}
}

func (t *task) snapshot() Task {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state
}
