package rules

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"deadman/internal/calendars"
)

// heavyVersion returns a version of a rule of so many conditions, each made of a part that is repeated, with a number in place
// of NUMBER.
func heavyVersion(t *testing.T, number int32, conditions int, part string) RuleVersion {
	t.Helper()
	var updates []any
	for i := range conditions {
		condition := strings.ReplaceAll(part, "NUMBER", fmt.Sprint(int(number)*100+i))
		updates = append(updates, map[string]any{"event": "orders.paid", "key": "event.id", "if": condition})
	}
	text, err := json.Marshal(map[string]any{
		"name": "heavy", "entity": "order", "trigger": map[string]any{"event": "orders.created", "key": "event.id"},
		"escalate": []any{map[string]any{"after": "1h"}}, "update": updates,
	})
	if err != nil {
		t.Fatal(err)
	}
	documents, err := Parse(text, "")
	if err != nil {
		t.Fatal(err)
	}
	document, err := documents[0].Canonical()
	if err != nil {
		t.Fatal(err)
	}
	return RuleVersion{RuleID: 7, Version: number, Name: "heavy", Entity: "order", Document: document, SavedAt: minuteOf(int(number))}
}

// The weight of a rule is about its memory, for every kind of expression.
func TestWeightIsAboutMemory(t *testing.T) {
	for name, part := range map[string]string{
		"comparisons": strings.Repeat("event.total == NUMBER or ", 20) + "event.paid",
		"short":       "event.total > NUMBER",
		"loops":       "count(event.list, any(event.nested, # == NUMBER)) > 1",
		"patterns":    `event.note matches "(x+x+)+yNUMBER"`,
		"classes":     `event.note matches "[\\pL\\pN]NUMBER"`,
		"text":        `event.note == "` + strings.Repeat("x", 1000) + `NUMBER"`,
	} {
		t.Run(name, func(t *testing.T) {
			var versions []*version
			for n := range int32(40) {
				versions = append(versions, newVersion(heavyVersion(t, n, 20, part), environment{calendars: calendars.Set{}}))
			}
			before := heapBytes()
			var weight int64
			for _, v := range versions {
				r, err := v.compiled()
				if err != nil {
					t.Fatal(err)
				}
				weight += int64(r.weight)
			}
			taken := heapBytes() - before
			runtime.KeepAlive(versions)
			if ratio := float64(weight) / float64(taken); ratio < 0.5 || ratio > 2 {
				t.Errorf("the weight is %.2f of the memory, %d of %d bytes", ratio, weight, taken)
			}
		})
	}
}

// heapBytes returns the memory that is in use, in bytes.
func heapBytes() int64 {
	runtime.GC()
	runtime.GC() // memory that a finalizer held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // not that much memory
}

// Compiled rules take no more memory than the limit, each is compiled again when it is needed, and one that is used all
// the time stays.
func TestRuleCacheIsBounded(t *testing.T) {
	const most = 2 << 20
	cache := &ruleCache{most: most}
	env := environment{calendars: calendars.Set{}, cache: cache}
	var versions []*version
	for n := range int32(60) {
		versions = append(versions, newVersion(heavyVersion(t, n, 10, strings.Repeat("event.total == NUMBER or ", 20)+"event.paid"), env))
	}
	used := versions[0]
	first, err := used.compiled()
	if err != nil {
		t.Fatal(err)
	}
	before := heapBytes()
	for range 2 {
		for _, v := range versions {
			r, err := v.compiled()
			if err != nil {
				t.Fatal(err)
			}
			if r.engine.Version != v.saved.Version {
				t.Fatalf("version %d compiled to version %d", v.saved.Version, r.engine.Version)
			}
			if cache.weight > most {
				t.Fatalf("the cache holds %d bytes, and may hold %d", cache.weight, int64(most))
			}
			if again, _ := used.compiled(); again != first {
				t.Fatalf("the rule that is used all the time was compiled again beside version %d", v.saved.Version)
			}
		}
	}
	if taken := heapBytes() - before; taken > 2*most {
		t.Errorf("compiled rules take %d bytes, and may take %d", taken, int64(most))
	}
	runtime.KeepAlive(versions)
	held := 0
	for _, v := range versions {
		if v.form.Load() != nil {
			held++
		}
	}
	if held != len(cache.held) || held < 3 || held == len(versions) {
		t.Errorf("%d of %d versions are compiled, and the cache holds %d", held, len(versions), len(cache.held))
	}
}

// A rule that exceeds the whole limit is compiled, and evicted with the next one.
func TestRuleCacheHoldsOversizedRule(t *testing.T) {
	cache := &ruleCache{most: 1}
	env := environment{calendars: calendars.Set{}, cache: cache}
	for n := range int32(3) {
		if _, err := newVersion(heavyVersion(t, n, 1, "event.total > NUMBER"), env).compiled(); err != nil {
			t.Fatal(err)
		}
		if len(cache.held) != 1 {
			t.Fatalf("the cache holds %d", len(cache.held))
		}
	}
}

// Concurrent callers get the same rules from a cache that evicts all the time.
func TestRuleCacheServesManyAtOnce(t *testing.T) {
	cache := &ruleCache{most: 200 << 10}
	env := environment{calendars: calendars.Set{}, cache: cache}
	var versions []*version
	for n := range int32(20) {
		versions = append(versions, newVersion(heavyVersion(t, n, 5, "event.total > NUMBER"), env))
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := range 500 {
				v := versions[(i*k+k)%len(versions)]
				if r, err := v.compiled(); err != nil || r.engine.Version != v.saved.Version {
					t.Errorf("version %d: %v", v.saved.Version, err)
					return
				}
			}
		})
	}
	all.Wait()
	var weight int64
	for _, one := range cache.held {
		weight += one.weight
		if one.version.form.Load() == nil {
			t.Error("the cache holds a version that is not compiled")
		}
	}
	if weight != cache.weight || weight > cache.most {
		t.Errorf("the cache holds %d bytes, takes them for %d, and may hold %d", weight, cache.weight, cache.most)
	}
}
