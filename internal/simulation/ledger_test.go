package simulation_test

import (
	"fmt"
	"slices"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// ledger is what the database accepted from the nodes, in the order of the commits. It checks the promises that the lists at the
// end do not show: who may decide (P5), and what a batch of events or a mark follows (P1). It uses the arguments and results of the
// calls only.
type ledger struct {
	*deployment
	*turns
	now      time.Time // of the write that is recorded
	isTrial  bool      // a copy, to try an order of writes
	grants   map[int16]grant
	decided  map[check]int  // number of the last check
	ends     map[int64]bool // jobs that ended
	cursors  map[string]uint64
	opened   map[string]bool          // streams that were seen by a node
	unseen   map[string]time.Time     // when a stream was created again before that
	replaced map[string]bool          // streams that were created again, until their cursors are moved
	rules    map[string]history       // by name
	acked    map[int64]acknowledged   // by job
	ticks    map[string][]tick        // applied, by rule
	emitted  []emission               // in the order of their stream
	signals  map[string][]*sentPing   // in the order of their commits, by key
	holdings map[storedTick]time.Time // end of the hold of planned ticks
	reports  []report                 // events of stored schedules, in the order of their stream
	breaches []string
}

// earlyMost is how early a decision may be by the drift of a node's clock.
const earlyMost = 20 * time.Millisecond

// check identifies the checks of a job since its begin. A heartbeat is a new begin.
type check struct {
	job   int64
	since time.Time
}

// grant is the lease of a shard.
type grant struct {
	futurejobs.HeldShard
	node  string // empty: free
	until time.Time
}

func newLedger(w *deployment, overlaps bool) *ledger {
	return &ledger{
		deployment: w, turns: newTurns(overlaps), grants: make(map[int16]grant), decided: make(map[check]int), ends: make(map[int64]bool),
		cursors: make(map[string]uint64), opened: make(map[string]bool), unseen: make(map[string]time.Time), replaced: make(map[string]bool), rules: make(map[string]history), acked: make(map[int64]acknowledged), ticks: make(map[string][]tick),
		holdings: make(map[storedTick]time.Time), signals: make(map[string][]*sentPing),
	}
}

func (l *ledger) breach(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.breaches = append(l.breaches, fmt.Sprintf("at %s: ", time.Since(l.plan.begin))+text)
	l.record("ledger", "BREACH: %s", text)
}

// holds reports whether a node may write with a lease now.
func (l *ledger) holds(node string, of futurejobs.HeldShard) bool {
	g := l.grants[of.Shard]
	return g.node == node && g.HeldShard == of && l.now.Before(g.until)
}

// took records that a node took a shard.
func (l *ledger) took(node string, of futurejobs.HeldShard, lease time.Duration) {
	was := l.grants[of.Shard]
	if was.node != "" && l.now.Before(was.until) {
		l.breach("%s takes shard %d, which %s holds until %s", node, of.Shard, was.node, was.until.Sub(l.plan.begin))
	}
	if of.Epoch <= was.Epoch {
		l.breach("%s takes shard %d at epoch %d, after epoch %d", node, of.Shard, of.Epoch, was.Epoch)
	}
	if was.node != "" {
		l.count("shard taken after the lease of another node expired")
	}
	l.grants[of.Shard] = grant{of, node, l.now.Add(lease)}
}

// renewed records that a node renewed its leases.
func (l *ledger) renewed(node string, sent []futurejobs.Lease, kept []futurejobs.HeldShard, lease time.Duration) {
	if len(kept) < len(sent) {
		l.count("renewal refused")
	}
	for _, of := range kept {
		if !l.holds(node, of) {
			l.breach("%s renews shard %d at epoch %d without its lease", node, of.Shard, of.Epoch)
		}
		l.grants[of.Shard] = grant{of, node, l.now.Add(lease)}
	}
}

// released records that a node gave shards back, or that its lease was ended.
func (l *ledger) released(node string, all ...futurejobs.Lease) {
	for _, of := range all {
		if g := l.grants[of.Shard]; g.node == node && g.HeldShard == of.HeldShard {
			l.grants[of.Shard] = grant{HeldShard: of.HeldShard}
		}
	}
}

// settled records a settlement.
func (l *ledger) settled(node string, s futurejobs.Settlement, got futurejobs.Settled) {
	held := make(map[int16]futurejobs.HeldShard)
	for _, of := range s.Held {
		held[of.Shard] = of
	}
	for _, d := range s.Decisions {
		if !got.Jobs[d.Job.ID] {
			if l.holds(node, held[d.Job.Shard]) {
				l.count("decision refused: the job has changed")
			}
			continue
		}
		if !l.holds(node, held[d.Job.Shard]) {
			l.breach("%s decides about job %d without the lease of shard %d at epoch %d", node, d.Job.ID, d.Job.Shard, held[d.Job.Shard].Epoch)
		}
		for _, a := range d.Alerts {
			if early := a.Slot.Sub(l.now); early > earlyMost {
				l.breach("%s decides an alert of %s %s %s before its slot", node, a.Rule, a.Key, early)
			}
			if by, ok := l.acked[d.Job.ID]; ok && a.Status == alerts.Firing {
				l.breach("%s decides an alert of %s %s, which was acknowledged at %s", node, a.Rule, a.Key, by.at.Sub(l.plan.begin))
			}
			if gone, ok := l.rules[a.Rule].deletion(); ok {
				l.breach("%s decides an alert of %s %s, which was deleted at %s", node, a.Rule, a.Key, gone.ackedBefore.Sub(l.plan.begin))
			}
		}
		is := check{d.Job.ID, d.Job.Since}
		switch last := l.decided[is]; {
		case l.ends[d.Job.ID]:
			l.breach("%s decides about job %d, which has ended", node, d.Job.ID)
		case d.Job.CheckAttempts <= last && !d.Ends():
			l.breach("check %d of job %d is decided twice", d.Job.CheckAttempts, d.Job.ID)
		}
		l.decided[is], l.ends[d.Job.ID] = d.Job.CheckAttempts, d.Ends()
	}
	if len(got.Lost) > 0 {
		l.count("settlement refused: its node had lost the shard")
	}
}

// applied records a batch of events.
func (l *ledger) applied(node string, b futurejobs.EffectBatch) {
	if b.Stream == "" {
		return
	}
	if at := l.cursors[b.Stream]; at != b.After {
		l.breach("%s applies events %d to %d of %s after event %d", node, b.After+1, b.Last, b.Stream, at)
	}
	l.cursors[b.Stream] = b.Last
	l.ticked(node, b)
	for _, e := range b.Effects {
		if _, is := e.Action.(futurejobs.Start); !is {
			continue
		}
		h := l.rules[e.Rule.Name]
		if last := h[len(h)-1]; !last.starts() || last.version != e.Rule.Version {
			l.breach("%s starts a job by version %d of %s, after a change to version %d, paused: %t, deleted: %t", node, e.Rule.Version, e.Rule.Name, last.version, last.isPaused, last.isGone)
		}
	}
}

// reset records that a cursor moved to another stream.
func (l *ledger) reset(node string, old, to futurejobs.Cursor) {
	if at := l.cursors[old.Stream]; at != old.LastSeq {
		l.breach("%s moves the cursor of %s from event %d, it is at event %d", node, old.Stream, old.LastSeq, at)
	}
	l.cursors[old.Stream] = to.LastSeq
	delete(l.replaced, old.Stream)
}

// open records that a node opened a cursor. The first one determines where it begins.
func (l *ledger) open(c futurejobs.Cursor) {
	if !l.opened[c.Stream] {
		l.opened[c.Stream], l.cursors[c.Stream] = true, c.LastSeq
	}
}

// recreated records that a stream was created again.
func (l *ledger) recreated(name string) {
	l.begin()(nil, func(l *ledger) {
		if l.replaced[name] = true; !l.opened[name] {
			l.count("stream recreated before a node saw it")
			l.unseen[name] = l.now
		}
	})
}

// marked records that a stream is marked as read through a time: no event of the stream up to it is left to apply.
func (l *ledger) marked(node, name string, through time.Time) {
	l.broker.mu.Lock()
	defer l.broker.mu.Unlock()
	s := l.broker.streams[name]
	isLeft := func(m message) bool {
		return m.Seq > l.cursors[name] && !m.At.After(through) && slices.Contains(l.plan.subjects(), m.Subject)
	}
	if !l.replaced[name] && slices.ContainsFunc(s.messages, isLeft) {
		l.breach("%s marks %s as read through %s, events after %d are left", node, name, through.Sub(l.plan.begin), l.cursors[name])
	}
}
