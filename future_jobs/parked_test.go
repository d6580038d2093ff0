package futurejobs_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/rules"
)

// markRead marks a stream as read up to a time.
func (e *engine) markRead(stream string, through time.Time) {
	e.Helper()
	seq := uint64(0)
	if stream == "S" {
		seq = e.seq
	}
	if err := e.store.MarkRead(e.Context(), stream, seq, through); err != nil {
		e.Fatal(err)
	}
}

// laggingStream is a stream with a mark that is behind, by a varying lag.
type laggingStream struct {
	least, most time.Duration
	marks       []readMark
}

type readMark struct{ at, through time.Time }

// next returns the current mark of the stream. It never goes back.
func (l *laggingStream) next(random *rand.Rand) time.Time {
	now := time.Now().UTC()
	through := now.Add(-l.least - time.Duration(random.Int64N(int64(l.most-l.least+1))))
	if n := len(l.marks); n > 0 && through.Before(l.marks[n-1].through) {
		through = l.marks[n-1].through
	}
	l.marks = append(l.marks, readMark{now, through})
	return through
}

// passed returns when the stream was read past a slot.
func (l *laggingStream) passed(slot time.Time) time.Time {
	for _, m := range l.marks {
		if !m.through.Before(slot) {
			return m.at
		}
	}
	return time.Now().UTC()
}

// For any lag of the streams and any length of slots, each job is decided soon after its streams were read past its
// slot, in all shards alike, and jobs without streams soon after their slot.
func TestVirtualLatenessIsBoundedByLagOfStreams(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 18))
				e := startEngine(t, nil)
				s := &laggingStream{least: 500 * time.Millisecond, most: 4 * time.Second}
				u := &laggingStream{least: time.Duration(random.IntN(40)) * time.Second, most: 45 * time.Second}
				if err := e.store.OpenCursor(t.Context(), futurejobs.Cursor{Stream: "U"}); err != nil {
					t.Fatal(err)
				}
				waits := map[string][]*laggingStream{"one": {s}, "two": {s, u}, "none": nil}
				for name := range waits {
					slot := []string{"1s", "1s", "5s"}[random.IntN(3)]
					document := strings.NewReplacer("slow", name, "slot: 1s", "slot: "+slot).Replace(withResolve)
					switch name {
					case "none":
						e.save(strings.Replace(document, "resolve: {event: none.done, key: event.id}\n", "", 1))
					case "two":
						e.save(document, rules.StreamBinding{Subject: "two.done", Stream: "U"})
					default:
						e.save(document)
					}
				}
				if err := e.catalog.Refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
				e.sweeper.Wake() // as a node does when its rules change
				created := 0
				for second := range 150 {
					for name := range waits {
						if second < 90 {
							e.publish(name+".created", fmt.Sprint(second, "a"), fmt.Sprint(second, "b"), fmt.Sprint(second, "c"))
							created += 3
						}
					}
					time.Sleep(time.Duration(900+random.IntN(200)) * time.Millisecond)
					e.markRead("S", s.next(random))
					e.markRead("U", u.next(random))
				}
				time.Sleep(2 * time.Second)
				e.markRead("U", time.Now().UTC())
				time.Sleep(5 * time.Second)

				listed := e.allAlerts()
				if len(listed) != created {
					t.Errorf("%d of %d jobs were decided", len(listed), created)
				}
				worst := map[int16]time.Duration{}
				for _, a := range listed {
					ready := a.Slot
					for _, stream := range waits[a.Rule] {
						if at := stream.passed(a.Slot); at.After(ready) {
							ready = at
						}
					}
					late := a.DecidedAt.Sub(ready)
					worst[a.Shard] = max(worst[a.Shard], late)
					if late > 1500*time.Millisecond || late < -time.Second {
						t.Errorf("%s/%s of shard %d was decided %s after it could be", a.Rule, a.Key, a.Shard, late)
					}
				}
				t.Logf("worst by shard: %v", worst)
			})
		})
	}
}

// allAlerts returns all alerts.
func (e *engine) allAlerts() []futurejobs.ListedAlert { return alertsIn(e.T, e.store) }

// alertsIn returns all alerts of a store, read page by page.
func alertsIn(tb testing.TB, s *store.Store) (all []futurejobs.ListedAlert) {
	tb.Helper()
	f := futurejobs.Filter{Limit: futurejobs.MaxLimit}
	for {
		page, err := s.Alerts(tb.Context(), f)
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, page.Items...)
		if page.Next == "" {
			return all
		}
		f.Cursor = page.Next
	}
}

// A stream is marked as read at slots, so that its mark is nearly always before now. This delays no job while no slot
// came since.
func TestNoLagRemainsOnceJobThatWaitedIsDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, nil, strings.Replace(withResolve, "slot: 1s", "slot: 10m", 1))
		e.publish("slow.created", "1")
		time.Sleep(10*time.Minute + 5*time.Second) // its slot has come
		if lag := e.sweeper.OwnLag(); lag == 0 {
			t.Error("no lag while a job waits for its stream")
		}
		e.applyEvents()
		time.Sleep(2 * time.Second)
		if listed := e.alerts(); len(listed) != 1 {
			t.Fatalf("%d alerts once the stream was read", len(listed))
		}
		time.Sleep(20 * time.Second)
		if lag := e.sweeper.OwnLag(); lag != 0 {
			t.Errorf("the sweep reports a lag of %s after the job was decided", lag)
		}
	})
}

// Waiting jobs are read again when their own rule changes, and not when others do.
func TestOtherRulesThatChangeHaveNoParkedJobsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, nil, withResolve)
		e.publish("slow.created", "1")
		time.Sleep(6 * time.Second) // its slot has come, and its stream is not read
		read := func(save func(i int)) int64 {
			t.Helper()
			before := e.queue.forRules.Load()
			for i := range 20 {
				save(i)
				if err := e.catalog.Refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
				e.sweeper.Wake()
				time.Sleep(time.Second)
			}
			return e.queue.forRules.Load() - before
		}
		none := read(func(int) {})
		others := read(func(i int) { e.save(strings.ReplaceAll(withResolve, "slow", fmt.Sprint("other", i))) })
		own := read(func(i int) { e.save(fmt.Sprintf("%shold: %dh\n", withResolve, i+1)) })
		if others > none+2 || own < none+15 {
			t.Errorf("parked jobs were read %d times while no rule changed, %d times while others did, %d times while their own did", none, others, own)
		}
	})
}

// A shard is read from its beginning at times, past all waiting jobs. Newly due jobs are read before that.
func TestVirtualJobsDoNotWaitForReadFromBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, nil, withResolve, fmt.Sprintf(noResolve, "prompt", "prompt"))
		waiting := make([]string, 24_000)
		for i := range waiting {
			waiting[i] = fmt.Sprint(i)
		}
		e.publish("slow.created", waiting...)
		time.Sleep(2 * time.Minute) // their slot has come, their stream is not read, and each shard was read from its beginning
		slow := func(futurejobs.DueQuery) { time.Sleep(250 * time.Millisecond) }
		e.queue.after.Store(&slow) // a read past all waiting jobs takes three seconds
		created := 0
		for second := range 310 {
			keys := make([]string, 8)
			for i := range keys {
				keys[i] = fmt.Sprint(second, ".", i)
			}
			e.publish("prompt.created", keys...)
			created += len(keys)
			time.Sleep(time.Second)
		}
		time.Sleep(15 * time.Second)
		listed, worst := e.allAlerts(), time.Duration(0)
		for _, a := range listed {
			worst = max(worst, a.DecidedAt.Sub(a.Slot))
		}
		if len(listed) != created || worst > time.Second {
			t.Errorf("%d of %d jobs were decided, up to %s late", len(listed), created, worst)
		}
	})
}

// A version is removed within a minute after an event ended its last waiting job, though its stream stays behind.
func TestVersionWithoutWaitingJobsIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, nil, withResolve)
		e.publish("slow.created", "1", "2")
		time.Sleep(15 * time.Second) // their slot has come, and their stream is not read
		e.publish("slow.done", "1")
		time.Sleep(2 * time.Minute)
		if lag := e.sweeper.OwnLag(); lag < 2*time.Minute {
			t.Errorf("the sweep reports a lag of %s while a job waits", lag)
		}
		e.publish("slow.done", "2")
		time.Sleep(70 * time.Second)
		if lag := e.sweeper.OwnLag(); lag != 0 {
			t.Errorf("the sweep reports a lag of %s, and no job waits", lag)
		}
		if listed := e.alerts(); len(listed) != 0 {
			t.Errorf("%d alerts of jobs that were ended", len(listed))
		}
	})
}
