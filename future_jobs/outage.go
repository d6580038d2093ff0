package futurejobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"deadman/alerts"
	"deadman/checks"
	"deadman/internal/failpoints"
)

// StreamSource is what a stream is called as a source that can't be asked.
func StreamSource(stream string) string { return streamPrefix + stream }

const streamPrefix = "stream/"

// Outage is a source or a stream that can't be asked on behalf of a rule. While it is open it
// speaks for all jobs that cannot be found out about because of it.
type Outage struct {
	Source   string
	RuleID   int32
	Version  int32 // of the rule, when it was opened
	OpenedAt time.Time
	SeenAt   time.Time // when a job was last met by it
	Jobs     int       // how many were met by it so far
	More     bool      // there may be more jobs; only where Jobs counts those that are due
	Reason   string    // of the first
}

// OutageHit is that jobs could not be found out about because of an outage.
type OutageHit struct {
	Held    []HeldShard // one of them has to stand
	RuleSet int64       // the revision that was evaluated
	Outage  Outage      // without times
	Again   int         // jobs that were spoken of before, and keep it open or have it opened again
	// Say makes the alert that it is open. Jobs is then how many jobs of the rule are due.
	Say func(Outage) alerts.Alert
}

// OutageStore keeps what can't be asked. At most one outage is open for a source and a rule.
// Implementations are safe for concurrent use.
type OutageStore interface {
	// RecordOutage opens an outage with its alert where none is open, and otherwise counts its jobs
	// to those of the open one. It returns the alert if it was written; ErrRulesChanged when
	// the rule set moved, and ErrNotHeld when no shard is held any more.
	RecordOutage(ctx context.Context, m OutageHit) (said []alerts.Alert, err error)
	// Outages returns those that are open.
	Outages(ctx context.Context) ([]Outage, error)
	// CloseOutage closes an outage with an alert; ended is false where it is not open any more.
	CloseOutage(ctx context.Context, o Outage, say func(Outage) alerts.Alert) (said []alerts.Alert, ended bool, err error)
}

// ErrNotHeld means that the shards are held by another node. Nothing was written.
var ErrNotHeld = errors.New("the shards are held by another node")

// OpeningAlert is the alert that an outage of a rule was opened with, as far as the outage tells it: it has
// its id, and what it is about.
func (o Outage) OpeningAlert(rule, entity string) alerts.Alert {
	return o.alert(rule, entity, alerts.Undetermined, o.OpenedAt)
}

// outageTopic is how the key of an alert about an outage begins, before the source.
const outageTopic = "outage/"

// IsOutage reports whether an alert is about an outage, and not about a job. Nobody acknowledges one: it
// closes by itself.
func IsOutage(a alerts.Alert) bool { return a.Source != "" && a.Key == outageTopic+a.Source }

// alert is an alert about an outage of a rule. Its id follows from when the outage was opened.
func (o Outage) alert(rule, entity string, status alerts.Status, at time.Time) alerts.Alert {
	a := alerts.SystemAlert{
		Topic: outageTopic + o.Source, Step: rule, Status: status, Since: o.OpenedAt, Source: o.Source, Count: o.Jobs,
	}.Alert(at)
	a.Rule, a.RuleID, a.RuleVersion, a.Entity, a.Step = rule, o.RuleID, int(o.Version), entity, ""
	return a
}

// outageAlert is what is said about an outage.
func (r *Rule) outageAlert(o Outage, status alerts.Status, now time.Time) alerts.Alert {
	a := o.alert(r.Name, r.Entity, status, now)
	a.RuleID, a.RuleVersion, a.Severity = r.ID, int(r.Version), r.Loudest
	a.Text = o.text(status, r.Entity)
	if status == alerts.Resolved {
		a.Closes = []alerts.ID{r.outageAlert(o, alerts.Undetermined, now).ID}
	}
	if r.Labels != nil {
		a.Labels = r.Labels(Job{Ref: Ref{RuleID: r.ID, Key: a.Key}, Since: o.OpenedAt})
	}
	return a
}

func (o Outage) text(status alerts.Status, entity string) string {
	source := o.Source
	if stream, is := strings.CutPrefix(source, streamPrefix); is {
		source = "the stream " + stream
	}
	if status == alerts.Resolved && o.Jobs == 0 { // it went on for those that were spoken of before
		return source + " can be asked again"
	}
	if status == alerts.Resolved {
		return fmt.Sprintf("%s can be asked again; %s of %s could not be looked at meanwhile", source, counted(o.Jobs, "job"), entity)
	}
	due := counted(o.Jobs, "job")
	if o.More {
		due = "at least " + due
	}
	return fmt.Sprintf("nothing can be found out about %s: %s; %s due", entity, o.Reason, due)
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// outageCache is what a sweeper knows of open outages and of the answers of their sources.
type outageCache struct {
	mu    sync.Mutex
	open  map[outageKey]Outage
	works map[outageKey]bool // the source of an open outage answered since the outage was opened
	last  map[outageKey]answered
}

type outageKey struct {
	rule   int32
	source string
}

// answered is the last answer of a source to a rule, whether an outage was known to be open or not.
type answered struct {
	at    time.Time
	works bool
}

// answersKept is how long the last answer of a source without an open outage is kept: longer than a
// failed check waits for its settlement, which opens the outage.
const answersKept = 10 * time.Minute

// sourceOf returns where the last answer of a source is kept. All handlers of a rule share one place:
// a check does not say which of them it asked.
func sourceOf(of outageKey) outageKey {
	if isHandler(of.source) {
		of.source = checks.HandlerSource("")
	}
	return of
}

// replace takes in the outages that are open in the database at now. An answer that came after an outage was
// opened, and before this node read so, counts.
func (o *outageCache) replace(open []Outage, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.works
	o.open, o.works = make(map[outageKey]Outage, len(open)), make(map[outageKey]bool)
	for _, one := range open {
		of := outageKey{one.RuleID, one.Source}
		last := o.last[sourceOf(of)]
		o.open[of] = one
		if before[of] || last.works && last.at.After(one.OpenedAt) {
			o.works[of] = true
		}
	}
	for of, last := range o.last {
		if now.Sub(last.at) > answersKept {
			delete(o.last, of)
		}
	}
}

// isOpen takes in that an outage is open, which this node wrote. A success that followed the failed check
// counts, also one from before the outage was written.
func (o *outageCache) isOpen(one Outage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open == nil {
		o.open, o.works = map[outageKey]Outage{}, map[outageKey]bool{}
	}
	of := outageKey{one.RuleID, one.Source}
	o.open[of] = one
	if o.last[sourceOf(of)].works {
		o.works[of] = true
	}
}

// noteFindings takes in what a source answered. An error of a key says nothing about the source: it may
// not have been asked about that.
func (o *outageCache) noteFindings(r *Rule, found []checks.Finding, now time.Time) {
	fails := slices.ContainsFunc(found, func(f checks.Finding) bool { return isOutage(f.Err) })
	if !fails && !slices.ContainsFunc(found, func(f checks.Finding) bool { return f.Err == nil }) {
		return
	}
	o.note(outageKey{r.ID, r.Finder.Source()}, !fails, now)
}

// noteAnswer takes in how a handler that finds out by itself did. One that does not answer in time
// can be asked no more than before.
func (o *outageCache) noteAnswer(r *Rule, err error, now time.Time) {
	works := !isOutage(err) && !errors.Is(err, context.DeadlineExceeded)
	o.note(outageKey{r.ID, checks.HandlerSource("")}, works, now)
}

// note keeps whether a source works, also for an outage that this node does not know yet.
func (o *outageCache) note(of outageKey, works bool, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last == nil {
		o.last = map[outageKey]answered{}
	}
	o.last[of] = answered{now, works}
	for open := range o.open {
		switch {
		case open.rule != of.rule || sourceOf(open) != of:
		case works:
			o.works[open] = true
		default:
			delete(o.works, open)
		}
	}
}

// outageError is an error of a check while an outage of its rule is open, which speaks for jobs
// that it met before.
type outageError struct{ error }

func (s outageError) Unwrap() error { return s.error }

func isSpokenFor(err error) bool {
	var spoken outageError
	return errors.As(err, &spoken)
}

// attribute marks the error of a check whose rule has an outage open.
func (o *outageCache) attribute(r *Rule, err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for of := range o.open {
		if of.rule == r.ID {
			return outageError{err}
		}
	}
	return err
}

func isOutage(err error) bool {
	var outage *checks.Outage
	return errors.As(err, &outage)
}

// isHandler reports whether a source is a handler, which finds out by itself.
func isHandler(source string) bool { return strings.HasPrefix(source, checks.HandlerSource("")) }

// outageHits is what a batch of decisions says about outages, once for a source and a rule.
func outageHits(batch []*task, held []HeldShard) []OutageHit {
	var all []OutageHit
	at := map[outageKey]int{}
	for _, v := range batch {
		if v.Outage == "" {
			continue
		}
		of := outageKey{v.rule.ID, v.Outage}
		i, known := at[of]
		if !known {
			i = len(all)
			at[of] = i
			rule := v.rule
			all = append(all, OutageHit{
				Held: held, RuleSet: v.ruleSet,
				Outage: Outage{Source: v.Outage, RuleID: rule.ID, Version: rule.Version, Reason: v.Reason},
				Say:    func(o Outage) alerts.Alert { return rule.outageAlert(o, alerts.Undetermined, o.OpenedAt) },
			})
		}
		if v.Again {
			all[i].Again++
		} else {
			all[i].Outage.Jobs++
		}
	}
	return all
}

// recordOutages writes what a settlement says about outages, before it: whoever reads that a job could
// not be found out about finds the outage that speaks for it.
func (s *Sweeper) recordOutages(ctx context.Context, batch []*task, held []HeldShard) error {
	for _, m := range outageHits(batch, held) {
		said, err := s.queue.RecordOutage(ctx, m)
		if errors.Is(err, ErrNotHeld) {
			return nil // the settlement finds that out for each job
		}
		if err != nil {
			return fmt.Errorf("write an outage: %w", err)
		}
		failpoints.Point("outage.met")
		s.outages.isOpen(m.Outage)
		for _, a := range said {
			s.Observer.Alerted(a)
		}
	}
	return nil
}

// How outages are looked after.
const (
	outageEvery = 5 * time.Second
	outageSlack = time.Minute // between when a look is due and when it is settled
	reachMost   = time.Second // that it takes to try a source
)

// outageIdle is how long an outage of the rule meets no job before none is left that would meet it:
// each asks again within rarest, at a slot. Only then is what can be reached taken for what
// can be asked, since a host may be there that answers nothing.
func (r *Rule) outageIdle() time.Duration {
	if r.Limits.End {
		return maxRetryDelay
	}
	return maxRetryDelay + time.Duration(r.Grid) + outageSlack
}

// closeOutages ends the outages that are over, now and then until ctx ends.
func (s *Sweeper) closeOutages(ctx context.Context) {
	tick := time.NewTicker(outageEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.setErr("outages", s.closeRecovered(ctx))
		}
	}
}

// closeRecovered reads the open outages, and ends each
//
//  1. whose source was heard of by this node,
//  2. whose stream is read past the last job that met it,
//  3. that met no job for so long that none can be left, and whose source can be reached or is
//     asked by nobody. A handler can't be tried without a check.
func (s *Sweeper) closeRecovered(ctx context.Context) error {
	open, err := s.queue.Outages(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	s.outages.replace(open, s.clock.Now())
	if len(open) == 0 {
		return nil
	}
	through, err := s.queue.ReadThrough(ctx)
	if err != nil {
		return err
	}
	present(through, s.clock.Now())
	var errs []error // of one outage, which is in no other's way
	tried := reachProbes{}
	for _, o := range open {
		rule, err := s.book.Rule(ctx, o.RuleID, o.Version)
		if err == nil && s.isOver(ctx, o, rule, through, tried) {
			err = s.end(ctx, o, rule)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// reachProbes are whether sources can be reached, each tried once for all rules that wait for it.
type reachProbes map[string]bool

func (t reachProbes) reach(ctx context.Context, f checks.Finder) bool {
	source := f.Source()
	if _, known := t[source]; !known {
		ctx, cancel := context.WithTimeout(ctx, reachMost)
		defer cancel()
		t[source] = f.Reach(ctx) == nil
	}
	return t[source]
}

func (s *Sweeper) isOver(ctx context.Context, o Outage, rule *Rule, through map[string]StreamProgress, tried reachProbes) bool {
	if rule.Deleted || s.outages.isHeard(o) {
		return true
	}
	if stream, is := strings.CutPrefix(o.Source, streamPrefix); is {
		return through[stream].Through.After(o.SeenAt)
	}
	if s.clock.Now().Sub(o.SeenAt) < rule.outageIdle() {
		return false
	}
	if isHandler(o.Source) || rule.Finder == nil || rule.Finder.Source() != o.Source {
		return true
	}
	return tried.reach(ctx, rule.Finder)
}

func (o *outageCache) isHeard(one Outage) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.works[outageKey{one.RuleID, one.Source}]
}

func (s *Sweeper) end(ctx context.Context, o Outage, rule *Rule) error {
	said, _, err := s.queue.CloseOutage(ctx, o, func(o Outage) alerts.Alert {
		return rule.outageAlert(o, alerts.Resolved, s.clock.Now())
	})
	for _, a := range said {
		s.Observer.Alerted(a)
	}
	return err
}
