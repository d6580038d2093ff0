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

// StreamSource returns the source name of a stream, for outages.
func StreamSource(stream string) string { return streamPrefix + stream }

const streamPrefix = "stream/"

// Outage is a source or a stream that cannot be reached for a rule. While it is open, its alert covers all jobs that
// are undetermined because of it.
type Outage struct {
	Source   string
	RuleID   int32
	Version  int32 // of the rule at the opening
	OpenedAt time.Time
	SeenAt   time.Time // when it last affected a job
	Jobs     int       // affected jobs so far
	More     bool      // there may be more jobs; only if Jobs counts due jobs
	Reason   string    // the first error
}

// OutageHit reports jobs that are undetermined because of an outage.
type OutageHit struct {
	Held     []HeldShard // at least one has to be held
	RuleSet  int64       // the revision that the checks are based on
	Outage   Outage      // without times
	Repeated int         // jobs that were reported before, and keep the outage open or reopen it
	// Alert returns the opening alert. Jobs is the number of due jobs of the rule then.
	Alert func(Outage) alerts.Alert
}

// OutageStore stores outages. At most one is open for a source and a rule. Implementations are safe for concurrent
// use.
type OutageStore interface {
	// RecordOutage opens an outage with its alert if none is open, and otherwise adds the jobs to the open one. It
	// returns the alert if it was written; ErrRulesChanged if the rule set changed, and ErrNotHeld if no shard is
	// held any more.
	RecordOutage(ctx context.Context, m OutageHit) (said []alerts.Alert, err error)
	// Outages returns the open outages.
	Outages(ctx context.Context) ([]Outage, error)
	// CloseOutage closes an outage with an alert; ended is false if it was not open any more.
	CloseOutage(ctx context.Context, o Outage, say func(Outage) alerts.Alert) (said []alerts.Alert, ended bool, err error)
}

// ErrNotHeld means that the shards are held by another node. Nothing was written.
var ErrNotHeld = errors.New("the shards are held by another node")

// OpeningAlert returns the opening alert of an outage, as far as the outage determines it: its id and its subject.
func (o Outage) OpeningAlert(rule, entity string) alerts.Alert {
	return o.alert(rule, entity, alerts.Undetermined, o.OpenedAt)
}

// outageTopic is the prefix of the key of an outage's alert, before the source.
const outageTopic = "outage/"

// IsOutage reports whether an alert is about an outage instead of a job. It cannot be acknowledged: it closes by
// itself.
func IsOutage(a alerts.Alert) bool { return a.Source != "" && a.Key == outageTopic+a.Source }

// alert returns an alert about an outage of a rule. Its id is derived from the opening time.
func (o Outage) alert(rule, entity string, status alerts.Status, at time.Time) alerts.Alert {
	a := alerts.SystemAlert{
		Topic: outageTopic + o.Source, Step: rule, Status: status, Since: o.OpenedAt, Source: o.Source, Count: o.Jobs,
	}.Alert(at)
	a.Rule, a.RuleID, a.RuleVersion, a.Entity, a.Step = rule, o.RuleID, int(o.Version), entity, ""
	return a
}

func (o Outage) text(status alerts.Status, entity string) string {
	source := o.Source
	if stream, is := strings.CutPrefix(source, streamPrefix); is {
		source = "the stream " + stream
	}
	if status == alerts.Resolved && o.Jobs == 0 { // it was reopened for jobs that were reported before
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

// outageCache is a sweeper's view of open outages and of the last answers of sources.
type outageCache struct {
	mu    sync.Mutex
	open  map[outageKey]Outage
	works map[outageKey]bool // the source of an open outage has answered since the opening
	last  map[outageKey]answered
}

type outageKey struct {
	rule   int32
	source string
}

// answered is the last answer of a source to a rule, with or without a known outage.
type answered struct {
	at    time.Time
	works bool
}

// answersKept is how long the last answer of a source without an open outage is kept: longer than a failed check
// waits for the settlement that opens the outage.
const answersKept = 10 * time.Minute

// sourceOf returns the key of a source's last answer. All handlers of a rule share one key: a check does not report
// the handler that it called.
func sourceOf(of outageKey) outageKey {
	if isHandler(of.source) {
		of.source = checks.HandlerSource("")
	}
	return of
}

// replace sets the outages that are open in the database at now. An answer counts if it arrived after the opening of
// an outage, even before this node read the outage.
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

// isOpen adds an outage that this node wrote. A success after the failed check counts, even before the outage was
// written.
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

// noteFindings records the answer of a source. An error of a single key does not count: the source may not have been
// queried for it.
func (o *outageCache) noteFindings(r *Rule, found []checks.Finding, now time.Time) {
	fails := slices.ContainsFunc(found, func(f checks.Finding) bool { return isOutage(f.Err) })
	if !fails && !slices.ContainsFunc(found, func(f checks.Finding) bool { return f.Err == nil }) {
		return
	}
	o.note(outageKey{r.ID, r.Finder.Source()}, !fails, now)
}

// noteAnswer records the result of an asynchronous handler. A timeout counts as a failure.
func (o *outageCache) noteAnswer(r *Rule, err error, now time.Time) {
	works := !isOutage(err) && !errors.Is(err, context.DeadlineExceeded)
	o.note(outageKey{r.ID, checks.HandlerSource("")}, works, now)
}

// note records whether a source works, also for an outage that this node does not know yet.
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

// outageError wraps a check error if an open outage of its rule already covers the jobs that it affected before.
type outageError struct{ error }

func (s outageError) Unwrap() error { return s.error }

func isSpokenFor(err error) bool {
	var spoken outageError
	return errors.As(err, &spoken)
}

// attribute wraps the error of a check if its rule has an open outage.
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

// isHandler reports whether a source is an asynchronous handler.
func isHandler(source string) bool { return strings.HasPrefix(source, checks.HandlerSource("")) }

// outageHits collects the outages in a batch of decisions, one hit for each source and rule.
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
				Alert:  func(o Outage) alerts.Alert { return o.ruleAlert(rule, alerts.Undetermined, o.OpenedAt) },
			})
		}
		if v.Repeated {
			all[i].Repeated++
		} else {
			all[i].Outage.Jobs++
		}
	}
	return all
}

// recordOutages writes the outages of a settlement before it: a reader of an undetermined job then finds the outage
// that covers it.
func (s *Sweeper) recordOutages(ctx context.Context, batch []*task, held []HeldShard) error {
	for _, m := range outageHits(batch, held) {
		said, err := s.queue.RecordOutage(ctx, m)
		if errors.Is(err, ErrNotHeld) {
			return nil // the settlement detects that for each job
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

// Intervals for closing outages.
const (
	outageEvery = 5 * time.Second
	outageSlack = time.Minute // between the due time of a check and its settlement
	reachMost   = time.Second // timeout for reaching a source
)

// closeOutages closes outages that are over, every outageEvery until ctx ends.
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

// closeRecovered reads the open outages, and closes each outage
//
//  1. with a source that answered this node,
//  2. with a stream that is read past the last affected job,
//  3. that affected no job for outageIdle, and has a source that is reachable or not used
//     any more. A handler cannot be tried without a check.
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
	var errs []error // an error of one outage does not stop the others
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

// reachProbes caches whether sources are reachable, each tried once for all its rules.
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
		return o.ruleAlert(rule, alerts.Resolved, s.clock.Now())
	})
	for _, a := range said {
		s.Observer.Alerted(a)
	}
	return err
}

// ruleAlert returns the complete alert about an outage of a rule.
func (o Outage) ruleAlert(r *Rule, status alerts.Status, now time.Time) alerts.Alert {
	a := o.alert(r.Name, r.Entity, status, now)
	a.RuleID, a.RuleVersion, a.Severity = r.ID, int(r.Version), r.MaxSeverity
	a.Text = o.text(status, r.Entity)
	if status == alerts.Resolved {
		a.Closes = []alerts.ID{o.ruleAlert(r, alerts.Undetermined, now).ID}
	}
	if r.Labels != nil {
		a.Labels = r.Labels(Job{Ref: Ref{RuleID: r.ID, Key: a.Key}, Since: o.OpenedAt})
	}
	return a
}
