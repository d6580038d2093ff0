package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/faults"
)

// drawAlertsLost deletes or purges the stream of alerts while alerts are raised. Then a client republishes the alerts
// of the database. Mostly the stream is full meanwhile: alerts wait and are published after the republished ones.
func drawAlertsLost(s *scenario, random *rand.Rand) {
	s.nodes = [][]string{nodePlan(random)}
	if random.IntN(2) == 0 {
		place := relayFailpoints[random.IntN(len(relayFailpoints))]
		s.nodes = [][]string{{seeded(random, fmt.Sprintf("%s=kill@%d;%s", place, 1+random.IntN(20), slow(random)))}}
	}
	s.addNode(random, 2)
	var loss faults.Loss
	full, deleted := random.IntN(4) > 0, s.seed%2 == 0
	s.stage = func(a *testbed, _ *rand.Rand) {
		a.makeAlerts(10 * time.Second) // duplicate window in which purged alerts are rejected
		a.play = func() { a.publishOrders(200, 30*time.Millisecond) }
		exactly, overtakes := a.model, 0
		a.model = func(ctx context.Context) (err error) {
			overtakes, err = a.Republished(ctx, loss)
			if err == nil && full && overtakes == 0 {
				err = errors.New("the run proves nothing: no alert waited behind one that was lost")
			}
			return errors.Join(exactly(ctx), err)
		}
		a.Cleanup(func() {
			a.Logf("full %v, deleted %v: %d alerts were lost, and %d rules and keys had later ones", full, deleted, len(loss.Alerts), overtakes)
		})
	}
	s.upset = func(a *testbed, random *rand.Rand) {
		a.alerts(10+random.Uint64N(80), time.Minute)
		loss = faults.Loss{Deleted: deleted, Full: full}
		if full {
			a.record("the stream of alerts is full")
			a.fillAlerts(1)
			pause(span(random, 1500*time.Millisecond, 3*time.Second))
		}
		a.loseAlerts(&loss)
		pause(span(random, 0, 500*time.Millisecond))
		a.republish()
		a.CameBack = true
		if full {
			pause(span(random, 500*time.Millisecond, time.Second)) // so that publishes in progress are rejected
			a.record("the stream of alerts has room")
			a.fillAlerts(-1)
		}
	}
}

// alerts waits until the stream of alerts has n alerts.
func (a *testbed) alerts(n uint64, within time.Duration) {
	a.Helper()
	deadline := time.Now().Add(within)
	for {
		info, err := a.alertStream()
		if err == nil && info.State.Msgs >= n {
			return
		}
		if time.Now().After(deadline) {
			a.Errorf("the stream of alerts does not come to %d: %v", n, err)
			return
		}
		pause(20 * time.Millisecond)
	}
}

func (a *testbed) alertStream() (*jetstream.StreamInfo, error) {
	stream, err := a.jetStream().Stream(a.Context(), "DEADMAN_ALERTS")
	if err != nil {
		return nil, err
	}
	return stream.CachedInfo(), nil
}

// fillAlerts sets the maximum size of the stream of alerts; one byte allows none.
func (a *testbed) fillAlerts(limit int64) {
	a.Helper()
	info, err := a.alertStream()
	if err == nil {
		info.Config.MaxBytes = limit
		_, err = a.jetStream().UpdateStream(a.Context(), info.Config)
	}
	a.checkErr(err)
}

// loseAlerts deletes or purges the stream of alerts and records the loss. A full stream is full afterwards, too.
func (a *testbed) loseAlerts(l *faults.Loss) {
	a.Helper()
	published, err := a.Stream(a.Context())
	if err != nil {
		a.Error(err)
		return
	}
	l.Alerts = map[string]bool{}
	for _, s := range published {
		l.Alerts[s.ID] = true
	}
	stream, err := a.jetStream().Stream(a.Context(), "DEADMAN_ALERTS")
	if err != nil {
		a.Error(err)
		return
	}
	if a.record("the stream of alerts with %d alerts is lost; deleted: %v", len(published), l.Deleted); !l.Deleted {
		a.checkErr(stream.Purge(a.Context()))
	} else if a.checkErr(a.jetStream().DeleteStream(a.Context(), "DEADMAN_ALERTS")); l.Full {
		_, err := a.jetStream().CreateOrUpdateStream(a.Context(), stream.CachedInfo().Config)
		a.checkErr(err)
	}
	if l.Full {
		info, err := a.alertStream()
		if a.checkErr(err); err == nil {
			l.Kept = info.State.LastSeq
		}
	}
}

// republish makes a node republish all alerts, as an operator does.
func (a *testbed) republish() {
	a.Helper()
	body := fmt.Sprintf(`{"since": %q}`, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
	for range 100 {
		var answer struct{ Alerts int }
		err := a.call(http.MethodPost, "/api/v1/alerts/republish", "application/json", body, &answer)
		if err == nil {
			a.record("%d alerts are published again", answer.Alerts)
			return
		}
		a.record("publish again: %v", err) // the node may be dead
		pause(100 * time.Millisecond)
	}
	a.Error("no node publishes the alerts again")
}
