package simulation_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// deployment is one run: the plan, the database, the broker, and the nodes.
type deployment struct {
	plan   plan
	store  *store.Store
	broker *broker
	sent   []sentEvent // the events that the streams stored
	cuts   []deletion
	ledger *ledger

	catalog   *rules.Catalog               // of the person who acknowledges alerts
	schedules map[string][]scheduleVersion // accepted versions of stored schedules, by id
	late      sync.WaitGroup               // writes that their nodes have given up

	breaches []string // at the end

	mu        sync.Mutex
	listeners map[string]*node // by name
	pinged    []*sentPing
	counts    map[string]int // how often something happened
	story     []string
}

// sentEvent is a stored event.
type sentEvent struct {
	futurejobs.Event
	key      string
	isEnough bool // of a counted article
}

// newDatabase returns the options of a store on a new database with the virtual time of the caller.
type newDatabase func(testing.TB) store.Options

func onSQLite(tb testing.TB) store.Options { return store.Options{DataDir: storetest.DataDir(tb)} }

// play plays a plan and returns the deployment at its end.
func play(t *testing.T, p plan, on newDatabase) (w *deployment) {
	t.Helper()
	if !t.Run(fmt.Sprint("seed ", p.seed), func(t *testing.T) {
		o := on(t)
		synctest.Test(t, func(t *testing.T) { w = playNow(t, p, o) })
	}) {
		t.FailNow()
	}
	return w
}

// playNow plays a plan in the virtual time of a test.
func playNow(t *testing.T, p plan, o store.Options) *deployment {
	t.Helper()
	o.Shards, o.Log = 4, slog.New(slog.DiscardHandler)
	s, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w := &deployment{plan: p, store: s, broker: newBroker("ORDERS", "SHIPMENTS", "BEATS", "STOCK"), counts: make(map[string]int), schedules: make(map[string][]scheduleVersion), listeners: make(map[string]*node)}
	w.ledger, w.catalog = newLedger(w, o.DatabaseURL != ""), rules.NewCatalog(s, s.Shards())
	for _, r := range p.saved() {
		if err := saveRule(t.Context(), s, r); err != nil {
			t.Fatal(err)
		}
		w.ledger.begin()(nil, func(l *ledger) { l.changed(change{kind: saves, rule: r}, p.begin) })
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	for _, name := range w.plan.nodes {
		all.Go(func() { w.keepRunning(ctx, name) })
	}
	all.Go(w.produce)
	all.Go(w.recordFaults)
	all.Go(w.cut)
	all.Go(w.change)
	all.Go(w.act)
	all.Go(w.edit)
	for _, r := range p.withPings {
		for _, key := range r.beats.keys {
			all.Go(func() { w.sendPings(key) })
		}
	}
	time.Sleep(time.Until(w.plan.end()))
	cancel()
	all.Wait()
	w.late.Wait()
	if w.breaches, err = judgeDeployment(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	return w
}

// keepRunning runs a node, with the interruptions of the plan.
func (w *deployment) keepRunning(ctx context.Context, name string) {
	for start := 1; ctx.Err() == nil; start++ {
		down, ok := w.nextDown(name)
		running, end := context.WithCancel(ctx)
		n := newNode(w, name, start)
		done := make(chan struct{})
		w.setRunning(name, n)
		go func() { n.run(running); close(done) }()
		if !ok {
			<-ctx.Done()
		} else {
			time.Sleep(time.Until(down.from))
			if down.kind == kill {
				close(n.dead)
			}
		}
		w.setRunning(name, nil)
		end()
		<-done
		if ok {
			time.Sleep(time.Until(down.to))
		}
	}
}

// setRunning records the start of a node that accepts pings; nil: none.
func (w *deployment) setRunning(name string, n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listeners[name] = n
}

// nextDown returns the next kill or stop of a node that has not ended yet.
func (w *deployment) nextDown(name string) (next fault, ok bool) {
	for _, f := range w.plan.faults {
		if (f.kind == kill || f.kind == stop) && f.node == name && f.from.After(time.Now()) && (!ok || f.from.Before(next.from)) {
			next, ok = f, true
		}
	}
	return next, ok
}

// arriveLate runs a write that its node has given up.
func (w *deployment) arriveLate(at time.Time, write func(context.Context) error) {
	w.late.Go(func() {
		time.Sleep(time.Until(at))
		if write(context.Background()) == nil {
			w.count("write took effect after its node gave it up")
		}
	})
}

// produce publishes the events of the plan.
func (w *deployment) produce() {
	queue := slices.Clone(w.plan.events)
	for len(queue) > 0 {
		e := queue[0]
		queue = queue[1:]
		time.Sleep(time.Until(e.at))
		if e.refusals > 0 {
			e.refusals--
			e.at = e.at.Add(time.Second)
			at, _ := slices.BinarySearchFunc(queue, e, func(a, b publication) int { return a.at.Compare(b.at) })
			queue = slices.Insert(queue, at, e)
			continue
		}
		for range e.copies {
			stored := w.broker.store(streamOf(e.subject), e.subject, e.subject+"/"+e.key, fmt.Appendf(nil, `{"id":%q,"low":%t}`, e.key, !e.isEnough), e.lag)
			w.sent = append(w.sent, sentEvent{stored, e.key, e.isEnough})
			w.record("broker", "%s %s is message %d of %s", e.subject, e.key, stored.Seq, stored.Stream)
		}
	}
}

// cut deletes messages.
func (w *deployment) cut() {
	for _, c := range w.plan.cuts {
		time.Sleep(time.Until(c.at))
		if c.recreates {
			w.ledger.recreated(c.stream)
		}
		d := w.broker.delete(c)
		w.cuts = append(w.cuts, d)
		w.record("plan", "stream %s is emptied, recreated: %t; %d messages", c.stream, c.recreates, len(d.events))
		w.count(fmt.Sprintf("stream emptied, recreated: %t", c.recreates))
	}
}

// recordFaults writes the begin of each fault to the story.
func (w *deployment) recordFaults() {
	for _, f := range slices.SortedFunc(slices.Values(w.plan.faults), func(a, b fault) int { return a.from.Compare(b.from) }) {
		time.Sleep(time.Until(f.from))
		w.record("plan", "%s", f)
		w.count(string(f.kind))
	}
}

// active returns a fault of a kind that now affects a node.
func (w *deployment) active(k kind, node string) (fault, bool) {
	now := time.Now()
	for _, f := range w.plan.faults {
		if f.kind == k && (f.node == "" || f.node == node) && !now.Before(f.from) && now.Before(f.to) {
			return f, true
		}
	}
	return fault{}, false
}

// delayed returns the time until which calls of a node to a server wait.
func (w *deployment) delayed(node string, to server) (until time.Time, ok bool) {
	for _, k := range []kind{pause, sleep, stalls[to]} {
		if f, is := w.active(k, node); is {
			until, ok = later(until, f.to), true
		}
	}
	return until, ok
}

// count counts something that happened.
func (w *deployment) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

// settled counts the results of a settlement.
func (w *deployment) settled(s futurejobs.Settled, err error) {
	switch {
	case err != nil:
		w.count("settlement refused")
	case len(s.Jobs) > 0:
		w.count("settlement")
	}
}

// applied counts the results of a batch of events.
func (w *deployment) applied(err error) {
	if err != nil {
		w.count("batch refused")
		return
	}
	w.count("batch applied")
}

// record adds a line to the story.
func (w *deployment) record(who, format string, args ...any) {
	line := fmt.Sprintf("%12s  %-8s %s", time.Since(w.plan.begin).Round(time.Millisecond), who, fmt.Sprintf(format, args...))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.story = append(w.story, line)
}

// log returns a log that writes to the story.
func (w *deployment) log(node string) *slog.Logger {
	return slog.New(storyHandler{deployment: w, node: node})
}

// storyHandler writes records of a node to the story.
type storyHandler struct {
	deployment *deployment
	node       string
	attrs      string
}

// Enabled implements slog.Handler.
func (storyHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// Handle implements slog.Handler.
func (h storyHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message + h.attrs)
	r.Attrs(func(a slog.Attr) bool { fmt.Fprintf(&b, " %s=%v", a.Key, a.Value); return true })
	h.deployment.record(h.node, "%s", b.String())
	return nil
}

// WithAttrs implements slog.Handler.
func (h storyHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		h.attrs += fmt.Sprintf(" %s=%v", a.Key, a.Value)
	}
	return h
}

// WithGroup implements slog.Handler.
func (h storyHandler) WithGroup(string) slog.Handler { return h }

// total adds up the counts of runs.
func total(sum, one map[string]int) {
	for k, n := range one {
		sum[k] += n
	}
}

// table returns counts as lines.
func table(counts map[string]int) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "%9d  %s\n", counts[k], k)
	}
	return b.String()
}
