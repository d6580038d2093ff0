package replay_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	"deadman/internal/calendars"
	"deadman/internal/replay"
	"deadman/rules/document"
)

// twoBlocks returns the events of 1,000 orders, one a minute, and 300 from minute 2,200 on. The order i of a block is shipped
// after i%100+1 minutes, those of the second block ten minutes later; the last five of each hundred are not shipped. The last
// third of the time in which orders begin has the second block, and the history ends at minute 3,300.
func twoBlocks(orders, held int) []replay.Event {
	var all []replay.Event
	add := func(subject string, order, minute int) {
		all = append(all, replay.Event{Subject: subject, Time: start.Add(time.Duration(minute) * time.Minute), Data: fmt.Appendf(nil, `{"id": "%d"}`, order)})
	}
	for i := range orders + held {
		began, took := i, i%100+1
		if i >= orders {
			began, took = 2200+i-orders, (i-orders)%100+11
		}
		add("orders.created", i, began)
		if i%100 < 95 {
			add("orders.shipped", i, began+took)
		}
	}
	add("other", 0, 3300)
	slices.SortStableFunc(all, func(a, b replay.Event) int { return a.Time.Compare(b.Time) })
	return all
}

// suggested plays events and returns the suggestions and the report.
func suggested(t *testing.T, rule string, known calendars.Set, events []replay.Event, wanted ...replay.Wanted) ([]replay.Suggestion, string) {
	t.Helper()
	r := replayOf(t, rule, known, start)
	r.RecordLives()
	list := listed(events)
	s := play(t, r, &list)
	if err := r.Suggest(wanted); err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := s.WriteReport(&page); err != nil {
		t.Fatal(err)
	}
	return s.Suggestions, page.String()
}

// 10 % of the first 1,000 orders take more than 90 minutes, as 95 of 100 are shipped and the others never. In the held-back
// part 20 % do. The step at three hours alerts on those that are not shipped.
func TestSuggestion(t *testing.T) {
	all, page := suggested(t, oneStep, nil, twoBlocks(1000, 300), replay.Wanted{Share: 0.1})
	if len(all) != 1 {
		t.Fatal(all)
	}
	s, near := all[0], func(got *float64, want float64) bool { return got != nil && math.Abs(*got-want) < 1e-9 }
	if s.After != "1h30m" || s.AfterNow != "3h" || s.Refused != "" || s.Learned.Jobs != 1000 || s.HeldBack.Jobs != 300 || !s.HeldBack.From.Equal(start.Add(1666*time.Minute)) {
		t.Errorf("%+v", s)
	}
	if !near(s.Learned.Rate, 0.1) || !near(s.HeldBack.Rate, 0.2) || !near(s.Learned.RateNow, 0.05) || !near(s.HeldBack.RateNow, 0.05) || s.Learned.Undecided+s.HeldBack.Undecided != 0 {
		t.Errorf("%+v, %+v", s.Learned, s.HeldBack)
	}
	if !strings.Contains(page, "<td>order-unshipped<td>late<td>3h<td>5 %<td>10 %<td>1h30m<td>10 %<td>20 %<td>300") {
		t.Errorf("the report has no suggestion:\n%s", page)
	}
}

// A short history gives no suggestion, nor does a step whose time depends on more than the start of the job.
func TestSuggestionRefuses(t *testing.T) {
	for _, c := range []struct {
		name, rule  string
		jobs, held  int
		share       float64
		wantRefusal string
	}{
		{"few jobs", oneStep, 1000, 300, 0.009, "too little history: the first part has 1,000 jobs, and 0.9 % of alerts needs 1,112"},
		{"few jobs held back", oneStep, 1000, 299, 0.01, "too little history: the held-back part has 299 jobs, and 1 % of alerts needs 300"},
		{"never resolved", oneStep, 1000, 300, 0.04, "more than 4 % of the jobs were pending for as long as the first part of the history shows"},
		{"a computed step", strings.Replace(oneStep, "after: 3h", `after: "hours(event.n ?? 3)"`, 1), 1000, 300, 0.1, "no fixed time"},
		{"a condition", oneStep + "update: {event: orders.created, key: event.id}\nwhile: event.id == nil\n", 1000, 300, 0.1, "the condition of the rule ends its jobs"},
		{"a heartbeat", "name: a\nentity: order\ntrigger: {heartbeat: {event: orders.created, key: event.id, every: 1h}}\nescalate: [{after: 10m}]", 1000, 300, 0.1, "a missed heartbeat"},
	} {
		all, _ := suggested(t, c.rule, nil, twoBlocks(c.jobs, c.held), replay.Wanted{Share: c.share})
		if len(all) != 1 || !strings.Contains(all[0].Refused, c.wantRefusal) || all[0].After != "" {
			t.Errorf("%s: %+v, want %s", c.name, all, c.wantRefusal)
		}
	}
	r := replayOf(t, oneStep, nil, start)
	r.RecordLives()
	if err := r.Suggest([]replay.Wanted{{Step: "none", Share: 0.1}}); err == nil || err.Error() != "no rule has the step none" {
		t.Error(err)
	}
}

// A suggestion counts the open time of a rule's own calendar as that of a shared one, and not that of a shared one with its
// name.
func TestSuggestionOfOwnCalendar(t *testing.T) {
	const thirds = `calendars: {thirds: {zone: UTC, hours: ["10:00-10:20", "11:00-11:20", "12:00-12:20", "13:00-13:20"]}}` + "\n"
	rule := strings.Replace(oneStep, "after: 3h", "after: 3h, of: thirds", 1)
	suggestion := func(rule, shared string) replay.Suggestion {
		known, err := calendars.Parse([]byte(shared), "")
		if err != nil {
			t.Fatal(err)
		}
		all, _ := suggested(t, rule, known, twoBlocks(1000, 300), replay.Wanted{Share: 0.1})
		return all[0]
	}
	want := suggestion(rule, thirds)
	got := suggestion(rule+thirds, "calendars: {thirds: {zone: UTC}}\n")
	if diff := cmp.Diff(want, got); diff != "" || got.Refused != "" || got.Calendar != "thirds" {
		t.Errorf("%s\n%+v", diff, got)
	}
}

// The share of alerts of a step is that of the alerts that the replay raised: a job that ends between the time of the step
// and its slot, or while the calendar is closed, is counted as the engine decides it.
func TestShareOfAlertsIsThatOfReplay(t *testing.T) {
	shop, err := calendars.Parse([]byte(`calendars: {shop: {zone: UTC, days: mon-fri, hours: "09:00-17:00"}}`), "")
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var events []replay.Event
	add := func(subject string, order int, at time.Time) {
		events = append(events, replay.Event{Subject: subject, Time: at, Data: fmt.Appendf(nil, `{"id": "%d"}`, order)})
	}
	const orders = 3000
	for i := range orders {
		began := start.Add(time.Duration(i) * 7 * time.Minute)
		add("orders.created", i, began)
		add("orders.shipped", i, began.Add(time.Duration(1+random.IntN(48*60))*time.Minute))
	}
	slices.SortStableFunc(events, func(a, b replay.Event) int { return a.Time.Compare(b.Time) })
	for _, after := range []string{"after: 8h", "after: 9h7m", "after: 8h, of: shop", "after: 3h11m, of: shop"} {
		rule := strings.Replace(oneStep, "after: 3h", after, 1) + "slot: 15m\n"
		r := replayOf(t, rule, shop, start)
		r.RecordLives()
		raised := make(map[string]time.Time) // the start of the job of each alert
		r.Raise = func(a alerts.Alert) error {
			if a.Status == alerts.Firing {
				raised[a.Key] = a.Since
			}
			return nil
		}
		list := listed(events)
		s := play(t, r, &list)
		if err := r.Suggest([]replay.Wanted{{Share: 0.2}}); err != nil {
			t.Fatal(err)
		}
		held := s.Suggestions[0].HeldBack
		var late int64
		for _, since := range raised {
			if !since.Before(held.From) {
				late++
			}
		}
		if got := int64(math.Round(*held.RateNow * float64(held.Jobs))); got != late || late == 0 || late == held.Jobs || held.Jobs < orders/4 {
			t.Errorf("%s: the share is that of %d alerts of %d jobs, and the replay raised %d", after, got, held.Jobs, late)
		}
	}
}

// The suggestion for the approval of orders agrees with the table: it is the first slot by which enough orders were approved
// or cancelled, and the share in the held-back part is a count.
func TestSuggestionAgreesWithOrders(t *testing.T) {
	o := readOrders(t)
	if len(o.rows) < 2000 {
		t.Skip("the made-up orders are too few; DEADMAN_ORDERS names the file of the real ones")
	}
	r := newReplay(t, "testdata/orders.yaml", "testdata/calendars.yaml")
	r.RecordLives()
	table, err := replay.NewCSV(o.csv(t), columns(), time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	s := play(t, r, table)
	const share = 0.05
	if err := r.Suggest([]replay.Wanted{{Step: "unapproved", Share: share}}); err != nil {
		t.Fatal(err)
	}
	got := s.Suggestions[0]
	d, err := document.ParseDuration(got.After)
	if err != nil || got.Refused != "" {
		t.Fatalf("%+v: %v", got, err)
	}
	// rate counts the orders of a part that were pending at the slot after a time, and those of which the part shows it.
	const slot = 15 * time.Minute
	rate := func(p replay.Part, after time.Duration) (late, decided float64) {
		for _, row := range o.rows {
			begun := parse(t, row[o.column("purchased_at")])
			end := p.Until
			for _, name := range []string{"approved_at", "cancelled_at"} {
				if at := parse(t, row[o.column(name)]); !at.IsZero() && at.Before(end) {
					end = at
				}
			}
			switch {
			case begun.Before(p.From) || !begun.Before(p.Until):
			case end.After(begun.Add(after + slot - 1).Truncate(slot)):
				late, decided = late+1, decided+1
			case end.Before(p.Until):
				decided++
			}
		}
		return late, decided
	}
	learned, of := rate(got.Learned, time.Duration(d))
	before, ofBefore := rate(got.Learned, time.Duration(d)-slot)
	held, ofHeld := rate(got.HeldBack, time.Duration(d))
	t.Logf("%s: %.2f %% of %.0f learned (%.2f %% a slot before), %.2f %% of %.0f held back, computed %s", got.After, 100*learned/of, of, 100*before/ofBefore, 100*held/ofHeld, ofHeld, replay.PercentOf(got.HeldBack.Rate))
	if learned/of > share+0.002 || before/ofBefore <= share-0.002 || math.Abs(held/ofHeld-*got.HeldBack.Rate) > 0.002 {
		t.Errorf("the orders disagree with %+v", got)
	}
}
