package scheduler_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
	"deadman/internal/scheduler"
)

// brokenOff fails the second publication before the broker has it.
type brokenOff struct {
	scheduler.StoredEmitter
	calls atomic.Int64
}

func (b *brokenOff) PublishTicks(ctx context.Context, all []futurejobs.Emission) ([]bool, error) {
	if b.calls.Add(1) == 2 {
		return make([]bool, len(all)), errLost
	}
	return b.StoredEmitter.PublishTicks(ctx, all)
}

// A rule that catches up with all missed ticks emits the event of each that is not older than its limit, in order, also if a
// publication fails.
func TestAllMissedStoredTicksAreEmittedInOrder(t *testing.T) {
	t.Parallel()
	for name, o := range databases(1) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, o(t))
			rule := w.save(strings.Replace(reports, "name: reports", "name: reports\nslot: 1s\ncatch_up: {after: 1h, do: all}", 1))
			w.put("reports", futurejobs.Schedule{ID: "a", Text: "@every 10m", Enabled: true}, futurejobs.Schedule{ID: "b", Text: "@every 20m", Enabled: true})
			ahead := 3 * time.Hour
			broken := &brokenOff{StoredEmitter: w.bus.SchedulePublisher}
			s, _ := w.stored(func(s *scheduler.Stored) {
				s.Emitter, s.Now = broken, func() time.Time { return time.Now().Add(ahead) }
			})
			emitted := func(id string) (n, missed int) {
				for _, tick := range w.tickRows(rule, id) {
					if missed += tick.Missed; tick.Outcome == futurejobs.TickEmitted {
						n++
					}
				}
				return n, missed
			}
			w.eventually("each tick of the last hour", func() bool {
				a, _ := emitted("a")
				b, _ := emitted("b")
				return a >= 6 && b >= 3 && s.Err() == nil
			})
			for _, id := range []string{"a", "b"} {
				var got []string
				for _, event := range w.eventIDs("DEADMAN_EVENTS", "reports.due") {
					if strings.HasPrefix(event, "reports/"+id+"/") {
						got = append(got, event)
					}
				}
				every := map[string]time.Duration{"a": 10 * time.Minute, "b": 20 * time.Minute}[id]
				n, missed := emitted(id)
				if n > int(time.Hour/every)+1 || n+missed < int(ahead/every) {
					t.Errorf("%s: %d ticks emitted and %d missed in %s", id, n, missed, ahead)
				}
				var first int64
				if _, err := fmt.Sscanf(got[0], "reports/"+id+"/%d", &first); err != nil {
					t.Fatal(err)
				}
				var want []string
				for i := range n {
					want = append(want, fmt.Sprintf("reports/%s/%d", id, first+int64(i)*int64(every/time.Second)))
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("events of %s (-want +got):\n%s", id, diff)
				}
			}
		})
	}
}
