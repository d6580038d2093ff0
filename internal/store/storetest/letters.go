package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
)

func lettersKeepTheirBytes(t *testing.T, w *fixture) {
	sent := []futurejobs.DeadLetter{
		{
			Event: futurejobs.Event{
				Stream: "ORDERS", Subject: "orders.\xff\x00created", Seq: 8, At: w.slot().Add(time.Microsecond), ID: "id\x00\xfe",
				Header: map[string][]string{"X-\xff": {"a\x00b", "\xc3\x28", `back\slash "quoted"`}, "Plain": {"value"}},
				Data:   []byte("\x00\xff{not json"),
			},
			Rule: w.rule.Name, Part: futurejobs.Resolves, Size: 1 << 20, Reason: "cannot read \"\xff\x00\"",
		},
		{Event: futurejobs.Event{Stream: "ORDERS", Subject: "orders.created", Seq: 9}, Reason: "no rule matches"},
	}
	b := batch(w, 7, 9)
	b.DeadLetters = sent
	from := must[time.Time](t)(w.Now(w.ctx()))
	must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), b))
	got := pages(t, futurejobs.Filter{}, w.DeadLetters)
	if len(got) != 2 {
		t.Fatalf("%d letters, want 2", len(got))
	}
	for i, l := range []futurejobs.DeadLetter{got[1], got[0]} { // newest first
		if l.At.Before(from) || l.ID == 0 {
			t.Errorf("letter %d: id %d, at %s", i, l.ID, l.At)
		}
		want := sent[i]
		want.ID, want.At = l.ID, l.At
		if diff := cmp.Diff(want, l); diff != "" {
			t.Errorf("letter %d (-sent +kept):\n%s", i, diff)
		}
	}
}

func lettersAreListed(t *testing.T, w *fixture) {
	for i := range 20 {
		b := batch(w, uint64(7+i), uint64(8+i))
		b.DeadLetters = []futurejobs.DeadLetter{{
			Event: futurejobs.Event{Stream: "ORDERS", Seq: uint64(8 + i)}, Rule: fmt.Sprintf("r%d", i%2), Reason: "bad",
		}}
		must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), b))
	}
	got := pages(t, futurejobs.Filter{Limit: 3}, w.DeadLetters)
	if len(got) != 20 {
		t.Fatalf("%d letters, want 20", len(got))
	}
	for i, l := range got {
		if l.Event.Seq != uint64(27-i) {
			t.Fatalf("letter %d is of event %d: not newest first", i, l.Event.Seq)
		}
	}
	if got := pages(t, futurejobs.Filter{Rule: "r1", Limit: 3}, w.DeadLetters); len(got) != 10 {
		t.Errorf("%d letters of one rule, want 10", len(got))
	}
	if got := pages(t, futurejobs.Filter{RulePrefix: "r", Limit: 3}, w.DeadLetters); len(got) != 20 {
		t.Errorf("%d letters of rules that begin so, want 20", len(got))
	}
	if got := pages(t, futurejobs.Filter{RulePrefix: "_1"}, w.DeadLetters); len(got) != 0 {
		t.Errorf("%d letters of no rule", len(got))
	}
	one := must[futurejobs.DeadLetter](t)(w.DeadLetter(w.ctx(), got[3].ID))
	if diff := cmp.Diff(got[3], one); diff != "" {
		t.Errorf("one letter (-listed +got):\n%s", diff)
	}
	if _, err := w.DeadLetter(w.ctx(), got[0].ID+1); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("no such letter: %v, want ErrNotFound", err)
	}
}

// lettersAreCounted checks that letters are counted by the rule that refused them and the reason, most letters first,
// and that a reason narrows every list of letters.
func lettersAreCounted(t *testing.T, w *fixture) {
	refuse := func(rule, reason string, subjects ...string) {
		var b futurejobs.EffectBatch
		b.RuleSet = w.set
		for _, subject := range subjects {
			b.DeadLetters = append(b.DeadLetters, futurejobs.DeadLetter{Event: futurejobs.Event{Stream: "ORDERS", Subject: subject}, Rule: rule, Reason: reason})
		}
		must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), b))
	}
	refuse("r1", "no key\x00", "a", "a", "b")
	refuse("r2", "no key\x00", "a")
	refuse("", "no JSON", "b", "b")
	all := pages(t, futurejobs.Filter{}, w.DeadLetters) // newest first
	counted := func(f futurejobs.Filter) (out string) {
		got := must[futurejobs.DeadLetterReasons](t)(w.LetterReasons(w.ctx(), f))
		for _, r := range got.Reasons {
			out += fmt.Sprintf("%d %s %q; ", r.Letters, r.Rule, r.Reason)
			i := slices.IndexFunc(all, func(l futurejobs.DeadLetter) bool { return l.Rule == r.Rule && l.Reason == r.Reason })
			if all[i].ID != r.Newest || !all[i].At.Equal(r.At) {
				t.Errorf("the newest of %q is letter %d of %s, want %d of %s", r.Reason, r.Newest, r.At, all[i].ID, all[i].At)
			}
		}
		return fmt.Sprintf("%s%d %t", out, got.Letters, got.More)
	}
	for _, c := range []struct {
		filter futurejobs.Filter
		want   string
	}{
		{futurejobs.Filter{}, `3 r1 "no key\x00"; 2  "no JSON"; 1 r2 "no key\x00"; 6 false`},
		{futurejobs.Filter{Subject: "b"}, `2  "no JSON"; 1 r1 "no key\x00"; 3 false`},
		{futurejobs.Filter{Reason: "no key\x00", Rule: "r2"}, `1 r2 "no key\x00"; 1 false`},
		{futurejobs.Filter{Reason: "no"}, "0 false"},
	} {
		if got := counted(c.filter); got != c.want {
			t.Errorf("%+v: %s, want %s", c.filter, got, c.want)
		}
	}
	if got := pages(t, futurejobs.Filter{Reason: "no key\x00"}, w.DeadLetters); len(got) != 4 {
		t.Errorf("%d letters of one reason, want 4", len(got))
	}
	if n := must[int64](t)(w.DropLetters(w.ctx(), futurejobs.Filter{Reason: "no JSON"})); n != 2 {
		t.Errorf("%d letters of one reason were dropped, want 2", n)
	}
}

// lettersAreCapped checks that the newest letters of a rule are kept with bodies, then some without, and that the rest
// is deleted and counted; those of another rule stay.
func lettersAreCapped(t *testing.T, w *fixture) {
	b := batch(w, 7, 27)
	letter := func(rule string, seq uint64, size int) futurejobs.DeadLetter {
		return futurejobs.DeadLetter{Event: futurejobs.Event{Stream: "ORDERS", Seq: seq, Data: bytes.Repeat([]byte("x"), size)}, Rule: rule, Reason: "bad"}
	}
	b.DeadLetters = append(b.DeadLetters, letter("quiet", 8, 5))
	for i := range 12 {
		b.DeadLetters = append(b.DeadLetters, letter("loud", uint64(9+i), 10))
	}
	must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), b))
	check := func(caps store.LetterCaps, removed, emptied int64, rules []string, largest []int, quiet int) {
		t.Helper()
		c := must[store.CappedLetters](t)(w.CapLetters(w.ctx(), caps))
		if c.Removed != removed || c.Emptied != emptied || !slices.Equal(c.Rules, rules) {
			t.Errorf("the caps %+v took %+v, want %d, %d, %q", caps, c, removed, emptied, rules)
		}
		var bodies []int
		for _, l := range pages(t, futurejobs.Filter{}, w.DeadLetters) {
			switch {
			case l.Rule == "quiet" && len(l.Event.Data) != quiet:
				t.Errorf("the letter of the other rule has %d bytes, want %d", len(l.Event.Data), quiet)
			case l.Rule == "quiet":
			case len(l.Event.Data) == 0 && l.Size != 10:
				t.Errorf("a letter without its body says it had %d bytes", l.Size)
			default:
				bodies = append(bodies, len(l.Event.Data))
			}
		}
		if !slices.Equal(bodies, largest) {
			t.Errorf("after the caps %+v the bodies are %v, want %v", caps, bodies, largest)
		}
	}
	const much = 1 << 20
	full := slices.Repeat([]int{10}, 12)
	check(store.LetterCaps{Letters: 12, Bodies: 12, BodyBytes: 120, TotalBytes: 125}, 0, 0, nil, full, 5)
	check(store.LetterCaps{Letters: 10, Bodies: much, BodyBytes: much, TotalBytes: much}, 2, 0, nil, full[:10], 5)
	check(store.LetterCaps{Letters: 10, Bodies: 7, BodyBytes: much, TotalBytes: much}, 0, 3, []string{"loud"}, append(slices.Repeat([]int{10}, 7), 0, 0, 0), 5)
	check(store.LetterCaps{Letters: 10, Bodies: 7, BodyBytes: 45, TotalBytes: much}, 0, 3, []string{"loud"}, append(slices.Repeat([]int{10}, 4), make([]int, 6)...), 5)
	check(store.LetterCaps{Letters: 10, Bodies: 7, BodyBytes: much, TotalBytes: 30}, 0, 2, []string{"loud", "quiet"}, append(slices.Repeat([]int{10}, 3), make([]int, 7)...), 0)
	if n := must[store.Gauges](t)(w.Gauges(w.ctx())); n.OldestDeadLetter.IsZero() {
		t.Error("no letter is left")
	}
}
