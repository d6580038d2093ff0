package pings_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"deadman/internal/pings"
	"deadman/rules"
)

// address creates an address of a key of the fixture's rule, or its ping key.
func (w *fixture) address(key string) pings.Address {
	w.Helper()
	a, made, err := w.finder.Create(w.Context(), pings.Address{RuleID: w.rule.Engine().ID, Rule: "backup", Key: key}, false)
	if err != nil || !made || a.ID == "" {
		w.Fatalf("address of %q: %+v, %v", key, a, err)
	}
	return a
}

// find resolves a path.
func (w *fixture) find(path string, create bool) (pings.Target, pings.Signal, bool, error) {
	w.Helper()
	p, err := pings.ReadPath("/ping/" + path)
	failOn(w.T, err)
	return w.finder.Resolve(w.Context(), p, create)
}

func TestResolve(t *testing.T) {
	w := newFixture(t)
	own, all := w.address("photos").ID, w.address("").ID
	for path, want := range map[string]struct {
		key  string
		kind rules.Signal
		exit int // -1: none
		err  error
	}{
		own:                     {"photos", rules.Success, -1, nil},
		own + "/":               {"photos", rules.Success, -1, nil},
		own + "/start":          {"photos", rules.Begun, -1, nil},
		own + "/fail":           {"photos", rules.Failure, -1, nil},
		own + "/log":            {"photos", rules.Log, -1, nil},
		own + "/0":              {"photos", rules.Success, 0, nil},
		own + "/255":            {"photos", rules.Failure, 255, nil},
		own + "/007":            {"photos", rules.Failure, 7, nil},
		own + "/256":            {err: pings.ErrBadExitStatus},
		own + "/99999999999":    {err: pings.ErrBadExitStatus},
		own + "/-1":             {err: pings.ErrUnknown},
		own + "/success":        {err: pings.ErrUnknown},
		own + "/expected":       {err: pings.ErrUnknown},
		own + "/fail/1":         {err: pings.ErrUnknown},
		all:                     {err: pings.ErrUnknown},
		all + "/photos":         {"photos", rules.Success, -1, nil}, // has an address
		all + "/nightly/fail":   {"nightly", rules.Failure, -1, nil},
		all + "/weekly/3":       {"weekly", rules.Failure, 3, nil},
		all + "/monthly":        {err: pings.ErrUnknown},
		all + "/fail":           {err: pings.ErrUnknown}, // an unknown key with the name of a signal
		strings.Repeat("x", 22): {err: pings.ErrUnknown},
		"unknown/nightly":       {err: pings.ErrUnknown},
		all + "/nightly/256":    {err: pings.ErrBadExitStatus},
		all + "/nightly/finish": {err: pings.ErrUnknown},
	} {
		for range 2 { // the second time from the cache
			to, signal, _, err := w.find(path, false)
			if want.err != nil || err != nil {
				if !errors.Is(err, want.err) {
					t.Errorf("%s: %v, want %v", path, err, want.err)
				}
				continue
			}
			exit := -1
			if signal.Exit != nil {
				exit = *signal.Exit
			}
			if to.Rule != "backup" || to.RuleID != w.rule.Engine().ID || to.Key != want.key || signal.Kind != want.kind || exit != want.exit {
				t.Errorf("%s is %+v, %+v, want %+v", path, to, signal, want)
			}
		}
	}
}

// The key of a ping is new until it has an address, and only if the rule is unambiguous.
func TestPingOfNewKey(t *testing.T) {
	w := newFixture(t)
	all := w.address("").ID
	for i, want := range []bool{true, true, false} {
		if to, signal, isNew, err := w.find(all+"/db-7/start", true); err != nil || isNew != want || to.Key != "db-7" || signal.Kind != rules.Begun {
			t.Errorf("time %d: new %t, %+v, %v", i, isNew, to, err)
		}
		if i == 1 {
			w.address("db-7")
		}
	}
	if _, _, _, err := w.find(all+"/db-7", false); err != nil {
		t.Errorf("afterwards it is %v", err)
	}
	if _, _, created, err := w.find(all+"/nightly", true); created || err != nil {
		t.Errorf("a key that the rule declares: created %t, %v", created, err)
	}
	if _, _, _, err := w.find(all+"/db-8/oops", true); !errors.Is(err, pings.ErrUnknown) {
		t.Errorf("of no signal: %v", err)
	}
	if _, _, _, err := w.find(all+"/db-8", false); !errors.Is(err, pings.ErrUnknown) {
		t.Errorf("a ping that is none made its key known: %v", err)
	}
	// Two rules share a ping key: a key belongs to the rule that knows it, and an unknown key creates no address.
	w.save(strings.NewReplacer("name: backup", "name: reports", "nightly, weekly", "monthly, weekly").Replace(backupRule))
	w.refresh()
	other, err := w.catalog.Newest("reports")
	failOn(t, err)
	_, _, err = w.finder.Create(t.Context(), pings.Address{ID: all, RuleID: other.Engine().ID, Rule: "reports"}, false)
	failOn(t, err)
	for key, want := range map[string]string{"nightly": "backup", "monthly": "reports", "db-7": "backup"} {
		if to, _, _, err := w.find(all+"/"+key, true); err != nil || to.Rule != want {
			t.Errorf("%s is of %s, %v, want %s", key, to.Rule, err, want)
		}
	}
	for _, key := range []string{"weekly", "db-9"} {
		if _, _, _, err := w.find(all+"/"+key, true); !errors.Is(err, pings.ErrAmbiguous) {
			t.Errorf("%s: %v, want ErrAmbiguous", key, err)
		}
	}
}

// A key declared by another node's save is known to the next ping.
func TestKeysDeclaredOnAnotherNode(t *testing.T) {
	w := newFixture(t)
	all := w.address("").ID
	if _, _, _, err := w.find(all+"/monthly", false); !errors.Is(err, pings.ErrUnknown) {
		t.Fatalf("before: %v", err)
	}
	w.save(strings.Replace(backupRule, "weekly", "weekly, monthly", 1))
	if to, _, created, err := w.find(all+"/monthly", true); to.Key != "monthly" || created || err != nil {
		t.Errorf("%+v, created %t, %v", to, created, err)
	}
}

// slowStore is a real catalog whose refreshes block until they are released.
type slowStore struct {
	*rules.Catalog
	requests atomic.Int64 // counts reads of the revision
	read     atomic.Int64
	letGo    chan struct{}
}

func (s *slowStore) Revision() int64 {
	s.requests.Add(1)
	return s.Catalog.Revision()
}

func (s *slowStore) Refresh(ctx context.Context) error {
	s.read.Add(1)
	<-s.letGo
	return s.Catalog.Refresh(ctx)
}

// Clients that guess keys during a refresh share the next one.
func TestGuessesShareRefreshes(t *testing.T) {
	const guesses = 50
	w := newFixture(t)
	path, err := pings.ReadPath(w.address("").Path() + "/monthly")
	failOn(t, err)
	catalog := &slowStore{Catalog: w.catalog, letGo: make(chan struct{})}
	finder := &pings.Resolver{Store: w.Store, Catalog: catalog, Now: time.Now}
	var sent sync.WaitGroup
	for range guesses {
		sent.Go(func() {
			if _, _, _, err := finder.Resolve(t.Context(), path, false); !errors.Is(err, pings.ErrUnknown) {
				t.Errorf("%v, want ErrUnknown", err)
			}
		})
	}
	for deadline := time.Now().Add(2 * time.Minute); catalog.requests.Load() < guesses && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	close(catalog.letGo)
	sent.Wait()
	if n := catalog.read.Load(); n < 1 || n >= guesses {
		t.Errorf("the rules were read %d times for %d guesses", n, guesses)
	}
}

// A deleted address stops working on this node at once, and on other nodes within seconds.
func TestDeletedAddressStopsWorking(t *testing.T) {
	w := newFixture(t)
	now := time.Now()
	there := pings.Resolver{Store: w.Store, Catalog: w.catalog, Now: func() time.Time { return now }}
	a := w.address("photos")
	path, err := pings.ReadPath(a.Path())
	failOn(t, err)
	checkKnown := func(f *pings.Resolver, want bool) {
		t.Helper()
		_, _, _, err := f.Resolve(t.Context(), path, false)
		if want != (err == nil) || (err != nil && !errors.Is(err, pings.ErrUnknown)) {
			t.Errorf("known %t: %v", want, err)
		}
	}
	checkKnown(w.finder, true)
	checkKnown(&there, true)
	failOn(t, w.finder.Delete(t.Context(), a.RuleID, "photos"))
	checkKnown(w.finder, false)
	now = now.Add(5 * time.Second)
	checkKnown(&there, false)
	again := w.address("photos")
	if again.ID == a.ID {
		t.Error("the old address is back")
	}
}
