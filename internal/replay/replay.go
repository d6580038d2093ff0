// Package replay runs rules over past events in virtual time. It matches, folds and checks with the code of a node;
// pending jobs are in memory, and the clock moves from event to slot.
package replay

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"deadman/rules/document"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/calendars"
	"deadman/internal/subjects"
	"deadman/rules"
)

// Replay is a run of rules over events. It is not safe for concurrent use.
type Replay struct {
	// Raise receives the alerts, in order of time. An error ends the replay.
	Raise func(alerts.Alert) error
	// Observe receives all that happens but the alerts, in order of time; nil: not observed. A check precedes its alerts, and
	// the end of a job follows them.
	Observe func(Moment)
	// MaxBytes bounds the memory of pending jobs and early events; ErrMemory beyond. 0: unlimited.
	MaxBytes int

	documents []document.Document
	subjects  subjects.List // of the rules
	recurring string        // the first rule with a schedule or a heartbeat; empty: none
	catalog   *rules.Catalog
	summary   *Summary

	now     time.Time // of the last event, check or tick
	seq     uint64    // of the last event
	lastID  int64     // of the last job
	pending map[futurejobs.Ref]*entry
	early   map[futurejobs.Ref]futurejobs.EarlyEvent
	agenda  agenda
	held    int // bytes of pending and early
	lookups *lookupRun
	outages map[outageKey]*futurejobs.Outage // open ones
}

// stream is the name of the stream that the rules of a replay read.
const stream = "replay"

// shards is the number of shards; a replay needs no more than one.
const shards = 1

// ErrRule means that a rule can't be replayed.
var ErrRule = errors.New("the rule can't be replayed")

// ErrPing means that a rule refuses a ping.
var ErrPing = errors.New("the ping is refused")

// ErrMemory means that the pending jobs and the early events exceed MaxBytes.
var ErrMemory = errors.New("the pending jobs exceed the memory of the replay")

// ErrGap means that a rule with a schedule or a heartbeat would be played for longer than maxGap without an event. Such a time
// is most likely an error, and its ticks would take hours.
var ErrGap = errors.New("more than 10 years without an event")

// maxGap bounds the time between two events, and after the last one, if a rule recurs.
const maxGap = 3660 * 24 * time.Hour

// ErrOrder means that an event is older than the one before it.
var ErrOrder = errors.New("the events are not in order of time")

// New returns a replay of the rules that begins at a time, as if they were saved then. Their ids are 1, 2 and so on. answers
// are those of the sources; nil: none. It returns ErrRule for a rule that calls a handler, or queries a source without answers.
func New(ctx context.Context, documents []document.Document, known calendars.Set, answers *Lookups, from time.Time) (*Replay, error) {
	var read subjects.List
	for _, d := range documents {
		read = append(read, d.Subjects()...)
		switch source := d.Lookup.SourceName(); {
		case d.Handler != "":
			return nil, fmt.Errorf("%w: rule %s calls handler %s, which may have effects; leave the rule out", ErrRule, d.Name, d.Handler)
		case source != "" && !answers.Covers(source):
			return nil, answers.uncovered(d.Name, source)
		}
	}
	saved, err := newRuleSet(documents, from)
	if err != nil {
		return nil, err
	}
	r := &Replay{
		Raise: func(alerts.Alert) error { return nil }, documents: documents, subjects: read, catalog: rules.NewCatalog(saved, shards), summary: newSummary(documents), now: from,
		pending: make(map[futurejobs.Ref]*entry), early: make(map[futurejobs.Ref]futurejobs.EarlyEvent),
		lookups: newLookupRun(answers), outages: make(map[outageKey]*futurejobs.Outage),
	}
	r.catalog.Calendars, r.catalog.Sources = known, r.lookups
	if err := r.catalog.Refresh(ctx); err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(documents, func(d document.Document) bool { return d.Trigger.Schedule != "" || d.Trigger.Heartbeat != nil }); i >= 0 {
		r.recurring = documents[i].Name
	}
	if err := r.begin(documents); err != nil {
		return nil, err
	}
	return r, nil
}

// begin creates the jobs of expected keys, and enters the first ticks in the agenda.
func (r *Replay) begin(documents []document.Document) error {
	for _, d := range documents {
		rule, err := r.catalog.Newest(d.Name)
		if err != nil {
			return err
		}
		for _, key := range d.InitialKeys() {
			effect, err := rule.ExpectationEffect(key, r.now, shards)
			if err != nil {
				return fmt.Errorf("%w: rule %s, key %s: %w", ErrRule, d.Name, key, err)
			}
			if err := r.apply([]futurejobs.Effect{effect}, "expected key"); err != nil {
				return err
			}
		}
	}
	_, ticking := r.catalog.Scheduled()
	for _, t := range ticking {
		r.putTick(t, r.now)
	}
	return nil
}

// Event plays an event after all checks and ticks before it. Events come in order of time; ErrOrder otherwise.
func (r *Replay) Event(ctx context.Context, e Event) error {
	if err := r.moveTo(ctx, e.Time); err != nil {
		return err
	}
	return r.match(e, true)
}

// moveTo makes the checks and ticks before the time of an event.
func (r *Replay) moveTo(ctx context.Context, at time.Time) error {
	if at.Before(r.now) {
		return fmt.Errorf("%w: an event of %s follows one of %s", ErrOrder, at.Format(time.RFC3339Nano), r.now.Format(time.RFC3339Nano))
	}
	if err := r.checkGap(at); err != nil {
		return err
	}
	if r.summary.Events == 0 {
		r.summary.From = at
	}
	r.summary.Events++
	return r.advance(ctx, at.Add(-time.Microsecond))
}

// checkGap returns ErrGap if a rule recurs for too long before the next event, or the end.
func (r *Replay) checkGap(next time.Time) error {
	if r.recurring == "" || next.Sub(r.now) <= maxGap {
		return nil
	}
	return fmt.Errorf("%w, from %s to %s, while rule %s has a schedule or a heartbeat", ErrGap, r.now.Format(time.RFC3339), next.Format(time.RFC3339), r.recurring)
}

// Ping plays a ping of a heartbeat, after all checks and ticks before it.
func (r *Replay) Ping(ctx context.Context, rule string, ping rules.ReceivedHeartbeat) error {
	if err := r.moveTo(ctx, ping.At); err != nil {
		return err
	}
	heartbeat, err := r.catalog.Newest(rule)
	if err != nil {
		return err
	}
	effect, err := heartbeat.HeartbeatEffect(ping, shards)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPing, err)
	}
	r.now = ping.At
	r.observe(Moment{Kind: Received, By: "ping"})
	return r.apply([]futurejobs.Effect{effect}, "ping")
}

// Trace counts the use of the rules in a coverage from now on.
func (r *Replay) Trace(c *rules.Coverage) error {
	for _, counted := range r.summary.Rules {
		rule, err := r.catalog.Newest(counted.Name)
		if err != nil {
			return err
		}
		rule.Trace(c)
	}
	return nil
}

// Pending returns the jobs that are pending, in the order of their start.
func (r *Replay) Pending() []Moment {
	var all []Moment
	for _, e := range slices.SortedFunc(maps.Values(r.pending), func(a, b *entry) int { return cmp.Compare(a.order, b.order) }) {
		all = append(all, Moment{At: r.now, Rule: r.summary.rule(e.job.RuleID).Name, Key: e.job.Key, Since: e.job.Since, Next: e.job.NextCheckAt})
	}
	return all
}

// Finish plays the checks and ticks up to a time, and returns the summary. Jobs that are pending then stay so.
func (r *Replay) Finish(ctx context.Context, until time.Time) (*Summary, error) {
	if err := r.checkGap(until); err != nil {
		return nil, err
	}
	if err := r.advance(ctx, until); err != nil {
		return nil, err
	}
	r.summary.close(until)
	return r.summary, nil
}

// match matches an event against the rules and applies its effects.
func (r *Replay) match(e Event, isInput bool) error {
	r.now = e.Time
	r.seq = cmp.Or(e.Seq, r.seq+1)
	stored := futurejobs.Event{Stream: stream, Subject: e.Subject, Seq: r.seq, At: e.Time, Header: e.Header, Data: e.Data}
	r.observe(Moment{Kind: Received, By: e.Subject, Data: e.Data})
	r.lookups.observe(stored, func(reason string) {
		r.summary.refused(stored, "", reason)
		r.observe(Moment{Kind: Refused, By: e.Subject, Reason: reason})
	})
	r.summary.arrived(e.Subject)
	effects, refusals := r.catalog.Match(stored)
	if isInput && len(effects)+len(refusals) == 0 && !r.subjects.Cover(e.Subject) && !r.lookups.reads(e.Subject) {
		r.summary.unread(e.Subject)
	}
	for _, refused := range refusals {
		r.summary.refused(stored, refused.Rule, refused.Reason)
		r.observe(Moment{Kind: Refused, Rule: refused.Rule, By: e.Subject, Reason: refused.Reason})
	}
	if err := r.apply(effects, e.Subject); err != nil {
		return err
	}
	return r.fits()
}

// apply folds the effects of an event, or of a tick, into the pending jobs.
func (r *Replay) apply(effects []futurejobs.Effect, by string) error {
	if len(effects) == 0 {
		return nil
	}
	net := futurejobs.Fold(effects, futurejobs.FoldInput{Find: r.find, Early: r.early}, r.now)
	r.observeUnchanged(effects, net)
	for _, letter := range net.DeadLetters {
		r.summary.refused(letter.Event, letter.Rule, letter.Reason)
	}
	for _, early := range net.Remember {
		r.forget(early.Ref)
		r.early[early.Ref] = early
		r.held += earlyBytes(early)
	}
	for _, ref := range net.Forget {
		r.forget(ref)
	}
	for _, d := range net.End {
		if err := r.end(d); err != nil {
			return err
		}
	}
	for _, d := range net.StartedAndEnded {
		r.summary.started(d.Job)
		r.observeJob(Started, d.Job, by)
		if err := r.end(d); err != nil {
			return err
		}
	}
	for _, j := range net.Create {
		r.lastID++
		j.ID = r.lastID
		r.summary.started(*j)
		r.observeJob(Started, *j, by)
		r.put(*j)
	}
	for _, j := range net.Reorder {
		r.put(j)
	}
	for _, j := range net.Update {
		r.observeJob(Changed, j, by)
		r.put(j)
	}
	for _, j := range net.Change {
		j.Rev++
		r.observeJob(Changed, j, by)
		r.put(j)
	}
	return nil
}

// find returns a pending job; nil: no job is pending.
func (r *Replay) find(ref futurejobs.Ref) *futurejobs.Job {
	if p := r.pending[ref]; p != nil {
		return &p.job
	}
	return nil
}

// forget removes an early event.
func (r *Replay) forget(ref futurejobs.Ref) {
	if early, ok := r.early[ref]; ok {
		r.held -= earlyBytes(early)
		delete(r.early, ref)
	}
}

// jobBytes and earlyBytes estimate the memory of a pending job and of an early event.
func jobBytes(j futurejobs.Job) int {
	return 1<<10 + len(j.Key) + j.Size() + len(j.Alerts)*len(alerts.ID{})
}

func earlyBytes(e futurejobs.EarlyEvent) int { return 1<<9 + len(e.Key) + e.Size() + len(e.Ends)<<6 }

// fits returns ErrMemory if the replay needs too much memory.
func (r *Replay) fits() error {
	if r.MaxBytes > 0 && r.held > r.MaxBytes {
		return fmt.Errorf("%w: %d jobs are pending", ErrMemory, len(r.pending))
	}
	return nil
}

// end removes a job that an event or a check ended.
func (r *Replay) end(d futurejobs.Decision) error {
	if p := r.pending[d.Job.Ref]; p != nil && p.order == d.Job.ID {
		heap.Remove(&r.agenda, p.index)
		r.held -= jobBytes(p.job)
		delete(r.pending, d.Job.Ref)
	}
	if err := r.raise(d); err != nil {
		return err
	}
	r.summary.ended(d.Job, d.Outcome, r.now)
	r.observeEnd(d)
	return nil
}

func (r *Replay) raise(d futurejobs.Decision) error {
	for _, a := range d.Alerts {
		r.summary.raised(a)
		if err := r.Raise(a); err != nil {
			return err
		}
	}
	return nil
}
