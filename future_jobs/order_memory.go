package futurejobs

import (
	"encoding/json"
	"slices"
	"time"

	"deadman/alerts"
	"deadman/checks"
)

// Bounds of the stored order of events.
const (
	maxKept        = 8         // newest triggers of a job
	maxKeptBytes   = 512 << 10 // of their bodies; the newest trigger is kept at any size
	maxEndings     = 32        // newest ends of a key
	maxChanges     = 8         // newest changes of a job or a key
	maxChangeBytes = 64 << 10  // of their bodies; the newest change is kept at any size
)

// Order records the order of a job's events if they are in several streams, as streams are read at different speeds.
// A job with all its events in the stream of its trigger has none: they are read in order.
type Order struct {
	At      time.Time `json:"at,omitzero"`       // when the trigger was stored; zero: at the job's Since
	ByHand  bool      `json:"by_hand,omitempty"` // a person began the job: it has no place in any stream
	After   bool      `json:"after,omitempty"`   // another job of the key was open until this one began
	Resumed time.Time `json:"resumed,omitzero"`  // the newest resume that found the job not paused
	Kept    []Kept    `json:"kept,omitempty"`    // triggers since then, oldest first
	Changes Changes   `json:"changes,omitempty"` // from other streams than the trigger's
	Forgot  bool      `json:"forgot,omitempty"`  // older changes were dropped

	Trace string `json:"trace,omitempty"` // context of the trigger in its trace, as a traceparent; empty: the trigger is not traced
}

// trace returns the trace of the trigger; empty: it is not traced.
func (o *Order) trace() string {
	if o == nil {
		return ""
	}
	return o.Trace
}

// Kept is a trigger that changed nothing, because its key had a job: it stores the job that would have begun. An end
// that is older than the trigger, and is read after it, leaves that job.
type Kept struct {
	At         time.Time       `json:"at"` // when the trigger was stored
	Since      time.Time       `json:"since"`
	First      time.Time       `json:"first"`
	Next       time.Time       `json:"next"`
	Version    int32           `json:"version"`
	Origin     alerts.Origin   `json:"origin,omitempty"`
	Event      json.RawMessage `json:"event,omitempty"`
	State      json.RawMessage `json:"state,omitempty"`
	Pauses     []checks.Pause  `json:"pauses,omitempty"`
	PausedNext time.Time       `json:"paused_next,omitzero"`
	Members    Members         `json:"members,omitempty"`
}

// size returns the bytes of bodies and sets.
func (o *Order) size() (n int) {
	if o == nil {
		return 0
	}
	for i := range o.Kept {
		k := &o.Kept[i]
		n += len(k.Event) + len(k.State) + len(k.Members)
	}
	return n + o.Changes.size()
}

// keep stores a trigger. Beyond the bounds, the oldest are dropped.
func (o *Order) keep(kept Kept) {
	i := len(o.Kept)
	for i > 0 && o.Kept[i-1].At.After(kept.At) {
		i--
	}
	o.Kept = slices.Insert(slices.Clone(o.Kept), i, kept)
	size := 0
	for i := len(o.Kept) - 1; i >= 0; i-- {
		size += len(o.Kept[i].Event) + len(o.Kept[i].State)
		if i < len(o.Kept)-1 && (size > maxKeptBytes || len(o.Kept)-i > maxKept) {
			o.Kept = o.Kept[i+1:]
			break
		}
	}
}

// newerThan returns the triggers after the given time.
func (o *Order) newerThan(at time.Time) []Kept {
	newer := o.Kept
	for len(newer) > 0 && !newer[0].At.After(at) {
		newer = newer[1:]
	}
	return newer
}

// job returns the job that the trigger would have begun.
func (k *Kept) job(ref Ref) Job {
	return Job{
		Ref: ref, Version: k.Version, Origin: k.Origin, Since: k.Since, FirstCheckAt: k.First, NextCheckAt: k.Next, Event: k.Event, State: k.State,
		Pauses: k.Pauses, PausedNext: k.PausedNext, Members: k.Members,
	}
}

// change changes the job that the trigger would have begun.
func (k *Kept) change(ref Ref, by func(*Job)) {
	j := k.job(ref)
	by(&j)
	k.Version, k.Next, k.State, k.Pauses, k.PausedNext, k.Members = j.Version, j.NextCheckAt, j.State, j.Pauses, j.PausedNext, j.Members
}

// Change is an update, a pause or a resume from another stream than the triggers. It is stored for an older trigger
// that is read later.
type Change struct {
	At      time.Time       `json:"at"`
	Kind    EntryKind       `json:"kind"`           // Updated, Paused or Resumed
	Patch   json.RawMessage `json:"news,omitempty"` // of an update
	Stream  string          `json:"stream,omitempty"`
	Subject string          `json:"subject,omitempty"`
	Seq     uint64          `json:"seq,omitempty"`
}

// changeOf returns the change to store for an effect; ok is false if the effect is no change, or is not stored.
func changeOf(e Effect, at time.Time) (c Change, ok bool) {
	if !e.Apart || e.Event == nil || e.Rule.Early <= 0 {
		return c, false
	}
	c = Change{At: at, Stream: e.Event.Stream, Subject: e.Event.Subject, Seq: e.Event.Seq}
	switch action := e.Action.(type) {
	case Update:
		c.Kind, c.Patch = Updated, action.Patch
	case Pause:
		c.Kind = Paused
	case Resume:
		c.Kind = Resumed
	default:
		return c, false
	}
	return c, true
}

// effect returns the effect of the change on a job that a trigger begins.
func (c *Change) effect(a Start, trigger Effect) Effect {
	e := Effect{Rule: trigger.Rule, Ref: trigger.Ref, Event: c.event(), Apart: true}
	switch c.Kind {
	case Paused:
		e.Action = Pause{}
	case Resumed:
		e.Action = Resume{Next: a.Next}
	default:
		e.Action = Update{Begin: a.Merge, Patch: c.Patch, Sets: a.Sets}
	}
	return e
}

// event returns the event of the change.
func (c *Change) event() *Event {
	return &Event{Stream: c.Stream, Subject: c.Subject, Seq: c.Seq, At: c.At, Data: c.Patch}
}

// Changes is a list of changes, oldest first; those of one stream are in its order.
type Changes []Change

// add adds a change. Beyond the bounds, the oldest are dropped; forgot reports that.
func (c Changes) add(change Change) (all Changes, forgot bool) {
	i := len(c)
	for i > 0 && c[i-1].At.After(change.At) && c[i-1].Stream != change.Stream {
		i--
	}
	all = slices.Insert(slices.Clone(c), i, change)
	size := 0
	for i := len(all) - 1; i >= 0; i-- {
		size += len(all[i].Patch)
		if i < len(all)-1 && (size > maxChangeBytes || len(all)-i > maxChanges) {
			return all[i+1:], true
		}
	}
	return all, false
}

// size returns the bytes of the patches.
func (c Changes) size() (n int) {
	for i := range c {
		n += len(c[i].Patch)
	}
	return n
}

// since returns the changes at the given time or later.
func (c Changes) since(at time.Time) Changes {
	for len(c) > 0 && c[0].At.Before(at) {
		c = c[1:]
	}
	return c
}
