package rules

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"pgregory.net/rapid"

	"deadman/alerts"
)

// drawDocument draws a document without a mistake.
func drawDocument(t *rapid.T) Document {
	name := rapid.StringMatching(`[a-z0-9][a-z0-9_-]{0,62}`)
	text := rapid.StringN(0, 40, 200).Filter(func(s string) bool { return !slices.Contains([]rune(s), 0) })
	d := blank()
	d.Name, d.Entity = name.Draw(t, "name"), name.Draw(t, "entity")
	d.Description = text.Draw(t, "description")
	d.Enabled, d.Quiet = rapid.Bool().Draw(t, "enabled"), rapid.Bool().Draw(t, "quiet")
	d.Trigger = Trigger{
		Event: "orders.created", Key: rapid.SampledFrom([]string{`event.id`, `event.a + "/" + event.b`}).Draw(t, "key"),
		If:    rapid.SampledFrom([]string{"", `event.total > 0`, `event.a == "it's: #1"`}).Draw(t, "if"),
		Since: rapid.SampledFrom([]string{"", "event.placed_at"}).Draw(t, "since"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "resolves") {
		d.Resolve = append(d.Resolve, Resolve{
			Event: rapid.SampledFrom([]string{"orders.shipped", "orders.*.changed", "parcels.>"}).Draw(t, "event"),
			Key:   "event.id", As: rapid.SampledFrom([]string{"", "cancelled", "done"}).Draw(t, "as"),
		})
	}
	d.While = rapid.SampledFrom([]string{"", `state.status == "OPEN"`, `!(state.paid ?? false)`}).Draw(t, "while")
	after := Duration(0)
	for i := range rapid.IntRange(1, 5).Draw(t, "steps") {
		after += Duration(rapid.Int64Range(1, 500_000).Draw(t, "after")) * Duration(time.Millisecond)
		d.Escalate = append(d.Escalate, Step{
			After: after, Name: "step-" + string(rune('a'+i)), Text: rapid.SampledFrom([]string{"", "{{key}}: {{since}}"}).Draw(t, "text"),
			Severity: rapid.SampledFrom([]alerts.Severity{alerts.Info, alerts.Warning, alerts.Error, alerts.Critical}).Draw(t, "severity"),
		})
	}
	d.Guards.MaxChecks = rapid.IntRange(len(d.Escalate)+1, 100).Draw(t, "max_checks")
	d.Hold = Duration(rapid.Int64Range(0, 1_000_000).Draw(t, "hold")) * Duration(time.Second)
	d.Slot = Duration(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 15 * time.Minute, 24 * time.Hour}).Draw(t, "slot"))
	if rapid.Bool().Draw(t, "labelled") {
		d.Labels = map[string]string{"team": "x", "url": "https://example.com/?a=b&c=<d>"}
	}
	return d
}

// TestRoundTrips: a document that is written as JSON or as YAML and read again is the same.
func TestRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDocument(t)
		roundTrip(t, d)
		// The YAML writer leaves control characters as they are; the reader is what is tested.
		d.Description = rapid.StringMatching(`[a-zA-Z0-9:#'"{}ä€-]{0,40}`).Draw(t, "plain description")
		text, err := d.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		asYAML, err := yaml.JSONToYAML(text)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(asYAML, "")
		if err != nil {
			t.Fatalf("%s\n%v", asYAML, err)
		}
		if !reflect.DeepEqual(again[0], d) {
			t.Fatalf("%s\n%+v\nbecame\n%+v", asYAML, d, again[0])
		}
	})
}

func TestDurations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Duration(rapid.Int64Range(0, 10_000_000_000).Draw(t, "ms")) * Duration(time.Millisecond)
		again, err := ParseDuration(d.String())
		if err != nil || again != d {
			t.Fatalf("%s is read as %s (%v)", d, again, err)
		}
	})
	for text, want := range map[string]string{"90m": "1h30m", "1w": "7d", "86400s": "1d", "1d1ms": "1d1ms", "0s": "0s"} {
		if d, err := ParseDuration(text); err != nil || d.String() != want {
			t.Errorf("%s: %s, %v; want %s", text, d, err, want)
		}
	}
}

// TestDefaults pins what a document means that says nothing about it.
func TestDefaults(t *testing.T) {
	documents, err := Parse([]byte("name: late\nentity: order\ntrigger: {event: a, key: event.id}\nescalate: [{after: 3h}, {after: 4h}]\n"), "")
	if err != nil {
		t.Fatal(err)
	}
	want := Document{
		Name: "late", Entity: "order", Enabled: true, Trigger: Trigger{Event: "a", Key: "event.id"},
		Escalate: []Step{
			{After: Duration(3 * time.Hour), Name: "step-1", Severity: "warning"},
			{After: Duration(4 * time.Hour), Name: "step-2", Severity: "warning"},
		},
		Slot: Duration(time.Minute), Hold: Duration(7 * 24 * time.Hour),
		Guards: Guards{Timeout: Duration(5 * time.Second), Attempts: 3, MaxChecks: 7, Horizon: Duration(30 * 24 * time.Hour)},
	}
	if !reflect.DeepEqual(documents[0], want) {
		t.Errorf("got  %+v\nwant %+v", documents[0], want)
	}
}

// TestTrie: the trie finds what a look at every pattern finds.
func TestTrie(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		token := rapid.SampledFrom([]string{"a", "b", "c", "*"})
		var root trie[int]
		var patterns []string
		for i := range rapid.IntRange(1, 20).Draw(t, "patterns") {
			p := token.Draw(t, "token")
			for range rapid.IntRange(0, 3).Draw(t, "more") {
				p += "." + token.Draw(t, "token")
			}
			if rapid.Bool().Draw(t, "open") {
				p += ".>"
			}
			patterns = append(patterns, p)
			root.add(p, i)
		}
		subject := rapid.StringMatching(`[abc](\.[abc]){0,5}`).Draw(t, "subject")
		var want, got []int
		for i, p := range patterns {
			if matches(p, subject) {
				want = append(want, i)
			}
		}
		root.match(subject, func(i int) { got = append(got, i) })
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("%s in %v: got %v, want %v", subject, patterns, got, want)
		}
		for i, p := range patterns {
			for _, q := range patterns[:i] {
				if covers(p, q) && matches(q, subject) && !matches(p, subject) {
					t.Fatalf("%s covers %s and does not match %s", p, q, subject)
				}
			}
		}
	})
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, subject string
		want             bool
	}{
		{"a.b", "a.b", true},
		{"a.b", "a", false},
		{"a", "a.b", false},
		{"a.*", "a.b", true},
		{"a.*", "a.b.c", false},
		{"a.*", "a", false},
		{"a.>", "a.b.c", true},
		{"a.>", "a", false},
		{"*.b", "a.b", true},
		{"*", "a", true},
		{"a.*.c", "a.b.c", true},
	} {
		if got := matches(c.pattern, c.subject); got != c.want {
			t.Errorf("%s matches %s: %v", c.pattern, c.subject, got)
		}
	}
}
