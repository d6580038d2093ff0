package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/pings"
	"deadman/internal/store"
	"deadman/rules"
)

// address creates an address of a key of the fixture's rule, or its ping key.
func address(w *fixture, key string) (pings.Address, bool, error) {
	return w.CreatePingAddress(access.As(w.ctx(), ada), pings.Address{RuleID: w.rule.ID, Key: key, ID: uuid.NewString()}, false)
}

// pingActions returns the audit entries about ping addresses.
func pingActions(w *fixture) (texts []string) {
	for _, e := range auditEntries(w, access.AuditFilter{Action: "ping.*"}) {
		texts = append(texts, strings.Join([]string{e.Actor.Name, e.Action, e.Object, e.Detail}, " "))
	}
	return texts
}

func addressesAreMadeOnce(t *testing.T, w *fixture) {
	const odd = "a/b\\\x00☃"
	first, made, err := address(w, odd)
	if err != nil || !made || first.Rule != w.rule.Name || first.CreatedBy != ada.Name || first.CreatedAt.IsZero() {
		t.Fatalf("made %t: %+v, %v", made, first, err)
	}
	again, made, err := address(w, odd)
	if diff := cmp.Diff(first, again); diff != "" || made || err != nil {
		t.Errorf("again, made %t, %v (-first +again):\n%s", made, err, diff)
	}
	all, made, err := address(w, "")
	if err != nil || !made || !all.IsPingKey() {
		t.Fatalf("the ping key: %+v, %v", all, err)
	}
	if diff := cmp.Diff([]pings.Address{all, first}, must[[]pings.Address](t)(w.PingAddresses(w.ctx(), w.rule.ID))); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	for _, want := range []pings.Address{all, first} {
		if diff := cmp.Diff([]pings.Address{want}, must[[]pings.Address](t)(w.PingTargets(w.ctx(), want.ID))); diff != "" {
			t.Errorf("of its id (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, must[pings.Address](t)(w.PingAddress(w.ctx(), w.rule.ID, want.Key))); diff != "" {
			t.Errorf("of its key (-want +got):\n%s", diff)
		}
	}
	if n := must[int](t)(w.CountPingAddresses(w.ctx(), w.rule.ID)); n != 2 {
		t.Errorf("%d addresses are counted, want 2", n)
	}
	if got := must[[]pings.Address](t)(w.PingTargets(w.ctx(), "\x00\xff")); len(got) != 0 {
		t.Errorf("of no id: %+v", got)
	}
	if _, err := w.PingAddress(w.ctx(), w.rule.ID, "other"); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("of another key: %v", err)
	}
	want := []string{"ada ping.create rule/order-unshipped ping key", "ada ping.create rule/order-unshipped key " + odd}
	if diff := cmp.Diff(want, pingActions(w)); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
}

func concurrentAddressesCreateOne(t *testing.T, w *fixture) {
	var made atomic.Int32
	ids := sync.Map{}
	var nodes sync.WaitGroup
	for range 8 {
		nodes.Go(func() {
			a, created, err := address(w, "a")
			if err != nil {
				t.Error(err)
			}
			if created {
				made.Add(1)
			}
			ids.Store(a.ID, true)
		})
	}
	nodes.Wait()
	count := 0
	ids.Range(func(any, any) bool { count++; return true })
	if made.Load() != 1 || count != 1 {
		t.Errorf("%d were made, and %d ids were answered", made.Load(), count)
	}
}

func addressesAreRotated(t *testing.T, w *fixture) {
	first, _, err := address(w, "a")
	w.must(err)
	second, made, err := w.CreatePingAddress(w.ctx(), pings.Address{RuleID: w.rule.ID, Key: "a", ID: uuid.NewString()}, true)
	if err != nil || !made || second.ID == first.ID {
		t.Fatalf("made %t: %+v, %v", made, second, err)
	}
	if got := must[[]pings.Address](t)(w.PingTargets(w.ctx(), first.ID)); len(got) != 0 {
		t.Errorf("the old one is still there: %+v", got)
	}
	w.must(w.DeletePingAddress(w.ctx(), w.rule.ID, "a"))
	if err := w.DeletePingAddress(w.ctx(), w.rule.ID, "a"); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	if got := must[[]pings.Address](t)(w.PingAddresses(w.ctx(), w.rule.ID)); len(got) != 0 {
		t.Errorf("left: %+v", got)
	}
	want := []string{
		"deadman ping.delete rule/order-unshipped key a", "deadman ping.rotate rule/order-unshipped key a",
		"ada ping.create rule/order-unshipped key a",
	}
	if diff := cmp.Diff(want, pingActions(w)); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
}

// addressesAreShared checks that an id belongs to one key, or is the ping key of several rules.
func addressesAreShared(t *testing.T, w *fixture) {
	other := w.save("payment-late", "payment")
	create := func(rule *futurejobs.Rule, key, id string) error {
		_, _, err := w.CreatePingAddress(w.ctx(), pings.Address{RuleID: rule.ID, Key: key, ID: id}, false)
		return err
	}
	w.must(create(w.rule, "", "one"))
	w.must(create(other, "", "one"))
	w.must(create(w.rule, "a", "two"))
	third := w.save("parcel-lost", "parcel")
	for _, taken := range []struct {
		key, id string
	}{{"b", "one"}, {"b", "two"}, {"", "two"}} {
		if err := create(third, taken.key, taken.id); !errors.Is(err, pings.ErrAddressExists) {
			t.Errorf("%s for %q: %v, want ErrTaken", taken.id, taken.key, err)
		}
	}
	if got := must[[]pings.Address](t)(w.PingTargets(w.ctx(), "one")); len(got) != 2 || got[0].Rule != w.rule.Name || got[1].Rule != other.Name {
		t.Errorf("of one: %+v", got)
	}
	must[int32](t)(w.Delete(w.ctx(), other.Name, other.Version))
	if got := must[[]pings.Address](t)(w.PingTargets(w.ctx(), "one")); len(got) != 1 {
		t.Errorf("of one, with a rule deleted: %+v", got)
	}
	if err := create(other, "", "three"); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("of a deleted rule: %v", err)
	}
	// The ids of a deleted rule are free again.
	again := w.save("payment-late", "payment")
	w.must(create(again, "", "one"))
	must[int32](t)(w.Delete(w.ctx(), w.rule.Name, w.rule.Version))
	w.must(create(again, "x", "two"))
}

func pingsAreLogged(t *testing.T, w *fixture) {
	seven := 7
	entries := []pings.Entry{
		{Key: "a", Signal: pings.Signal{Kind: rules.Begun}, Run: uuid.NewString(), Agent: "curl/8"},
		{Key: "b\\\x00", Signal: pings.Signal{Kind: rules.Failure, Exit: &seven}, Body: "no \xff space", BodySize: 12345},
		{Key: "a", Signal: pings.Signal{Kind: rules.Success}},
	}
	for i := range entries {
		entries[i].RuleID, entries[i].At = w.rule.ID, w.slot().Add(time.Duration(i)*time.Millisecond)
	}
	w.must(w.LogPings(w.ctx(), entries))
	got := must[[]pings.Entry](t)(w.PingLog(w.ctx(), w.rule.ID, "", 0, 10))
	want := []pings.Entry{entries[2], entries[1], entries[0]}
	want[1].Body = "no \uFFFD space"
	last := int64(0)
	for i := range got {
		if i > 0 && got[i].ID >= last {
			t.Errorf("id %d comes after %d", got[i].ID, last)
		}
		last, got[i].ID = got[i].ID, 0
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	first := must[[]pings.Entry](t)(w.PingLog(w.ctx(), w.rule.ID, "a", 0, 1))
	rest := must[[]pings.Entry](t)(w.PingLog(w.ctx(), w.rule.ID, "a", first[0].ID, 10))
	if len(first) != 1 || first[0].Signal.Kind != rules.Success || len(rest) != 1 || rest[0].Signal.Kind != rules.Begun {
		t.Errorf("of a: %+v, then %+v", first, rest)
	}
}

// pingsAreForgotten checks that the last pings of each key are kept, in any order of logging, and of those only the
// recent ones.
func pingsAreForgotten(t *testing.T, w *fixture) {
	var many []pings.Entry
	for i := range 3*pings.Logged + 50 {
		many = append(many, pings.Entry{
			RuleID: w.rule.ID, Key: "a", At: w.slot().Add(time.Duration(i) * time.Second), Signal: pings.Signal{Kind: rules.Success}, BodySize: i,
		})
	}
	w.must(w.LogPings(w.ctx(), []pings.Entry{{RuleID: w.rule.ID, Key: "b", At: w.slot(), Signal: pings.Signal{Kind: rules.Success}}}))
	w.must(w.LogPings(w.ctx(), many[:2*pings.Logged]))
	w.must(w.LogPings(w.ctx(), many[2*pings.Logged:]))
	got := must[[]pings.Entry](t)(w.PingLog(w.ctx(), w.rule.ID, "a", 0, 1000))
	if len(got) != pings.Logged || got[0].BodySize != len(many)-1 || got[pings.Logged-1].BodySize != len(many)-pings.Logged {
		t.Errorf("%d are left, want the last %d", len(got), pings.Logged)
	}
	if got := must[[]pings.Entry](t)(w.PingLog(w.ctx(), w.rule.ID, "b", 0, 1000)); len(got) != 1 {
		t.Errorf("of another key %d are left", len(got))
	}
	must[store.Pruned](t)(w.Prune(w.ctx(), store.Retention{Pings: time.Hour}))
	if got := must[[]pings.Entry](t)(w.PingLog(w.ctx(), w.rule.ID, "", 0, 1000)); len(got) != pings.Logged+1 {
		t.Errorf("%d are left, though they are young", len(got))
	}
	pruned := must[store.Pruned](t)(w.Prune(w.ctx(), store.Retention{Pings: -3 * futurejobs.Day}))
	if got := must[[]pings.Entry](t)(w.PingLog(w.ctx(), w.rule.ID, "", 0, 1000)); len(got) != 0 || pruned.Pings != pings.Logged+1 {
		t.Errorf("pruned %d, and %d are left", pruned.Pings, len(got))
	}
}

// bodiesAreForgotten checks that the newest bodies of a key's pings are kept, up to a bound; the entries stay.
func bodiesAreForgotten(t *testing.T, w *fixture) {
	bodied := func(key string, size int, of rune) pings.Entry {
		body := strings.Repeat(string(of), size)
		return pings.Entry{RuleID: w.rule.ID, Key: key, At: w.slot(), Signal: pings.Signal{Kind: rules.Success}, Body: body, BodySize: 2 * len(body)}
	}
	kept := func(key string) (count, bytes int, newest string) {
		t.Helper()
		got := must[[]pings.Entry](t)(w.PingLog(w.ctx(), w.rule.ID, key, 0, 1000))
		for i, e := range got {
			if e.BodySize == 0 || (i > 0 && e.Body != "" && got[i-1].Body == "") {
				t.Errorf("%s, line %d: %d bytes are said, %d are kept after a line with none", key, i, e.BodySize, len(e.Body))
			}
			bytes += len(e.Body)
		}
		return len(got), bytes, got[0].Body
	}
	var many []pings.Entry
	for range pings.Logged / 2 {
		many = append(many, bodied("big", pings.MaxBody, 'x'), bodied("small", pings.KeptBodies/pings.Logged, 'x'))
	}
	w.must(w.LogPings(w.ctx(), many))
	last := bodied("big", pings.MaxBody/2, '\u263a') // three bytes each, like a replaced invalid byte
	w.must(w.LogPings(w.ctx(), append(many, last)))
	if count, bytes, newest := kept("big"); count != pings.Logged || bytes != 3*pings.MaxBody/2+3*pings.MaxBody || newest != last.Body {
		t.Errorf("of large ones %d lines and %d bytes are kept, the newest of %d", count, bytes, len(newest))
	}
	if count, bytes, _ := kept("small"); count != pings.Logged || bytes != pings.KeptBodies {
		t.Errorf("of small ones %d lines and %d bytes are kept, want all", count, bytes)
	}
	want := map[string]int64{w.rule.Name: 3*pings.MaxBody/2 + 3*pings.MaxBody + pings.KeptBodies}
	if diff := cmp.Diff(want, must[map[string]int64](t)(w.PingBytes(w.ctx(), ""))); diff != "" {
		t.Errorf("bytes (-want +got):\n%s", diff)
	}
}

// addressesAreDeletedWithRule checks that a rule that was deleted long ago has no addresses left.
func addressesAreDeletedWithRule(t *testing.T, w *fixture) {
	for i := range 3 {
		if _, _, err := address(w, fmt.Sprint("k", i)); err != nil {
			t.Fatal(err)
		}
	}
	pruned := func() int64 {
		return must[store.Pruned](t)(w.Prune(w.ctx(), store.Retention{Pings: -3 * futurejobs.Day})).PingAddresses
	}
	if n := pruned(); n != 0 {
		t.Errorf("%d addresses of a rule that is there are pruned", n)
	}
	must[int32](t)(w.Delete(w.ctx(), w.rule.Name, w.rule.Version))
	if n := pruned(); n != 3 {
		t.Errorf("%d addresses of a deleted rule are pruned, want 3", n)
	}
}
