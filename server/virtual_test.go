package server_test

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"deadman/rules/document"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/calendars"
	"deadman/internal/scheduler"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// virtual runs the whole engine on a real SQLite store in virtual time. Its events come from one stream, read by the
// test.
type virtual struct {
	t      *testing.T
	dir    string
	known  calendars.Set
	source stubSource // source of the lookups

	store   *store.Store // nil: down
	catalog *rules.Catalog
	owner   *futurejobs.Owner
	sweeper *futurejobs.Sweeper
	ticker  *scheduler.Scheduler
	seq     uint64
	missed  []rules.PreviewEvent // events received while it was down
	ticked  tickCounter          // outcomes of ticks
	stop    context.CancelFunc
	done    chan error
}

// stream is the stream of a timeline's events.
const stream = "EVENTS"

// settleTimeout bounds the time for due work, including the engine's batching.
const settleTimeout = 500 * time.Millisecond

// startTimeout bounds the time until the engine holds its shards, including a failed first attempt.
const startTimeout = 15 * time.Second

// maxSteps is the maximum number of steps of a timeline.
const maxSteps = 2000

// playAlerts plays inputs to rules, and returns the alerts and ends of all rules and keys, ordered by time.
func playAlerts(t *testing.T, text string, known calendars.Set, given timeline) (tl timeline) {
	t.Helper()
	playVirtual(t, text, known, given, func(v *virtual) { tl = v.alertLines() })
	return tl
}

// slotOffset is how long after a slot a node starts: what it does every few seconds never coincides with a check, so that
// the order of the two is always the same.
const slotOffset = 3 * time.Second

// playVirtual plays inputs to rules until no job is pending, and then calls ask.
func playVirtual(t *testing.T, text string, known calendars.Set, given timeline, check func(v *virtual)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		begins := given[0].at.Add(-time.Hour + slotOffset)
		if given[0].kind == kindSaved {
			begins = given[0].at
		}
		time.Sleep(time.Until(begins))
		v := &virtual{t: t, dir: storetest.DataDir(t), known: known}
		v.open()
		v.save(text)
		v.run()
		defer v.close()
		v.play(given)
		check(v)
	})
}

// play advances from one input or check to the next.
func (v *virtual) play(given timeline) {
	for range maxSteps {
		next, more := v.nextInput(given)
		if !more {
			return
		}
		time.Sleep(time.Until(next))
		for len(given) > 0 && !given[0].at.After(time.Now()) {
			if given[0].kind == kindUntil {
				return
			}
			v.playLine(given[0])
			given = given[1:]
		}
		v.settle()
	}
	v.t.Fatalf("after %d moments a check is still pending; write until", maxSteps)
}

// nextInput returns the time of the next input or check.
func (v *virtual) nextInput(given timeline) (at time.Time, more bool) {
	if len(given) > 0 {
		at, more = given[0].at, true
	}
	if v.store == nil {
		return at, more
	}
	page, err := v.store.Jobs(v.t.Context(), futurejobs.Filter{Limit: futurejobs.MaxLimit})
	if err != nil {
		v.t.Fatal(err)
	}
	if len(given) > 0 { // later ticks without alerts
		_, all := v.catalog.Scheduled()
		for _, s := range all {
			if tick, ok := s.Next(time.Now()); ok && tick.Before(at) {
				at = tick
			}
		}
	}
	for _, j := range page.Items {
		if j.NextCheckAt.Before(futurejobs.FarFuture) && (!more || j.NextCheckAt.Before(at)) {
			at, more = j.NextCheckAt, true
		}
	}
	return at, more
}

// playLine processes an input.
func (v *virtual) playLine(l line) {
	switch l.kind {
	case kindDown:
		v.close()
	case kindUp:
		v.open()
		for _, e := range v.missed {
			v.apply(e)
		}
		v.missed = nil
		v.run() // missed events are ingested before any tick
		v.settle()
		time.Sleep(startTimeout)
	case kindFound:
		v.source.set(l.text)
	case kindAck:
		v.acknowledge(l)
	case kindEvent:
		events, _ := timeline{l}.events()
		if v.store == nil {
			v.missed = append(v.missed, events...)
			return
		}
		v.apply(events[0])
	}
}

// acknowledge acknowledges the last alert about a key.
func (v *virtual) acknowledge(l line) {
	key, span, _ := strings.Cut(l.text, " ")
	page, err := v.store.Jobs(v.t.Context(), futurejobs.Filter{Key: key})
	if err != nil || len(page.Items) != 1 || len(page.Items[0].Alerts) == 0 {
		v.t.Fatalf("acks %s: %v, %d jobs, or no alert was raised", l.text, err, len(page.Items))
	}
	job := page.Items[0]
	ack := futurejobs.Ack{Alert: job.Alerts[len(job.Alerts)-1], By: "ada"}
	switch span {
	case "until resolved":
		ack.Until = checks.Forever
	case "no more":
	default:
		d, err := document.ParseDuration(strings.TrimPrefix(span, "for "))
		if err != nil {
			v.t.Fatal(err)
		}
		ack.Until = l.at.Add(time.Duration(d))
	}
	rule, err := v.catalog.Rule(v.t.Context(), job.RuleID, job.Version)
	if err != nil {
		v.t.Fatal(err)
	}
	if _, err := v.store.Apply(v.t.Context(), futurejobs.EffectBatch{RuleSet: v.catalog.Revision(), Effects: []futurejobs.Effect{
		{Rule: rule, Ref: job.Ref, Action: futurejobs.Acknowledge{Ack: ack}},
	}}); err != nil {
		v.t.Fatal(err)
	}
}

// apply applies an event.
func (v *virtual) apply(e rules.PreviewEvent) {
	event := futurejobs.Event{Stream: stream, Subject: e.Subject, Seq: v.seq + 1, At: e.At, Data: e.Data}
	effects, refusals := v.catalog.Match(event)
	if len(refusals) > 0 {
		v.t.Fatalf("%s %s is refused: %+v", e.Subject, e.Data, refusals)
	}
	batch := futurejobs.EffectBatch{
		Stream: stream, After: v.seq, Last: event.Seq, LastAt: e.At, RuleSet: v.catalog.Revision(), Effects: effects,
	}
	applied, err := v.store.Apply(v.t.Context(), batch)
	if err != nil {
		v.t.Fatal(err)
	}
	if applied.Refused > 0 {
		v.t.Fatalf("%s %s is a dead letter", e.Subject, e.Data)
	}
	v.seq = event.Seq
}

// settle marks the stream as read, and lets the engine check due jobs.
func (v *virtual) settle() {
	if v.store == nil {
		return
	}
	if len(v.catalog.SubjectsByStream()) > 0 {
		if err := v.store.MarkRead(v.t.Context(), stream, v.seq, time.Now()); err != nil {
			v.t.Fatal(err)
		}
	}
	v.ticker.Wake()
	v.sweeper.Wake()
	time.Sleep(settleTimeout)
	synctest.Wait()
}

// save saves rules, which read the stream from its beginning.
func (v *virtual) save(text string) {
	documents, err := rules.ParseAgainst([]byte(text), "", v.known)
	if err != nil {
		v.t.Fatal(err)
	}
	for _, d := range documents {
		document, err := d.Canonical()
		if err != nil {
			v.t.Fatal(err)
		}
		saved := rules.RuleVersion{Name: d.Name, Entity: d.Entity, Document: document}
		for _, subject := range d.Subjects() {
			saved.Reads = append(saved.Reads, rules.StreamBinding{Subject: subject, Stream: stream})
		}
		if _, err := v.store.Save(v.t.Context(), saved, rules.AnyVersion); err != nil {
			v.t.Fatal(err)
		}
	}
	if err := v.catalog.Refresh(v.t.Context()); err != nil {
		v.t.Fatal(err)
	}
	v.sweeper.Wake()
}

// open opens the store and creates the engine.
func (v *virtual) open() {
	t, quiet := v.t, slog.New(slog.DiscardHandler)
	var err error
	if v.store, err = store.Open(t.Context(), store.Options{DataDir: v.dir, Shards: 4, Log: quiet}); err != nil {
		t.Fatal(err)
	}
	if err := v.store.Reclaim(t.Context()); err != nil {
		t.Fatal(err)
	}
	v.catalog = rules.NewCatalog(v.store, v.store.Shards())
	v.catalog.Calendars, v.catalog.Sources = v.known, &v.source
	if err := v.catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	v.owner = futurejobs.NewOwner(v.store, futurejobs.Node{ID: "virtual", Name: "virtual"}, futurejobs.Day, time.Now, quiet)
	clock := futurejobs.NewClock(v.store.Now, time.Now)
	v.sweeper = futurejobs.NewSweeper(v.store, v.catalog, v.owner, clock, 4, quiet)
	v.ticker = scheduler.New(scheduler.Options{
		Catalog: v.catalog, Cursors: v.store, Shards: v.owner, Emitter: v, Now: clock.Now, Announce: v.writeSystemAlert, Observer: &v.ticked, Log: quiet,
	})
	v.owner.Changed = func() { v.sweeper.Wake(); v.ticker.Wake() }
}

// run runs the engine: leases, sweeps and ticks.
func (v *virtual) run() {
	ctx, cancel := context.WithCancel(context.Background())
	v.stop, v.done = cancel, make(chan error, 3)
	go func(o *futurejobs.Owner) { v.done <- o.Run(ctx) }(v.owner)
	go func(k *scheduler.Scheduler) { v.done <- k.Run(ctx) }(v.ticker)
	go func(s *futurejobs.Sweeper) { v.done <- s.Run(ctx, context.Background()) }(v.sweeper)
}

// close stops the engine and closes the store, if they are open.
func (v *virtual) close() {
	if v.store == nil {
		return
	}
	v.stop()
	for range cap(v.done) {
		if err := <-v.done; err != nil {
			v.t.Error(err)
		}
	}
	if err := v.store.Close(); err != nil {
		v.t.Error(err)
	}
	v.store = nil
}

// alertLines returns all alerts, and the ends of jobs.
func (v *virtual) alertLines() (tl timeline) {
	for _, a := range v.alerts() {
		tl = append(tl, alertLine(a.DecidedAt.Truncate(time.Second), a.Draft))
	}
	for _, e := range v.ended() {
		tl = append(tl, endLine(e.EndedAt.Truncate(time.Second), e.Key, string(e.Outcome)))
	}
	slices.SortStableFunc(tl, func(a, b line) int { return a.at.Compare(b.at) })
	return tl
}

// alerts returns all alerts, ordered by time. The order within a second, and the delay between an alert and its
// immediate resolution, are not guaranteed: equal times are sorted.
func (v *virtual) alerts() []futurejobs.ListedAlert {
	page, err := v.store.Alerts(v.t.Context(), futurejobs.Filter{Limit: futurejobs.MaxLimit})
	v.checkComplete(page.Next, err)
	slices.SortStableFunc(page.Items, func(a, b futurejobs.ListedAlert) int {
		return cmp.Or(
			a.DecidedAt.Truncate(time.Second).Compare(b.DecidedAt.Truncate(time.Second)), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Key, b.Key),
			a.DecidedAt.Compare(b.DecidedAt), cmp.Compare(len(a.Closes), len(b.Closes)),
		)
	})
	return page.Items
}

// ended returns all ended jobs, ordered by time.
func (v *virtual) ended() []futurejobs.EndedJob {
	page, err := v.store.History(v.t.Context(), futurejobs.Filter{Limit: futurejobs.MaxLimit})
	v.checkComplete(page.Next, err)
	slices.SortStableFunc(page.Items, func(a, b futurejobs.EndedJob) int {
		return cmp.Or(
			a.EndedAt.Truncate(time.Second).Compare(b.EndedAt.Truncate(time.Second)), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Key, b.Key),
			a.EndedAt.Compare(b.EndedAt),
		)
	})
	return page.Items
}

// checkComplete fails the test if a page is not the complete list.
func (v *virtual) checkComplete(next string, err error) {
	if err != nil || next != "" {
		v.t.Fatalf("more than %d: %v", futurejobs.MaxLimit, err)
	}
}

// writeSystemAlert writes a system alert.
func (v *virtual) writeSystemAlert(ctx context.Context, r alerts.SystemAlert) error {
	_, _, err := v.store.WriteSystemAlert(ctx, r)
	return err
}

// PublishTick applies the emission of a tick as the stream's next event.
func (v *virtual) PublishTick(ctx context.Context, e futurejobs.Emission, held scheduler.Held) error {
	return held(ctx, func(context.Context) (isAnswered bool, err error) {
		v.apply(rules.PreviewEvent{Subject: e.Subject, At: time.Now(), Data: e.Data})
		return true, nil
	})
}

// tickCounter counts the outcomes of ticks. It is read while no tick runs.
type tickCounter struct {
	mu     sync.Mutex
	counts map[futurejobs.TickOutcome]int
}

// Ticked implements scheduler.Observer.
func (c *tickCounter) Ticked(_ string, outcome futurejobs.TickOutcome, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = make(map[futurejobs.TickOutcome]int)
	}
	c.counts[outcome] += n
}

// Alerted implements scheduler.Observer.
func (*tickCounter) Alerted(alerts.Alert) {}
