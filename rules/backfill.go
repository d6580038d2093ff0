package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"deadman/rules/document"

	futurejobs "deadman/future_jobs"
)

// pastTries bounds how often in a row newly arrived events are played before a page of jobs is created.
const pastTries = 200

// backfill computes the jobs that would be pending if the rule had existed since a given time.
type backfill struct {
	*Registry
	rule     *Rule
	saved    RuleVersion
	since    time.Time
	at       time.Time // steps that were due by then are skipped; zero: they raise their alert
	known    futurejobs.FoldInput
	begun    map[futurejobs.Ref]futurejobs.Event // the event that created each known job, without its body
	played   map[string]futurejobs.Event         // the last event of each stream, without its body
	held     pastBytes                           // of the known jobs and early events
	creates  int64                               // bytes of the jobs to be created
	room     []futurejobs.JobQuota               // the quotas in which capacity is reserved for the jobs
	reserved int64                               // number of jobs that is still reserved
	costly   int                                 // events on which the rule's expressions cost too much
}

// newBackfill plays to a rule, in memory, the events up to its save that its streams still have.
func newBackfill(ctx context.Context, r *Registry, s RuleVersion, o SaveOptions) (*backfill, error) {
	rule, err := newVersion(s, r.outside()).compiled()
	if err != nil {
		return nil, err
	}
	at := r.Now()
	switch {
	case o.RaisePast:
		at = time.Time{}
	case rule.document.Handler != "":
		return nil, document.Problems{{Rule: s.Name, Message: "its handler decides which alerts to raise, so steps of the past cannot be skipped; backfill it with --raise-past (API: raise_past=true), which lets the handler raise them"}}
	}
	p := &backfill{
		Registry: r, rule: rule, saved: s, since: o.Since, at: at,
		known:  futurejobs.FoldInput{Pending: make(map[futurejobs.Ref]futurejobs.Job), Early: make(map[futurejobs.Ref]futurejobs.EarlyEvent)},
		begun:  make(map[futurejobs.Ref]futurejobs.Event),
		played: make(map[string]futurejobs.Event),
	}
	through := make(map[string]uint64)
	for _, read := range s.Reads {
		through[read.source()] = max(through[read.source()], read.From)
	}
	err = p.replay(ctx, through)
	return p, err
}

// subjects returns the subjects of the rule, by stream.
func (p *backfill) subjects() map[string][]string {
	subjects := make(map[string][]string)
	for _, read := range p.saved.Reads {
		subjects[read.source()] = append(subjects[read.source()], read.Subject)
	}
	return subjects
}

// countInto completes a change with the counts of its backfill, and with the events that its streams have deleted.
func (p *backfill) countInto(ctx context.Context, c *Change) (err error) {
	if c.MissingEvents, err = missingEvents(ctx, p.Binder, p.subjects(), p.since); err != nil {
		return err
	}
	var ruleID int32
	if c.Before != nil {
		ruleID = c.Before.RuleID
	}
	n, err := countBackfill(ctx, p, ruleID)
	c.Backfilled, c.SkippedSteps, c.Over, c.AlertsAtOnce, c.UnknownAtOnce = n.jobs, n.skipped, n.over, n.alerts, n.unknown
	return err
}

// replay plays the events that were not played yet, up to the sequences of their streams, in the order of their times.
func (p *backfill) replay(ctx context.Context, through map[string]uint64) error {
	subjects := p.subjects()
	var streams []iter.Seq2[futurejobs.Event, error]
	for _, stream := range slices.Sorted(maps.Keys(subjects)) {
		if last := p.played[stream]; through[stream] > last.Seq {
			streams = append(streams, p.Binder.Replay(ctx, stream, subjects[stream], latest(p.since, last.At), through[stream]))
		}
	}
	for e, err := range MergeByTime(streams) {
		if err != nil {
			return wrapErr("past events", err)
		}
		if last := p.played[e.Stream]; e.Seq > last.Seq {
			p.event(e)
			e.Data, e.Header = nil, nil
			p.played[e.Stream] = e
		}
		if p.costly >= costlyMost {
			return document.Problems{{Rule: p.saved.Name, Message: fmt.Sprintf("the expressions of the rule take too long on %d past events; simplify them, or use a later since", p.costly)}}
		}
		if err := p.bound(e.At); err != nil {
			return err
		}
	}
	return nil
}

// event plays an event. An event that cannot be processed is skipped: it had no rule to refuse it then.
func (p *backfill) event(e futurejobs.Event) {
	m, err := newMatcher(e, p.Catalog.shards)
	if err != nil {
		return // it had no rule to refuse it then
	}
	own := m.budget()
	h := ruleMatch{matcher: &m, Rule: p.rule, spend: &own, isApart: p.rule.isApart(p.rule.starts, e.Stream), paused: !p.saved.PausedAt.IsZero(), versionOf: func(futurejobs.Job) *Rule { return p.rule }}
	h.match()
	m.body.Forget()
	if h.over != nil {
		p.costly++
	}
	p.forgetOver(m.effects, e.At)
	net := futurejobs.Fold(m.effects, p.known, e.At)
	for _, d := range slices.Concat(net.End, net.StartedAndEnded) {
		p.forget(d.Job.Ref)
	}
	e.Data, e.Header = nil, nil
	for _, j := range net.Create {
		p.begun[j.Ref] = e
		p.know(*j)
	}
	for _, j := range slices.Concat(net.Change, net.Update, net.Reorder) {
		p.know(j)
	}
	for _, early := range net.Remember {
		p.known.Early[early.Ref] = early
		p.held.set(pastRef{early.Ref, true}, early.Size())
	}
	for _, ref := range net.Forget {
		p.forgetEarly(ref)
	}
}

// know records the state of a pending job.
func (p *backfill) know(j futurejobs.Job) {
	p.known.Pending[j.Ref] = j
	p.held.set(pastRef{j.Ref, false}, j.Size())
}

func (p *backfill) forget(ref futurejobs.Ref) {
	delete(p.known.Pending, ref)
	delete(p.begun, ref)
	p.held.remove(pastRef{ref, false})
}

func (p *backfill) forgetEarly(ref futurejobs.Ref) {
	delete(p.known.Early, ref)
	p.held.remove(pastRef{ref, true})
}

// bound returns an error if the jobs of the events up to a time are too many or too large to be in memory.
func (p *backfill) bound(at time.Time) error {
	if len(p.known.Early) > maxPast || p.held.isOver() {
		for ref := range maps.Keys(p.known.Early) {
			if !p.known.Early[ref].Until.After(at) {
				p.forgetEarly(ref)
			}
		}
	}
	switch {
	case max(len(p.known.Pending), len(p.known.Early)) > maxPast:
		return document.Problems{{Rule: p.saved.Name, Message: fmt.Sprintf("past events create more than %d jobs at a time; use a later since", maxPast)}}
	case p.held.isOver():
		return document.Problems{{Rule: p.saved.Name, Message: fmt.Sprintf("past events create jobs with more than %d MiB of events and keys at a time; use a later since", maxPastBytes>>20)}}
	}
	return nil
}

// forgetOver forgets the jobs of effects that were over by a time, without an event: a later trigger starts another job.
func (p *backfill) forgetOver(effects []futurejobs.Effect, at time.Time) {
	if p.at.IsZero() {
		return
	}
	for _, e := range effects {
		if j, isPending := p.known.Pending[e.Ref]; isPending {
			if _, over := p.skipPastSteps(j, at); over {
				p.forget(e.Ref)
			}
		}
	}
}

// remaining returns the jobs that are left and that an event before a save created.
func (p *backfill) remaining(s RuleVersion) []futurejobs.Ref {
	v := newVersion(s, p.outside())
	var refs []futurejobs.Ref
	for ref, e := range p.begun {
		if read, _ := v.read(e); !read.after(e) {
			refs = append(refs, ref)
		}
	}
	slices.SortFunc(refs, func(a, b futurejobs.Ref) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Key, b.Key))
	})
	return refs
}

// skipPastSteps returns a job without the steps that were due by a time: they raise no alert. Its first check is at its next
// step, or at the end of its hold. over means that it would have ended by then, and is not created.
func (p *backfill) skipPastSteps(j futurejobs.Job, at time.Time) (_ futurejobs.Job, over bool) {
	if at.IsZero() {
		return j, false
	}
	if paused := j.PausedAt(); !paused.IsZero() {
		at = earliest(at, paused)
	}
	w := contextOf(j)
	line, err := p.rule.timeline(w)
	if err != nil {
		return j, false // the check reports the error
	}
	n := p.rule.due(line, at)
	if n == 0 {
		return j, false
	}
	if j.PausedAt().IsZero() {
		next := p.rule.upcoming(line, n, at, time.Time{})
		switch {
		case !next.IsZero():
			next = p.rule.earlierRecheck(w.scope, at, next)
		case p.rule.document.IsHeld():
			next = p.rule.grid.Up(line[n-1].at.Add(time.Duration(p.rule.document.Hold)))
		}
		if !next.After(at) {
			return j, true
		}
		j.FirstCheckAt, j.NextCheckAt = next, next
	}
	names := make([]string, n)
	for i, s := range line[:n] {
		names[i] = s.called()
	}
	j.Step = n
	j.Trail = futurejobs.Entry{Kind: futurejobs.Skipped, At: at, Step: strings.Join(names, ", "), Next: j.NextCheckAt}.Trail()
	return j, false
}

// startJobs creates the jobs that are left, now that the rule is saved, and returns how many. A job created before is
// kept, so that startJobs can be repeated after an error.
//
//  1. Events that ingest has applied since the save are played too: one may have ended a job that is about to be
//     created, and ingest found no job to end.
//  2. A page of jobs is created if ingest has not advanced meanwhile and the rule is as it was saved; later events are
//     left to ingest.
func (p *backfill) startJobs(ctx context.Context, s RuleVersion) (n int, err error) {
	for tries := 0; ; tries++ {
		ruleSet := p.Catalog.Revision()
		v, err := p.Catalog.version(ctx, p.Catalog.current.Load(), id{s.RuleID, s.Version})
		if err != nil {
			return n, err
		}
		known, err := p.replayApplied(ctx, v.saved.Reads)
		if err != nil {
			return n, err
		}
		refs := p.remaining(s)
		if len(refs) == 0 {
			return n, nil
		}
		rule, err := p.activeRule(ctx, s)
		if rule == nil || err != nil {
			return n, err
		}
		b, page := futurejobs.EffectBatch{RuleSet: ruleSet, ReadTo: known}, refs[:0]
		for _, ref := range refs {
			job, over := p.skipPastSteps(p.known.Pending[ref], p.at)
			if over {
				p.forget(ref)
				continue
			}
			b.Effects = append(b.Effects, futurejobs.Effect{
				Rule: &rule.engine, Ref: rule.ref(ref.Key, p.Catalog.shards), Action: futurejobs.Start{Job: begunBy(s, job), Named: true},
			})
			if page = append(page, ref); len(page) == pageMost {
				break
			}
		}
		if len(page) == 0 {
			return n, nil
		}
		applied, err := p.Jobs.Apply(ctx, b)
		switch {
		case err == nil:
			n, tries = n+applied.Created, 0
			p.releaseReserved(int64(len(page)))
			for _, ref := range page {
				p.forget(ref)
			}
		case errors.Is(err, futurejobs.ErrRulesChanged):
			if err := p.Catalog.Refresh(ctx); err != nil {
				return n, err
			}
		case !errors.Is(err, futurejobs.ErrCursorMoved) || tries >= pastTries:
			return n, wrapErr("create jobs of past events", err)
		}
	}
}

// reserve reserves capacity in quotas for a number of jobs, so that concurrent saves do not reserve the same. Bytes are not
// reserved, but jobs beyond a quota of bytes are refused before the first of them is created.
func (p *backfill) reserve(jobs int64) error {
	if p.Quotas == nil || jobs == 0 {
		return nil
	}
	for _, q := range p.Quotas.OfJobs(p.saved.Name) {
		if q.Bytes() && q.Room() < p.creates || !q.Reserve(jobs) {
			p.releaseReserved(p.reserved)
			return fmt.Errorf("past events create %d jobs with %d bytes: %w", jobs, p.creates, q.Refusal(p.saved.Name))
		}
		p.room, p.reserved = append(p.room, q), jobs
	}
	return nil
}

// releaseReserved releases reserved capacity that the created jobs use by now, or that are not needed.
func (p *backfill) releaseReserved(jobs int64) {
	jobs = min(jobs, p.reserved)
	for _, q := range p.room {
		q.Settle(jobs, 0, 0)
	}
	p.reserved -= jobs
}

// begunBy returns a job as a save creates it, with the triggers that it kept adapted likewise. They have no origin: a
// rule may have had a job of the event before.
func begunBy(s RuleVersion, job futurejobs.Job) futurejobs.Job {
	job.Version, job.Origin = s.Version, 0
	if job.Order != nil && len(job.Order.Kept) > 0 {
		order := *job.Order
		order.Kept = slices.Clone(order.Kept)
		for i := range order.Kept {
			order.Kept[i].Version, order.Kept[i].Origin = s.Version, 0
		}
		job.Order = &order
	}
	return job
}

// replayApplied plays the events that ingest has applied by now, and returns the position of ingest, by line. reads are
// those of the saved version.
func (p *backfill) replayApplied(ctx context.Context, reads []StreamBinding) (map[string]uint64, error) {
	cursors, through := make(map[string]uint64), make(map[string]uint64)
	for _, read := range reads {
		c, ok, err := p.Jobs.Cursor(ctx, read.Stream)
		if err == nil && !ok {
			err = fmt.Errorf("stream %s has no cursor", read.Stream)
		}
		if err != nil {
			return nil, err
		}
		cursors[read.Stream], through[read.source()] = c.LastSeq, c.LastSeq
	}
	return cursors, p.replay(ctx, through)
}

// activeRule returns the rule of a version; nil while the rule creates no jobs. A rule that was changed or deleted
// meanwhile is ErrConflict.
func (p *backfill) activeRule(ctx context.Context, s RuleVersion) (*Rule, error) {
	e := p.Catalog.current.Load()
	v, err := p.Catalog.version(ctx, e, id{s.RuleID, s.Version})
	if err != nil {
		return nil, err
	}
	now := e.names[s.Name]
	switch {
	case !v.saved.DeletedAt.IsZero(), now != nil && now.versions[0].saved.Version > s.Version:
		return nil, fmt.Errorf("rule %s: not all past events were processed: %w", s.Name, ErrConflict)
	case now != nil && now.paused:
		return nil, nil
	}
	return v.compiled()
}
