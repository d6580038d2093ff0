package futurejobs_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// residentMB returns the memory of the process, in MB; 0 if the system does not report it.
func residentMB() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize()) >> 20
}

// Hundreds of jobs with the largest bodies, due in one slot, are decided in bounded memory, together with a small job
// of another rule. Before, none of 500 was decided after 100 s, in 2 GB.
func TestMemoryOfLargeBodiesInOneSlot(t *testing.T) {
	const jobs, size = 500, 250 << 10
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	s, err := store.Open(t.Context(), store.Options{DatabaseURL: storetest.Postgres(t), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	saveIn(t, s, fmt.Sprintf(noResolve, "large", "large"))
	saveIn(t, s, fmt.Sprintf(noResolve, "small", "small"))
	catalog := rules.NewCatalog(s, s.Shards())
	if err := catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	start := func(rule int32, key, body string) futurejobs.Effect {
		r, err := catalog.Rule(t.Context(), rule, 1)
		if err != nil {
			t.Fatal(err)
		}
		now, err := s.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return futurejobs.Effect{
			Rule: r, Ref: futurejobs.Ref{Shard: futurejobs.ShardOf("thing", key, s.Shards()), RuleID: rule, Key: key},
			Action: futurejobs.Start{Job: futurejobs.Job{Version: 1, Since: now.Add(-10 * time.Second), FirstCheckAt: r.Grid.After(now), Event: []byte(body)}},
		}
	}
	for from := 0; from < jobs; from += 50 {
		batch := futurejobs.EffectBatch{RuleSet: catalog.Revision()}
		for i := from; i < from+50; i++ {
			batch.Effects = append(batch.Effects, start(1, fmt.Sprint(i), noise(i, size)))
		}
		if _, err := s.Apply(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Apply(t.Context(), futurejobs.EffectBatch{RuleSet: catalog.Revision(), Effects: []futurejobs.Effect{start(2, "small", `{}`)}}); err != nil {
		t.Fatal(err)
	}

	_, sweeper, stop := startNode(t, s, catalog, "n", log)
	defer func() {
		stop()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	peak, begun := int64(0), time.Now()
	for pending := int64(1); pending > 0; time.Sleep(100 * time.Millisecond) {
		peak = max(peak, residentMB())
		gauges, err := s.Gauges(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if pending = gauges.Pending; time.Since(begun) > 10*time.Minute {
			t.Fatalf("after ten minutes %d of %d jobs are not decided: %v", pending, jobs+1, sweeper.Err())
		}
	}
	t.Logf("%d jobs of %d bytes decided in %s, in up to %d MB", jobs, size, time.Since(begun).Round(100*time.Millisecond), peak)
	if peak > 512 {
		t.Errorf("it took %d MB", peak)
	}
}

// noise returns an incompressible body.
func noise(serial, size int) string {
	var b strings.Builder
	b.Grow(size)
	fmt.Fprintf(&b, `{"id":"%d"`, serial)
	for k := 0; b.Len() < size-100; k++ {
		fmt.Fprintf(&b, `,"f%d":"%x"`, k, rand.Uint64())
	}
	b.WriteString("}")
	return b.String()
}
