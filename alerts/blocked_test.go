package alerts_test

import (
	"log/slog"
	"strings"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"deadman/alerts"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/testwait"
)

// restrictedBroker is a broker that denies its user some subjects.
type restrictedBroker struct {
	t      *testing.T
	server *natsserver.Server
	opts   *natsserver.Options
}

func newRestrictedBroker(t *testing.T, denied string) *restrictedBroker {
	t.Helper()
	g := &restrictedBroker{t: t, opts: bustest.Options(t)}
	g.opts.Users = g.users(denied)
	g.server = bustest.Serve(t, g.opts)
	return g
}

func (g *restrictedBroker) users(denied string) []*natsserver.User {
	return []*natsserver.User{{Username: "deadman", Password: "secret", Permissions: &natsserver.Permissions{
		Publish:   &natsserver.SubjectPermission{Allow: []string{">"}, Deny: []string{denied}},
		Subscribe: &natsserver.SubjectPermission{Allow: []string{">"}},
	}}}
}

func (g *restrictedBroker) setOptions(o *bus.Options) {
	o.URL = bustest.As(g.server, "deadman")
}

// deny replaces the denied subject, as an operator would.
func (g *restrictedBroker) deny(subject string) {
	g.t.Helper()
	changed := g.opts.Clone()
	changed.Users = g.users(subject)
	if err := g.server.ReloadOptions(changed); err != nil {
		g.t.Fatal(err)
	}
}

// waiting counts the unpublished alerts by rule.
func (w *relayFixture) waiting() map[string]int {
	by := make(map[string]int)
	for _, a := range w.unpublished() {
		by[a.Rule]++
	}
	return by
}

// More alerts of one rule are rejected than fit into a batch. Alerts of other rules are still published; the rejected
// ones follow once they are permitted.
func TestRefusedAlertsAreSkipped(t *testing.T) {
	g := newRestrictedBroker(t, "deadman.alerts.late.>")
	w := newRelayFixtureOf(t, 1, g.setOptions) // all of them in one lane
	w.raise(3000)
	w.saveRule("fine")
	w.raise(10)
	recorded := &logRecorder{}
	relay := alerts.NewRelay(w.store, w.bus.AlertPublisher, w.shards, slog.New(recorded))
	w.run(relay)
	testwait.Until(t, "every alert except late is published", func() bool { return w.isDrainedExcept("late") })
	w.raise(10)
	relay.Wake()
	testwait.Until(t, "a later alert is published", func() bool { return w.isDrainedExcept("late") })
	if n := w.waiting()["late"]; n != 3000 {
		t.Errorf("%d alerts wait for a blocked channel, want 3000", n)
	}
	if err := relay.Err(); err == nil || !strings.Contains(err.Error(), "publish on deadman.alerts.>") {
		t.Errorf("the error does not name the permission: %v", err)
	}
	g.deny("nothing")
	testwait.Until(t, "all are published", func() bool { return w.isDrained() && relay.Err() == nil })
	if n := len(w.receive(3020)); n != 3020 {
		t.Errorf("%d alerts are in the stream", n)
	}
	recorded.checkErrors(t, "publish on deadman.alerts.>")
}

// A few rejected alerts are large enough to fill a read by their bytes. Alerts of other rules are still published.
func TestLargeRefusedAlertsAreSkipped(t *testing.T) {
	w := newRelayFixtureOf(t, 1, newRestrictedBroker(t, "deadman.alerts.late.>").setOptions)
	w.text = strings.Repeat("x", 250<<10)
	w.raise(80)
	w.text = ""
	w.saveRule("fine")
	w.raise(10)
	w.run(alerts.NewRelay(w.store, w.bus.AlertPublisher, w.shards, discardLog()))
	testwait.Until(t, "every alert except late is published", func() bool { return w.isDrainedExcept("late") })
}

// Rejected alerts block only those behind them in their line of rule and key, even across many batches.
func TestRefusedAlertKeepsItsPlace(t *testing.T) {
	g := newRestrictedBroker(t, "deadman.alerts.*.critical.>")
	w := newRelayFixtureOf(t, 1, g.setOptions)
	w.raise(1200)
	held := w.jobs()[:3]
	w.settleAgain("critical", held...)
	w.settleAgain("warning", held...) // behind the rejected ones
	relay := alerts.NewRelay(w.store, w.bus.AlertPublisher, w.shards, discardLog())
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
	w.run(alerts.NewRelay(w.store, w.bus.AlertPublisher, w.shards, discardLog()))
	testwait.Until(t, "all are published", w.isDrained)
	last := make(map[string]alerts.Severity)
	for _, a := range w.follow(1206) {
		last[a.Key] = a.Severity
	}
	for _, j := range held {
		if last[j.Key] != alerts.Warning {
			t.Errorf("the last alert of %s is an earlier one: %s", j.Key, last[j.Key])
		}
	}
}
