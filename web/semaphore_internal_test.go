package web

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// newOwnerSemaphore makes permits with a limit for each owner.
func newOwnerSemaphore(perNode, perOwner int64) *semaphore[string] {
	return &semaphore[string]{perNode: perNode, perOwner: perOwner, full: func(owner string, node bool) *Problem {
		return problem(map[bool]int{false: http.StatusTooManyRequests, true: http.StatusServiceUnavailable}[node], "there is no place for %s", owner)
	}}
}

// TestSemaphoreIsFIFO checks that requests are served in order of arrival, for a missing permit and for a missing
// turn of the owner.
func TestSemaphoreIsFIFO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newOwnerSemaphore(2, 1)
		served := make(chan string, 10)
		for _, who := range []string{"a1", "b1", "a2", "c1", "b2", "a3", "c2"} {
			go func() {
				if err := p.acquireWithin(t.Context(), who[:1], 1, time.Hour); err != nil {
					t.Errorf("%s: %v", who, err)
				}
				served <- who
			}()
			synctest.Wait()
		}
		for _, step := range []struct{ served, release string }{
			{"a1", ""}, {"b1", "a"}, {"a2", "a"}, {"c1", "b"}, {"b2", "b"}, {"a3", "c"}, {"c2", "c"},
		} {
			if got := <-served; got != step.served {
				t.Errorf("%s is served, want %s", got, step.served)
			}
			if step.release != "" {
				p.release(step.release)
			}
			synctest.Wait()
		}
	})
}

// TestSemaphoreWaitIsBounded checks that a request that waits too long gets the reason, and that one with a
// disconnected client holds no permit.
func TestSemaphoreWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newOwnerSemaphore(2, 1)
		p.maxQueued = 3
		refused := func(owner string, status int, after time.Duration) {
			t.Helper()
			var full *Problem
			begun := time.Now()
			if err := p.acquireWithin(t.Context(), owner, 1, time.Minute); !errors.As(err, &full) || full.Status != status || time.Since(begun) != after {
				t.Errorf("%s: %v after %s, want %d after %s", owner, err, time.Since(begun), status, after)
			}
		}
		for _, owner := range []string{"a", "b"} {
			if full := p.acquire(owner); full != nil {
				t.Fatal(full)
			}
		}
		refused("a", http.StatusTooManyRequests, time.Minute)
		refused("c", http.StatusServiceUnavailable, time.Minute)
		left := make(chan error, 2)
		ctx, leave := context.WithCancel(t.Context())
		for range 2 {
			go func() { left <- p.acquireWithin(ctx, "a", 1, time.Hour) }()
		}
		synctest.Wait()
		refused("a", http.StatusTooManyRequests, 0) // the queue is full
		leave()
		for range 2 {
			if err := <-left; !errors.Is(err, context.Canceled) {
				t.Errorf("one whose client left: %v", err)
			}
		}
		p.release("a")
		p.release("b")
		if p.held != 0 || len(p.byOwner) != 0 || len(p.waiting) != 0 {
			t.Errorf("%d places are taken, by %v; %d wait", p.held, p.byOwner, len(p.waiting))
		}
	})
}

// TestSemaphoreKeepsBounds checks that no sequence of requests exceeds a bound or loses a permit, and that no permit is
// free while a request waits for it.
func TestSemaphoreKeepsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newOwnerSemaphore(20, 8)
		p.fair, p.reserved, p.guest = true, 5, func(owner string) bool { return owner == "guest" }
		var waiting []*waiter[string]
		var loans []*loan[string]
		ended := make(map[*loan[string]]bool)
		had, lent := make(map[string]int64), make(map[string]int64) // lent is a part of had
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			owner := rapid.SampledFrom([]string{"guest", "a", "b", "c", "d", ""}).Draw(t, "owner")
			n := rapid.Int64Range(1, 4).Draw(t, "places")
			switch rapid.IntRange(0, 5).Draw(t, "does") {
			case 0:
				if w, _ := p.queue(owner, n); w == nil {
					had[owner] += n
				} else {
					waiting = append(waiting, w)
				}
			case 1:
				if n = min(n, had[owner]-lent[owner]); n > 0 {
					p.releaseN(owner, n)
					had[owner] -= n
				}
			case 2:
				if len(waiting) > 0 {
					ctx, end := context.WithCancel(context.Background())
					end()
					at := rapid.IntRange(0, len(waiting)-1).Draw(t, "leaves")
					_ = p.giveUp(ctx, waiting[at])
					waiting = append(waiting[:at], waiting[at+1:]...)
				}
			case 3:
				if n = min(n, had[owner]-lent[owner]); n > 0 {
					l := &loan[string]{owner: owner, permits: n}
					p.lend(l)
					loans, lent[owner] = append(loans, l), lent[owner]+n
				}
			case 4:
				if len(loans) > 0 {
					l := rapid.SampledFrom(loans).Draw(t, "shrinks")
					before := l.permits
					if ended[l] && before > 0 {
						t.Fatalf("%q has %d places of a loan that ended", l.owner, before)
					}
					p.shrink(l, n-1)
					had[l.owner] -= before - l.permits
					lent[l.owner] -= before - l.permits
				}
			case 5:
				if len(waiting) > 0 {
					w := rapid.SampledFrom(waiting).Draw(t, "reclaims")
					for _, l := range loans {
						n := l.permits
						l.end = func() {
							if own := p.byOwner[w.owner]; l.owner == w.owner || own > 0 && p.byOwner[l.owner] <= own+w.permits {
								t.Fatalf("%q loses some of its %d to %q, which has %d", l.owner, p.byOwner[l.owner], w.owner, own)
							}
							had[l.owner] -= n
							lent[l.owner] -= n
							ended[l] = true
						}
					}
					p.reclaim(w, time.Now())
				}
			}
			still := waiting[:0]
			for _, w := range waiting {
				select {
				case <-w.served:
					had[w.owner] += w.permits
				default:
					still = append(still, w)
				}
			}
			waiting = still
			sum := int64(0)
			for owner, n := range had {
				if sum += n; n != p.byOwner[owner] || owner != p.free && n > p.perOwner {
					t.Fatalf("%q has %d, and %d are counted", owner, n, p.byOwner[owner])
				}
			}
			if sum != p.held || sum > p.perNode || len(waiting) != len(p.waiting) || had["guest"] > p.perNode-p.reserved {
				t.Fatalf("%d are taken, %d are counted; %d wait, %d are in line", sum, p.held, len(waiting), len(p.waiting))
			}
			for _, w := range waiting {
				if p.tryAcquire(w.owner, w.permits) == lacksNothing {
					t.Fatalf("%q waits for %d, which are there", w.owner, w.permits)
				}
			}
		}
	})
}

// TestSemaphoreReservesForOtherGuests checks that guests who take every permit they get leave some of the guests' permits to the
// next one.
func TestSemaphoreReservesForOtherGuests(t *testing.T) {
	p := newReadSemaphore()
	guest := func(id string) tokenRef { return tokenRef{id: id, who: "the rules " + id, guest: true} }
	for _, id := range []string{"a-*", "b-*", "c-*", "d-*"} {
		for p.takeRoom(t, guest(id)) {
			continue
		}
	}
	if w, full := p.queue(guest("e-*"), answerRoom); w != nil || full != nil {
		t.Errorf("a fifth one finds no room beside four: %v, %v", w, full)
	}
}

// takeRoom takes capacity for an answer of an owner, and reports success.
func (p *semaphore[K]) takeRoom(t *testing.T, owner K) bool {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tryAcquire(owner, answerRoom) == lacksNothing
}

// TestReclaimEndsOldestOfLargestOwner checks that a waiting request ends as few loans as it needs, the oldest of the
// owner that holds most, and none that is young or of an owner that holds no more.
func TestReclaimEndsOldestOfLargestOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newOwnerSemaphore(15, 15)
		p.reclaimAfter = time.Second
		var ended []string
		for _, name := range []string{"b1", "a1", "b2", "a2", "a3", "a4", "b3", "c1"} {
			if full := p.acquire(name[:1]); full != nil {
				t.Fatal(full)
			}
			p.lend(&loan[string]{owner: name[:1], permits: 1, since: time.Now(), end: func() { ended = append(ended, name) }})
			time.Sleep(10 * time.Second)
		}
		_ = p.acquire("a") // without a loan
		for range 6 {
			_ = p.acquire("d")
			p.lend(&loan[string]{owner: "d", permits: 1, since: time.Now().Add(time.Hour), end: func() { t.Error("a young loan is ended") }})
		}
		for _, c := range []struct {
			owner   string
			permits int64
			ended   []string
			full    bool
		}{
			{"e", 2, []string{"a1", "a2"}, false}, // of 5
			{"c", 1, []string{"b1"}, false},       // a and b have 3 each
			{"c", 1, nil, true},                   // it would have 3, as a has
			{"f", 1, []string{"a3"}, false},
		} {
			ended = nil
			err := p.acquireWithin(t.Context(), c.owner, c.permits, 5*time.Second)
			if !slices.Equal(ended, c.ended) || (err != nil) != c.full {
				t.Errorf("%s for %d: ended %v, %v", c.owner, c.permits, ended, err)
			}
		}
	})
}
