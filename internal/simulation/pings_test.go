package simulation_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/pings"
	"deadman/rules"
)

// plannedPing is a ping that a program sends. If a node refuses it or does not answer, the program tries the next one.
type plannedPing struct {
	at   time.Time
	key  string
	kind rules.Signal
	node int // the first one that it tries
}

// sentPing is an attempt to send a ping to a node.
type sentPing struct {
	plannedPing
	node     string // one start of it
	sent     time.Time
	stamp    time.Time // the node's time of the ping
	ended    bool      // the node has answered, or has ended
	answered time.Time // with OK; zero: it was not, or the program did not get the answer
	commit   time.Time // by the ledger; zero: none
}

// The bounds of pings.
const (
	pingTries   = 3
	pingTimeout = 5 * time.Second
)

// drawPings draws a rule with heartbeats that come as pings, and is deleted at last.
func (p *plan) drawPings(r *rand.Rand) {
	if r.IntN(3) > 0 {
		return
	}
	rule := p.drawHeartbeatRule(r)
	rule.name, rule.beats.arePings = "pings", true
	if r.IntN(2) == 0 {
		rule.beats.max = ms(r, 3*time.Second, 20*time.Second).Truncate(time.Second)
	}
	for _, key := range rule.beats.keys {
		for at := p.begin.Add(ms(r, time.Second, 20*time.Second)); at.Before(p.begin.Add(faultyFor)); {
			kind := []rules.Signal{rules.Success, rules.Success, rules.Success, rules.Success, rules.Success, rules.Begun, rules.Begun, rules.Failure}[r.IntN(8)]
			p.pings = append(p.pings, plannedPing{at, key, kind, r.IntN(len(p.nodes))})
			if kind == rules.Begun && r.IntN(4) > 0 {
				at = at.Add(ms(r, 50*time.Millisecond, rule.beats.every))
				continue
			}
			at = at.Add(rule.drawInterval(r, at))
		}
	}
	slices.SortStableFunc(p.pings, func(a, b plannedPing) int { return a.at.Compare(b.at) })
	for range r.IntN(3) {
		p.faults = append(p.faults, p.drawPingFault(r))
	}
	gone := p.begin.Add(faultyFor)
	for _, c := range p.changes {
		gone = later(gone, c.at)
	}
	p.withPings = append(p.withPings, rule)
	p.changes = append(p.changes, change{at: gone.Add(ms(r, 0, time.Minute)), kind: deletes, rule: rule})
}

// drawPingFault draws a fault that begins while a ping, its write or its answer is on its way.
func (p *plan) drawPingFault(r *rand.Rand) fault {
	sent := p.pings[r.IntN(len(p.pings))]
	f := fault{from: sent.at.Add(ms(r, 0, 9*time.Millisecond)), node: p.nodes[sent.node]}
	f.to = f.from.Add(ms(r, 200*time.Millisecond, 12*time.Second))
	switch r.IntN(6) {
	case 0, 1:
		f.kind = kill
	case 2:
		f.kind = stop
	case 3:
		f.kind, f.share = fails[database], 1
	case 4:
		f.kind = hang
	default:
		f.kind = pause
	}
	return f
}

// sendPings sends the pings of a key, one after the other.
func (w *deployment) sendPings(key string) {
	for _, p := range w.plan.pings {
		if p.key != key {
			continue
		}
		time.Sleep(time.Until(p.at))
		for try := range pingTries {
			if n := w.listening(p, p.node+try); n != nil && w.sendPing(n, p) {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// listening returns a node that accepts a ping; nil: it does not run, or has not answered another ping of the key.
func (w *deployment) listening(p plannedPing, i int) *node {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.listeners[w.plan.nodes[i%len(w.plan.nodes)]]
	if n == nil || n.clock.Now().IsZero() {
		return nil
	}
	if slices.ContainsFunc(w.pinged, func(s *sentPing) bool { return s.key == p.key && s.node == n.id() && !s.ended }) {
		return nil
	}
	return n
}

// sendPing sends a ping to a node, and reports whether the node answered with OK in time.
func (w *deployment) sendPing(n *node, p plannedPing) bool {
	s := &sentPing{plannedPing: p, node: n.id(), sent: time.Now()}
	w.mu.Lock()
	w.pinged = append(w.pinged, s)
	w.mu.Unlock()
	answer := make(chan error, 1)
	w.late.Go(func() { answer <- n.ping(s) })
	timeout := time.NewTimer(pingTimeout)
	defer timeout.Stop()
	select {
	case err := <-answer:
		w.record("program", "pings %s of %s to %s: %v", p.kind, p.key, s.node, err)
		if err != nil {
			w.count("ping refused, or its answer lost")
			return false
		}
		w.count("ping: " + string(p.kind))
		w.mu.Lock()
		defer w.mu.Unlock()
		s.answered = time.Now()
		return true
	case <-timeout.C:
		w.count("ping without an answer in time")
		w.record("program", "pings %s of %s to %s without an answer", p.kind, p.key, s.node)
		return false
	}
}

// ping takes in a ping, as package server does, and returns its answer. The way there and back takes time, and a node may die
// meanwhile.
func (n *node) ping(s *sentPing) error {
	defer func() {
		n.deployment.mu.Lock()
		defer n.deployment.mu.Unlock()
		s.ended = true
	}()
	ctx, l := context.Background(), n.luck("Ping "+s.key)
	if err := n.sleep(ctx, l.between(100*time.Microsecond, 3*time.Millisecond)); err != nil {
		return err
	}
	if err := n.awake(ctx); err != nil {
		return err
	}
	r := *n.pings // shares the queue
	r.Now = func() time.Time { s.stamp = n.clock.Now(); return s.stamp }
	rule := n.deployment.plan.withPings[0].name
	id := int32(slices.IndexFunc(n.deployment.plan.saved(), func(r orderRule) bool { return r.name == rule }) + 1)
	err := r.Receive(ctx, pings.Ping{Target: pings.Target{Rule: rule, RuleID: id, Key: s.key}, Signal: pings.Signal{Kind: s.kind}})
	if err != nil {
		if !pings.ErrorInfoOf(err).IsClientError() {
			n.gapDetector.MarkMissed()
		}
		return err
	}
	if err := n.awake(ctx); err != nil {
		return err
	}
	return n.sleep(ctx, l.between(100*time.Microsecond, 3*time.Millisecond))
}

// awake waits while the node stands still.
func (n *node) awake(ctx context.Context) error {
	for _, k := range []kind{pause, sleep} {
		if f, ok := n.deployment.active(k, n.node); ok {
			if err := n.gate.sleep(ctx, time.Until(f.to)); err != nil {
				return err
			}
		}
	}
	return nil
}

// pingClient is the database as the pings of a node see it.
type pingClient struct{ databaseClient }

var _ pings.EffectStore = pingClient{}

// Apply implements pings.EffectStore.
func (d pingClient) Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error) {
	of := d.deployment.waiting(d.id(), b)
	return call(ctx, d.gate, database, fmt.Sprint("Apply pings of ", b.Effects[0].Ref.Key), func(ctx context.Context) (futurejobs.ApplyResult, error) {
		end := d.ledger().begin()
		result, err := d.store.Apply(ctx, b)
		end(err, func(l *ledger) { l.hasPings(d.id(), of) })
		return result, err
	})
}

// waiting returns the pings that a batch applies: the one of each key that its node has not answered.
func (w *deployment) waiting(node string, b futurejobs.EffectBatch) (of []*sentPing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range b.Effects {
		for _, s := range w.pinged {
			if s.node == node && s.key == e.Ref.Key && !s.ended {
				of = append(of, s)
			}
		}
	}
	return of
}

// hasPings records that the database has pings.
func (l *ledger) hasPings(node string, of []*sentPing) {
	for _, s := range of {
		if !s.commit.IsZero() {
			l.breach("%s applies the ping of %s of %s twice", node, s.key, s.sent.Sub(l.plan.begin))
		}
		if !l.isTrial {
			s.commit = l.now.Truncate(time.Microsecond)
			l.signals[s.key] = append(l.signals[s.key], s)
			l.deployment.record(node, "has %s of %s", s.kind, s.key)
		}
	}
}

// pingLog is the log of pings as a node sees it.
type pingLog struct {
	pings.Store
	*gate
}

// LogPings implements pings.Store.
func (p pingLog) LogPings(ctx context.Context, entries []pings.Entry) error {
	return run(ctx, p.gate, database, "LogPings", func(ctx context.Context) error { return p.Store.LogPings(ctx, entries) })
}

// pingObserver ignores pings: the ledger sees them.
type pingObserver struct{}

// Pinged implements pings.Observer.
func (pingObserver) Pinged(futurejobs.ApplyResult) {}
