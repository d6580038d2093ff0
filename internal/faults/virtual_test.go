package faults_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// tenDays is the duration of the virtual run.
const tenDays = 10 * futurejobs.Day

const virtualRule = `
name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
while: event.total > 20
escalate:
  - {after: 3h, step: primary, severity: warning}
  - {after: 8h, step: escalated, severity: error}
  - {after: 30h, step: last, severity: critical}
slot: 1m
hold: 2d
`

// timedEvent is one event of the virtual run.
type timedEvent struct {
	at      time.Time
	subject string
	key     string
	total   int
}

// TestVirtualTenDays plays ten days of orders on the real SQLite store in virtual time, with the node down for five
// hours, and compares the alerts with a model.
func TestVirtualTenDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		begin := time.Now().UTC()
		timed, unshippedAt := drawPlan(random, begin)
		downFrom, downTo := begin.Add(4*futurejobs.Day), begin.Add(4*futurejobs.Day+5*time.Hour)

		dir := storetest.DataDir(t)
		run := openVirtual(t, dir)
		run.save(t, virtualRule)
		run.begin(t)
		for now := time.Now(); now.Before(begin.Add(tenDays)); now = time.Now() {
			if now.Equal(downFrom) {
				run.end(t)
				time.Sleep(downTo.Sub(downFrom))
				run = openVirtual(t, dir)
				run.begin(t)
			}
			timed = run.apply(t, timed)
			time.Sleep(time.Until(futurejobs.Grid(time.Minute).After(time.Now())))
		}
		run.apply(t, nil)
		time.Sleep(time.Minute)
		defer run.end(t)

		end := time.Now()
		want := map[string]bool{}
		for key, w := range unshippedAt {
			for _, line := range w.alerts(end, downFrom, downTo) {
				want[key+" "+line] = true
			}
		}
		got := run.raisedAlerts(t)
		for line := range want {
			if !got[line] {
				t.Errorf("missing alert: %s", line)
			}
		}
		for line := range got {
			if !want[line] {
				t.Errorf("unexpected alert: %s", line)
			}
		}
		t.Logf("%d orders, %d alerts in ten days", len(unshippedAt), len(got))
	})
}

// expectedJob is the model of one order.
type expectedJob struct {
	created time.Time
	shipped time.Time // zero: never
	total   int
}

// alerts returns the expected alerts of the order until end, if no check ran between downFrom and downTo. It shares no
// code with the engine.
func (w expectedJob) alerts(end, downFrom, downTo time.Time) (lines []string) {
	steps := []struct {
		after time.Duration
		name  string
	}{{3 * time.Hour, "primary"}, {8 * time.Hour, "escalated"}, {30 * time.Hour, "last"}}

	minuteUp := func(at time.Time) time.Time {
		if cut := at.Truncate(time.Minute); !cut.Equal(at) {
			return cut.Add(time.Minute)
		}
		return at
	}
	written := false
	for i, step := range steps {
		checkedAt := minuteUp(w.created.Add(step.after))
		if !checkedAt.Before(downFrom) && checkedAt.Before(downTo) {
			checkedAt = downTo
			if i+1 < len(steps) && !minuteUp(w.created.Add(steps[i+1].after)).After(downTo) {
				continue // the next step is due by then too, and replaces this one
			}
		}
		if checkedAt.After(end.Add(-time.Minute)) || !w.shipped.IsZero() && w.shipped.Before(checkedAt) {
			break
		}
		if w.total <= 20 {
			return nil
		}
		lines = append(lines, "firing "+step.name)
		written = true
	}
	if written && !w.shipped.IsZero() && w.shipped.Before(minuteUp(w.created.Add(30*time.Hour)).Add(48*time.Hour)) && w.shipped.Before(end.Add(-time.Minute)) {
		lines = append(lines, "resolved")
	}
	return lines
}

// drawPlan draws the orders of ten days, at odd seconds so that none is at a slot.
func drawPlan(random *rand.Rand, begin time.Time) ([]timedEvent, map[string]expectedJob) {
	var all []timedEvent
	waits := map[string]expectedJob{}
	odd := func(d time.Duration) time.Duration { return d.Truncate(time.Minute) + 31*time.Second }
	for i := range 2000 {
		key := fmt.Sprintf("order-%04d", i)
		w := expectedJob{created: begin.Add(odd(time.Duration(random.Int64N(int64(tenDays))))), total: random.IntN(200)}
		all = append(all, timedEvent{w.created, "orders.created", key, w.total})
		if random.IntN(4) > 0 {
			w.shipped = w.created.Add(odd(time.Duration(random.Int64N(int64(40 * time.Hour)))))
			all = append(all, timedEvent{w.shipped, "orders.shipped", key, 0})
		}
		waits[key] = w
	}
	slices.SortStableFunc(all, func(a, b timedEvent) int { return a.at.Compare(b.at) })
	return all, waits
}

// virtualNode is the engine on the real SQLite store, with events applied by the test.
type virtualNode struct {
	store   *store.Store
	catalog *rules.Catalog
	seq     uint64
	stop    context.CancelFunc
	done    chan error
}

func openVirtual(t *testing.T, dir string) *virtualNode {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{DataDir: dir, Shards: 4, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Reclaim(t.Context()); err != nil {
		t.Fatal(err)
	}
	v := &virtualNode{store: s, catalog: rules.NewCatalog(s, s.Shards())}
	if cursor, ok, err := s.Cursor(t.Context(), "ORDERS"); err != nil {
		t.Fatal(err)
	} else if ok {
		v.seq = cursor.LastSeq
	}
	return v
}

func (v *virtualNode) save(t *testing.T, document string) {
	t.Helper()
	documents, err := rules.Parse([]byte(document), "virtual.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(documents[0])
	if err != nil {
		t.Fatal(err)
	}
	var reads []rules.StreamBinding
	for _, subject := range documents[0].Subjects() {
		reads = append(reads, rules.StreamBinding{Subject: subject, Stream: "ORDERS"})
	}
	saved := rules.RuleVersion{Name: documents[0].Name, Entity: documents[0].Entity, Document: text, Reads: reads}
	if _, err := v.store.Save(t.Context(), saved, rules.AnyVersion); err != nil {
		t.Fatal(err)
	}
}

// begin runs the engine: leases and sweeps.
func (v *virtualNode) begin(t *testing.T) {
	t.Helper()
	if err := v.catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	clock := futurejobs.NewClock(v.store.Now, time.Now)
	owner := futurejobs.NewOwner(v.store, futurejobs.Node{ID: "virtual", Name: "virtual"}, time.Hour, time.Now, log)
	sweeper := futurejobs.NewSweeper(v.store, v.catalog, owner, clock, 4, log)
	owner.Changed = sweeper.Wake

	ctx, cancel := context.WithCancel(context.Background())
	v.stop, v.done = cancel, make(chan error, 2)
	go func() { v.done <- owner.Run(ctx) }()
	go func() { v.done <- sweeper.Run(ctx, context.Background()) }()
}

// end stops the engine and closes the store.
func (v *virtualNode) end(t *testing.T) {
	t.Helper()
	v.stop()
	for range 2 {
		if err := <-v.done; err != nil {
			t.Error(err)
		}
	}
	if err := v.store.Close(); err != nil {
		t.Error(err)
	}
}

// apply applies the events that have occurred, in one batch, and marks the stream as read. It returns the remaining
// events.
func (v *virtualNode) apply(t *testing.T, timed []timedEvent) []timedEvent {
	t.Helper()
	events := make([]rules.PreviewEvent, 0, len(timed))
	for _, h := range timed {
		if h.at.After(time.Now()) {
			break
		}
		events = append(events, rules.PreviewEvent{
			Subject: h.subject, At: h.at, Data: fmt.Appendf(nil, `{"id":%q,"total":%d}`, h.key, h.total),
		})
	}
	left := v.previewEvents(t, events)
	return timed[len(events)-len(left):]
}

// previewEvents is apply for any events.
func (v *virtualNode) previewEvents(t *testing.T, timed []rules.PreviewEvent) []rules.PreviewEvent {
	t.Helper()
	now := time.Now().UTC()
	batch := futurejobs.EffectBatch{Stream: "ORDERS", After: v.seq, Last: v.seq, RuleSet: v.catalog.Revision()}
	for len(timed) > 0 && !timed[0].At.After(now) {
		h := timed[0]
		timed = timed[1:]
		batch.Last++
		batch.LastAt = h.At
		effects, refusals := v.catalog.Match(futurejobs.Event{
			Stream: "ORDERS", Subject: h.Subject, Seq: batch.Last, At: h.At, Data: h.Data,
		})
		if len(refusals) > 0 {
			t.Fatalf("%+v refused: %+v", h, refusals)
		}
		batch.Effects = append(batch.Effects, effects...)
	}
	if batch.Last > batch.After {
		if _, err := v.store.Apply(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		v.seq = batch.Last
	}
	if err := v.store.MarkRead(t.Context(), "ORDERS", v.seq, now); err != nil {
		t.Fatal(err)
	}
	return timed
}

// raisedAlerts lists every alert, as "key status step".
func (v *virtualNode) raisedAlerts(t *testing.T) map[string]bool {
	t.Helper()
	lines := map[string]bool{}
	filter := futurejobs.Filter{Limit: futurejobs.MaxLimit}
	for {
		page, err := v.store.Alerts(t.Context(), filter)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range page.Items {
			line := cmp.Or(a.Key, "?") + " " + string(a.Status)
			if a.Status == "firing" {
				line += " " + a.Step
			}
			if lines[line] {
				t.Errorf("duplicate alert: %s", line)
			}
			lines[line] = true
		}
		if filter.Cursor = page.Next; filter.Cursor == "" {
			return lines
		}
	}
}
