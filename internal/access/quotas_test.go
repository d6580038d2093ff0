package access

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
)

// prefixes returns the quotas for a rule's jobs.
func (q *Quotas) prefixes(rule string) (all []string) {
	for _, m := range q.current.Load().of(LimitJobs, rule) {
		all = append(all, m.Prefix)
	}
	return all
}

// A rule counts toward the longest prefix, and toward shorter ones with a set limit.
func TestRuleCountsTowardQuotas(t *testing.T) {
	var q Quotas
	if q.Any() || q.Covers("acme-1") || q.OfJobs("acme-1") != nil || q.Problem("acme-1", "") != "" || q.Uses("") != nil || q.Take() != nil {
		t.Error("without quotas there are some")
	}
	q.Set([]Quota{
		{Prefix: "acme-"},
		{Prefix: "acme-eu-"},
		{Prefix: "a", Set: map[Limited]int64{LimitRules: 5}},
		{Prefix: "acme", Set: map[Limited]int64{LimitJobs: 9}},
	}, 0)
	for rule, want := range map[string][]string{
		"acme-eu-1": {"acme-eu-", "acme"}, "acme-1": {"acme-", "acme"}, "acme": {"acme"}, "ab": {"a"}, "zenith-1": nil, "": nil,
	} {
		if diff := cmp.Diff(want, q.prefixes(rule)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", rule, diff)
		}
	}
}

func TestLimitsHaveDefaults(t *testing.T) {
	q := Quota{Prefix: "acme-", Set: map[Limited]int64{LimitRules: 0}}
	for what, want := range map[Limited]int64{LimitRules: 0, LimitJobs: 100_000, LimitJobBytes: 1 << 30, LimitEvents: 1000, LimitEventBytes: 1 << 20, LimitAlerts: 10_000, LimitAlertBytes: 50} {
		if got := q.Most(what, 500); got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	if got := q.Most(LimitAlertBytes, 0); got != 1<<30/10 {
		t.Errorf("bytes of a stream without a cap: %d", got)
	}
	if len(Limits) != limits {
		t.Errorf("a meter counts %d limits of %d", limits, len(Limits))
	}
}

func TestReadQuota(t *testing.T) {
	for prefix, want := range map[string]string{"acme-*": "acme-", "acme-": "acme-"} {
		if q, err := ReadQuota(prefix, nil); q.Prefix != want || err != nil {
			t.Errorf("%s: %+v, %v", prefix, q, err)
		}
	}
	var wrong Problems
	for _, prefix := range []string{"", "*", "ACME", "a b"} {
		if _, err := ReadQuota(prefix, nil); !errors.As(err, &wrong) || wrong[0].Field != "prefix" {
			t.Errorf("%q: %v", prefix, err)
		}
	}
	for _, limit := range []int64{-1, MaxLimit + 1} {
		if _, err := ReadQuota("acme-", map[Limited]int64{LimitJobs: limit}); !errors.As(err, &wrong) || wrong[0].Field != "jobs" {
			t.Errorf("%d: %v", limit, err)
		}
	}
}

// An error names the limit and the remedy, and is independent of the use.
func TestExceededQuotas(t *testing.T) {
	for _, l := range Limits {
		err := Quota{Prefix: "acme-"}.Exceeded(l.Limited, 7)
		flag := "--" + strings.ReplaceAll(string(l.Limited), "_", "-")
		if text := err.Error(); !errors.Is(err, ErrQuota) || !strings.Contains(text, "acme-* have all of their 7 "+l.Unit) || !strings.Contains(text, flag) || strings.Contains(text, ": ;") {
			t.Error(text)
		}
	}
}

// A tenant below a shorter prefix learns only of the existence of the limit.
func TestOuterLimits(t *testing.T) {
	var q Quotas
	outer := map[Limited]int64{LimitRules: 0, LimitJobs: 0, LimitEvents: 0}
	all := []Quota{{Prefix: "ac", Set: outer}, {Prefix: "acme-"}}
	q.Set(all, 0)
	_, events := q.Publish("acme-", 1, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	for what, c := range map[string]struct {
		text  string
		names bool
	}{
		"rules of the tenant":              {RoomFor(all, LimitRules, nil, map[string]int64{"acme-1": 1}, "acme-").Error(), false},
		"rules of the shorter prefix":      {RoomFor(all, LimitRules, nil, map[string]int64{"acme-1": 1}, "ac").Error(), true},
		"jobs of the tenant":               {q.OfJobs("acme-1")[1].Refusal("acme-1").Error(), false},
		"jobs of the shorter prefix":       {q.OfJobs("acorn")[0].Refusal("acorn").Error(), true},
		"events of the tenant":             {events.Error(), false},
		"the listing, to the tenant":       {q.Problem("acme-1", "acme-"), false},
		"the listing, to an admin":         {q.Problem("acme-1", ""), true},
		"the listing, to the other tenant": {q.Problem("acme-1", "ac"), true},
	} {
		if names := strings.Contains(c.text, "ac* have all of their 0"); names != c.names || !names && (!strings.Contains(c.text, "outer limit") || strings.Contains(c.text, "ac*")) {
			t.Errorf("%s: %s", what, c.text)
		}
	}
}

func TestQuotasOfOnePrefix(t *testing.T) {
	var q Quotas
	q.Set([]Quota{{Prefix: "acme-", Set: map[Limited]int64{LimitJobs: 10}}, {Prefix: "zenith-"}}, 1000)
	q.Learn(Learned{Rules: map[string]int64{"acme-1": 1, "zenith-1": 1}, Jobs: map[string]int64{"zenith-1": 100}})
	q.SetWithin("acme-", []Quota{{Prefix: "acme-", Set: map[Limited]int64{LimitJobs: 20}}, {Prefix: "acme-eu-"}}, 2000)
	if got := q.Uncounted(""); !slices.Equal(got, []string{"acme-eu-"}) {
		t.Errorf("%q were never counted, want the new prefix alone", got)
	}
	if got := q.Uncounted("zenith-"); got != nil {
		t.Errorf("%q of zenith- were never counted", got)
	}
	for prefix, want := range map[string]string{"acme-eu-": "acme-", "acme-us-": "acme-", "acme-": "acme-", "ac": "ac", "zenith-": "zenith-"} {
		if got := q.Shortest(prefix); got != want {
			t.Errorf("the shortest prefix of %s is %s, want %s", prefix, got, want)
		}
	}
	q.CountJobs("acme-")
	q.Learn(Learned{Within: "acme-", Rules: map[string]int64{"acme-1": 1, "acme-eu-1": 1, "acme-eu-2": 1}, Jobs: map[string]int64{"acme-eu-1": 4}})
	used := make(map[string][3]int64)
	for _, use := range q.Uses("") {
		used[use.Prefix] = [3]int64{use.Use[atRules].Used, use.Use[atJobs].Used, use.Use[atJobs].Most}
	}
	want := map[string][3]int64{"acme-": {1, 4, 20}, "acme-eu-": {2, 4, 100000}, "zenith-": {1, 100, 100000}}
	if diff := cmp.Diff(want, used); diff != "" {
		t.Errorf("rules, jobs and their limit (-want +got):\n%s", diff)
	}
	q.Set([]Quota{{Prefix: "acme-"}, {Prefix: "zenith-"}}, 2000) // room has changed for all
	for _, use := range q.Uses("") {
		if most := use.Use[atBytes].Most; most != 200 {
			t.Errorf("%s may have %d bytes in the stream of alerts, want a tenth of it", use.Prefix, most)
		}
	}
}

func TestQuotasOfJobs(t *testing.T) {
	var q Quotas
	set := []Quota{{Prefix: "acme-", Set: map[Limited]int64{LimitJobs: 10}}}
	q.Set(set, 0)
	q.Learn(Learned{Rules: map[string]int64{"acme-1": 1, "acme-2": 1, "zenith-1": 1}, Jobs: map[string]int64{"acme-1": 4, "acme-2": 3, "zenith-1": 100}})
	jobs := q.OfJobs("acme-9")[0]
	if jobs.Room() != 3 || q.Problem("acme-1", "") != "" {
		t.Errorf("room for %d, problem %q", jobs.Room(), q.Problem("acme-1", ""))
	}
	jobs.Settle(0, 3, 2)
	if jobs.Room() != 0 || !strings.Contains(q.Problem("acme-1", ""), "10 pending jobs") || q.Problem("zenith-1", "") != "" {
		t.Errorf("room for %d, problem %q", jobs.Room(), q.Problem("acme-1", ""))
	}
	q.Set(set, 0) // unchanged: it continues counting
	q.Learn(Learned{Jobs: nil})
	if got := q.Uses("")[0]; got.Use[atJobs].Used != 10 || got.Use[atJobs].Most != 10 || got.Use[atRules].Used != 0 {
		t.Errorf("%+v", got)
	}
	set[0].Set = map[Limited]int64{LimitJobs: 12}
	q.Set(set, 0)
	if room := q.OfJobs("acme-1")[0].Room(); room != 2 {
		t.Errorf("with a higher limit there is room for %d", room)
	}
	done := q.Take()
	if diff := cmp.Diff([]Done{{Prefix: "acme-", Refused: map[Limited]int64{LimitJobs: 2}}}, done); diff != "" {
		t.Errorf("done (-want +got):\n%s", diff)
	}
	if again := q.Take(); again != nil {
		t.Errorf("taken twice: %+v", again)
	}
	q.Return(done)
	if diff := cmp.Diff(done, q.Take()); diff != "" {
		t.Errorf("returned (-want +got):\n%s", diff)
	}
	if len(q.Uses("zenith-")) != 0 || len(q.Uses("acme-")) != 1 {
		t.Error("a tenant sees the quotas of its prefix alone")
	}
}

// Job bytes are a separate quota: a longer prefix has the default, and a shorter one the set limit.
func TestQuotasOfJobBytes(t *testing.T) {
	var q Quotas
	q.Set([]Quota{{Prefix: "acme-eu-"}, {Prefix: "acme-", Set: map[Limited]int64{LimitJobBytes: 1000}}}, 0)
	q.Learn(Learned{Jobs: map[string]int64{"acme-eu-1": 4}, Bytes: map[string]int64{"acme-eu-1": 600, "acme-1": 100, "zenith-1": 1 << 40}})
	of := func(rule string) (limits []int64) {
		for _, j := range q.OfJobs(rule) {
			if j.Bytes() {
				limits = append(limits, j.Room())
			}
		}
		return limits
	}
	if diff := cmp.Diff([]int64{1<<30 - 600, 300}, of("acme-eu-1")); diff != "" {
		t.Errorf("room for bytes (-want +got):\n%s", diff)
	}
	for _, j := range q.OfJobs("acme-1") {
		if j.Bytes() {
			j.Settle(0, 300, 2)
			if text := j.Refusal("acme-1").Error(); !strings.Contains(text, "1000 bytes of pending jobs") || !strings.Contains(text, "--job-bytes") {
				t.Error(text)
			}
		}
	}
	if room := of("acme-1"); room[0] != 0 || !strings.Contains(q.Problem("acme-eu-1", ""), "bytes of pending jobs") {
		t.Errorf("room for %d, problem %q", room, q.Problem("acme-eu-1", ""))
	}
	q.Learn(Learned{Jobs: map[string]int64{}}) // the bytes were not counted this time
	if room := of("acme-1"); room[0] != 0 {
		t.Errorf("room for %d without a count", room)
	}
	q.Learn(Learned{Bytes: map[string]int64{}})
	if room := of("acme-1"); room[0] != 1000 {
		t.Errorf("room for %d once all is gone", room)
	}
	if diff := cmp.Diff([]Done{{Prefix: "acme-", Refused: map[Limited]int64{LimitJobBytes: 2}}}, q.Take()); diff != "" {
		t.Errorf("done (-want +got):\n%s", diff)
	}
}

func TestQuotasOfEventBytes(t *testing.T) {
	var q Quotas
	q.Set([]Quota{{Prefix: "acme-", Set: map[Limited]int64{LimitEventBytes: 1000, LimitEvents: 5}}}, 0)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const largest = 300_000
	for i, bytes := range []int{largest, 1000 << 20} { // a full bucket accepts the largest event, and one larger than the bucket
		if _, err := q.Publish("acme-", bytes, now); err != nil {
			t.Errorf("%d bytes with a full bucket: %v", bytes, err)
		}
		wait, err := q.Publish("acme-", largest, now)
		if !errors.Is(err, ErrQuota) || !strings.Contains(err.Error(), "1000 bytes of events a second") || !strings.Contains(err.Error(), "--event-bytes") || wait <= 10*time.Second {
			t.Errorf("the next one: %v, %v", wait, err)
		}
		now = now.Add(time.Duration(1000*(i+1)) * time.Second)
	}
	// An event rejected for its bytes does not count as an event.
	q.Set([]Quota{{Prefix: "acme-", Set: map[Limited]int64{LimitEventBytes: 1000, LimitEvents: 6}}}, 0)
	for range 100 {
		_, _ = q.Publish("acme-", 1<<19, now)
	}
	if wait, err := q.Publish("acme-", 900, now.Add(time.Second)); err != nil {
		t.Errorf("a small event a second later: %v, %v", wait, err)
	}
	if left := q.current.Load().meter("acme-").events.TokensAt(now.Add(time.Second)); left != 11 {
		t.Errorf("%f events are left of 12", left)
	}
	q.Set([]Quota{{Prefix: "none-", Set: map[Limited]int64{LimitEventBytes: 0}}}, 0)
	if wait, err := q.Publish("none-", 0, now); !errors.Is(err, ErrQuota) || wait != mostWait {
		t.Errorf("without any bytes: %v, %v", wait, err)
	}
}

func TestQuotasOfEvents(t *testing.T) {
	var q Quotas
	q.Set([]Quota{{Prefix: "acme-", Set: map[Limited]int64{LimitEvents: 2}}, {Prefix: "acme-eu-", Set: map[Limited]int64{LimitEvents: 100}}, {Prefix: "zenith-"}}, 0)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	published := func(name string, tries int) (n int) {
		for range tries {
			if wait, err := q.Publish(name, 1, now); err == nil {
				n++
			} else if !errors.Is(err, ErrQuota) || wait <= 0 {
				t.Errorf("%v, %v", wait, err)
			}
		}
		return n
	}
	if n := published("acme-eu-", 10); n != 4 { // the burst of the prefix above
		t.Errorf("%d events at once, want 4", n)
	}
	if n := published("acme-", 10); n != 0 {
		t.Errorf("%d more events at once, want 0", n)
	}
	if n := published("zenith-", 10) + published("", 10); n != 20 {
		t.Errorf("%d events of others, want 20", n)
	}
	// An event rejected by the outer quota is not withdrawn from the inner one.
	if left := q.current.Load().meter("acme-eu-").events.TokensAt(now); left != 196 {
		t.Errorf("%f events are left of 200", left)
	}
	now = now.Add(time.Second)
	if n := published("acme-", 10); n != 2 {
		t.Errorf("%d events after a second, want 2", n)
	}
	refused := make(map[string]int64)
	for _, d := range q.Take() {
		refused[d.Prefix] = d.Refused[LimitEvents]
	}
	if diff := cmp.Diff(map[string]int64{"acme-": 24}, refused); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}

// Alerts that are published while the database counts have their place in the quota at once, and not only with the next
// count.
func TestAlertsPublishedDuringCountAreCounted(t *testing.T) {
	var q Quotas
	q.Set([]Quota{{Prefix: "acme-", Set: map[Limited]int64{LimitAlerts: 3, LimitAlertBytes: 1000}}}, 0)
	a := &alerts.Alert{Rule: "acme-late"}
	q.Spend(a, 100)
	saved := q.Take()[0].Spent
	q.Spend(a, 100)
	q.Spend(a, 100) // the database does not have these two
	q.Learn(Learned{Spent: map[string]Spent{"acme-": saved}})
	if use := q.Uses("")[0].Use; use[atAlerts].Used != 3 || use[atBytes].Used != 300 || q.Admit(a, 1) {
		t.Errorf("3 alerts of 300 bytes are published, and %+v are counted", use)
	}
	rest := q.Take()[0].Spent
	q.Learn(Learned{Spent: map[string]Spent{"acme-": {SpentAlerts: saved[SpentAlerts] + rest[SpentAlerts], SpentAlertBytes: saved[SpentAlertBytes] + rest[SpentAlertBytes]}}})
	if use := q.Uses("")[0].Use; use[atAlerts].Used != 3 || use[atBytes].Used != 300 {
		t.Errorf("after the next count %+v are counted", use)
	}
}

func TestQuotasOfAlerts(t *testing.T) {
	var q Quotas
	q.Set([]Quota{{Prefix: "acme-", Set: map[Limited]int64{LimitAlerts: 3, LimitAlertBytes: 250}}}, 0)
	q.Learn(Learned{Spent: map[string]Spent{"acme-": {SpentAlerts: 1, SpentAlertBytes: 100}}})
	a := &alerts.Alert{Rule: "acme-late"}
	if !q.Admit(a, 100) || q.Admit(&alerts.Alert{Rule: "zenith-late"}, 1<<40) != true {
		t.Error("an alert that has room is not admitted")
	}
	if !q.Admit(a, 100) { // the last alert may exceed the remaining capacity
		t.Error("the last alert is not admitted")
	}
	if q.Admit(a, 1) {
		t.Error("an alert beyond the quota is admitted")
	}
	q.Withhold(a)
	q.Forget(a, 100)
	if !q.Admit(a, 10) {
		t.Error("what was not published leaves no room")
	}
	want := []Done{{Prefix: "acme-", Spent: Spent{SpentAlerts: 2, SpentAlertBytes: 110}, Refused: map[Limited]int64{LimitAlerts: 1, LimitAlertBytes: 1}}}
	if diff := cmp.Diff(want, q.Take()); diff != "" {
		t.Errorf("done (-want +got):\n%s", diff)
	}
	if q.Set([]Quota{{Prefix: "acme-", Set: map[Limited]int64{LimitAlerts: 3}}}, 0); q.Admit(a, 1) {
		t.Error("as many alerts as the quota has are published, and one more is admitted")
	}
	if q.Set([]Quota{{Prefix: "acme-", Set: map[Limited]int64{LimitAlertBytes: 210}}}, 0); q.Admit(a, 1) {
		t.Error("as many bytes as the quota has are published, and more are admitted")
	}
	q.Set([]Quota{{Prefix: "acme-", Set: map[Limited]int64{LimitAlerts: 3, LimitAlertBytes: 250}}}, 0)
	q.Spend(a, 10)
	if got := q.Uses("")[0].Use; got[atAlerts].Used != 4 || !strings.Contains(q.Problem("acme-1", ""), "alerts an hour") {
		t.Errorf("%+v, %s", got, q.Problem("acme-1", ""))
	}
}

// The tenant of a rule has little room if its versions use more than half of a quota.
func TestCrowded(t *testing.T) {
	var q Quotas
	if q.Crowded("acme-1") {
		t.Error("without quotas, a rule is crowded")
	}
	q.Set([]Quota{{Prefix: "a", Set: map[Limited]int64{LimitRuleBytes: 1000}}, {Prefix: "acme-", Set: map[Limited]int64{LimitRuleBytes: 100}}}, 0)
	for _, c := range []struct {
		used, others int64
		crowded      bool
	}{{50, 0, false}, {51, 0, true}, {50, 450, false}, {50, 451, true}} {
		q.Learn(Learned{RuleBytes: map[string]int64{"acme-1": c.used, "alpha": c.others}})
		if got := q.Crowded("acme-2"); got != c.crowded {
			t.Errorf("%+v: %v", c, got)
		}
		q.Learn(Learned{}) // not counted this time
		if got := q.Crowded("acme-2"); got != c.crowded {
			t.Errorf("%+v: %v without a count", c, got)
		}
	}
	if q.Crowded("zenith-1") {
		t.Error("a rule without a quota is crowded")
	}
}
