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

// tenantCatalog is a catalog of rules with bounds, and without, by a clock that stands still.
type tenantCatalog struct {
	testing.TB
	*Catalog
	saved []RuleVersion
	now   time.Time
	seq   uint64
}

func newTenantCatalog(t testing.TB) *tenantCatalog {
	ts := &tenantCatalog{TB: t, Catalog: NewCatalog(nil, 1), now: minuteOf(0), seq: 100}
	ts.Now = func() time.Time { return ts.now }
	return ts
}

// add adds the rules of a text under other names; without a token they have no bounds.
func (ts *tenantCatalog) add(text, name, token string) {
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
		s := RuleVersion{RuleID: int32(len(ts.saved) + 1), Version: 1, Name: d.Name, Entity: d.Entity, Document: document, SavedAt: minuteOf(0)}
		if token != "" {
			s.Bounds = &access.Bounds{Token: token, Subjects: subjects.List{">"}}
		}
		for _, subject := range d.Subjects() {
			s.Reads = append(s.Reads, StreamBinding{Subject: subject, Stream: "S"})
		}
		ts.saved = append(ts.saved, s)
	}
	ts.current.Store(newSnapshot(1, ts.saved, nil, ts.environment()))
}

// event returns an event that came after all rules.
func (ts *tenantCatalog) event(subject string, data []byte) futurejobs.Event {
	ts.seq++
	return futurejobs.Event{Stream: "S", Subject: subject, Seq: ts.seq, At: minuteOf(30), Data: data}
}

// match matches an event, and returns by the first word of their names how many rules processed it, and the reasons of
// the others.
func (ts *tenantCatalog) match(
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
		for _, name := range refusedRules([]futurejobs.Refusal{r}) {
			refused[first(name)] = r.Reason
		}
	}
	return took, refused
}

// measure returns how much a match draws from all allowances, and how much of it its effects cost.
func (ts *tenantCatalog) measure(e futurejobs.Event) (rounds, toWrite int) {
	ts.Catalog.allowances = allowances{}
	effects, refusals := ts.Match(e)
	if len(refusals) > 0 {
		ts.Errorf("%+v", refusals[0])
	}
	for _, d := range ts.Catalog.allowances.debts {
		rounds += d.drawn
	}
	return rounds, len(effects) * roundsToWrite
}

// A hundred rules like the examples, of one tenant, that listen to the same events are paid by the free part, but for
// their effects: no backlog of such events, even at full speed, uses up an allowance by its expressions. Ten of them are
// free with their effects, too.
func TestOrdinaryRulesAreFree(t *testing.T) {
	files, err := filepath.Glob("../examples/*/*.yaml")
	files = slices.DeleteFunc(files, IsTestFile)
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		ts := newTenantCatalog(t)
		for _, known := range must(filepath.Glob(filepath.Join(filepath.Dir(file), "*.calendars"))) {
			ts.Calendars = must(calendars.Parse(must(os.ReadFile(known)), known))
		}
		few := newTenantCatalog(t)
		few.Calendars = ts.Calendars
		text := string(must(os.ReadFile(file)))
		for i := range 100 {
			ts.add(text, fmt.Sprintf("acme-%d", i), "acme")
		}
		for i := range 10 / strings.Count(text, "\nentity:") {
			few.add(text, fmt.Sprintf("acme-%d", i), "acme")
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
			if drawn, toWrite := ts.measure(ts.event(e.Subject, e.Data)); drawn > toWrite {
				t.Errorf("%s: %s draws %d rounds, %d of them for effects", file, line, drawn, toWrite)
			}
			if drawn, _ := few.measure(few.event(e.Subject, e.Data)); drawn > 0 {
				t.Errorf("%s: %s draws %d rounds of 10 rules", file, line, drawn)
			}
		}
	}
}

// ordinaryRule is a rule that reads many fields, and a list.
const ordinaryRule = `
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

// orderEvent is an event of so many bytes that ordinary rules read.
func orderEvent(bytes int) []byte {
	return must(json.Marshal(map[string]any{
		"id": "1042", "placed_at": minuteOf(29), "total": 12.5, "status": "OPEN", "customer": map[string]any{"kind": "SHOP"}, "country": "DE",
		"carrier": "fedex", "notes": []string{"a", "b", "c"}, "lines": strings.Repeat("x", bytes),
	}))
}

// Data that another expression decoded before is not paid for again, so that ordinary rules are free on large events,
// too.
func TestOrdinaryRulesAreFreeOnLargeEvents(t *testing.T) {
	ts := newTenantCatalog(t)
	for i := range 100 {
		ts.add(ordinaryRule, fmt.Sprintf("acme-%d", i), "acme")
	}
	for _, bytes := range []int{0, 1_000, 10_000, 100_000, 260_000} {
		if drawn, toWrite := ts.measure(ts.event("orders.changed", orderEvent(bytes))); drawn > toWrite {
			t.Errorf("an event of %d bytes draws %d rounds, %d of them for effects", bytes, drawn, toWrite)
		}
	}
}

// greedyRule is a rule that costs about 50,000 rounds on an event of greed.
const greedyRule = `
name: greedy
entity: order
trigger: {event: orders.changed, key: event.id, if: 'count(event.list, # == 1) < 3 and count(event.list, # == 2) < 3'}
escalate: [{after: 3h}]
`

// The rules of a tenant cost no more over time than its allowance: beyond it they are refused, and counted as rules
// that cost too much on an event. Rules of other tenants, and without bounds, process the event, and so does each after
// some time.
func TestTenantHasAllowance(t *testing.T) {
	ts := newTenantCatalog(t)
	for i := range 20 {
		ts.add(greedyRule, fmt.Sprintf("acme-%d", i), "acme")
	}
	ts.add(greedyRule, "beta", "beta")
	ts.add(greedyRule, "plain", "")
	data := largeEvent(t, 8_000, 10)
	drawn, _ := ts.measure(ts.event("orders.changed", data))
	if drawn < 500_000 || drawn > 2_000_000 {
		t.Fatalf("an event draws %d rounds", drawn)
	}
	ts.Catalog.allowances = allowances{}
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
		t.Errorf("%v of them are evaluated after %d events", took, costlyMost)
	}
	if costly := ts.Costly(); len(costly) != 20 || slices.ContainsFunc(costly, func(c Costly) bool { return !strings.HasPrefix(c.Rule, "acme-") }) {
		t.Errorf("to be paused: %+v", costly)
	}
}

// The results that senders get for their events have an allowance of their own, and results beyond it are marked as
// incomplete.
func TestForeseeHasItsOwnAllowance(t *testing.T) {
	ts := newTenantCatalog(t)
	for i := range 20 {
		ts.add(greedyRule, fmt.Sprintf("acme-%d", i), "acme")
	}
	data := largeEvent(t, 8_000, 10)
	drawn, _ := ts.measure(ts.event("orders.changed", data))
	ts.Catalog.allowances = allowances{}
	reported := 0
	for ; reported < 2*tenantAllowance/drawn; reported++ {
		effects, refusals, isWhole := ts.DryMatch(ts.event("orders.changed", data))
		if isWhole != (len(refusals) == 0) || isWhole != (len(effects) == 20) {
			t.Errorf("%d effects, %d refusals; whole %t", len(effects), len(refusals), isWhole)
		}
		if !isWhole {
			break
		}
	}
	if reported != tenantAllowance/drawn {
		t.Errorf("reported %d events, want %d", reported, tenantAllowance/drawn)
	}
	owed := ts.dryAllowances.debts[tenant{token: "acme"}].drawn
	if effects, refusals := (EventSearch{ts.Catalog}).Match(ts.event("orders.changed", data)); len(effects) != 20 || len(refusals) != 0 {
		t.Errorf("an operator gets %d effects, %d refusals", len(effects), len(refusals))
	}
	if drawn := ts.dryAllowances.debts[tenant{token: "acme"}].drawn; drawn != owed {
		t.Errorf("an operator drew %d rounds", drawn-owed)
	}
	if len(ts.Catalog.allowances.debts) != 0 {
		t.Errorf("drawn of the intake: %v", ts.Catalog.allowances.debts)
	}
	if took, refused := ts.match(ts.Match, ts.event("orders.changed", data)); took["acme"] != 20 {
		t.Errorf("the intake: %v, %v", took, refused)
	}
}

// The tokens of one prefix have one allowance, and one budget for an event; those without a prefix are tenants of their own.
func TestTenantIsPrefix(t *testing.T) {
	ts := newTenantCatalog(t)
	ts.Tenant = func(rule string) string {
		if strings.HasPrefix(rule, "acme-") {
			return "acme-"
		}
		return ""
	}
	for i := range 8 {
		ts.add(greedyRule, fmt.Sprintf("acme-%d", i), fmt.Sprintf("token%d", i))
		ts.add(greedyRule, fmt.Sprintf("other%d", i), fmt.Sprintf("token%d", i))
	}
	ts.Match(ts.event("orders.changed", largeEvent(t, 8_000, 10)))
	var prefixes, tokens int
	for of := range ts.Catalog.allowances.debts {
		switch {
		case of == tenant{prefix: "acme-"}:
			prefixes++
		case of.prefix == "" && strings.HasPrefix(of.token, "token"):
			tokens++
		}
	}
	if prefixes != 1 || tokens != 8 || len(ts.Catalog.allowances.debts) != 9 {
		t.Errorf("drawn: %v", ts.Catalog.allowances.debts)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// updatingRule is a rule that writes each event into a job, at no cost of expressions.
const updatingRule = `
name: updating
entity: order
trigger: {event: orders.created, key: event.id}
update: {event: orders.changed, key: event.id}
resolve: {event: orders.done, key: event.id}
escalate: [{after: 3h}]
`

// failingRule is a rule that refuses each event.
const failingRule = `
name: refusing
entity: order
trigger: {event: orders.changed, key: event.no_such_field}
escalate: [{after: 3h}]
`

// What the rules of a tenant write for an event costs as much as it costs the database: two hundred effects or refusals
// on each of ninety events a second use up a tenth of an allowance within seconds, while a hundred on each of fifty never
// do.
// Beyond it the rules are refused as one dead letter.
func TestEffectsAndRefusalsAreDrawn(t *testing.T) {
	for _, c := range []struct {
		name, text    string
		rules, events int // events a second
		lasts         int // seconds; 0: for ever
	}{
		{"effects", updatingRule, 200, 90, 3},
		{"refusals", failingRule, 200, 90, 3},
		{"few effects", updatingRule, 100, 50, 0},
		{"few rules", updatingRule, 20, 1000, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			ts := newTenantCatalog(t)
			for i := range c.rules {
				ts.add(c.text, fmt.Sprintf("acme-%d", i), "acme")
			}
			ts.Tenant = func(string) string { return "acme-" }
			ts.Catalog.allowances.checkLeft(t, tenant{prefix: "acme-"}, ts.now, tenantAllowance)
			ts.Catalog.allowances.draw(tenant{prefix: "acme-"}, tenantAllowance*9/10)
			for second := range 8 {
				for range c.events {
					ts.now = ts.now.Add(time.Second / time.Duration(c.events))
					_, refusals := ts.Match(ts.event("orders.changed", []byte(`{"id": "1"}`)))
					at := slices.IndexFunc(refusals, func(r futurejobs.Refusal) bool { return strings.Contains(r.Reason, errUsedUp.Error()) })
					switch {
					case at < 0:
						continue
					case c.lasts == 0 || second > c.lasts:
						t.Fatalf("used up after %d seconds", second)
					case refusals[at].Rule != "acme-*" && len(refusals[at].Rules) != 0, len(ts.Catalog.allowances.debts) != 1:
						t.Errorf("refused: %+v", refusals[at])
					}
					return
				}
			}
			if c.lasts > 0 {
				t.Errorf("not used up")
			}
		})
	}
}

// The rules that a used-up allowance or a pause keeps from an event are named in one refusal, and the retry of its dead
// letter is for each of them, and for no other rule.
func TestRefusedRulesOfTenantAreOneDeadLetter(t *testing.T) {
	ts := newTenantCatalog(t)
	ts.Tenant = func(rule string) string { return map[bool]string{true: "acme-"}[strings.HasPrefix(rule, "acme-")] }
	for i := range 100 {
		ts.add(updatingRule, fmt.Sprintf("acme-%d", i), "acme")
	}
	ts.add(updatingRule, "acme-x", "")
	ts.add(updatingRule, "beta", "beta")
	acme := tenant{prefix: "acme-"}
	left, _ := ts.Catalog.allowances.left(acme, ts.now)
	ts.Catalog.allowances.draw(acme, left)
	e := ts.event("orders.changed", []byte(`{"id": "1"}`))
	effects, refusals := ts.Match(e)
	took := len(effects) - 2
	if took < leastFree/roundsToWrite*9/10 || took > leastFree/roundsToWrite || len(refusals) != 1 || refusals[0].Rule != "acme-*" || len(refusals[0].Rules) != 100-took || refusals[0].Reason != errUsedUp.Error() {
		t.Fatalf("%d effects, refused %+v", len(effects), refusals)
	}
	letter := futurejobs.NewDeadLetter(e, refusals[0], ts.now)
	again, refused := ts.MatchDeadLetter(letter)
	if len(again) != 100-took || len(refused) != 0 {
		t.Errorf("retried: %d effects, refused %+v", len(again), refused)
	}
	for _, effect := range again {
		if !slices.Contains(refusals[0].Rules, effect.Rule.Name) {
			t.Errorf("retried: %s", effect.Rule.Name)
		}
	}
	if alone := futurejobs.NewDeadLetter(letter.Event, futurejobs.Refusal{Rule: "beta", Reason: "bad"}, ts.now); alone.Several() != nil || len(alone.Event.Header) != 0 {
		t.Errorf("the letter of one rule: %+v", alone)
	}
	for range costlyMost {
		ts.Match(ts.event("orders.changed", []byte(`{"id": "1"}`)))
	}
	ts.now = ts.now.Add(time.Hour)
	effects, refusals = ts.Match(ts.event("orders.changed", []byte(`{"id": "1"}`)))
	if len(effects) != took+2 || len(refusals) != 1 || len(refusals[0].Rules) != 100-took || refusals[0].Reason != errCostly.Error() {
		t.Errorf("to be paused: %d effects, refused %+v", len(effects), refusals)
	}
}

// Refusals of quotas are known after an event was matched. A tenant that owes too many of them has no free part.
func TestRefusalsOfQuotasAreDrawn(t *testing.T) {
	ts := newTenantCatalog(t)
	ts.add(updatingRule, "acme", "acme")
	ts.add(updatingRule, "plain", "")
	acme := tenant{token: "acme"}
	ts.ChargeRefused("plain-0", 1000)
	ts.ChargeRefused("gone", 1000)
	ts.Catalog.allowances.checkLeft(t, acme, ts.now, tenantAllowance)
	ts.ChargeRefused("acme-0", 1000)
	ts.Catalog.allowances.checkLeft(t, acme, ts.now, tenantAllowance-1000*roundsToWrite)
	ts.ChargeRefused("acme-0", tenantAllowance/roundsToWrite)
	e := ts.event("orders.changed", []byte(`{"id": "1"}`))
	if took, refused := ts.match(ts.Match, e); len(refused) != 0 || took["acme"] != 1 {
		t.Errorf("with a free part: %v, refused %v", took, refused)
	}
	ts.ChargeRefused("acme-0", tenantAllowance/roundsToWrite)
	if took, refused := ts.match(ts.Match, e); refused["acme"] == "" || took["plain"] != 1 {
		t.Errorf("in debt: %v, refused %v", took, refused)
	}
}

// Ten tenants that used up all they may draw at once leave an ordinary tenant its reserve.
func TestVirtualTenantsDoNotRefuseEachOther(t *testing.T) {
	ts := newTenantCatalog(t)
	for i := range 20 {
		ts.add(ordinaryRule, fmt.Sprintf("good-%d", i), "good")
	}
	for i := range 10 {
		ts.add(greedyRule, fmt.Sprintf("bad%d", i), fmt.Sprintf("bad%d", i))
	}
	data := largeEvent(t, 8_000, 10)
	for second := range 120 {
		for i := range 10 {
			of := tenant{token: fmt.Sprintf("bad%d", i)}
			left, _ := ts.Catalog.allowances.left(of, ts.now)
			ts.Catalog.allowances.draw(of, left)
		}
		for range 20 {
			if took, refused := ts.match(ts.Match, ts.event("orders.changed", orderEvent(100))); took["good"] < 20 || refused["good"] != "" {
				t.Fatalf("in second %d: %v, refused %v", second, took, refused)
			}
		}
		if second < costlyMost {
			if took, refused := ts.match(ts.Match, ts.event("orders.changed", data)); len(refused) == 0 {
				t.Fatalf("no rule is refused in second %d: %v", second, took)
			}
		}
		ts.now = ts.now.Add(time.Second)
	}
}
