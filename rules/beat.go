package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// Beat is a heartbeat of one entity.
type Beat struct {
	Key    string
	At     time.Time
	Kind   Signal
	Run    string // the run that it belongs to; empty: the run without a name
	Exit   *int   // the exit status of the run, 0 to 255; nil: not reported
	Body   string // further text of the sender, for people
	Paused bool   // the rule is paused: no new job is created
}

// Signal is the kind of a heartbeat.
type Signal string

// The kinds of heartbeats.
const (
	Success Signal = "success" // all is well, until the next success is overdue
	Begun   Signal = "start"   // a run has begun
	Failure Signal = "fail"    // a failure: the next success is overdue at once
	Log     Signal = "log"     // no statement about success or failure
	// Expected is the signal of a heartbeat that never came, of an entity that is expected to send heartbeats.
	Expected Signal = "expected"
)

var signals = []string{string(Success), string(Begun), string(Failure), string(Log)}

// signalOf parses a signal from a word or an exit status.
func signalOf(said string) (Signal, *int, error) {
	if status, err := strconv.Atoi(said); err == nil {
		if status < 0 || status > 255 {
			return "", nil, fmt.Errorf("%d is no exit status; they are 0 to 255", status)
		}
		return signalOfExit(status), &status, nil
	}
	for _, word := range signals {
		if said == word {
			return Signal(said), nil, nil
		}
	}
	return "", nil, errors.New(notOneOf("a kind of beat", said, append(slices.Clone(signals), "or an exit status")))
}

func signalOfExit(status int) Signal {
	if status == 0 {
		return Success
	}
	return Failure
}

// pings takes the place of a subject for the shape of the data of a ping.
const pings = "a ping"

// pingShape is the shape of the data of a ping.
var pingShape = Shape{
	"kind": {Kind: Text}, "exit_status": {Kind: Number}, "run": {Kind: Text},
	"duration_seconds": {Kind: Number}, "body": {Kind: Text}, "source": {Kind: Text},
}

// pulseShape is the shape of state.heartbeat.
var pulseShape = Shape{
	"kind": {Kind: Text}, "at": {Kind: Time}, "exit_status": {Kind: Number}, "run": {Kind: Text},
	"duration_seconds": {Kind: Number}, "reason": {Kind: Text}, "overdue_at": {Kind: Time},
	"runs":         {Kind: List, Items: &Form{Kind: Object, Fields: Shape{"run": {Kind: Text}, "at": {Kind: Time}, "again_at": {Kind: Time}}}},
	"dropped_runs": {Kind: Number},
	"failed_runs":  {Kind: List, Items: &Form{Kind: Text}},
}

// ping is the event of a heartbeat that came as a ping.
type ping struct {
	Kind    Signal   `json:"kind"`
	Exit    *int     `json:"exit_status,omitempty"`
	Run     string   `json:"run,omitempty"`
	Seconds *float64 `json:"duration_seconds,omitempty"`
	Body    string   `json:"body,omitempty"`
	Source  string   `json:"source"`
}

// ErrNoHeartbeat means that the rule has no heartbeat.
var ErrNoHeartbeat = errors.New("the rule waits for no beats; give its trigger a heartbeat")

// TakesBeats returns why the rule would refuse every ping of a key; nil: it would not. The error is ErrNoHeartbeat or
// Problems.
func (r *Rule) TakesBeats(key string) error {
	if r.beats == nil {
		return fmt.Errorf("rule %s: %w", r.engine.Name, ErrNoHeartbeat)
	}
	if err := checkKey(key); err != nil {
		return Problems{{Pointer: "/key", Rule: r.engine.Name, Message: err.Error()}}
	}
	return nil
}

// Beat is the effect of a ping. The error is ErrNoHeartbeat or Problems.
func (r *Rule) Beat(b Beat, shards int) (futurejobs.Effect, error) {
	if err := r.TakesBeats(b.Key); err != nil {
		return futurejobs.Effect{}, err
	}
	said := string(b.Kind)
	if b.Exit != nil {
		said = strconv.Itoa(*b.Exit)
	}
	kind, _, err := signalOf(said)
	if err != nil {
		return futurejobs.Effect{}, Problems{{Pointer: "/kind", Rule: r.engine.Name, Message: err.Error()}}
	}
	if err := checkRun(b.Run); err != nil {
		return futurejobs.Effect{}, Problems{{Pointer: "/run", Rule: r.engine.Name, Message: err.Error()}}
	}
	b.Kind, b.At = kind, b.At.UTC().Truncate(time.Microsecond)
	event := func(p heartbeatState) (json.RawMessage, error) {
		return json.Marshal(ping{kind, b.Exit, b.Run, p.Seconds, b.Body, "ping"})
	}
	ask, err := beatUpdate{r, b, true, event, func(futurejobs.Job) *Rule { return r }}.ask()
	if err != nil {
		return futurejobs.Effect{}, Problems{{Rule: r.engine.Name, Message: err.Error()}}
	}
	return futurejobs.Effect{Rule: &r.engine, Ref: r.ref(b.Key, shards), Action: ask}, nil
}

func checkRun(name string) error {
	if name == "" {
		return nil
	}
	return wrapErr("run", checkKey(name))
}

// matchBeat processes an event as a heartbeat, if it is one. A heartbeat of a rule that is paused or rests creates no
// new job; pending jobs continue.
func (h *ruleMatch) matchBeat() error {
	if h.trigger.subject == "" {
		return nil
	}
	s, key, ok, err := h.keyWhen(&h.trigger)
	if !ok {
		return err
	}
	b := Beat{Key: key, At: h.event.At.UTC().Truncate(time.Microsecond), Kind: Success, Paused: h.paused}
	if h.beats.kind != nil {
		said, err := h.beats.kind.wordOf(s, "")
		if err != nil {
			return wrapErr("kind", err)
		}
		if b.Kind, b.Exit, err = signalOf(said); err != nil {
			return wrapErr("kind", err)
		}
	}
	if b.Run, err = h.beats.runOf(s); err != nil {
		return wrapErr("run", err)
	}
	carries := func(body json.RawMessage) beatUpdate {
		return beatUpdate{h.Rule, b, false, func(heartbeatState) (json.RawMessage, error) { return body, nil }, h.made}
	}
	ask, err := carries(h.body.valid()).ask()
	ask.Bare = carries(nil).apply
	if err == nil {
		h.addEffect(key, ask)
	}
	return err
}

// runOf returns the run that a heartbeat belongs to; empty if it names none.
func (h *heartbeat) runOf(s scope) (string, error) {
	if h.run == nil {
		return "", nil
	}
	v, err := h.run.run(s)
	if absent := (absentError{}); v == nil && err == nil || errors.As(err, &absent) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return h.run.keyOf(s)
}

// beatUpdate is a heartbeat that a rule processes.
type beatUpdate struct {
	*Rule
	Beat
	ping  bool                                          // it came as a ping
	event func(heartbeatState) (json.RawMessage, error) // the data of the heartbeat
	made  func(futurejobs.Job) *Rule                    // the version that made a job
}

// ask returns the action of the heartbeat on the job of its key. A reason that would prevent a new job is an error.
func (a beatUpdate) ask() (futurejobs.Beat, error) {
	a.Paused = a.Paused || !a.document.Enabled
	if a.Kind == Log {
		return futurejobs.Beat{Play: a.apply}, nil
	}
	if _, err := a.newJob(nil); err != nil {
		return futurejobs.Beat{}, err
	}
	return futurejobs.Beat{Play: a.apply}, nil
}

// apply applies the heartbeat to the job that waits for it.
//
//  1. A log changes nothing, and neither does a heartbeat of a stream that is older than the last one. Pings count in
//     the order in which they are committed: each node has a clock of its own, and every ping answered with OK counts.
//  2. A start opens a run. A job that has alerted or failed stays overdue.
//  3. A failure, or a run that ends too soon, is overdue at once, if it was not before.
//  4. A success postpones the job, unless another run failed that no alert reports yet. If an alert was raised, the job
//     ends, and a new one begins.
func (a beatUpdate) apply(j *futurejobs.Job) (futurejobs.BeatResult, error) {
	if a.Kind == Log {
		return futurejobs.BeatResult{}, nil
	}
	if j == nil {
		if a.Paused {
			return futurejobs.BeatResult{}, nil
		}
		begun, err := a.newJob(nil)
		return futurejobs.BeatResult{Begin: begun}, err
	}
	before := pulseOf(j.State)
	if last := latest(j.Since, before.At); before.Kind != Expected && a.At.Before(last) {
		if !a.ping {
			return futurejobs.BeatResult{}, nil
		}
		a.At = last
	}
	known := len(j.Alerts) > 0 || !before.OverdueAt.IsZero() // an alert was raised, or a run failed
	if len(j.Alerts) > 0 {
		before.Failed = nil // an alert reports them
	}
	after := a.pulse(before, a.overdue(*j, known))
	switch {
	case a.Kind == Success && len(after.Failed) > 0 && !slices.Contains(after.Failed, a.Run):
		next, err := a.stillFailed(*j, after)
		return futurejobs.BeatResult{Job: &next, News: true}, err
	case after.Kind == Success && len(j.Alerts) > 0:
		return a.resolve(*j, before, after)
	case after.Kind == Success || !known:
		return a.postpone(*j, before, after)
	}
	next, err := a.recordBeat(*j, after)
	return futurejobs.BeatResult{Job: &next, News: true}, err
}

// overdue returns since when a job is overdue at the time of the heartbeat; the zero time if it is not. If that is not
// known yet, a start does not make the job overdue: the cause may be a heartbeat that was not received or kept, or a
// pause that continues.
func (a beatUpdate) overdue(j futurejobs.Job, known bool) time.Time {
	at := a.made(j).begins(waitOf(j))
	if known || a.Kind != Begun && !at.After(a.At) {
		return at
	}
	return time.Time{}
}

// pulse returns the state after the heartbeat; before is the state until then, and overdue since when it was overdue.
func (a beatUpdate) pulse(before heartbeatState, overdue time.Time) heartbeatState {
	p := heartbeatState{Kind: a.Kind, At: a.At, ExitStatus: a.Exit, Run: a.Run, Runs: before.Runs, Dropped: before.Dropped, Failed: before.Failed}
	if a.Kind == Begun {
		p.begin(a.Run, a.At)
		p.OverdueAt, p.Reason = overdue, before.Reason
		return p
	}
	if begun := p.end(a.Run); !begun.IsZero() {
		took := max(a.At.Sub(begun), 0)
		p.Seconds = new(took.Seconds())
		if a.Kind == Success && took < a.beats.min {
			p.Kind, p.Reason = Failure, fmt.Sprintf("took %s, less than %s", Duration(took), Duration(a.beats.min))
		}
	}
	if p.Kind == Success {
		p.Failed = slices.DeleteFunc(slices.Clone(p.Failed), func(name string) bool { return name == a.Run })
		if len(p.Failed) > 0 { // a failed run is reported, even if another run succeeds
			before.Runs, before.Failed, before.Kind = p.Runs, p.Failed, Failure
			return before
		}
		p.Failed = nil
		p.Runs, p.Dropped = runsWithin(p.Runs, a.beats.isOld(), a.At), 0
		return p
	}
	p.fail(a.Run)
	p.OverdueAt = a.At
	if !overdue.IsZero() {
		p.OverdueAt = overdue
	}
	if p.Reason == "" {
		p.Reason = failed(a.Exit)
	}
	return p
}

func failed(exit *int) string {
	if exit == nil {
		return "failed"
	}
	return fmt.Sprintf("failed with exit status %d", *exit)
}

// newJob returns the job that the heartbeat creates; runs are those that continue in it.
func (a beatUpdate) newJob(runs []run) (*futurejobs.Job, error) {
	p := a.pulse(heartbeatState{Runs: runs}, time.Time{})
	return a.started(p)
}

// started returns a job that begins with a heartbeat.
func (a beatUpdate) started(p heartbeatState) (*futurejobs.Job, error) {
	j := futurejobs.Job{Version: a.engine.Version, Since: a.At}
	var err error
	if j.Event, err = a.event(p); err != nil {
		return nil, err
	}
	if j.State, err = p.mergeInto(nil, j.Event); err != nil {
		return nil, err
	}
	j.FirstCheckAt, err = a.firstCheck(waitOf(j.Of(a.Key)), a.At)
	return &j, err
}

// postpone returns a job that the heartbeat postpones, or brings forward. If the next check stays and nothing else is
// new, nothing is written: heartbeats of one slot count once.
func (a beatUpdate) postpone(was futurejobs.Job, before, after heartbeatState) (futurejobs.BeatResult, error) {
	j, err := a.recordBeat(was, after)
	if err != nil {
		return futurejobs.BeatResult{}, err
	}
	if after.Kind == Success {
		j.Since = a.At
		j.Step, j.Undecided, j.CheckCount = 0, 0, 0
	}
	overdue := a.slotOf(j)
	moved := !overdue.Equal(a.made(was).slotOf(was))
	var next time.Time
	switch {
	case after.Kind == Begun && !moved: // as without max: the check stays, and may be forgiven
	case len(a.steps) == 0: // the handler decides the alerts
		next = overdue
	default:
		next = a.nextOf(j)
	}
	if !moved {
		if moved, err = a.made(j).stepsMove(was, j); err != nil {
			return futurejobs.BeatResult{}, err
		}
	}
	news := moved || !before.plain() || !after.plain() || was.Step != j.Step || was.Undecided != j.Undecided || was.Version != j.Version
	return futurejobs.BeatResult{Job: &j, Next: next, News: news}, nil
}

// stillFailed returns a job after the success of one run while another run has failed: the job continues as it was.
func (a beatUpdate) stillFailed(j futurejobs.Job, after heartbeatState) (_ futurejobs.Job, err error) {
	own := j.State
	if len(a.updates) == 0 {
		own = nil
	}
	j.State, err = after.mergeInto(own, j.Event)
	return j, err
}

// stepsMove reports whether a step has another slot after a heartbeat than before, so that the heartbeat has to be
// written although the next check stays. The first step is that check, unless the rule has a recheck before it.
func (r *Rule) stepsMove(was, now futurejobs.Job) (bool, error) {
	if len(r.steps) == 0 || len(r.steps) == 1 && r.recheck == nil {
		return false, nil
	}
	if r.offsets != nil && len(now.Pauses) == 0 {
		before, after := r.begins(waitOf(was)), r.begins(waitOf(now))
		return slices.ContainsFunc(r.offsets, func(offset time.Duration) bool {
			return !r.engine.Grid.Up(before.Add(offset)).Equal(r.engine.Grid.Up(after.Add(offset)))
		}), nil
	}
	before, err := r.timeline(waitOf(was))
	if err != nil {
		return false, err
	}
	after, err := r.timeline(waitOf(now))
	if err != nil {
		return false, err
	}
	return !slices.EqualFunc(before, after, func(a, b stepTime) bool {
		return a.step == b.step && r.engine.Grid.Up(a.at).Equal(r.engine.Grid.Up(b.at))
	}), nil
}

// offsetsOf returns the offsets of the steps within a slot, each once, counted from the time of a first step without
// delay; nil if their times are not all literal.
func (r *Rule) offsetsOf() (offsets []time.Duration) {
	if !r.written() {
		return nil
	}
	var at time.Duration
	for _, s := range r.steps {
		if s.every {
			at += s.after
		} else {
			at = s.after
		}
		if offset := at % time.Duration(r.engine.Grid); !slices.Contains(offsets, offset) {
			offsets = append(offsets, offset)
		}
	}
	return offsets
}

// slotOf returns the slot from when a job is overdue.
func (r *Rule) slotOf(j futurejobs.Job) time.Time { return r.engine.Grid.Up(r.begins(waitOf(j))) }

// recordBeat returns a job that includes the heartbeat, and belongs to the current rule.
func (a beatUpdate) recordBeat(j futurejobs.Job, after heartbeatState) (_ futurejobs.Job, err error) {
	j.Version = max(j.Version, a.engine.Version)
	if j.Event, err = a.event(after); err != nil {
		return j, err
	}
	own := j.State
	if len(a.updates) == 0 {
		own = nil
	}
	j.State, err = after.mergeInto(own, j.Event)
	return j, err
}

// resolve ends a job because the overdue heartbeat came.
func (a beatUpdate) resolve(j futurejobs.Job, before, after heartbeatState) (futurejobs.BeatResult, error) {
	begun, err := a.started(after)
	if err != nil {
		return futurejobs.BeatResult{}, err
	}
	missed := max(a.At.Sub(a.beats.missedFrom(before, j.Since)), 0)
	silent := "is back after " + Duration(missed.Truncate(time.Second)).String()
	if before.Kind == Expected {
		silent = "reports for the first time"
	}
	end := &futurejobs.End{Outcome: checks.Resolved, Reason: "it " + silent}
	if !a.document.Quiet {
		end.Close = func(j futurejobs.Job) alerts.Draft {
			w := waitOf(j)
			w.rule = a.engine.Name
			return a.made(j).closeAlert(w, j.Step, fmt.Sprintf("%s %s %s", a.engine.Entity, j.Key, silent))
		}
	}
	return futurejobs.BeatResult{End: end, Begin: begun}, nil
}
