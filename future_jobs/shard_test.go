package futurejobs

import (
	"fmt"
	"testing"
	"time"

	"deadman/checks"
)

// firstCursor returns the position of a shard's round of reads at now, or begins one.
func firstCursor(s *Shard, now time.Time) ShardCursor {
	recent, rest := s.nextCursor(now)
	if rest != nil {
		return *rest
	}
	return recent
}

func TestLowWaterStaysBelowJobsCreatedDuringSweep(t *testing.T) {
	s := newShard(Lease{HeldShard: HeldShard{Shard: 1, Epoch: 1}}, noon.Add(time.Hour))
	slot, now := noon, noon.Add(time.Minute)

	s.nextCursor(now)
	s.dropFinished()
	s.start(&task{rule: orderRule(), slot: slot, Decision: Decision{Job: Job{ID: 1, NextCheckAt: slot.Add(time.Hour)}}})
	s.finish(1, slot) // it could not be settled, for example; the row is unchanged
	s.dropFinished()  // of the next page, which begins after the job
	s.raiseLowWater(now)
	if at := firstCursor(s, now).At; at.After(slot) {
		t.Errorf("the next sweep begins at %s, past a job that is due at %s", at, slot)
	}

	s.dropFinished() // nothing is left this time
	s.raiseLowWater(now)
	if at, want := firstCursor(s, now).At, now.Add(-maxTxDelay); !at.Equal(want) {
		t.Errorf("the low water is at %s after a sweep that left nothing, want %s", at, want)
	}
}

// Settled rows are not read again with all other jobs of their slot: a slot of a million jobs leaves as many dead
// rows.
func TestLowWaterPassesJobsSettledWithinSlot(t *testing.T) {
	s := newShard(Lease{HeldShard: HeldShard{Shard: 1, Epoch: 1}}, noon.Add(time.Hour))
	slot, now := noon, noon.Add(time.Minute)
	s.nextCursor(now)
	for _, id := range []int64{1, 2, 3, 4} {
		s.start(&task{rule: orderRule(), slot: slot, Decision: Decision{Job: Job{ID: id, NextCheckAt: slot.Add(time.Hour)}}})
	}
	for _, step := range []struct {
		lands int64
		at    time.Time // its next due time
		want  ShardCursor
	}{
		{1, time.Time{}, ShardCursor{Shard: 1, At: slot, ID: 1}},                            // it ended, and the second is in flight
		{3, slot, ShardCursor{Shard: 1, At: slot, ID: 1}},                                   // it is unchanged
		{2, slot.Add(time.Hour), ShardCursor{Shard: 1, At: slot, ID: 3}},                    // the walk from here read the third again
		{4, slot.Add(time.Second), ShardCursor{Shard: 1, At: slot.Add(time.Second), ID: 3}}, // it continues at a slot that passed long ago
	} {
		s.finish(step.lands, step.at)
		s.dropFinished()
		s.raiseLowWater(now)
		if at := firstCursor(s, now); at != step.want {
			t.Errorf("the next sweep begins at %+v once %d is decided, want %+v", at, step.lands, step.want)
		}
	}
	s.dropFinished()
	s.raiseLowWater(now)
	if at, want := firstCursor(s, now), (ShardCursor{Shard: 1, At: now.Add(-maxTxDelay)}); at != want {
		t.Errorf("the next sweep begins at %+v where nothing is left, want %+v", at, want)
	}
}

// A shard that is to be given back waits for running handlers, as they may have side effects, and not for a slow
// source: no other job of the shard is checked meanwhile.
func TestReleasedShardDoesNotWaitForSource(t *testing.T) {
	s := newShard(Lease{HeldShard: HeldShard{Shard: 1, Epoch: 1}}, noon.Add(time.Hour))
	handled, queries := orderRule(), orderRule()
	handled.Handler, queries.Handler, queries.Finder = waitingHandler, inlineHandler{}, lookupFinder{}
	for id, rule := range map[int64]*Rule{1: handled, 2: queries} {
		s.start(&task{rule: rule, slot: noon, Decision: Decision{Job: Job{ID: id, NextCheckAt: noon}}})
	}
	late := noon.Add(maxRelease)
	for _, at := range []time.Time{noon, late} {
		if s.startRelease(at, false) {
			t.Errorf("it goes after %s, and a handler is at work", at.Sub(noon))
		}
	}
	s.finish(1, time.Time{})
	if s.startRelease(late.Add(-time.Second), false) || !s.startRelease(late, false) {
		t.Errorf("it is not given back after %s, or before", maxRelease)
	}
	s.cancelRelease()
	if !s.open(late) || s.startRelease(late, false) {
		t.Error("it does not stay, or leaves without waiting anew")
	}
	s.finish(2, time.Time{})
	if !s.startRelease(late, false) {
		t.Error("it waits for nothing")
	}
}

// lookupFinder is a source that is never queried.
type lookupFinder struct{ checks.Finder }

func TestSettlementHoldsShardAtOneEpoch(t *testing.T) {
	lost := newShard(Lease{HeldShard: HeldShard{Shard: 1, Epoch: 1}}, noon)
	back := newShard(Lease{HeldShard: HeldShard{Shard: 1, Epoch: 2}}, noon)
	decided := func(s *Shard, ruleSet, id int64) *task {
		return &task{shard: s, ruleSet: ruleSet, Decision: Decision{Job: Job{ID: id, Ref: Ref{Shard: 1}}}}
	}
	parts := splitByEpoch([]*task{decided(lost, 7, 1), decided(back, 7, 1), decided(back, 7, 2), decided(back, 8, 3)})
	if len(parts) != 2 {
		t.Errorf("%d settlements of two epochs, want 2", len(parts))
	}
	decisions := 0
	for _, p := range parts {
		st := settlement(p)
		decisions += len(st.Decisions)
		if st.RuleSet != 7 {
			t.Errorf("decisions of revisions 7 and 8 rest on %d, want the lower", st.RuleSet)
		}
		if len(st.Held) != 1 {
			t.Errorf("a settlement holds one shard as %v", st.Held)
		}
	}
	if decisions != 4 {
		t.Errorf("%d decisions, want 4", decisions)
	}
}

// A shard is swept from its beginning at once for a new holder, and then every five minutes, and the shards take
// turns.
func TestShardsAreSweptInTurn(t *testing.T) {
	for _, c := range []struct {
		shards int
		every  time.Duration // between sweeps
		most   int           // shards that one sweep may read from the beginning
	}{
		{3, time.Second, 1},
		{16, time.Second, 1},
		{16, time.Minute, 4},
		{1000, time.Second, 4},
	} {
		t.Run(fmt.Sprintf("%d every %s", c.shards, c.every), func(t *testing.T) {
			last := map[int16]time.Time{}
			var held []*Shard
			for i := range c.shards {
				held = append(held, newShard(Lease{HeldShard: HeldShard{Shard: int16(i), Epoch: 1}, LowWater: noon.Add(-time.Hour)}, noon.Add(time.Hour)))
			}
			for now := noon; now.Before(noon.Add(4 * fullScanInterval)); now = now.Add(c.every) {
				begun := 0
				if taken := newShard(Lease{HeldShard: HeldShard{Shard: 1, Epoch: 2}, LowWater: now}, now.Add(time.Hour)); !firstCursor(taken, now).At.IsZero() {
					t.Fatalf("a shard that is taken over at %s is not swept from its beginning", now)
				}
				for _, s := range held {
					before, known := last[s.Shard]
					from := firstCursor(s, now).At
					if s.raiseLowWater(now); from.IsZero() {
						last[s.Shard] = now
						begun++
					} else if !known || now.Sub(before) >= fullScanInterval+c.every {
						t.Fatalf("at %s shard %d is not swept from its beginning, last at %s", now, s.Shard, before)
					}
				}
				if now.After(noon) && begun > c.most {
					t.Errorf("at %s %d shards are swept from their beginnings, want up to %d", now, begun, c.most)
				}
			}
		})
	}
}
