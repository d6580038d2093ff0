package rules

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/calendars"
	"deadman/internal/subjects"
)

// tenants is a catalog of rules with bounds, and without, by a clock that stands still.
type tenants struct {
	testing.TB
	*Catalog
	saved []RuleVersion
	now   time.Time
	seq   uint64
}

func newTenants(t testing.TB) *tenants {
	ts := &tenants{TB: t, Catalog: &Catalog{shards: 1}, now: tenPast(0), seq: 100}
	ts.Now = func() time.Time { return ts.now }
	return ts
}

// add adds the rules of a text under other names; without a token they have no bounds.
func (ts *tenants) add(text, name, token string) {
	ts.Helper()
	documents, err := ParseAgainst([]byte(text), "", ts.Calendars)
	if err != nil {
		ts.Fatal(err)
	}
	for i, d := range documents {
		d.Name = fmt.Sprintf("%s-%d", name, i)
		document, err := d.Canonical()
		if err != nil {
			ts.Fatal(err)
		}
		s := RuleVersion{RuleID: int32(len(ts.saved) + 1), Version: 1, Name: d.Name, Entity: d.Entity, Document: document, SavedAt: tenPast(0)}
		if token != "" {
			s.Bounds = &access.Bounds{Token: token, Subjects: subjects.List{">"}}
		}
		for _, subject := range d.Subjects() {
			s.Reads = append(s.Reads, StreamBinding{Subject: subject, Stream: "S"})
		}
		ts.saved = append(ts.saved, s)
	}
	ts.current.Store(newSnapshot(1, ts.saved, nil, environment{calendars: ts.Calendars}))
}

// event returns an event that came after all rules.
func (ts *tenants) event(subject string, data []byte) futurejobs.Event {
	ts.seq++
	return futurejobs.Event{Stream: "S", Subject: subject, Seq: ts.seq, At: tenPast(30), Data: data}
}

// match matches an event, and returns by the first word of their names the rules that processed it, and the reasons of
// the others.
func (ts *tenants) match(
	by func(futurejobs.Event) ([]futurejobs.Effect, []futurejobs.Refusal), e futurejobs.Event,
) (took map[string]int, refused map[string]string) {
	took, refused = make(map[string]int), make(map[string]string)
	first := func(name string) string {
		tenant, _, _ := strings.Cut(name, "-")
		return tenant
	}
	effects, refusals := by(e)
	for _, effect := range effects {
		took[first(effect.Rule.Name)]++
	}
	for _, r := range refusals {
		refused[first(r.Rule)] = r.Reason
	}
	return took, refused
}

// draws returns how much a match draws from all allowances.
func (ts *tenants) draws(e futurejobs.Event) (rounds int) {
	ts.Catalog.drawn = allowances{}
	if _, refusals := ts.Match(e); len(refusals) > 0 {
		ts.Errorf("%+v", refusals[0])
	}
	for _, n := range ts.Catalog.drawn.drawn {
		rounds += n
	}
	return rounds
}

// A hundred rules like the examples, of one tenant, that listen to the same events are paid by the free part: no
// backlog of such events, even at full speed, uses up an allowance.
func TestOrdinaryRulesAreFree(t *testing.T) {
	files, err := filepath.Glob("../examples/*/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		ts := newTenants(t)
		for _, known := range must(filepath.Glob(filepath.Join(filepath.Dir(file), "*.calendars"))) {
			ts.Calendars = must(calendars.Parse(must(os.ReadFile(known)), known))
		}
		for i := range 100 {
			ts.add(string(must(os.ReadFile(file))), fmt.Sprintf("acme-%d", i), "acme")
		}
		events := string(must(os.ReadFile(filepath.Join(filepath.Dir(file), "events.jsonl"))))
		for line := range strings.Lines(events) {
			var e struct {
				Subject string
				Data    json.RawMessage
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			if drawn := ts.draws(ts.event(e.Subject, e.Data)); drawn > 0 {
				t.Errorf("%s: %s draws %d rounds", file, line, drawn)
			}
		}
	}
}

// ordinary is a rule that reads many fields, and a list.
const ordinary = `
name: ordinary
entity: order
trigger: {event: orders.changed, key: event.id, since: event.placed_at, if: event.total > 3 and event.status != "DRAFT" and event.customer.kind == "SHOP"}
update: {event: orders.changed, key: event.id, if: 'event.country in ["DE", "FR"]'}
resolve:
  - {event: orders.changed, key: event.id, if: 'event.status in ["SHIPPED", "CANCELLED"]'}
  - {event: orders.changed, key: event.id, if: 'event.carrier matches "^(dhl|ups)"', as: handed-over}
  - {event: orders.changed, key: event.id, if: 'any(event.notes, # == "closed")', as: closed}
escalate: [{after: 3h}]
`

// order is an event of so many bytes that ordinary rules read.
func order(bytes int) []byte {
	return must(json.Marshal(map[string]any{
		"id": "1042", "placed_at": tenPast(29), "total": 12.5, "status": "OPEN", "customer": map[string]any{"kind": "SHOP"}, "country": "DE",
		"carrier": "fedex", "notes": []string{"a", "b", "c"}, "lines": strings.Repeat("x", bytes),
	}))
}

// Data that another expression decoded before is not paid for again, so that ordinary rules are free on large events,
// too.
func TestOrdinaryRulesAreFreeOnLargeEvents(t *testing.T) {
	ts := newTenants(t)
	for i := range 100 {
		ts.add(ordinary, fmt.Sprintf("acme-%d", i), "acme")
	}
	for _, bytes := range []int{0, 1_000, 10_000, 100_000, 260_000} {
		if drawn := ts.draws(ts.event("orders.changed", order(bytes))); drawn > 0 {
			t.Errorf("an event of %d bytes draws %d rounds", bytes, drawn)
		}
	}
}

// greedy is a rule that costs about 50,000 rounds on an event of greed.
const greedy = `
name: greedy
entity: order
trigger: {event: orders.changed, key: event.id, if: 'count(event.list, # == 1) < 3 and count(event.list, # == 2) < 3'}
escalate: [{after: 3h}]
`

// The rules of a tenant cost no more over time than its allowance: beyond it they are refused, and counted as rules
// that cost too much on an event. Rules of other tenants, and without bounds, process the event, and so does each after
// some time.
func TestATenantHasAnAllowance(t *testing.T) {
	ts := newTenants(t)
	for i := range 20 {
		ts.add(greedy, fmt.Sprintf("acme-%d", i), "acme")
	}
	ts.add(greedy, "beta", "beta")
	ts.add(greedy, "plain", "")
	data := bulky(t, 8_000, 10)
	drawn := ts.draws(ts.event("orders.changed", data))
	if drawn < 500_000 || drawn > 2_000_000 {
		t.Fatalf("an event draws %d rounds", drawn)
	}
	ts.Catalog.drawn = allowances{}
	took, refused := ts.match(ts.Match, ts.event("orders.changed", data))
	events := 1
	for ; len(refused) == 0; events++ {
		if took["acme"] != 20 || events > 2*tenantAllowance/drawn {
			t.Fatalf("event %d: %v", events, took)
		}
		took, refused = ts.match(ts.Match, ts.event("orders.changed", data))
	}
	if all := events * drawn; all < tenantAllowance || all > tenantAllowance*11/10 {
		t.Errorf("%d events of %d rounds have used up %d", events, drawn, tenantAllowance)
	}
	if len(refused) != 1 || !strings.Contains(refused["acme"], errUsedUp.Error()) || took["beta"] != 1 || took["plain"] != 1 {
		t.Errorf("used up: %v, %v", took, refused)
	}
	again := ts.event("orders.changed", data)
	if took, refused = ts.match(ts.Match, again); took["acme"] != 0 || refused["acme"] == "" {
		t.Errorf("used up: %v, %v", took, refused)
	}
	if took, refused = ts.match(func(e futurejobs.Event) ([]futurejobs.Effect, []futurejobs.Refusal) {
		return ts.MatchDeadLetter(futurejobs.DeadLetter{Rule: "acme-3-0", Event: e})
	}, again); took["acme"] != 1 {
		t.Errorf("a dead letter is tried again: %v, %v", took, refused)
	}
	ts.now = ts.now.Add(2 * time.Second)
	if took, refused = ts.match(ts.Match, ts.event("orders.changed", data)); took["acme"] != 20 {
		t.Errorf("two seconds later: %v, %v", took, refused)
	}
	for range 2 * tenantGrowth / drawn {
		ts.match(ts.Match, ts.event("orders.changed", data))
	}
	for range costlyMost + 1 {
		ts.match(ts.Match, ts.event("orders.changed", data))
	}
	if took, _ = ts.match(ts.Match, ts.event("orders.changed", data)); took["acme"] != 0 {
		t.Errorf("%v of them are asked after %d events", took, costlyMost)
	}
	if costly := ts.Costly(); len(costly) != 20 || slices.ContainsFunc(costly, func(c Costly) bool { return !strings.HasPrefix(c.Rule, "acme-") }) {
		t.Errorf("to be paused: %+v", costly)
	}
}

// The results that senders get for their events have an allowance of their own, and results beyond it are marked as
// incomplete.
func TestWhatSendersAreToldHasItsOwnAllowance(t *testing.T) {
	ts := newTenants(t)
	for i := range 20 {
		ts.add(greedy, fmt.Sprintf("acme-%d", i), "acme")
	}
	data := bulky(t, 8_000, 10)
	drawn := ts.draws(ts.event("orders.changed", data))
	ts.Catalog.drawn = allowances{}
	told := 0
	for ; told < 2*tenantAllowance/drawn; told++ {
		effects, refusals, isWhole := ts.Foresee(ts.event("orders.changed", data))
		if isWhole != (len(refusals) == 0) || isWhole != (len(effects) == 20) {
			t.Errorf("%d effects, %d refusals; whole %t", len(effects), len(refusals), isWhole)
		}
		if !isWhole {
			break
		}
	}
	if told != tenantAllowance/drawn {
		t.Errorf("told of %d events, want %d", told, tenantAllowance/drawn)
	}
	if len(ts.Catalog.drawn.drawn) != 0 {
		t.Errorf("drawn of the intake: %v", ts.Catalog.drawn.drawn)
	}
	if took, refused := ts.match(ts.Match, ts.event("orders.changed", data)); took["acme"] != 20 {
		t.Errorf("the intake: %v, %v", took, refused)
	}
}

// The tokens of one prefix have one allowance, and one budget for an event; those without a prefix are tenants of their own.
func TestATenantIsAPrefix(t *testing.T) {
	ts := newTenants(t)
	ts.Tenant = func(rule string) string {
		if strings.HasPrefix(rule, "acme-") {
			return "acme-"
		}
		return ""
	}
	for i := range 8 {
		ts.add(greedy, fmt.Sprintf("acme-%d", i), fmt.Sprintf("token%d", i))
		ts.add(greedy, fmt.Sprintf("other%d", i), fmt.Sprintf("token%d", i))
	}
	ts.Match(ts.event("orders.changed", bulky(t, 8_000, 10)))
	var prefixes, tokens int
	for of := range ts.Catalog.drawn.drawn {
		switch {
		case of == tenant{prefix: "acme-"}:
			prefixes++
		case of.prefix == "" && strings.HasPrefix(of.token, "token"):
			tokens++
		}
	}
	if prefixes != 1 || tokens != 8 || len(ts.Catalog.drawn.drawn) != 9 {
		t.Errorf("drawn: %v", ts.Catalog.drawn.drawn)
	}
}

// An allowance grows up to its size, and with that of many others more slowly. Rounds drawn beyond it are paid back
// first.
func TestAllowancesGrow(t *testing.T) {
	var a allowances
	now := tenPast(0)
	acme := tenant{prefix: "acme-"}
	has := func(of tenant, want int) {
		t.Helper()
		if left := a.left(of, now); left != want {
			t.Errorf("%v has %d, want %d", of, left, want)
		}
	}
	has(acme, tenantAllowance)
	a.draw(acme, tenantAllowance+tenantGrowth)
	has(acme, 0)
	now = now.Add(time.Second)
	has(acme, 0)
	for range 10_000 {
		now = now.Add(100 * time.Microsecond)
		a.left(acme, now)
	}
	has(acme, tenantGrowth)
	now = now.Add(-time.Hour)
	has(acme, tenantGrowth)
	now = now.Add(time.Second)
	has(acme, 2*tenantGrowth)
	now = now.Add(1000 * time.Hour)
	has(acme, tenantAllowance)
	if len(a.drawn) != 0 {
		t.Errorf("kept: %v", a.drawn)
	}
	for i := range 10 {
		a.draw(tenant{token: fmt.Sprint(i)}, tenantAllowance)
	}
	now = now.Add(time.Second)
	for i := range 10 {
		has(tenant{token: fmt.Sprint(i)}, allGrowth/10)
	}
	has(acme, tenantAllowance)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
