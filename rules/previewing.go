package rules

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"deadman/rules/bodies"
	"deadman/rules/document"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// previewing is a preview in progress.
type previewing struct {
	*Rule
	out Preview
	job *futurejobs.Job // nil: not created yet, or ended
	seq uint64

	early map[futurejobs.Ref]futurejobs.EarlyEvent

	single   bool // no job after the first is followed
	over     bool
	repeated int // repetitions in a row up to the last line
}

// newPreviewing returns a preview without any line.
func newPreviewing(r *Rule) previewing {
	out := Preview{Rule: r.engine.Name, Lines: []PreviewLine{}, Listens: r.document.Subjects(), Warnings: Cautions(r.document)}
	return previewing{Rule: r, out: out, early: make(map[futurejobs.Ref]futurejobs.EarlyEvent)}
}

// play plays the events of a rule that does not tick, and the checks between them.
func (p *previewing) play(ctx context.Context, events []PreviewEvent, until time.Time) error {
	switch first := events[0]; {
	case p.neverReports(first):
		p.seq++
		events = events[1:]
	case first.Subject == "" && len(first.Data) == 0:
		return fmt.Errorf("%w: send the event that triggers a job", ErrPreview)
	}
	for i, e := range events {
		if i == 0 && e.Subject == "" {
			e.Subject = p.trigger.subject
		}
		p.checkUntil(ctx, latest(e.At, time.Time{}).Add(-time.Microsecond))
		if p.isCut(ctx) {
			break
		}
		p.event(e)
	}
	p.checkUntil(ctx, until.Add(-time.Microsecond))
	p.explainEnd(ctx)
	return nil
}

// explainEnd explains why the job is still pending, or why none was created.
func (p *previewing) explainEnd(ctx context.Context) {
	if p.missing() && p.out.Reason == "" {
		p.out.Reason = "the job stays pending until a heartbeat arrives"
	}
	if p.document.Handler != "" && p.job != nil {
		p.out.Reason = "the preview ends here: it does not call handler " + p.document.Handler + ""
	}
	if p.job == nil && p.out.Outcome == "" && !p.isCut(ctx) {
		p.out.Reason = "no event triggers a job: none matches the trigger and its condition"
		if len(p.out.Refusals) > 0 {
			p.out.Reason = "no event triggers a job: it would become a dead letter"
		}
	}
}

// event plays an event, on one stream, as ingest does.
func (p *previewing) event(e PreviewEvent) {
	p.seq++
	if p.pinged(e) {
		p.ping(e)
		return
	}
	m := matcher{body: bodies.New(e.Data), shards: 1, event: futurejobs.Event{
		Stream: previewStream, Subject: e.Subject, Seq: p.seq, At: e.At, Data: e.Data,
	}}
	own := m.budget()
	h := ruleMatch{matcher: &m, Rule: p.Rule, spend: p.tenantBudget(&own), versionOf: func(futurejobs.Job) *Rule { return p.Rule }}
	h.match()
	if !h.isSubscribed() {
		p.out.IgnoredEvents = append(p.out.IgnoredEvents, fmt.Sprintf("%s at %s: the rule does not subscribe to this subject, only to %s",
			e.Subject, e.At.Format(time.RFC3339), strings.Join(p.document.Subjects(), ", ")))
	}
	for _, refused := range m.refusals {
		p.out.Refusals = append(p.out.Refusals, fmt.Sprintf("%s at %s: %s", e.Subject, e.At.Format(time.RFC3339), refused.Reason))
	}
	for _, effect := range m.effects {
		p.apply(effect, e)
	}
}

// apply folds one effect, if it is on the key that is followed.
func (p *previewing) apply(e futurejobs.Effect, by PreviewEvent) {
	if p.out.Key != "" && e.Ref.Key != p.out.Key {
		return
	}
	known := futurejobs.FoldInput{Pending: map[futurejobs.Ref]futurejobs.Job{}, Early: p.early}
	if p.job != nil {
		known.Pending[e.Ref] = *p.job
	}
	net := futurejobs.Fold([]futurejobs.Effect{e}, known, by.At)
	for _, letter := range net.DeadLetters {
		p.out.Refusals = append(p.out.Refusals, fmt.Sprintf("%s at %s: %s", by.Subject, by.At.Format(time.RFC3339), letter.Reason))
	}
	for _, early := range net.Remember {
		p.early[early.Ref] = early
	}
	for _, ref := range net.Forget {
		delete(p.early, ref)
	}
	for _, d := range slices.Concat(net.End, net.StartedAndEnded) {
		p.end(d, by.At)
	}
	for _, j := range net.Create {
		p.follow(*j, by, true)
	}
	for _, j := range slices.Concat(net.Change, net.Update) {
		p.follow(j, by, len(net.Create) > 0)
	}
}

// follow continues with the job as an event left it.
func (p *previewing) follow(j futurejobs.Job, by PreviewEvent, begun bool) {
	if begun && p.single && p.out.Key != "" {
		p.over = true
		return
	}
	line := PreviewLine{At: by.At, Kind: LineEvent, Note: by.Subject, Next: j.NextCheckAt}
	if begun {
		j.ID = int64(p.seq)
		p.out.Key, p.out.Since = j.Key, j.Since
		if p.spread > 1 {
			p.out.SpreadDelay = document.Duration(p.spreadDelay(j.Key)).String()
		}
		p.out.Outcome, p.out.Reason, p.out.EndedAt = "", "", time.Time{}
		line.Kind = LineStarts
	}
	if !j.PausedAt().IsZero() {
		line.Next = time.Time{}
	}
	p.job = &j
	p.add(line)
}

// checkUntil makes the checks that are due up to a time. A handler may have effects, and is not called.
func (p *previewing) checkUntil(ctx context.Context, through time.Time) {
	if p.document.Handler != "" {
		return
	}
	for p.job != nil && !p.missing() && !p.job.NextCheckAt.After(through) && len(p.out.Lines) < maxPreview && !p.isCut(ctx) {
		at := p.job.NextCheckAt
		d := p.engine.Check(ctx, *p.job, at)
		line := PreviewLine{At: at, Kind: LineCheck, Note: d.Reason, Next: d.Job.NextCheckAt}
		if d.Ends() {
			p.end(d, at)
			continue
		}
		p.job = &d.Job
		if len(d.Alerts) == 0 {
			p.add(line)
		}
		p.alerts(d, at)
	}
	switch {
	case p.repeated >= repeatsMade:
		p.out.Reason = fmt.Sprintf("the preview ends here: its last %d lines repeat", repeatsMade)
	case p.spend.left <= 0:
		p.out.Reason = "the preview ends here: the expressions of the rule cost more than a preview allows"
	case ctx.Err() != nil:
		p.out.Reason = "the preview ends here: it took too long"
	}
	if len(p.out.Lines) >= maxPreview && p.out.Reason == "" {
		p.out.Reason = fmt.Sprintf("the preview ends after %d lines", maxPreview)
	}
}

// isCut reports whether the preview stops early: the caller has left, it costs too much, or its checks stay undetermined.
func (p *previewing) isCut(ctx context.Context) bool {
	return ctx.Err() != nil || p.spend.left <= 0 || p.repeated >= repeatsMade
}

func (p *previewing) alerts(d futurejobs.Decision, at time.Time) {
	for _, a := range d.Alerts {
		line := PreviewLine{
			At: at, Kind: LineAlert, Step: a.Step, Severity: a.Severity, Status: a.Status, Text: a.Text,
			SkippedSteps: a.SkippedSteps, Labels: a.Labels,
		}
		if !d.Ends() {
			line.Next = d.Job.NextCheckAt
		}
		p.add(line)
	}
}

// end ends the job that is followed.
func (p *previewing) end(d futurejobs.Decision, at time.Time) {
	p.alerts(d, at)
	p.add(PreviewLine{At: at, Kind: LineEnds, Note: string(d.Outcome)})
	p.job = nil
	p.out.Key = d.Job.Key
	p.out.Outcome, p.out.Reason, p.out.EndedAt = string(d.Outcome), d.Reason, at
}

// repeatsShown is how many repetitions in a row are shown of a step that is repeated until a user acknowledges, and of a check that
// is undetermined for the same reason. The others are counted.
const repeatsShown = 3

// repeatsMade bounds them: three days of undetermined checks, each five minutes after the one before it.
const repeatsMade = 1000

func (p *previewing) add(line PreviewLine) {
	if !p.repeats(line) {
		p.repeated = 0
	} else if p.repeated++; p.repeated > repeatsShown {
		last := &p.out.Lines[len(p.out.Lines)-1]
		last.More, last.Last, last.Next = last.More+1, line.At, line.Next
		return
	}
	p.out.Lines = append(p.out.Lines, line)
}

// repeats reports whether a line is one of a series: an alert of a repeated step, or a check with the reason of the one before it.
func (p *previewing) repeats(line PreviewLine) bool {
	if line.Kind == LineAlert {
		return line.Status == alerts.Firing && slices.ContainsFunc(p.steps, func(s step) bool { return s.nags && s.name == line.Step })
	}
	before := len(p.out.Lines) - 1
	return line.Kind == LineCheck && line.Note != "" && before >= 0 && p.out.Lines[before].Kind == LineCheck && p.out.Lines[before].Note == line.Note
}

// aPing is the subject that pings of a preview may have.
const aPing = "ping"

// notYet is the text of a preview's first line if no event begins the job because no heartbeat came.
const notYet = "no heartbeat yet"

// neverReports plays the job of the first key that a heartbeat expects, if no event begins the preview. It reports
// whether such a key exists.
func (p *previewing) neverReports(first PreviewEvent) bool {
	keys := p.document.ExpectedKeys()
	if len(keys) == 0 || first.Subject != "" || len(first.Data) > 0 {
		return false
	}
	effect, err := p.ExpectationEffect(keys[0], first.At, 1)
	first.Subject = notYet
	p.applyHeartbeat(effect, first, err)
	return true
}

// pinged reports whether an event of a preview represents a ping. If the rule listens to the subject ping, it is an
// event on that subject.
func (p *previewing) pinged(e PreviewEvent) bool {
	switch {
	case p.heartbeat == nil:
		return false
	case e.Subject == "":
		return p.trigger.subject == ""
	}
	return e.Subject == aPing && !slices.Contains(p.document.Subjects(), aPing)
}

// ping plays a ping. The kind expected is no ping: the entity is declared and expected from then on.
func (p *previewing) ping(e PreviewEvent) {
	effect, err := p.pingOf(e)
	e.Subject = aPing
	p.applyHeartbeat(effect, e, err)
}

// applyHeartbeat plays the effect of a ping, or of the absence of any.
func (p *previewing) applyHeartbeat(effect futurejobs.Effect, by PreviewEvent, err error) {
	if err != nil {
		p.out.Refusals = append(p.out.Refusals, fmt.Sprintf("a ping at %s: %v", by.At.Format(time.RFC3339), err))
		return
	}
	p.apply(effect, by)
}

func (p *previewing) pingOf(e PreviewEvent) (futurejobs.Effect, error) {
	var sent struct {
		Key string `json:"key"`
		ping
	}
	if err := json.Unmarshal(e.Data, &sent); err != nil {
		return futurejobs.Effect{}, fmt.Errorf(`%w; write it as {"key": "backup", "kind": "success"}`, err)
	}
	if sent.Kind == Expected {
		return p.ExpectationEffect(sent.Key, e.At, 1)
	}
	if sent.Kind == "" {
		sent.Kind = Success
	}
	return p.HeartbeatEffect(ReceivedHeartbeat{Key: sent.Key, At: e.At, Kind: sent.Kind, Run: sent.Run, Exit: sent.Exit, Body: sent.Body}, 1)
}

// missing reports whether all alerts of a missing heartbeat were raised, and only the hold of the job is left.
func (p *previewing) missing() bool {
	return p.heartbeat != nil && p.job != nil && len(p.steps) > 0 && p.job.Step >= len(p.steps) &&
		time.Duration(p.document.Hold) > p.engine.Limits.Horizon
}
