package replay

import (
	"time"

	futurejobs "deadman/future_jobs"
)

// Moment is one thing that happens in a replay, for people.
type Moment struct {
	Kind MomentKind
	At   time.Time
	Rule string // empty: no rule caused it
	Key  string // empty: it concerns no job
	By   string // of an event its subject; "tick" of a tick, and "ping" of a ping
	Data []byte // of a received event: its body

	Since   time.Time        // of a job: its start
	Next    time.Time        // of a job that continues: its next check; zero: it is paused
	Held    bool             // of a job that continues: no check follows until the next heartbeat
	Check   futurejobs.Entry // of a check: the step, the values and the reason
	Outcome string           // of the end of a job
	Reason  string           // of the end of a job, and of a refusal
}

// MomentKind is a kind of a moment.
type MomentKind string

// The kinds of moments.
const (
	Received  MomentKind = "event"     // an event or a ping comes, before its effects
	Due       MomentKind = "due"       // a check begins
	Started   MomentKind = "starts"    // a job starts
	Changed   MomentKind = "changes"   // an event changes a job
	Unchanged MomentKind = "unchanged" // an event matches a rule and changes nothing: By and Key name it
	Checked   MomentKind = "check"     // a check is made, and the job continues
	Ended     MomentKind = "ends"      // a job ends
	Refused   MomentKind = "refused"   // a rule refuses an event, which would be a dead letter
)

// observe passes a moment on.
func (r *Replay) observe(m Moment) {
	if r.Observe != nil {
		m.At = r.now
		r.Observe(m)
	}
}

// observeJob passes on a change of a job.
func (r *Replay) observeJob(kind MomentKind, j futurejobs.Job, by string) {
	if r.Observe == nil {
		return
	}
	m := Moment{Kind: kind, Rule: r.summary.rule(j.RuleID).Name, Key: j.Key, By: by, Since: j.Since}
	if j.PausedAt().IsZero() {
		m.Next, m.Held = j.NextCheckAt, r.isHeld(m.Rule, j.NextCheckAt)
	}
	r.observe(m)
}

// observeEnd passes on the end of a job.
func (r *Replay) observeEnd(d futurejobs.Decision) {
	if r.Observe == nil {
		return
	}
	m := Moment{Kind: Ended, Rule: r.summary.rule(d.Job.RuleID).Name, Key: d.Job.Key, Since: d.Job.Since, Outcome: string(d.Outcome), Reason: d.Reason}
	m.Check = lastEntry(d.Job.Trail)
	r.observe(m)
}

// observeCheck passes on a check that leaves the job pending.
func (r *Replay) observeCheck(d futurejobs.Decision) {
	if r.Observe == nil {
		return
	}
	m := Moment{Kind: Checked, Rule: r.summary.rule(d.Job.RuleID).Name, Key: d.Job.Key, Since: d.Job.Since, Next: d.Job.NextCheckAt, Reason: d.Reason}
	m.Check, m.Held = lastEntry(d.Job.Trail), r.isHeld(m.Rule, m.Next)
	r.observe(m)
}

// isHeld reports whether the next check of a job only ends its hold, years ahead.
func (r *Replay) isHeld(rule string, next time.Time) bool {
	newest, err := r.catalog.Newest(rule)
	return err == nil && newest.HeldForever(next, r.now)
}

// lastEntry returns the newest entry of a trail; the zero entry if it has none.
func lastEntry(t futurejobs.Trail) (last futurejobs.Entry) {
	if entries := t.Entries(); len(entries) > 0 {
		last = entries[len(entries)-1]
	}
	return last
}

// observeUnchanged passes on the effects of an event that changed no job.
func (r *Replay) observeUnchanged(effects []futurejobs.Effect, net futurejobs.FoldResult) {
	if r.Observe == nil {
		return
	}
	changed := make(map[futurejobs.Ref]bool)
	for _, j := range net.Create {
		changed[j.Ref] = true
	}
	for _, jobs := range [][]futurejobs.Job{net.Change, net.Update} {
		for _, j := range jobs {
			changed[j.Ref] = true
		}
	}
	for _, decisions := range [][]futurejobs.Decision{net.End, net.StartedAndEnded} {
		for _, d := range decisions {
			changed[d.Job.Ref] = true
		}
	}
	for _, letter := range net.DeadLetters {
		r.observe(Moment{Kind: Refused, Rule: letter.Rule, By: letter.Event.Subject, Reason: letter.Reason})
	}
	for _, e := range effects {
		if !changed[e.Ref] {
			m := Moment{Kind: Unchanged, Rule: r.summary.rule(e.Ref.RuleID).Name, Key: e.Ref.Key, Reason: "no job is pending for the key"}
			if r.pending[e.Ref] != nil {
				m.Reason = "the pending job stays as it is"
			}
			for _, early := range net.Remember {
				if early.Ref == e.Ref {
					m.Reason = "no job is pending for the key yet; the event is kept in case its trigger follows (early)"
				}
			}
			if e.Event != nil {
				m.By = e.Event.Subject
			}
			r.observe(m)
		}
	}
}
