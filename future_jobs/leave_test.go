package futurejobs_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// A node joins while a handler that takes five minutes runs in each shard that it is to get: jobs of other rules are
// decided meanwhile by the current holder, and the handler is called once.
func TestReleasedShardsAreReadForComputingRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := strings.Replace(fmt.Sprintf(noResolve, "slow", "slow"), "timeout: 2s", "timeout: 10m", 1)
		requested := make(chan string, 100)
		e := startEngine(t, map[string]checks.Handler{
			"slow": checks.HandlerFunc(func(ctx context.Context, c checks.Check) (checks.Answer, error) {
				requested <- c.Key
				select {
				case <-time.After(5 * time.Minute):
					return checks.Answer{Outcome: checks.Exhausted}, nil
				case <-ctx.Done():
					return checks.Answer{}, ctx.Err()
				}
			}),
		}, slow, fmt.Sprintf(noResolve, "fast", "fast"))
		var leaving []string // keys of the shards to be given away
		for i := 0; len(leaving) < 4; i++ {
			if k := fmt.Sprint("s", i); futurejobs.ShardOf("thing", k, 4) >= 2 {
				leaving = append(leaving, k)
			}
		}
		e.publish("slow.created", leaving...)
		time.Sleep(15 * time.Second) // their handlers are running

		owner, _, stop := startNode(t, e.store, e.catalog, "z", slog.New(slog.DiscardHandler))
		defer stop()
		time.Sleep(7 * time.Second)
		e.publish("fast.created", keys(40)...)
		e.publish("slow.created", "late-1", "late-2", "late-3", "late-4", "late-5", "late-6")
		time.Sleep(13 * time.Second)
		decided := 0
		for _, h := range e.ended() {
			if late := h.EndedAt.Sub(h.FirstCheckAt); h.Rule == "fast" && late <= 2*time.Second {
				decided++
			}
		}
		if decided != 40 {
			t.Errorf("%d of 40 jobs that only compute are decided within 2 s of their slot", decided)
		}
		time.Sleep(5 * time.Minute)
		if held := owner.Holding(); len(held) != 2 {
			t.Errorf("once the handlers have answered, the new node holds %v, want 2 shards", held)
		}
		time.Sleep(6 * time.Minute)
		close(requested)
		times := map[string]int{}
		for key := range requested {
			times[key]++
		}
		if len(times) != 10 {
			t.Errorf("handlers were called for %v, want 10 keys", times)
		}
		for key, n := range times {
			if n != 1 {
				t.Errorf("the handler was called %d times for %s", n, key)
			}
		}
	})
}
