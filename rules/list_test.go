package rules_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/store"
	"deadman/rules"
)

// countingStore is a real store that records the changes that it returns, and runs a function between reading the revision
// and reading the changes.
type countingStore struct {
	*store.Store
	between func()
	reads   []rules.Changes
}

func (w *countingStore) Changes(ctx context.Context, since int64) (rules.Changes, error) {
	if f := w.between; f != nil {
		w.between = nil
		f()
	}
	changes, err := w.Store.Changes(ctx, since)
	w.reads = append(w.reads, changes)
	return changes, err
}

// handedOut returns how often each version was returned, beside the reads of all rules, and the rules that changed.
func (w *countingStore) handedOut() (versions map[string]int, changed []int32) {
	versions = make(map[string]int)
	for _, read := range w.reads {
		if read.All {
			continue
		}
		for _, s := range read.Saved {
			changed = append(changed, s.RuleID)
			if s.Version > 0 && s.DeletedAt.IsZero() {
				versions[fmt.Sprintf("%d@%d", s.RuleID, s.Version)]++
			}
		}
	}
	slices.Sort(changed)
	return versions, slices.Compact(changed)
}

const numberedRule = `
name: rule-%d
entity: order
trigger: {event: orders.%s, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate: [{after: %dm, step: only, severity: %s}]
`

// ruleChanger changes rules at random.
type ruleChanger struct {
	*testing.T
	store  *store.Store
	random *rand.Rand
	saved  []rules.RuleVersion // the versions that were saved
}

// change makes one change of a rule, and returns its id.
func (c *ruleChanger) change() int32 {
	c.Helper()
	n := c.random.IntN(4)
	name := fmt.Sprint("rule-", n)
	named, err := c.store.Named(c.Context(), name)
	if err != nil {
		c.Fatal(err)
	}
	action := c.random.IntN(8)
	if len(named) == 0 || !named[0].DeletedAt.IsZero() {
		action = 7
	}
	switch action {
	case 0:
		if _, err := c.store.Delete(c.Context(), name, named[0].Version); err != nil {
			c.Fatal(err)
		}
	case 1, 2:
		if err := c.store.Pause(c.Context(), name, named[0].PausedAt.IsZero()); err != nil {
			c.Fatal(err)
		}
	case 3:
		revision, err := c.store.Revision(c.Context())
		if err != nil {
			c.Fatal(err)
		}
		reads := slices.Clone(named[0].Reads)
		reads[0].Stream = fmt.Sprint("T", c.random.IntN(100))
		if err := c.store.Rebind(c.Context(), name, revision, map[int32][]rules.StreamBinding{named[0].Version: reads}); err != nil {
			c.Fatal(err)
		}
	default:
		return c.save(n)
	}
	return named[0].RuleID
}

// save saves the next version of a rule.
func (c *ruleChanger) save(n int) int32 {
	c.Helper()
	s := saveRule(c.T, c.store, 0, fmt.Sprintf(numberedRule, n, []string{"created", "paid"}[c.random.IntN(2)], 1+c.random.IntN(1000), []string{"error", "critical"}[c.random.IntN(2)]))
	c.saved = append(c.saved, s)
	return s.RuleID
}

// sampleScope returns a list as text.
func sampleScope(t *testing.T, list []rules.ListedRule) []string {
	t.Helper()
	var lines []string
	for _, l := range list {
		text, err := json.Marshal([]any{l.RuleVersion, string(l.RuleVersion.Document), l.BeganAt})
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := l.Document.YAML()
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(text)+string(decoded))
	}
	return lines
}

// A node that reads the changes since its last read has the same rules, after every change, as one that reads all
// rules, and reuses each entry that did not change. A change between reading the revision and reading the changes is
// returned once.
func TestRefreshReadsOnlyChanges(t *testing.T) {
	onDatabases(t, func(t *testing.T, s *store.Store) {
		seed := uint64(time.Now().UnixNano())
		c := &ruleChanger{T: t, store: s, random: rand.New(rand.NewPCG(seed, 54))} //nolint:gosec // it deals cards
		t.Log("seed", seed)
		for n := range 3 {
			c.save(n)
		}
		forList, forCatalog := &countingStore{Store: s}, &countingStore{Store: s}
		r, catalog := &rules.Registry{Store: forList}, newCatalog(t, forCatalog)
		before, err := r.List(t.Context())
		if err != nil || len(before) != 3 {
			t.Fatalf("%d rules, %v", len(before), err)
		}
		for range 40 {
			was, changed := catalog.Revision(), make(map[int32]bool)
			change := func() { changed[c.change()] = true }
			for range c.random.IntN(4) {
				change()
			}
			if len(changed) > 0 && c.random.IntN(2) == 0 {
				forList.between, forCatalog.between = change, change
			}
			if _, err := r.List(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := catalog.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			list, err := r.List(t.Context()) // the catalog's refresh came with a change, too
			if err != nil {
				t.Fatal(err)
			}
			fresh := &rules.Registry{Store: s}
			all, err := fresh.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(sampleScope(t, all), sampleScope(t, list)); diff != "" {
				t.Fatalf("(-all rules +what changed)\n%s", diff)
			}
			for _, was := range before {
				for _, is := range list {
					if is.RuleID == was.RuleID && !changed[is.RuleID] && (is.Version != was.Version || &is.Document.Escalate[0] != &was.Document.Escalate[0]) {
						t.Errorf("%s did not change, and is decoded again", is.Name)
					}
				}
			}
			anew := newCatalog(t, s)
			if diff := cmp.Diff(anew.SubjectsByStream(), catalog.SubjectsByStream()); diff != "" || !slices.Equal(anew.CriticalRules(), catalog.CriticalRules()) || anew.Revision() != catalog.Revision() {
				t.Fatalf("a catalog of what changed is another one: (-all +changed)\n%s loud %v, %v", diff, anew.CriticalRules(), catalog.CriticalRules())
			}
			for _, l := range list {
				if got := catalog.RuleChangedAt(l.RuleID) > was; got != changed[l.RuleID] {
					t.Errorf("%s changed: %v; by the catalog: %v", l.Name, changed[l.RuleID], got)
				}
				newest, err := catalog.Rule(t.Context(), l.RuleID, l.Version)
				if err != nil || newest.Version != l.Version || catalog.Paused(l.Name) == l.PausedAt.IsZero() {
					t.Errorf("the catalog has %s otherwise: %+v, %v", l.Name, newest, err)
				}
			}
			before = list
		}
		for name, w := range map[string]*countingStore{"list": forList, "catalog": forCatalog} {
			for i, read := range w.reads[1:] {
				if read.All {
					t.Errorf("%s: read %d was of all rules", name, i+1)
				}
			}
		}
	})
}

// While clients save rules concurrently, a node that reads changes gets each version once, and only rules that changed.
func TestEachVersionHasOneEngineRule(t *testing.T) {
	onDatabases(t, func(t *testing.T, s *store.Store) {
		const clients, saves = 4, 15
		still := saveRule(t, s, 0, fmt.Sprintf(numberedRule, clients, "created", 1, "error"))
		w := &countingStore{Store: s}
		r := &rules.Registry{Store: w}
		if _, err := r.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		var writing sync.WaitGroup
		var all [clients][]rules.RuleVersion
		for n := range clients {
			c := &ruleChanger{T: t, store: s, random: rand.New(rand.NewPCG(uint64(n), 54))} //nolint:gosec // it deals cards
			writing.Go(func() {
				for range saves {
					c.save(n)
				}
				all[n] = c.saved
			})
		}
		over := make(chan struct{})
		go func() { writing.Wait(); close(over) }()
		for isOver := false; !isOver; {
			select {
			case <-over:
				isOver = true // and one more read
			default:
			}
			if _, err := r.List(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		versions, changed := w.handedOut()
		for n := range clients {
			if len(all[n]) != saves {
				t.Fatalf("client %d saved %d versions", n, len(all[n]))
			}
			for _, v := range all[n] {
				if got := versions[fmt.Sprintf("%d@%d", v.RuleID, v.Version)]; got != 1 {
					t.Errorf("version %d of %s was handed out %d times", v.Version, v.Name, got)
				}
			}
		}
		if slices.Contains(changed, still.RuleID) || len(w.reads) < 3 {
			t.Errorf("in %d reads the rules %v changed; rule %d did not", len(w.reads), changed, still.RuleID)
		}
	})
}
