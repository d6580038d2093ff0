package futurejobs

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A batch is settled at once if no more decisions are expected: a slot with a few jobs does not wait for a full
// batch.
func TestBatchIsCutWhenNothingIsAboutToCome(t *testing.T) {
	type cut struct {
		size  int
		after time.Duration // since the batch before
	}
	moment := settleWait / 2
	for _, test := range []struct {
		name   string
		chunks []int         // chunks submitted by one sweep
		reads  time.Duration // duration of reads after them
		found  int           // results of asynchronous handlers after that, one every 3 ms
		want   []cut
	}{
		{"one chunk, and nothing more to read", []int{3}, 0, 0, []cut{{3, 0}}},
		{"several chunks", []int{250, 250, 7}, 0, 0, []cut{{507, 0}}},
		{"full, and the rest", []int{1000, 1000, 250}, 0, 0, []cut{{2000, 0}, {250, 0}}},
		{"the sweep reads on for a moment", []int{250}, moment, 0, []cut{{250, moment}}},
		{"the sweep reads on for long", []int{250}, time.Minute, 0, []cut{{250, settleWait}}},
		{"slow handlers", nil, 0, 34, []cut{{17, settleWait}, {17, settleWait + time.Millisecond}}},
		{"nothing was due", nil, 0, 0, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, batches := newPipeline(), make(chan []*task)
				go b.batches(batches)
				computed, waited := &task{handlerSkipped: true}, &task{rule: &Rule{}}
				go func() {
					b.undecidedChunks.Add(1)
					for _, n := range test.chunks {
						if err := b.submit(t.Context(), slices.Repeat([]*task{computed}, n)); err != nil {
							t.Error(err)
						}
						b.decided <- <-b.due
						b.done()
					}
					time.Sleep(test.reads)
					b.done()
					for range test.found {
						b.decided <- []*task{waited}
						b.undecidedChunks.Add(1) // each frees a lane, and a sweep reads more
						b.done()
						time.Sleep(3 * time.Millisecond)
					}
					time.Sleep(time.Hour) // only the end of expected decisions, or the time, cuts a batch
					close(b.decided)
				}()
				var got []cut
				for startedAt := time.Now(); ; startedAt = time.Now() {
					batch, open := <-batches
					if !open {
						break
					}
					got = append(got, cut{len(batch), time.Since(startedAt)})
				}
				if !slices.Equal(got, test.want) {
					t.Errorf("batches of %v, want %v", got, test.want)
				}
			})
		})
	}
}

// Settles that hang do not keep the sweep from finding nothing due, and from reporting it.
func TestSweepsGoOnWhileSettlesHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, swept := newPipeline(), 0
		go func() {
			for range 100 {
				b.undecidedChunks.Add(1)
				b.done()
				swept++
			}
		}()
		synctest.Wait()
		if swept != 100 {
			t.Errorf("%d sweeps completed while no decision was settled, want 100", swept)
		}
	})
}

// slotless is a catalog without rules.
type slotless struct{ RuleReader }

func (slotless) NextSlot(time.Time) time.Time { return time.Time{} }

// TestNodeThatLostItsShardsPauses checks that a node that loses its shards after a sweep that left more to read does not sweep
// without a pause from then on.
func TestNodeThatLostItsShardsPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		clock := NewClock(func(context.Context) (time.Time, error) { return time.Now(), nil }, time.Now)
		if err := clock.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		s := NewSweeper(nil, slotless{}, NewOwner(nil, Node{ID: "n", Name: "n"}, 15*time.Second, time.Now, log), clock, 1, log)
		s.isCutShort, s.steps = true, clock.Steps()
		if wait := s.step(t.Context(), nil, nil); wait != MaxIdle {
			t.Errorf("the pause of a node without shards is %s, want %s", wait, MaxIdle)
		}
	})
}
