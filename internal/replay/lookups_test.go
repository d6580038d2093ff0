package replay_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	"deadman/internal/replay"
	"deadman/rules"
)

const lookupRule = `
name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
lookup: {sql: {source: shop, query: "select status from orders where id = $1 and region = $2", params: [key, event.region]}}
while: state != nil and state.status == "UNSHIPPED"
guards: {attempts: 2}
escalate: [{after: 3h, step: late, severity: critical, text: "{{key}} is {{state.status}}"}, {after: 4h, step: later}]
`

// stillHolds is the default text of a step of the rule.
const stillHolds = `state != nil and state.status == "UNSHIPPED" still holds for order 1, 4h after orders.created`

// playedAnswered returns the alerts of a rule with the given answers for JSON lines, and the summary.
func playedAnswered(t *testing.T, rule, answers, lines string, until time.Time) (raised []string, s *replay.Summary) {
	t.Helper()
	given, err := replay.ParseLookups([]byte(answers), "lookups.yaml")
	if err != nil {
		t.Fatal(err)
	}
	documents, err := rules.Parse([]byte(rule), "")
	if err != nil {
		t.Fatal(err)
	}
	r, err := replay.New(t.Context(), documents, nil, given, start)
	if err != nil {
		t.Fatal(err)
	}
	r.Raise = func(a alerts.Alert) error {
		raised = append(raised, fmt.Sprintf("%s %s %s %s: %s", a.Slot.Format("15:04:05"), a.Key, a.Step, a.Status, a.Text))
		return nil
	}
	return raised, playTo(t, r, replay.NewJSONLines(strings.NewReader(lines)), until)
}

func created(key string) string {
	return fmt.Sprintf(`{"subject": "orders.created", "time": "2026-03-02T10:00:00Z", "data": {"id": %q, "region": 7}}`+"\n", key)
}

// Given answers hold from their times, for their keys and queries. A missing answer and an error are undetermined.
func TestLookupsGivenAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answers string
		want    []string
		guards  map[string]int64
	}{
		"of the key": {
			answers: `{key: 1, found: {status: UNSHIPPED}}`,
			want:    []string{"13:00:00 1 late firing: 1 is UNSHIPPED", "14:00:00 1 later firing: " + stillHolds},
		},
		"of the query": {
			answers: `[{query: [1, 7], found: {status: UNSHIPPED}}, {query: [1, 8], found: {status: SHIPPED}}]`,
			want:    []string{"13:00:00 1 late firing: 1 is UNSHIPPED", "14:00:00 1 later firing: " + stillHolds},
		},
		"from a time": {
			answers: `[{from: 2026-03-02T13:30:00Z, found: {status: SHIPPED}}, {key: "1", found: {status: UNSHIPPED}}]`,
			want:    []string{"13:00:00 1 late firing: 1 is UNSHIPPED", "14:00:00 1 late resolved: order 1: the condition no longer holds"},
		},
		"no record":  {answers: `{absent: true}`},
		"of another": {answers: `{key: 2, found: {status: UNSHIPPED}}`, guards: map[string]int64{"attempts": 1}, want: []string{"13:00:01 1  undetermined: order 1: check undetermined: source shop has no past answer for key 1, query 1, 7, at 2026-03-02T13:00:01Z"}},
		"an error":   {answers: `{error: two rows}`, guards: map[string]int64{"attempts": 1}, want: []string{"13:00:01 1  undetermined: order 1: check undetermined: two rows"}},
		"an outage": {
			answers: `[{unavailable: connection refused}, {from: 2026-03-02 13:20, found: {status: UNSHIPPED}}]`,
			guards:  map[string]int64{"attempts": 1},
			want: []string{
				"13:00:01 outage/shop  undetermined: checks of order are undetermined: shop is unavailable: connection refused; 1 job due",
				"13:23:00 1 late firing: 1 is UNSHIPPED", "13:23:00 outage/shop  resolved: shop is available again; 1 job of order could not be checked meanwhile",
				"14:00:00 1 later firing: " + stillHolds,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			raised, s := playedAnswered(t, lookupRule, "sources: {shop: {answers: "+c.answers+"}}", created("1"), start.Add(4*time.Hour))
			if diff := cmp.Diff(c.want, raised); diff != "" {
				t.Error(diff)
			}
			if got := s.Rules[0].Guards; len(got) != len(c.guards) || got["attempts"] != c.guards["attempts"] {
				t.Errorf("guards %v, want %v", got, c.guards)
			}
		})
	}
}

// Events answer the lookups after them. Of several answers the latest holds.
func TestLookupsFromEvents(t *testing.T) {
	lines := created("1") + created("2") + created("3") + `
{"subject": "shop.changed.7", "time": "2026-03-02T11:00:00Z", "data": {"order": 1, "is": {"status": "UNSHIPPED"}}}
{"subject": "shop.changed.8", "time": "2026-03-02T11:10:00Z", "data": {"order": 1, "is": {"status": "SHIPPED"}}}
{"subject": "shop.changed.7", "time": "2026-03-02T11:20:00Z", "data": {"order": 2, "is": {"status": "UNSHIPPED"}}}
{"subject": "shop.deleted", "time": "2026-03-02T13:00:00Z", "data": {"id": "2"}}
{"subject": "shop.deleted", "time": "2026-03-02T13:10:00Z", "data": {}}
`
	answers := `
sources:
  shop:
    answers: {absent: true}
    events:
      - {event: shop.changed.*, query: [event.order, wildcard(1)], if: event.order > 0, found: event.is}
      - {event: shop.deleted, key: event.id, absent: true}
`
	raised, s := playedAnswered(t, lookupRule, answers, lines, start.Add(3*time.Hour))
	if diff := cmp.Diff([]string{"13:00:00 1 late firing: 1 is UNSHIPPED"}, raised); diff != "" {
		t.Error(diff)
	}
	if r := s.Rules[0]; r.Outcomes["cleared"] != 2 || r.Pending != 1 {
		t.Errorf("%+v", r)
	}
	if _, s = playedAnswered(t, lookupRule, answers, lines, start.Add(4*time.Hour)); len(s.Unruled) != 1 || !strings.Contains(s.Unruled[0].Reason, "no answer of source shop: key event.id: expected text") {
		t.Errorf("refused: %+v", s.Unruled)
	}
}

// Errors in a file have their places and remedies.
func TestLookupsRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "",
		"source: {}":          `unknown field "source"`,
		"sources: {shop: {}}": "the source has no answers",
		"sources: {Shop: {answers: {absent: true}}}":                          "Shop",
		"sources: {shop: {answers: {key: 1}}}":                                "an answer has one result",
		"sources: {shop: {answers: {absent: true, error: x}}}":                "an answer has one result",
		"sources: {shop: {answers: {absent: false}}}":                         "write true, or leave the field out",
		"sources: {shop: {answers: {found: 1}}}":                              "not an object",
		"sources: {shop: {answers: {from: today, absent: true}}}":             "is not a time",
		"sources: {shop: {answers: {key: [1], absent: true}}}":                "expected text or a number, not a list",
		"sources: {shop: {events: {event: orders.changed, key: evnt.id}}}":    `key: unknown name "evnt"; did you mean "event"?`,
		"sources: {shop: {events: {event: \"orders.>.x\"}}}":                  "event: ",
		"sources: {shop: {events: {key: event.id}}}":                          "event is missing",
		"sources: {shop: {events: {event: a, found: event.b, absent: true}}}": "keep found or absent",
	} {
		_, err := replay.ParseLookups([]byte(text), "lookups.yaml")
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "lookups.yaml:1:")) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	documents, err := rules.Parse([]byte(lookupRule), "")
	if err != nil {
		t.Fatal(err)
	}
	other, err := replay.ParseLookups([]byte("sources: {shpo: {answers: {absent: true}}}"), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replay.New(t.Context(), documents, nil, other, start); !errors.Is(err, replay.ErrRule) || !strings.Contains(err.Error(), "rule order-unshipped queries source shop, whose past answers are unknown; answer it from a file of --lookups") || !strings.Contains(err.Error(), "answers shpo") {
		t.Errorf("%v", err)
	}
}
