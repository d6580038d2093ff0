package scheduler_test

import (
	"sync/atomic"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/scheduler"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
)

// Ticks beyond a quota wait, those of a paused rule, too, and no schedule or rule is left out for ever. Rules without a quota
// do not wait.
func TestStoredTicksWaitForTheirQuota(t *testing.T) {
	t.Parallel()
	for name, o := range databases(12) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, o(t))
			const paused, free = "name: reports-paused\nentity: report\nenabled: false\ntrigger: {schedule: \"@stored\", emit: {subject: reports.due}}\n",
				"name: zenith\nentity: report\ntrigger: {schedule: \"@stored\", emit: {subject: reports.due}}\n"
			of := []int32{w.save(reports).RuleID, w.save(paused).RuleID}
			zenith := w.save(free).RuleID
			var quotas access.Quotas
			quotas.Set([]access.Quota{{Prefix: "reports", Set: map[access.Limited]int64{access.LimitEvents: 20}}}, 0)
			var admitted, refused atomic.Int64
			w.stored(func(s *scheduler.Stored) {
				s.Allow = func(rule string) scheduler.Allowance {
					if !quotas.Covers(rule) {
						return nil
					}
					return func(bytes int, now time.Time) time.Duration {
						wait, err := quotas.Publish(rule, bytes, now)
						if bytes < len("reports.due") {
							t.Errorf("%d bytes are counted for an event", bytes)
						}
						if err == nil {
							admitted.Add(1)
							return 0
						}
						refused.Add(1)
						return wait
					}
				}
			})
			all := everySecond(60)
			w.put("reports", all...)
			w.put("reports-paused", everySecond(60)...)
			w.put("zenith", everySecond(60)...)
			decided := func(rule int32) (schedules, ticks int64, waiting bool) {
				for _, s := range all {
					page, err := w.store.ScheduleTicks(t.Context(), futurejobs.ScheduleRef{RuleID: rule, ID: s.ID}, futurejobs.TickFilter{Limit: 500})
					if err != nil {
						t.Fatal(err)
					}
					if n := len(page.Items); n > 0 {
						schedules, ticks, waiting = schedules+1, ticks+int64(n), waiting || page.Items[0].Missed > 0
					}
				}
				return schedules, ticks, waiting
			}
			for _, rule := range append(of, zenith) {
				w.eventually("each schedule has ticks", func() bool { n, _, _ := decided(rule); return n == 60 })
			}
			w.eventually("ticks are missed while they wait", func() bool { _, _, waiting := decided(of[0]); return waiting })
			var ticks int64
			for _, rule := range of {
				_, n, _ := decided(rule)
				ticks += n
			}
			if n := admitted.Load(); ticks > n || refused.Load() == 0 {
				t.Errorf("%d ticks are decided, %d were admitted and %d refused", ticks, n, refused.Load())
			}
		})
	}
}

// Ticks that wait for a quota take turns, the oldest first, whichever shard they are in.
func TestWaitingStoredTicksTakeTurns(t *testing.T) {
	t.Parallel()
	w := newFixture(t, store.Options{DataDir: storetest.DataDir(t), Shards: 4})
	rule := w.save(reports)
	all := everySecond(8)
	w.put("reports", all...)
	w.stored(func(s *scheduler.Stored) {
		var last time.Time // of the rounds, each of which has one unit
		s.Allow = func(string) scheduler.Allowance {
			return func(_ int, now time.Time) time.Duration {
				if now.Equal(last) {
					return time.Nanosecond
				}
				last = now
				return 0
			}
		}
	})
	w.eventually("each schedule ticks, one in a round", func() bool {
		for _, s := range all {
			got, err := w.store.Schedule(t.Context(), futurejobs.ScheduleRef{RuleID: rule.RuleID, ID: s.ID})
			if err != nil {
				t.Fatal(err)
			}
			if got.LastAt.IsZero() {
				return false
			}
		}
		return true
	})
}
