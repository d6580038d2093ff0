package storetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/store"
	"deadman/rules"
)

// quotas returns the quotas of all prefixes, without their times.
func quotas(w *fixture) []access.Quota {
	w.t.Helper()
	all := must[[]access.Quota](w.t)(w.Quotas(w.ctx()))
	for i := range all {
		if (len(all[i].Set) > 0) != !all[i].SetAt.IsZero() {
			w.t.Errorf("%+v was set at %s", all[i], all[i].SetAt)
		}
		all[i].SetAt = time.Time{}
	}
	return all
}

func quotasAreKept(t *testing.T, w *fixture) {
	same := func(what string, want ...access.Quota) {
		t.Helper()
		if diff := cmp.Diff(want, quotas(w), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	same("at first")
	token := newToken(w, "acme")
	token.Prefix = "acme-"
	w.must(w.InsertToken(w.ctx(), token))
	same("of a token", access.Quota{Prefix: "acme-"})
	w.must(w.RevokeToken(w.ctx(), token.ID, w.at))
	same("when the token has ended", access.Quota{Prefix: "acme-"})

	by := access.As(w.ctx(), ada)
	limits := map[access.Limited]int64{access.LimitRules: 3, access.LimitJobBytes: 5, access.LimitEventBytes: 6, access.LimitAlertBytes: 0}
	w.must(w.SetQuota(by, access.Quota{Prefix: "acme-", Set: limits}))
	w.must(w.SetQuota(by, access.Quota{Prefix: "b", Set: map[access.Limited]int64{access.LimitJobs: 9, access.LimitEvents: 8, access.LimitAlerts: 7}}))
	b := access.Quota{Prefix: "b", Set: map[access.Limited]int64{access.LimitJobs: 9, access.LimitEvents: 8, access.LimitAlerts: 7}, SetBy: "ada"}
	same("that were set", access.Quota{Prefix: "acme-", Set: limits, SetBy: "ada"}, b)
	w.must(w.DeleteQuota(by, "acme-"))
	same("one was deleted", b)
	for _, prefix := range []string{"acme-", "", "a\x00\xff"} {
		if err := w.DeleteQuota(by, prefix); !errors.Is(err, access.ErrNoQuota) || !errors.Is(err, futurejobs.ErrNotFound) {
			t.Errorf("delete %q: %v, want ErrNoQuota", prefix, err)
		}
	}
	again := newToken(w, "again")
	again.Prefix = "acme-"
	w.must(w.InsertToken(w.ctx(), again))
	w.must(w.DeleteQuota(by, "acme-"))
	same("a live token has one for all that", access.Quota{Prefix: "acme-"}, b)
	want := []string{
		"ada quota.set quota/acme- rules 3; job_bytes 5; event_bytes 6; alert_bytes 0", "ada quota.set quota/b jobs 9; events 8; alerts 7",
		"ada quota.delete quota/acme- ", "ada quota.delete quota/acme- ",
	}
	if diff := cmp.Diff(want, audited(w, access.AuditFilter{Action: "quota.*"})); diff != "" {
		t.Errorf("the audit (-want +got):\n%s", diff)
	}
}

// rulesAreCounted checks that a token with a prefix saves no new rule once the rules of its prefix use up a quota, and
// that existing rules can be changed and deleted.
func rulesAreCounted(t *testing.T, w *fixture) {
	w.must(w.SetQuota(w.ctx(), access.Quota{Prefix: "acme-", Set: map[access.Limited]int64{access.LimitRules: 2}}))
	w.must(w.SetQuota(w.ctx(), access.Quota{Prefix: "acme-eu-", Set: map[access.Limited]int64{access.LimitRules: 1}}))
	acme := access.Within(w.ctx(), &access.Bounds{Token: "acme", Prefix: "acme-"})
	save := func(name string) error {
		_, err := w.Save(acme, rules.RuleVersion{Name: name, Entity: "order", Document: []byte(`{"name":"` + name + `"}`)}, rules.AnyVersion)
		return err
	}
	for _, step := range []struct {
		save   string
		delete string
		over   bool
	}{
		{save: "zenith-1"}, // another prefix: this token could not save it, and it does not count
		{save: "acme-eu-1"},
		{save: "acme-eu-2", over: true},
		{save: "acme-1"},
		{save: "acme-2", over: true},
		{save: "acme-1"}, // it exists
		{delete: "acme-eu-1"},
		{save: "acme-2"},
		{save: "acme-eu-1", over: true},
	} {
		if step.delete != "" {
			_, err := w.Delete(acme, step.delete, rules.AnyVersion)
			w.must(err)
			continue
		}
		if err := save(step.save); errors.Is(err, access.ErrQuota) != step.over || !step.over && err != nil {
			t.Errorf("save %s: %v, over the quota %v", step.save, err, step.over)
		}
	}
	acme = access.Within(w.ctx(), &access.Bounds{Token: "ada"}) // without a prefix
	w.must(save("acme-3"))
	names := must[[]string](t)(w.RuleNames(w.ctx()))
	if diff := cmp.Diff([]string{w.rule.Name, "zenith-1", "acme-1", "acme-2", "acme-3"}, names, cmpopts.SortSlices(func(a, b string) bool { return a < b })); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

// room is a quota with capacity for some jobs.
type room struct {
	left           int64
	held           int64
	bytes          bool
	grown, refused int64
}

func (r *room) OfJobs(string) []futurejobs.JobQuota { return []futurejobs.JobQuota{r} }
func (r *room) Tenant(string) string                { return "acme-" }
func (r *room) Bytes() bool                         { return r.bytes }
func (r *room) Room() int64                         { return r.left - r.held }
func (r *room) Refusal(string) error                { return access.ErrQuota }
func (r *room) Reserve(jobs int64) bool {
	if jobs > 0 && r.Room() < jobs {
		return false
	}
	r.held += max(jobs, 0)
	return true
}

func (r *room) Settle(reserved, grown, refused int64) {
	r.held -= max(reserved, 0)
	r.left, r.grown, r.refused = r.left-grown, r.grown+grown, r.refused+refused
}

// jobsAreBounded checks that no job is created beyond a quota, and that its event becomes a dead letter. A pending job
// is kept, even if it was not read before.
func jobsAreBounded(t *testing.T, w *fixture) {
	r := &room{left: 2}
	w.BoundBy(r)
	seq := uint64(7)
	publish := func(keys ...string) futurejobs.ApplyResult {
		t.Helper()
		b := futurejobs.EffectBatch{Stream: "ORDERS", After: seq, Last: seq + 1, LastAt: w.at, RuleSet: w.set}
		seq++
		for _, key := range keys {
			e := w.starting(w.rule, key, w.slot())
			e.Event = &futurejobs.Event{Stream: "ORDERS", Subject: "orders.created", Seq: seq, At: w.at, Data: []byte(`{}`)}
			b.Effects = append(b.Effects, e)
		}
		return must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), b))
	}
	if got := publish("a", "b"); got.Created != 2 || got.Refused != 0 {
		t.Errorf("with room: %+v", got.EffectCounts)
	}
	if got := publish("a", "c", "b", "d"); got.Created != 0 || got.Kept != 2 || got.Refused != 2 {
		t.Errorf("without room: %+v", got.EffectCounts)
	}
	letters := must[futurejobs.Page[futurejobs.DeadLetter]](t)(w.DeadLetters(w.ctx(), futurejobs.Filter{Rule: w.rule.Name})).Items
	if len(letters) != 2 || letters[0].Reason != access.ErrQuota.Error() || letters[0].Part != futurejobs.Triggers {
		t.Errorf("dead letters %+v", letters)
	}
	if got := w.byHand(w.starting(w.rule, "e", w.slot()), w.starting(w.rule, "a", w.slot())); len(got.Over) != 1 || got.Over[0] != 0 || len(got.AlreadyPending) != 1 || got.Created != 0 {
		t.Errorf("by hand: %+v", got)
	}
	if got := w.byHand(w.ending(w.rule, "a")); got.Ended != 1 {
		t.Errorf("an end: %+v", got.EffectCounts)
	}
	if r.grown != 1 || r.refused != 3 || r.left != 1 || r.held != 0 {
		t.Errorf("the quota counts %+v", *r)
	}
	pending := must[map[string]int64](t)(w.PendingOf(w.ctx(), func(rule string) bool { return rule == w.rule.Name }))
	if diff := cmp.Diff(map[string]int64{w.rule.Name: 1}, pending); diff != "" {
		t.Errorf("pending jobs (-want +got):\n%s", diff)
	}
	if none := must[map[string]int64](t)(w.PendingOf(w.ctx(), func(string) bool { return false })); len(none) != 0 {
		t.Errorf("of no rule: %v", none)
	}
}

// bytesOfJobsAreBounded checks that the bytes of jobs are counted as jobs are created, change and end, and that the
// database counts the same. No job is created beyond the quota, even if it was not read before.
func bytesOfJobsAreBounded(t *testing.T, w *fixture) {
	r := &room{left: 1000, bytes: true}
	w.BoundBy(r)
	seq := uint64(7)
	play := func(key string, ask futurejobs.Action) futurejobs.ApplyResult {
		t.Helper()
		e := asking(w, w.rule, key, w.at, ask)
		e.Event = &futurejobs.Event{Stream: "ORDERS", Subject: "orders.created", Seq: seq + 1, At: w.at, Data: []byte(`{}`)}
		b := futurejobs.EffectBatch{Stream: "ORDERS", After: seq, Last: seq + 1, LastAt: w.at, RuleSet: w.set, Effects: []futurejobs.Effect{e}}
		seq++
		return must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), b))
	}
	begin := func(key string, bytes int) futurejobs.ApplyResult {
		start := w.starting(w.rule, key, w.slot()).Action.(futurejobs.Start)
		start.Job.Event = []byte(`"` + strings.Repeat("x", bytes-2) + `"`)
		return play(key, start)
	}
	same := func(want int64) {
		t.Helper()
		counted := must[map[string]int64](t)(w.PendingBytesOf(w.ctx(), func(rule string) bool { return rule == w.rule.Name }))[w.rule.Name]
		if r.grown != want || counted != want {
			t.Errorf("%d bytes are counted, and %d by the database; want %d", r.grown, counted, want)
		}
	}
	begin("a", 700)
	same(700)
	play("a", futurejobs.Update{Merge: func(json.RawMessage) (json.RawMessage, error) { return []byte(`{"é": 123}`), nil }})
	same(711) // bytes, not characters
	begin("b", 400)
	same(1111)
	if got := begin("c", 2); got.Created != 0 || got.Refused != 1 {
		t.Errorf("without room: %+v", got.EffectCounts)
	}
	if got := begin("a", 300); got.Kept != 1 || got.Refused != 0 {
		t.Errorf("a pending job: %+v", got.EffectCounts)
	}
	same(1111)
	play("a", futurejobs.End{Outcome: "resolved"})
	same(400)
	if got := begin("c", 10); got.Created != 1 {
		t.Errorf("with room again: %+v", got.EffectCounts)
	}
	same(410)
	if none := must[map[string]int64](t)(w.PendingBytesOf(w.ctx(), func(string) bool { return false })); len(none) != 0 {
		t.Errorf("of no rule: %v", none)
	}
}

func useOfQuotasIsKept(t *testing.T, w *fixture) {
	w.must(w.KeepQuotas(w.ctx(), nil))
	now := must[time.Time](t)(w.Now(w.ctx()))
	for range 2 {
		w.must(w.KeepQuotas(w.ctx(), []access.Done{
			{Prefix: "acme-", Spent: access.Spent{Alerts: 3, Bytes: 400}, Refused: map[access.Limited]int64{access.LimitJobs: 5, access.LimitEvents: 1}},
			{Prefix: "b", Spent: access.Spent{Alerts: 1, Bytes: 10}},
		}))
	}
	spent := must[map[string]access.Spent](t)(w.QuotaSpent(w.ctx(), now.Add(-time.Hour)))
	if diff := cmp.Diff(map[string]access.Spent{"acme-": {Alerts: 6, Bytes: 800}, "b": {Alerts: 2, Bytes: 20}}, spent); diff != "" {
		t.Errorf("spent (-want +got):\n%s", diff)
	}
	if later := must[map[string]access.Spent](t)(w.QuotaSpent(w.ctx(), now.Add(2*time.Hour))); later["acme-"].Bytes != 0 {
		t.Errorf("of a stream that begins later: %v", later)
	}
	refusals := must[map[string][]access.LimitUse](t)(w.Refusals(w.ctx()))
	for i := range refusals["acme-"] {
		if at := refusals["acme-"][i].RefusedAt; at.Sub(now).Abs() > time.Minute {
			t.Errorf("refused at %s", at)
		}
		refusals["acme-"][i].RefusedAt = time.Time{}
	}
	if diff := cmp.Diff(map[string][]access.LimitUse{"acme-": {{Limited: access.LimitEvents, Refused: 2}, {Limited: access.LimitJobs, Refused: 10}}}, refusals); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
	w.must(w.PruneQuotas(w.ctx(), now.Add(time.Hour)))
	if left := must[map[string]access.Spent](t)(w.QuotaSpent(w.ctx(), now.Add(-time.Hour))); len(left) != 0 {
		t.Errorf("pruned, and %v is left", left)
	}
	if left := must[map[string][]access.LimitUse](t)(w.Refusals(w.ctx())); len(left) != 0 {
		t.Errorf("pruned, and %v is left", left)
	}
}

func alertsAreWithheld(t *testing.T, w *fixture) {
	since := told(w, "a", "b")
	waits := w.unpublished()
	if len(waits) != 2 {
		t.Fatalf("%d alerts wait", len(waits))
	}
	elsewhere := waits[0]
	elsewhere.Place.First = alerts.ID{1} // as if the node ends before the alert is out of the outbox
	w.must(w.Withhold(w.ctx(), []alerts.Alert{elsewhere}))
	if left := w.unpublished(); len(left) != 1 {
		t.Errorf("a withheld alert waits: %d", len(left))
	}
	w.must(w.Withhold(w.ctx(), waits[:1]))
	w.must(w.Withhold(w.ctx(), nil))
	id := waits[0].ID
	if left := w.unpublished(); len(left) != 1 || left[0].ID != waits[1].ID {
		t.Errorf("%d alerts are left", len(left))
	}
	w.must(w.MarkPublished(w.ctx(), waits[1:]))
	state := func() string {
		said := must[futurejobs.ListedAlert](t)(w.Alert(w.ctx(), id))
		return fmt.Sprintf("published %v, withheld %v", said.Published, said.Withheld)
	}
	if got := state(); got != "published false, withheld true" {
		t.Error(got)
	}
	withheld := must[map[alerts.ID]bool](t)(w.Withheld(w.ctx(), waits[0].Shard, []alerts.ID{id, waits[1].ID}))
	if diff := cmp.Diff(map[alerts.ID]bool{id: true}, withheld); diff != "" {
		t.Errorf("withheld (-want +got):\n%s", diff)
	}
	if n := must[int64](t)(w.Republish(w.ctx(), futurejobs.Filter{After: since})); n != 2 {
		t.Errorf("%d are published again", n)
	}
	again := w.unpublished()
	if got := state(); len(again) != 2 || got != "published false, withheld false" {
		t.Errorf("%d wait again; %s", len(again), got)
	}
	w.must(w.MarkPublished(w.ctx(), again))
	if got := state(); got != "published true, withheld false" {
		t.Error(got)
	}
}

// alertsArePublishedAgain checks that republished alerts have their earlier state, even if a part of a row of the
// outbox is published.
func alertsArePublishedAgain(t *testing.T, w *fixture) {
	keys, shard := neighbours(w, 4)
	since := told(w, keys...)
	waits := w.unpublished()
	w.must(w.Withhold(w.ctx(), waits[1:3]))
	w.must(w.MarkPublished(w.ctx(), waits))
	republish(w, since, 4)
	told(w, "new")
	was := make(map[alerts.ID]alerts.Republication)
	for {
		next := must[[]alerts.Alert](t)(w.Unpublished(w.ctx(), []int16{shard}, 1, nil))
		if len(next) == 0 {
			break
		}
		for _, a := range next {
			was[a.ID] = a.Republication
		}
		w.must(w.MarkPublished(w.ctx(), next))
	}
	for i, a := range waits {
		want := alerts.WasPublished
		if i == 1 || i == 2 {
			want = alerts.WasWithheld
		}
		if got := was[a.ID]; got != want {
			t.Errorf("alert %d was %d before, want %d", i, got, want)
		}
		delete(was, a.ID)
	}
	for _, a := range w.unpublished() {
		was[a.ID] = a.Republication
	}
	for id, got := range was {
		if got != alerts.NotRepublished {
			t.Errorf("the new alert %s was %d before", id, got)
		}
	}
	if len(was) != 1 {
		t.Errorf("%d new alerts", len(was))
	}
	// Once more: withheld alerts now count as published.
	republish(w, since, 4)
	for _, a := range w.unpublished() {
		if a.Republication == alerts.WasWithheld {
			t.Errorf("alert %s is still withheld", a.ID)
		}
	}
}

// tenantOf returns the tenant of a rule: its name up to a dash; empty: none.
func tenantOf(rule string) string {
	if tenant, _, has := strings.Cut(rule, "-"); has {
		return tenant
	}
	return ""
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

// bodiesOfLettersHaveRoom checks that one event that many rules refuse repeatedly fills the database no further than
// the caps: letters beyond the capacity have no bodies, but the size of those.
func bodiesOfLettersHaveRoom(t *testing.T, w *fixture) {
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

// earlyIsCappedByTenant checks that a tenant with many rules does not displace the early resolves of another.
func earlyIsCappedByTenant(t *testing.T, w *fixture) {
	mine := w.rule
	for _, name := range []string{mine.Name, "acme-1", "acme-2"} {
		if w.rule = mine; name != mine.Name {
			w.rule = w.save(name, "order")
		}
		for i := range 6 {
			w.byHand(happening(w, fmt.Sprint(i), w.slot(), time.Hour+time.Duration(i)*time.Minute))
		}
	}
	const much = 1 << 20
	got := must[[]store.CappedEarly](t)(w.CapEarly(w.ctx(), store.EarlyCaps{Rule: much, Total: 12, RuleBytes: much, TotalBytes: much, Tenant: tenantOf}))
	if diff := cmp.Diff([]store.CappedEarly{{Rule: "acme-1", Rows: 3}, {Rule: "acme-2", Rows: 3}}, got); diff != "" {
		t.Errorf("forgotten (-want +got):\n%s", diff)
	}
}
