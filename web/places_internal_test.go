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

// placesFor makes places with a limit for each owner.
func placesFor(perNode, perOwner int64) *places[string] {
	return &places[string]{perNode: perNode, perOwner: perOwner, full: func(owner string, node bool) *Problem {
		return problem(map[bool]int{false: http.StatusTooManyRequests, true: http.StatusServiceUnavailable}[node], "there is no place for %s", owner)
	}}
}

// TestPlacesAreGivenInOrder checks that requests are served in order of arrival, for a missing place and for a missing
// turn of the owner.
func TestPlacesAreGivenInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := placesFor(2, 1)
		served := make(chan string, 10)
		for _, who := range []string{"a1", "b1", "a2", "c1", "b2", "a3", "c2"} {
			go func() {
				if err := p.wait(t.Context(), who[:1], 1, time.Hour); err != nil {
					t.Errorf("%s: %v", who, err)
				}
				served <- who
			}()
			synctest.Wait()
		}
		for _, step := range []struct{ served, leaves string }{
			{"a1", ""}, {"b1", "a"}, {"a2", "a"}, {"c1", "b"}, {"b2", "b"}, {"a3", "c"}, {"c2", "c"},
		} {
			if got := <-served; got != step.served {
				t.Errorf("%s is served, want %s", got, step.served)
			}
			if step.leaves != "" {
				p.leave(step.leaves)
			}
			synctest.Wait()
		}
	})
}

// TestPlacesAreNotWaitedForTooLong checks that a request that waits too long gets the reason, and that one with a
// disconnected client holds no place.
func TestPlacesAreNotWaitedForTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := placesFor(2, 1)
		p.line = 3
		refused := func(owner string, status int, after time.Duration) {
			t.Helper()
			var full *Problem
			begun := time.Now()
			if err := p.wait(t.Context(), owner, 1, time.Minute); !errors.As(err, &full) || full.Status != status || time.Since(begun) != after {
				t.Errorf("%s: %v after %s, want %d after %s", owner, err, time.Since(begun), status, after)
			}
		}
		for _, owner := range []string{"a", "b"} {
			if full := p.take(owner); full != nil {
				t.Fatal(full)
			}
		}
		refused("a", http.StatusTooManyRequests, time.Minute)
		refused("c", http.StatusServiceUnavailable, time.Minute)
		left := make(chan error, 2)
		ctx, leave := context.WithCancel(t.Context())
		for range 2 {
			go func() { left <- p.wait(ctx, "a", 1, time.Hour) }()
		}
		synctest.Wait()
		refused("a", http.StatusTooManyRequests, 0) // the queue is full
		leave()
		for range 2 {
			if err := <-left; !errors.Is(err, context.Canceled) {
				t.Errorf("one whose client left: %v", err)
			}
		}
		p.leave("a")
		p.leave("b")
		if p.taken != 0 || len(p.byOwner) != 0 || len(p.waiting) != 0 {
			t.Errorf("%d places are taken, by %v; %d wait", p.taken, p.byOwner, len(p.waiting))
		}
	})
}

// TestPlacesKeepTheirBounds checks that no sequence of requests exceeds a bound or loses a place, and that no place is
// free while a request waits for it.
func TestPlacesKeepTheirBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := placesFor(20, 8)
		p.fair, p.kept, p.guest = true, 5, func(owner string) bool { return owner == "guest" }
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
					p.give(owner, n)
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
					l := &loan[string]{owner: owner, places: n}
					p.lend(l)
					loans, lent[owner] = append(loans, l), lent[owner]+n
				}
			case 4:
				if len(loans) > 0 {
					l := rapid.SampledFrom(loans).Draw(t, "shrinks")
					before := l.places
					if ended[l] && before > 0 {
						t.Fatalf("%q has %d places of a loan that ended", l.owner, before)
					}
					p.shrink(l, n-1)
					had[l.owner] -= before - l.places
					lent[l.owner] -= before - l.places
				}
			case 5:
				if len(waiting) > 0 {
					w := rapid.SampledFrom(waiting).Draw(t, "reclaims")
					for _, l := range loans {
						n := l.places
						l.end = func() {
							if own := p.byOwner[w.owner]; l.owner == w.owner || own > 0 && p.byOwner[l.owner] <= own+w.places {
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
					had[w.owner] += w.places
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
			if sum != p.taken || sum > p.perNode || len(waiting) != len(p.waiting) || had["guest"] > p.perNode-p.kept {
				t.Fatalf("%d are taken, %d are counted; %d wait, %d are in line", sum, p.taken, len(waiting), len(p.waiting))
			}
			for _, w := range waiting {
				if p.try(w.owner, w.places) == lacksNothing {
					t.Fatalf("%q waits for %d, which are there", w.owner, w.places)
				}
			}
		}
	})
}

// TestGuestsLeavePlacesToGuests checks that guests who take every place they get leave some of the guests' places to the
// next one.
func TestGuestsLeavePlacesToGuests(t *testing.T) {
	p := newReads()
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
func (p *places[K]) takeRoom(t *testing.T, owner K) bool {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.try(owner, answerRoom) == lacksNothing
}

// TestReclaimTakesTheOldestOfTheLargest checks that a waiting request ends as few loans as it needs, the oldest of the
// owner that holds most, and none that is young or of an owner that holds no more.
func TestReclaimTakesTheOldestOfTheLargest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := placesFor(15, 15)
		p.patience = time.Second
		var ended []string
		for _, name := range []string{"b1", "a1", "b2", "a2", "a3", "a4", "b3", "c1"} {
			if full := p.take(name[:1]); full != nil {
				t.Fatal(full)
			}
			p.lend(&loan[string]{owner: name[:1], places: 1, since: time.Now(), end: func() { ended = append(ended, name) }})
			time.Sleep(10 * time.Second)
		}
		_ = p.take("a") // without a loan
		for range 6 {
			_ = p.take("d")
			p.lend(&loan[string]{owner: "d", places: 1, since: time.Now().Add(time.Hour), end: func() { t.Error("a young loan is ended") }})
		}
		for _, c := range []struct {
			owner  string
			places int64
			ended  []string
			full   bool
		}{
			{"e", 2, []string{"a1", "a2"}, false}, // of 5
			{"c", 1, []string{"b1"}, false},       // a and b have 3 each
			{"c", 1, nil, true},                   // it would have 3, as a has
			{"f", 1, []string{"a3"}, false},
		} {
			ended = nil
			err := p.wait(t.Context(), c.owner, c.places, 5*time.Second)
			if !slices.Equal(ended, c.ended) || (err != nil) != c.full {
				t.Errorf("%s for %d: ended %v, %v", c.owner, c.places, ended, err)
			}
		}
	})
}
