package futurejobs

import (
	"testing"
	"time"

	"deadman/checks"
)

func TestTheLowWaterStaysBelowWhatLandsWhileASweepIsUnderWay(t *testing.T) {
	s := newShard(Lease{Held: Held{Shard: 1, Epoch: 1}}, noon.Add(time.Hour))
	slot, now := noon, noon.Add(time.Minute)

	s.walk(now)
	s.beginRead()
	s.takeOff(&verdict{rule: orderRule(), Decision: Decision{Job: Job{ID: 1, NextCheckAt: slot}}})
	s.land(1)     // it could not be settled, say; the row stands as it was
	s.beginRead() // of the next page, which begins after the job
	s.raise(now)
	if at := s.walk(now).At; at.After(slot) {
		t.Errorf("the next sweep begins at %s, past a job that is due at %s", at, slot)
	}

	s.beginRead() // nothing is left this time
	s.raise(now)
	if at, want := s.walk(now).At, now.Add(-settleIn); !at.Equal(want) {
		t.Errorf("the low water is at %s after a sweep that left nothing, want %s", at, want)
	}
}

// A shard that is to be given back waits for what a handler does, which may have effects, and not
// for a source that takes long: nobody looks at the other jobs of the shard meanwhile.
func TestAShardThatLeavesWaitsForNoSource(t *testing.T) {
	s := newShard(Lease{Held: Held{Shard: 1, Epoch: 1}}, noon.Add(time.Hour))
	handled, asks := orderRule(), orderRule()
	handled.Handler, asks.Handler, asks.Finder = asking, computing{}, lookedUp{}
	for id, rule := range map[int64]*Rule{1: handled, 2: asks} {
		s.takeOff(&verdict{rule: rule, Decision: Decision{Job: Job{ID: id, NextCheckAt: noon}}})
	}
	late := noon.Add(leavingMost)
	for _, at := range []time.Time{noon, late} {
		if s.leave(at) {
			t.Errorf("it goes after %s, and a handler is at work", at.Sub(noon))
		}
	}
	s.land(1)
	if s.leave(late.Add(-time.Second)) || !s.leave(late) {
		t.Errorf("it is not given back after %s, or before", leavingMost)
	}
	s.stay()
	if !s.open(late) || s.leave(late) {
		t.Error("it does not stay, or leaves without waiting anew")
	}
	s.land(2)
	if !s.leave(late) {
		t.Error("it waits for nothing")
	}
}

// lookedUp stands for a source that nobody asks.
type lookedUp struct{ checks.Finder }

func TestASettlementHoldsAShardAtOneEpoch(t *testing.T) {
	lost := newShard(Lease{Held: Held{Shard: 1, Epoch: 1}}, noon)
	back := newShard(Lease{Held: Held{Shard: 1, Epoch: 2}}, noon)
	decided := func(s *Shard, ruleSet, id int64) *verdict {
		return &verdict{shard: s, ruleSet: ruleSet, Decision: Decision{Job: Job{ID: id, Ref: Ref{Shard: 1}}}}
	}
	parts := apart([]*verdict{decided(lost, 7, 1), decided(back, 7, 1), decided(back, 7, 2), decided(back, 8, 3)})
	if len(parts) != 3 {
		t.Errorf("%d settlements of two epochs and two rule sets, want 3", len(parts))
	}
	decisions := 0
	for _, p := range parts {
		st := settlement(p)
		decisions += len(st.Decisions)
		if len(st.Held) != 1 {
			t.Errorf("a settlement holds one shard as %v", st.Held)
		}
	}
	if decisions != 4 {
		t.Errorf("%d decisions, want 4", decisions)
	}
}
