package futurejobs

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// What nobody adds to any more is settled at once: a slot with a few jobs is not to wait until a batch is full.
func TestABatchIsCutWhenNothingIsAboutToCome(t *testing.T) {
	type cut struct {
		size  int
		after time.Duration // since the batch before
	}
	for _, test := range []struct {
		name   string
		chunks []int // that one sweep hands on
		reads  time.Duration
		want   []cut
	}{
		{"one chunk, and nothing more to read", []int{3}, 0, []cut{{3, 0}}},
		{"several chunks", []int{250, 250, 7}, 0, []cut{{507, 0}}},
		{"full, and the rest", []int{1000, 1000, 250}, 0, []cut{{2000, 0}, {250, 0}}},
		{"the sweep reads on for a moment", []int{250}, 20 * time.Millisecond, []cut{{250, 20 * time.Millisecond}}},
		{"the sweep reads on for long", []int{250}, time.Minute, []cut{{250, settleWait}}},
		{"nothing was due", nil, 0, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, batches := newBelt(), make(chan []*verdict)
				go b.batches(batches)
				go func() {
					b.coming.Add(1)
					for _, n := range test.chunks {
						if err := b.hand(t.Context(), make([]*verdict, n)); err != nil {
							t.Error(err)
						}
						b.decided <- <-b.due
						b.passed()
					}
					time.Sleep(test.reads)
					b.passed()
					time.Sleep(time.Hour) // an open line: nothing but the mark or the time cuts a batch
					close(b.decided)
				}()
				var got []cut
				for began := time.Now(); ; began = time.Now() {
					batch, open := <-batches
					if !open {
						break
					}
					got = append(got, cut{len(batch), time.Since(began)})
				}
				if !slices.Equal(got, test.want) {
					t.Errorf("batches of %v, want %v", got, test.want)
				}
			})
		})
	}
}
