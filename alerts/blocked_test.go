package alerts_test

import (
	"log/slog"
	"strings"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"deadman/alerts"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
)

// guarded is a broker that denies its user some subjects.
type guarded struct {
	t      *testing.T
	server *natsserver.Server
	opts   *natsserver.Options
}

func newGuarded(t *testing.T, denied string) *guarded {
	t.Helper()
	g := &guarded{t: t, opts: bustest.Options(t)}
	g.opts.Users = g.users(denied)
	g.server = bustest.Serve(t, g.opts)
	return g
}

func (g *guarded) users(denied string) []*natsserver.User {
	return []*natsserver.User{{Username: "deadman", Password: "secret", Permissions: &natsserver.Permissions{
		Publish:   &natsserver.SubjectPermission{Allow: []string{">"}, Deny: []string{denied}},
		Subscribe: &natsserver.SubjectPermission{Allow: []string{">"}},
	}}}
}

func (g *guarded) at(o *bus.Options) {
	o.URL = bustest.As(g.server, "deadman")
}

// deny replaces the denied subject, as an operator would.
func (g *guarded) deny(subject string) {
	g.t.Helper()
	changed := g.opts.Clone()
	changed.Users = g.users(subject)
	if err := g.server.ReloadOptions(changed); err != nil {
		g.t.Fatal(err)
	}
}

// waiting counts the unpublished alerts by rule.
func (w *world) waiting() map[string]int {
	by := make(map[string]int)
	for _, a := range w.unpublished() {
		by[a.Rule]++
	}
	return by
}

// More alerts of one rule are rejected than fit into a batch. Alerts of other rules are still published; the rejected
// ones follow once they are permitted.
func TestRefusedAlertsAreSkipped(t *testing.T) {
	g := newGuarded(t, "deadman.alerts.late.>")
	w := newWorldOf(t, 1, g.at) // all of them in one lane
	w.decide(3000)
	w.of("fine")
	w.decide(10)
	said := &levels{}
	relay := alerts.NewRelay(w.store, w.bus.AlertPublisher, w.shards, slog.New(said))
	w.run(relay)
	eventually(t, "every alert except late is published", func() bool { return w.isDrainedExcept("late") })
	w.decide(10)
	relay.Wake()
	eventually(t, "a later alert is published", func() bool { return w.isDrainedExcept("late") })
	if n := w.waiting()["late"]; n != 3000 {
		t.Errorf("%d alerts wait that may not be said, want 3000", n)
	}
	if err := relay.Err(); err == nil || !strings.Contains(err.Error(), "publish on deadman.alerts.>") {
		t.Errorf("it says not what to grant: %v", err)
	}
	g.deny("nothing")
	eventually(t, "all are published", func() bool { return w.isDrained() && relay.Err() == nil })
	if n := len(w.heard(3020)); n != 3020 {
		t.Errorf("%d alerts are in the stream", n)
	}
	if n := said.errors.Load(); n != 1 {
		t.Errorf("one denial was said %d times", n)
	}
}

// Rejected alerts block only those behind them in their line of rule and key, even across many batches.
func TestARefusedAlertKeepsItsPlace(t *testing.T) {
	g := newGuarded(t, "deadman.alerts.*.critical.>")
	w := newWorldOf(t, 1, g.at)
	w.decide(1200)
	held := w.jobs()[:3]
	w.again("critical", held...)
	w.again("warning", held...) // behind the rejected ones
	relay := alerts.NewRelay(w.store, w.bus.AlertPublisher, w.shards, quietly())
	for more := true; more; {
		var err error
		if more, err = relay.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := relay.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := w.unpublished()
	if len(left) != 6 {
		t.Fatalf("%d alerts wait, want those refused and those behind them", len(left))
	}
	g.deny("nothing")
	if _, err := relay.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(w.unpublished()); n != 6 {
		t.Errorf("%d wait: what was refused is tried again with each batch", n)
	}
	w.run(alerts.NewRelay(w.store, w.bus.AlertPublisher, w.shards, quietly()))
	eventually(t, "all are published", w.isDrained)
	last := make(map[string]alerts.Severity)
	for _, a := range w.follow(1206) {
		last[a.Key] = a.Severity
	}
	for _, j := range held {
		if last[j.Key] != alerts.Warning {
			t.Errorf("of %s comes last what was said before: %s", j.Key, last[j.Key])
		}
	}
}
