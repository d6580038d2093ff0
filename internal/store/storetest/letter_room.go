package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/store"
)

// fewLetters are limits that a test reaches: 3 letters of a rule of a tenant, 5 of the tenant, and 4 of a rule without
// one.
var fewLetters = store.LetterLimits{
	Letters: store.LetterShares{Total: 20, Tenants: 10, Tenant: 5, Reserve: 1, Rule: 4, TenantRule: 3},
	Bytes:   store.DefaultLetterLimits.Bytes,
	Period:  time.Hour,
}

// boundDeadLetters bounds letters by fewLetters. The rules of the tenant acme have no room for jobs.
func boundDeadLetters(w *fixture) {
	w.t.Helper()
	var q access.Quotas
	q.Set([]access.Quota{{Prefix: "acme-", Set: map[access.Limited]int64{access.LimitJobs: 0}}}, 0)
	w.BoundBy(&q)
	w.BoundLetters(fewLetters)
}

// onEvent returns an effect of an event of the stream ORDERS.
func onEvent(e futurejobs.Effect, seq uint64, at time.Time) futurejobs.Effect {
	e.Event = &futurejobs.Event{Stream: "ORDERS", Subject: "orders.created", ID: fmt.Sprint(seq), Seq: seq, At: at, Data: []byte(`{}`)}
	return e
}

// minuteClock returns a function that returns the number of minutes since the call of minutes, the first included.
func minuteClock(w *fixture) func() int {
	first := must[time.Time](w.t)(w.Now(w.ctx())).Truncate(time.Minute)
	return func() int {
		return 1 + int(must[time.Time](w.t)(w.Now(w.ctx())).Truncate(time.Minute).Sub(first)/time.Minute)
	}
}

// letterCount is the number of a rule's letters, of its summaries, and of the events that they stand for.
type letterCount struct {
	Letters, Summaries int
	Summarized         int64
	First, Last        uint64 // sequences of the summaries
}

// countDeadLetters counts the letters of a rule.
func countDeadLetters(w *fixture, rule string) (n letterCount) {
	w.t.Helper()
	for _, l := range pages(w.t, futurejobs.Filter{Rule: rule}, w.DeadLetters) {
		if l.Summarized == 0 {
			n.Letters++
			continue
		}
		if n.Summaries++; n.First == 0 || l.Event.Seq < n.First {
			n.First = l.Event.Seq
		}
		n.Summarized, n.Last = n.Summarized+l.Summarized, max(n.Last, l.LastSeq)
		if len(l.Event.Data) > 0 || l.Event.Header != nil || l.Size == 0 || l.LastEventAt.IsZero() {
			w.t.Errorf("a summary seems to be a whole letter: %+v", l)
		}
	}
	return n
}

// deadLettersAreBounded checks that refused events beyond the limits have one summary for each rule and minute, and that the
// rules of others have letters of their own.
func deadLettersAreBounded(t *testing.T, w *fixture) {
	boundDeadLetters(w)
	minutes := minuteClock(w)
	first, second := w.save("acme-1", "order"), w.save("acme-2", "order")
	seq := uint64(7)
	for range 5 {
		b := batch(w, seq, seq+4)
		for range 4 {
			seq++
			key := fmt.Sprint(seq)
			b.Effects = append(b.Effects, onEvent(w.starting(first, key, w.slot()), seq, w.at), onEvent(w.starting(second, key, w.slot()), seq, w.at))
			b.DeadLetters = append(b.DeadLetters, futurejobs.DeadLetter{
				Event: futurejobs.Event{Stream: "ORDERS", Seq: seq, At: w.at, Data: []byte("x")}, Rule: "operators", Reason: "no key", Part: futurejobs.Triggers,
			})
		}
		got := must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), b))
		if got.Created != 0 || got.Refused != 8 {
			t.Fatalf("without room: %+v", got.EffectCounts)
		}
	}
	counts := map[string]letterCount{"acme-1": countDeadLetters(w, "acme-1"), "acme-2": countDeadLetters(w, "acme-2"), "operators": countDeadLetters(w, "operators")}
	for rule, n := range counts {
		if limit := minutes(); n.Summaries > limit {
			t.Errorf("%d summaries of %s in %d minutes", n.Summaries, rule, limit)
		}
		n.Summaries = 0
		counts[rule] = n
	}
	if diff := cmp.Diff(map[string]letterCount{
		"acme-1":    {Letters: 3, Summarized: 17, First: 11, Last: 27},
		"acme-2":    {Letters: 2, Summarized: 18, First: 10, Last: 27}, // the tenant has 5
		"operators": {Letters: 4, Summarized: 16, First: 12, Last: 27},
	}, counts); diff != "" {
		t.Errorf("letters (-want +got):\n%s", diff)
	}
	reasons := must[futurejobs.DeadLetterReasons](t)(w.LetterReasons(w.ctx(), futurejobs.Filter{Rule: "operators"}))
	if len(reasons.Reasons) != 1 || reasons.Reasons[0].Reason != "no key" || reasons.Reasons[0].Summarized != 16 {
		t.Errorf("reasons: %+v", reasons)
	}
	if n := must[int64](t)(w.CountLetters(w.ctx())); n != 60 { // 20 events, each refused by three rules
		t.Errorf("%d events are dead letters, want 60", n)
	}
	capped := must[store.CappedLetters](t)(w.CapLetters(w.ctx(), store.DefaultLetterCaps))
	if diff := cmp.Diff([]string{"acme-1", "acme-2", "operators"}, capped.Rules); diff != "" {
		t.Errorf("rules with summaries (-want +got):\n%s", diff)
	}
	newest := must[futurejobs.Page[futurejobs.DeadLetter]](t)(w.DeadLetters(w.ctx(), futurejobs.Filter{Rule: "acme-1", Limit: 1})).Items[0]
	if newest.Summarized == 0 {
		t.Fatalf("the newest letter is no summary: %+v", newest)
	}
	if one := must[futurejobs.DeadLetter](t)(w.DeadLetter(w.ctx(), newest.ID)); !cmp.Equal(newest, one) {
		t.Errorf("one letter (-listed +got):\n%s", cmp.Diff(newest, one))
	}
	w.must(w.DropLetter(w.ctx(), newest.ID))
}

// summarizedJobsAreForgotten checks that an end is remembered for the retry of a dead letter, and not for a refused job
// that is in a summary.
func summarizedJobsAreForgotten(t *testing.T, w *fixture) {
	boundDeadLetters(w)
	rule := w.save("acme-1", "order")
	b := batch(w, 7, 17)
	for seq := uint64(8); seq < 18; seq++ {
		b.Effects = append(b.Effects, onEvent(w.starting(rule, fmt.Sprint(seq), w.slot()), seq, w.at))
	}
	for _, key := range []string{"8", "17"} { // in the batch: 8 has a letter, 17 has none
		b.Effects = append(b.Effects, actionEffect(w, rule, key, w.at.Add(time.Second), futurejobs.End{Outcome: "resolved"}))
	}
	if got := must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), b)); got.Refused != 10 || got.Summarized != 7 || got.Remembered != 1 || got.Missed != 1 {
		t.Errorf("refused: %d summarized, %+v", got.Summarized, got.EffectCounts)
	}
	var ends []futurejobs.Effect
	for seq := uint64(9); seq < 17; seq++ {
		ends = append(ends, actionEffect(w, rule, fmt.Sprint(seq), w.at.Add(time.Second), futurejobs.End{Outcome: "resolved"}))
	}
	if got := w.applyManually(ends...); got.Remembered != 2 || got.Missed != 6 {
		t.Errorf("ends: %+v", got.EffectCounts)
	}
}

// deadLetterCapacityIsReturned checks that a batch that fails takes no capacity, and leaves no summary.
func deadLetterCapacityIsReturned(t *testing.T, w *fixture) {
	boundDeadLetters(w)
	rule := w.save("acme-1", "order")
	refused := func(after uint64) futurejobs.EffectBatch {
		b := batch(w, after, after+4)
		for seq := after + 1; seq <= after+4; seq++ {
			b.Effects = append(b.Effects, onEvent(w.starting(rule, fmt.Sprint(seq), w.slot()), seq, w.at))
			b.DeadLetters = append(b.DeadLetters, futurejobs.DeadLetter{Event: futurejobs.Event{Stream: "ORDERS", Seq: seq}, Rule: "operators", Reason: "no key"})
		}
		return b
	}
	for range 3 {
		failing := refused(7)
		failing.RequestID = "not begun" // it fails after its letters are written
		if _, err := w.Apply(w.ctx(), failing); !errors.Is(err, access.ErrRunning) {
			t.Fatalf("a request that is not under way: %v", err)
		}
		if _, err := w.Apply(w.ctx(), refused(6)); !errors.Is(err, futurejobs.ErrCursorMoved) {
			t.Fatalf("a batch of another cursor: %v", err)
		}
	}
	if all := pages(t, futurejobs.Filter{}, w.DeadLetters); len(all) != 0 {
		t.Errorf("%d letters of batches that failed", len(all))
	}
	must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), refused(7)))
	for name, want := range map[string]letterCount{
		"acme-1":    {Letters: 3, Summaries: 1, Summarized: 1, First: 11, Last: 11},
		"operators": {Letters: 4},
	} {
		if diff := cmp.Diff(want, countDeadLetters(w, name)); diff != "" {
			t.Errorf("letters of %s (-want +got):\n%s", name, diff)
		}
	}
}

// deadLettersOfTenantsAreCapped checks that the letters of a tenant's rules are capped together, and those of others are not.
func deadLettersOfTenantsAreCapped(t *testing.T, w *fixture) {
	b := batch(w, 7, 27)
	for i := range 12 {
		for _, rule := range []string{"acme-1", "acme-2", "acme-3", "operators"} {
			b.DeadLetters = append(b.DeadLetters, futurejobs.DeadLetter{Event: futurejobs.Event{Stream: "ORDERS", Seq: uint64(8 + i)}, Rule: rule, Reason: "bad"})
		}
	}
	must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), b))
	caps := store.DefaultLetterCaps
	caps.Tenant = tenantOf
	for _, c := range []struct{ most, removed, left int }{{36, 0, 12}, {24, 12, 8}} {
		caps.TenantLetters = c.most
		got := must[store.CappedLetters](t)(w.CapLetters(w.ctx(), caps))
		if one, other := countDeadLetters(w, "acme-2").Letters, countDeadLetters(w, "operators").Letters; int(got.Removed) != c.removed || one != c.left || other != 12 {
			t.Errorf("at most %d: %d removed, %d of a rule of the tenant and %d of another are left", c.most, got.Removed, one, other)
		}
	}
}

// deadLetterBodiesLeaveHalfToOthers checks that rules without a tenant keep half of all bodies, and that tenants share the rest.
func deadLetterBodiesLeaveHalfToOthers(t *testing.T, w *fixture) {
	b := batch(w, 7, 27)
	for i := range 10 {
		for _, rule := range []string{"acme-1", "zenith-1", "operators"} {
			b.DeadLetters = append(b.DeadLetters, futurejobs.DeadLetter{
				Event: futurejobs.Event{Stream: "ORDERS", Seq: uint64(8 + i), Data: []byte("0123456789")}, Rule: rule, Reason: "bad",
			})
		}
	}
	must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), b))
	caps := store.DefaultLetterCaps
	caps.Tenant, caps.TotalBytes = tenantOf, 120
	must[store.CappedLetters](t)(w.CapLetters(w.ctx(), caps))
	bodies := make(map[string]int)
	for _, l := range pages(t, futurejobs.Filter{}, w.DeadLetters) {
		if len(l.Event.Data) > 0 {
			bodies[l.Rule]++
		}
	}
	if diff := cmp.Diff(map[string]int{"acme-1": 3, "zenith-1": 3, "operators": 6}, bodies); diff != "" {
		t.Errorf("letters with bodies (-want +got):\n%s", diff)
	}
}

// lettersAreCappedByTenant checks that a tenant with many rules does not displace the older bodies of another tenant.
func lettersAreCappedByTenant(t *testing.T, w *fixture) {
	b := batch(w, 7, 27)
	letter := func(rule string, seq uint64, size int) {
		b.DeadLetters = append(b.DeadLetters, futurejobs.DeadLetter{
			Event: futurejobs.Event{Stream: "ORDERS", Seq: seq, Data: bytes.Repeat([]byte("x"), size)}, Rule: rule, Reason: "bad",
		})
	}
	letter("quiet", 8, 5)
	for i := range 12 {
		letter(fmt.Sprintf("acme-%d", i%2), uint64(9+i), 10)
	}
	must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), b))
	const much = 1 << 20
	c := must[store.CappedLetters](t)(w.CapLetters(w.ctx(), store.LetterCaps{Letters: much, Bodies: much, BodyBytes: much, TotalBytes: 70, TenantLetters: much, Tenant: tenantOf}))
	if c.Emptied != 9 || c.Removed != 0 {
		t.Errorf("%+v", c)
	}
	var bodies int
	for _, l := range pages(t, futurejobs.Filter{}, w.DeadLetters) {
		if l.Rule == "quiet" && len(l.Event.Data) != 5 {
			t.Error("the letter of another tenant lost its body")
		}
		bodies += len(l.Event.Data)
	}
	if bodies != 35 {
		t.Errorf("%d bytes are left", bodies)
	}
}

// deadLetterBodiesFitCapacity checks that one event that many rules refuse repeatedly fills the database no further than
// the caps: letters beyond the capacity have no bodies, but the size of those.
func deadLetterBodiesFitCapacity(t *testing.T, w *fixture) {
	const size = 250_000
	data := bytes.Repeat([]byte("x"), size)
	seq := uint64(7)
	write := func(rule string, n int) {
		b := batch(w, seq, seq+uint64(n))
		for i := range n {
			b.DeadLetters = append(b.DeadLetters, futurejobs.DeadLetter{
				Event: futurejobs.Event{Stream: "ORDERS", Seq: seq + 1 + uint64(i), Data: data}, Rule: rule, Reason: "bad",
			})
		}
		must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), b))
		seq += uint64(n)
	}
	for range 3 {
		write("loud", 100)
	}
	write("quiet", 1)
	whole := make(map[string]int)
	for _, l := range pages(t, futurejobs.Filter{Limit: futurejobs.MaxLimit}, w.DeadLetters) {
		switch {
		case l.Omitted: // it is large
			whole[l.Rule]++
		case l.Size != size:
			t.Fatalf("letter %d has no body, and a size of %d", l.ID, l.Size)
		}
	}
	if diff := cmp.Diff(map[string]int{"loud": int(store.DefaultLetterCaps.BodyBytes / size), "quiet": 1}, whole); diff != "" {
		t.Errorf("letters with bodies (-want +got):\n%s", diff)
	}
}
