package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus"
	"deadman/server"
)

// Two tenants share a node: one uses all it can, and the other is not informed, delayed or suppressed.
func TestTenantsHaveQuotas(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, c server.Config) {
		c.AlertsBytes = 4 << 20
		w := newTenants(t, c)
		for _, attack := range []struct {
			name string
			play func(*tenants, *testing.T)
		}{
			{"rules", (*tenants).rulesAreCounted},
			{"versions of rules", (*tenants).versionsAreCounted},
			{"subjects", (*tenants).subjectsAreCounted},
			{"pings", (*tenants).pingsAreCounted},
			{"jobs", (*tenants).jobsAreCounted},
			{"schedules", (*tenants).schedulesAreCounted},
			{"ticks of schedules", (*tenants).storedTicksAreCounted},
			{"jobs by hand", (*tenants).jobsByHandAreCounted},
			{"jobs at once", (*tenants).jobsAtOnceAreCounted},
			{"ends of dead letters", (*tenants).endsFromDeadLettersAreKept},
			{"events", (*tenants).eventsAreCounted},
			{"bytes of events", (*tenants).eventBytesAreCounted},
			{"bytes of jobs", (*tenants).jobBytesAreCounted},
			{"one event for many rules", (*tenants).anEventIsShared},
			{"alerts", (*tenants).alertsAreCounted},
			{"alerts again", (*tenants).alertsAgainAreCountedOnce},
			{"bytes of the stream", (*tenants).bytesAreCounted},
			{"bytes of kept alerts", (*tenants).keptAlertsAreCounted},
			{"bytes of kept answers", (*tenants).keptAnswersAreCounted},
			{"lost answers", (*tenants).lostAnswersAreMadeAgain},
			{"what is told", (*tenants).quotaAlertsAreRaised},
			{"what the other sees", (*tenants).quotasAreHidden},
			{"who sets them", (*tenants).quotasAreSet},
			{"outer limits", (*tenants).outerLimitsAreHidden},
		} {
			t.Run(attack.name, func(t *testing.T) {
				again := *w
				node := *w.node
				node.T, again.node = t, &node
				attack.play(&again, t)
				again.checkZenithWorks(strings.ReplaceAll(attack.name, " ", "-"))
			})
		}
	})
}

// checkZenithWorks fails the test unless an event of zenith creates a job that is checked and publishes its alert.
func (w *tenants) checkZenithWorks(key string) {
	w.Helper()
	w.publish(http.StatusAccepted, "zenith.created", `{"id": "`+key+`"}`, w.zenith...)
	w.eventually("zenith's alert is published", func() bool {
		raised := w.alertsOf("zenith-late", w.zenith)
		return slices.ContainsFunc(raised, func(a tenantAlert) bool { return a.Key == key && a.Published })
	})
	if shown := w.overQuota("zenith-late", w.zenith); shown != "" {
		w.Errorf("zenith's rule: %s", shown)
	}
}

type tenantAlert struct {
	Rule, Key, Text, Status string
	Published, Withheld     bool
	Labels                  map[string]string
}

// alertsOf returns the newest alerts of a rule, as visible to a token.
func (w *tenants) alertsOf(rule string, as []string) []tenantAlert {
	w.Helper()
	var raised struct{ Items []tenantAlert }
	w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/alerts?limit=500&rule="+rule, "", as...).decode(w.T, &raised)
	return raised.Items
}

// setQuota sets limits of acme.
func (w *tenants) setQuota(limits string) {
	w.Helper()
	w.callExpecting(http.StatusOK, http.MethodPut, "/api/v1/quotas/acme-*", limits, append(w.admin, "Content-Type", "application/json")...)
}

// usage is the use of a limit of a prefix.
type usage struct {
	Name                 string
	Limit, Used, Refused int64
	Default              bool
}

func (w *tenants) usage(prefix, limit string, as []string) usage {
	w.Helper()
	var quotas struct {
		Items []struct {
			Prefix string
			Limits []usage
		}
	}
	w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/quotas", "", as...).decode(w.T, &quotas)
	for _, q := range quotas.Items {
		for _, l := range q.Limits {
			if q.Prefix == prefix && l.Name == limit {
				return l
			}
		}
	}
	w.Fatalf("no limit %s of %s in %+v", limit, prefix, quotas)
	return usage{}
}

const holdRule = `
name: acme-hold
entity: order
trigger: {event: acme.hold, key: event.id}
resolve: {event: acme.free, key: event.id}
escalate: [{after: 100h, step: primary}]
slot: 1s
`

// checkOverQuota fails the test unless a response is a quota refusal that names only acme.
func (w *tenants) checkOverQuota(got reply, status int) {
	w.Helper()
	text := string(got.body)
	if got.status != status || !strings.Contains(text, "acme-*") || !strings.Contains(text, "deadman quota set") || strings.Contains(text, "zenith") {
		w.Errorf("%d %s, want %d and the quota of acme", got.status, text, status)
	}
	if !strings.Contains(text, "urn:deadman:problem:quota-used-up") {
		w.Errorf("%s, want the kind quota-used-up", text)
	}
}

func (w *tenants) rulesAreCounted(t *testing.T) {
	w.setQuota(`{"rules": 4}`)
	name := func(i int) string { return fmt.Sprintf("acme-r%d", i) }
	text := func(i int) string { return strings.Replace(holdRule, "acme-hold", name(i), 1) }
	var saves sync.WaitGroup
	answers := make([]reply, 12)
	for i := range answers {
		saves.Go(func() {
			again := true
			for again { // on a busy machine, saves that wait for their turn are refused after a time
				answers[i] = w.callRaw(http.MethodPut, "/api/v1/rules/"+name(i), text(i), append(slices.Clone(w.acme), "Content-Type", "application/yaml")...)
				again = answers[i].status == http.StatusTooManyRequests
			}
		})
	}
	saves.Wait()
	var saved []int
	for i, got := range answers {
		if got.status == http.StatusCreated {
			saved = append(saved, i)
			continue
		}
		w.checkOverQuota(got, http.StatusUnprocessableEntity)
	}
	if len(saved) != 3 { // includes acme-late
		t.Fatalf("%d rules were saved at once, want 3", len(saved))
	}
	w.saveRule(http.StatusOK, "", strings.Replace(text(saved[0]), "100h", "101h", 1), w.acme...)
	w.saveRule(http.StatusCreated, "", strings.ReplaceAll(zenithRule, "zenith-late", "zenith-more"), w.zenith...)
	w.saveRule(http.StatusCreated, "", strings.Replace(holdRule, "acme-hold", "acme-operators", 1), w.admin...) // it counts but is not refused
	if got := w.usage("acme-", "rules", w.admin); got.Limit != 4 {
		t.Errorf("rules: %+v", got)
	}
	for _, i := range saved {
		w.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/rules/"+name(i), "", w.acme...)
	}
	w.saveRule(http.StatusCreated, "", text(0), w.acme...)
	for _, rule := range []string{name(0), "acme-operators"} {
		w.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/rules/"+rule, "", w.acme...)
	}
}

func (w *tenants) jobsAreCounted(t *testing.T) {
	w.setQuota(`{}`)
	w.saveRule(http.StatusCreated, "", holdRule, w.acme...)
	var jobs list
	w.eventually("all pending jobs of acme are counted", func() bool {
		w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/jobs?limit=500", "", w.acme...).decode(t, &jobs)
		return w.usage("acme-", "jobs", w.acme).Used == int64(len(jobs.Items))
	})
	held := func(key string) bool {
		return w.callRaw(http.MethodGet, "/api/v1/jobs/acme-hold/"+key, "", w.acme...).status == http.StatusOK
	}
	w.setQuota(fmt.Sprintf(`{"jobs": %d}`, len(jobs.Items)+5))
	for i := range 5 {
		w.publish(http.StatusAccepted, "acme.hold", fmt.Sprintf(`{"id": "h%d"}`, i), w.acme...)
	}
	w.eventually("5 of acme wait", func() bool { return held("h4") })
	for i := range 20 {
		w.publish(http.StatusAccepted, "acme.hold", fmt.Sprintf(`{"id": "over%d"}`, i), w.acme...)
	}
	w.publish(http.StatusAccepted, "acme.hold", `{"id": "h0"}`, w.acme...) // already pending: nothing to refuse
	var letters []letter
	begun := func() (n int) { // jobs of deleted rules end meanwhile, and leave their room
		for i := range 20 {
			if held(fmt.Sprintf("over%d", i)) {
				n++
			}
		}
		return n
	}
	w.eventually("events of acme beyond the quota are dead letters", func() bool {
		letters = w.deadLetters("acme-hold")
		return len(letters) > 0 && len(letters)+begun() == 20
	})
	if !strings.Contains(letters[0].Reason, "acme-* have all of their") || !strings.Contains(letters[0].Reason, "pending jobs") {
		t.Errorf("the reason: %s", letters[0].Reason)
	}
	w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/jobs?limit=500", "", w.acme...).decode(t, &jobs)
	if got := w.usage("acme-", "jobs", w.acme); int64(len(jobs.Items)) > got.Limit {
		t.Errorf("%d jobs of acme are pending, and the limit is %d", len(jobs.Items), got.Limit)
	}
	more := 0
	w.eventually("the rule shows it", func() bool { // further events take the room that jobs of deleted rules leave
		more++
		w.publish(http.StatusAccepted, "acme.hold", fmt.Sprintf(`{"id": "more%d"}`, more), w.acme...)
		return strings.Contains(string(w.callRaw(http.MethodGet, "/api/v1/rules?name=acme-hold", "", w.acme...).body), `"over_quota"`)
	})
	if page := w.callRaw(http.MethodGet, "/rules/acme-hold", "", append(slices.Clone(w.acme), "Accept", "text/html")...); !strings.Contains(string(page.body), "Quota exceeded") {
		t.Errorf("the page of the rule: %s", page.body)
	}
	// A quota never drops a resolve.
	w.publish(http.StatusAccepted, "acme.free", `{"id": "h0"}`, w.acme...)
	w.eventually("a job of acme ends", func() bool { return !held("h0") })
	w.eventually("its room is free", func() bool {
		w.publish(http.StatusAccepted, "acme.hold", `{"id": "next"}`, w.acme...)
		return held("next")
	})
	// Past events count too.
	past := strings.Replace(holdRule, "acme-hold", "acme-past", 1)
	asYAML := append(slices.Clone(w.acme), "Content-Type", "application/yaml")
	w.checkOverQuota(w.callRaw(http.MethodPut, "/api/v1/rules/acme-past?since=2026-01-01T00:00:00Z", past, asYAML...), http.StatusUnprocessableEntity)
	if got := w.callRaw(http.MethodGet, "/api/v1/rules/acme-past", "", w.acme...); got.status != http.StatusNotFound {
		t.Errorf("a rule that was refused is there: %d", got.status)
	}
	if n := len(w.deadLetters("zenith-late")); n != 0 {
		t.Errorf("zenith has %d dead letters", n)
	}
}

func (w *tenants) deadLetters(rule string) []letter {
	w.Helper()
	var letters struct{ Items []letter }
	w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/dead-letters?limit=500&rule="+rule, "", w.admin...).decode(w.T, &letters)
	return letters.Items
}

func (w *tenants) jobsByHandAreCounted(t *testing.T) {
	w.setQuota(`{"jobs": 1}`)
	asJSON := append(slices.Clone(w.acme), "Content-Type", "application/json")
	w.checkOverQuota(w.callRaw(http.MethodPost, "/api/v1/jobs", `{"rule": "acme-hold", "key": "hand"}`, asJSON...), http.StatusUnprocessableEntity)
	w.checkOverQuota(w.callRaw(http.MethodPost, "/api/v1/jobs", `{"rule": "acme-hold", "key": "hand"}`, append(slices.Clone(asJSON), "Idempotency-Key", "once")...), http.StatusUnprocessableEntity)
	got := w.callRaw(http.MethodPost, "/api/v1/jobs/bulk", `{"rule": "acme-hold", "key": "h1"}`+"\n"+`{"rule": "acme-hold", "key": "hand"}`,
		append(slices.Clone(w.acme), "Content-Type", "application/x-ndjson")...)
	var bulk struct {
		Created, Existed, Refused int
		Wrong                     []struct {
			Line    int
			Message string
		} `json:"refused_lines"`
	}
	got.decode(t, &bulk)
	if bulk.Created != 0 || bulk.Existed != 1 || bulk.Refused != 1 || len(bulk.Wrong) != 1 || bulk.Wrong[0].Line != 2 || !strings.Contains(bulk.Wrong[0].Message, "pending jobs") {
		t.Errorf("in bulk: %d %s", got.status, got.body)
	}
	w.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/jobs/acme-hold/h1", "", w.acme...)
	w.callExpecting(http.StatusCreated, http.MethodPost, "/api/v1/jobs", `{"rule": "zenith-late", "key": "hand"}`, append(slices.Clone(w.zenith), "Content-Type", "application/json")...)
	audit := string(w.callRaw(http.MethodGet, "/api/v1/audit?object=job/acme-hold/hand", "", w.admin...).body)
	if strings.Contains(audit, "job.create") {
		t.Errorf("a job that did not begin is in the audit: %s", audit)
	}
}

func (w *tenants) eventsAreCounted(t *testing.T) {
	w.setQuota(`{"events": 1}`) // a bucket of 2, which no slow machine refills between 40 requests
	refused := 0
	for range 40 {
		got := w.callRaw(http.MethodPost, "/api/v1/events/acme.free", `{"id": "stranger"}`, w.acme...)
		if got.status == http.StatusAccepted {
			continue
		}
		refused++
		w.checkOverQuota(got, http.StatusTooManyRequests)
		if got.header.Get("Retry-After") == "" {
			t.Error("a 429 has no time of the next attempt")
		}
	}
	if refused == 0 {
		t.Error("no event of acme was refused")
	}
	for i := range 40 {
		w.publish(http.StatusAccepted, "zenith.shipped", fmt.Sprintf(`{"id": "stranger%d"}`, i), w.zenith...)
	}
	w.setQuota(`{"events": 0}`)
	w.saveRule(http.StatusCreated, "", "name: acme-clock\nentity: order\ntrigger: {schedule: \"@every 1s\", emit: {subject: acme.ticks}}\n", w.acme...)
	w.saveRule(http.StatusCreated, "", "name: zenith-clock\nentity: order\ntrigger: {schedule: \"@every 1s\", emit: {subject: zenith.created, data: {id: tick}}}\n", w.zenith...)
	w.eventually("zenith's schedule emits", func() bool {
		return w.callRaw(http.MethodGet, "/api/v1/jobs/zenith-late/tick", "", w.zenith...).status == http.StatusOK
	})
	if n := w.messages(bus.EventsStream, "acme.ticks"); n != 0 {
		t.Errorf("acme's schedule emitted %d events", n)
	}
	w.setQuota(`{}`)
	// A refused tick waits for a minute, or until the rules change.
	w.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/rules/zenith-clock", "", w.admin...)
	w.eventually("acme's schedule emits again", func() bool { return w.messages(bus.EventsStream, "acme.ticks") > 0 })
	w.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/rules/acme-clock", "", w.admin...)
}

// Large events use up a quota that small ones do not.
func (w *tenants) eventBytesAreCounted(t *testing.T) {
	w.setQuota(`{"event_bytes": 2000}`)
	large := `{"id": "stranger", "text": "` + strings.Repeat("x", 255<<10) + `"}`
	w.publish(http.StatusAccepted, "acme.free", large, w.acme...) // the bucket is full: any size is accepted
	w.publish(http.StatusAccepted, "acme.free", large, w.acme...)
	got := w.callRaw(http.MethodPost, "/api/v1/events/acme.free", large, append(slices.Clone(w.acme), "Content-Type", "application/json")...)
	w.checkOverQuota(got, http.StatusTooManyRequests)
	if text := string(got.body); !strings.Contains(text, "2000 bytes of events a second") || !strings.Contains(text, "--event-bytes") || got.header.Get("Retry-After") != "60" {
		t.Errorf("%s, after %s", text, got.header.Get("Retry-After"))
	}
	w.publish(http.StatusAccepted, "zenith.shipped", large, w.zenith...)
	w.setQuota(`{"event_bytes": 0}`)
	w.saveRule(http.StatusCreated, "", "name: acme-clock\nentity: order\ntrigger: {schedule: \"@every 1s\", emit: {subject: acme.heavy}}\n", w.acme...)
	w.saveRule(http.StatusCreated, "", "name: zenith-clock\nentity: order\ntrigger: {schedule: \"@every 1s\", emit: {subject: zenith.created, data: {id: tock}}}\n", w.zenith...)
	w.eventually("zenith's schedule emits", func() bool {
		return w.callRaw(http.MethodGet, "/api/v1/jobs/zenith-late/tock", "", w.zenith...).status == http.StatusOK
	})
	if n := w.messages(bus.EventsStream, "acme.heavy"); n != 0 {
		t.Errorf("acme's schedule emitted %d events", n)
	}
	for _, rule := range []string{"acme-clock", "zenith-clock"} {
		w.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/rules/"+rule, "", w.admin...)
	}
	w.setQuota(`{}`)
}

// A few jobs with large bodies use up a quota, and ends free it.
func (w *tenants) jobBytesAreCounted(t *testing.T) {
	w.setQuota(`{}`)
	w.saveRule(http.StatusCreated, "", strings.NewReplacer("acme-hold", "acme-heavy", "acme.hold", "acme.load", "acme.free", "acme.unload").Replace(holdRule), w.acme...)
	used := int64(-1)
	w.eventually("the bytes of jobs that ended before are no longer counted", func() bool {
		before := used
		used = w.usage("acme-", "job_bytes", w.acme).Used
		if used != before {
			time.Sleep(3 * time.Second) // at least one count by the database
		}
		return used == before
	})
	w.setQuota(fmt.Sprintf(`{"job_bytes": %d}`, used+250_000))
	load := func(i int) {
		w.publish(http.StatusAccepted, "acme.load", fmt.Sprintf(`{"id": "l%d", "text": "%s"}`, i, strings.Repeat("x", 100_000)), w.acme...)
	}
	held := func(i int) bool {
		return w.callRaw(http.MethodGet, fmt.Sprintf("/api/v1/jobs/acme-heavy/l%d", i), "", w.acme...).status == http.StatusOK
	}
	for i := range 6 {
		load(i)
	}
	load(0) // already pending
	w.eventually("3 events of acme are dead letters", func() bool {
		letters := w.deadLetters("acme-heavy")
		return len(letters) == 3 && strings.Contains(letters[0].Reason, "acme-* have all of their") && strings.Contains(letters[0].Reason, "bytes of pending jobs")
	})
	if !held(2) || held(3) {
		t.Error("the jobs that there is room for are not those that began")
	}
	w.checkOverQuota(w.callRaw(http.MethodPost, "/api/v1/jobs", `{"rule": "acme-heavy", "key": "hand"}`, append(slices.Clone(w.acme), "Content-Type", "application/json")...), http.StatusUnprocessableEntity)
	if use := w.usage("acme-", "job_bytes", w.acme); use.Used < used+300_000 || use.Used > used+301_000 {
		t.Errorf("%+v, want three jobs more than %d", use, used)
	}
	w.publish(http.StatusAccepted, "acme.unload", `{"id": "l0"}`, w.acme...)
	w.publish(http.StatusAccepted, "acme.unload", `{"id": "l1"}`, w.acme...)
	w.eventually("ends make room", func() bool {
		load(9)
		return held(9)
	})
	if n := len(w.deadLetters("zenith-late")); n != 0 {
		t.Errorf("zenith has %d dead letters", n)
	}
	w.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/rules/acme-heavy", "", w.acme...)
}

// Many rules of a tenant process one large event: as many as the quota allows, and the others by a retry.
func (w *tenants) anEventIsShared(t *testing.T) {
	w.setQuota(`{}`)
	const many = 20
	name := func(i int) string { return fmt.Sprintf("acme-many%d", i) }
	for i := range many {
		w.saveRule(http.StatusCreated, "", strings.NewReplacer("acme-hold", name(i), "acme.hold", "acme.many", "acme.free", "acme.few").Replace(holdRule), w.acme...)
	}
	other := strings.NewReplacer("acme-hold", "operators", "acme.hold", "acme.many", "acme.free", "acme.few").Replace(holdRule)
	w.saveRule(http.StatusCreated, "", other, w.admin...)
	w.publish(http.StatusAccepted, "acme.many", `{"id": "one", "text": "`+strings.Repeat("x", 250<<10)+`"}`, w.acme...)
	held := func(rule string) bool {
		return w.callRaw(http.MethodGet, "/api/v1/jobs/"+rule+"/one", "", w.admin...).status == http.StatusOK
	}
	var began, refused []int
	w.eventually("each rule has the event or a dead letter", func() bool {
		began, refused = nil, nil
		for i := range many {
			if letters := w.deadLetters(name(i)); len(letters) == 1 && strings.Contains(letters[0].Reason, "the rules acme-* together write at most 4194304 bytes of one event") {
				refused = append(refused, i)
			} else if held(name(i)) {
				began = append(began, i)
			}
		}
		return len(began)+len(refused) == many && held("operators")
	})
	if len(began) != 16 {
		t.Errorf("%d rules of acme have the event, want 16", len(began))
	}
	if n := len(w.deadLetters("operators")); n != 0 {
		t.Errorf("a rule that is no tenant's has %d dead letters", n)
	}
	for _, i := range refused {
		w.callExpecting(http.StatusOK, http.MethodPost, "/api/v1/dead-letters/retry?rule="+name(i), "", w.admin...)
		if !held(name(i)) {
			t.Errorf("%s does not take the event in by a retry", name(i))
		}
	}
	for i := range many {
		w.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/rules/"+name(i), "", w.acme...)
	}
	w.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/rules/operators", "", w.admin...)
}

// messages returns the number of messages of a stream on a subject.
func (w *tenants) messages(stream, subject string) (n uint64) {
	w.Helper()
	for _, count := range w.state(stream, subject).Subjects {
		n += count
	}
	return n
}

const floodRule = `
name: acme-flood
entity: order
trigger: {event: acme.flood, key: event.id}
resolve: {event: acme.dry, key: event.id}
escalate: [{after: 1s, step: primary, text: TEXT}, {after: 100h, step: later}]
slot: 1s
`

// flood raises alerts of acme about keys, and waits until all are decided, and published or withheld.
func (w *tenants) flood(rule, subject string, keys int, body string) (published, withheld int) {
	w.Helper()
	for i := range keys {
		w.publish(http.StatusAccepted, subject, fmt.Sprintf(`{"id": "f%d"%s}`, i, body), w.acme...)
	}
	w.eventually("acme has its alerts", func() bool {
		published, withheld = 0, 0
		for _, a := range w.alertsOf(rule, w.acme) {
			if a.Published {
				published++
			}
			if a.Withheld {
				withheld++
			}
		}
		return published+withheld == keys
	})
	return published, withheld
}

func (w *tenants) alertsAreCounted(t *testing.T) {
	w.saveRule(http.StatusCreated, "", strings.Replace(floodRule, "TEXT", "late", 1), w.acme...)
	w.setQuota(`{}`)
	used := w.usage("acme-", "alerts", w.acme).Used
	w.setQuota(fmt.Sprintf(`{"alerts": %d}`, used+4))
	published, withheld := w.flood("acme-flood", "acme.flood", 30, "")
	if published != 4 || withheld != 26 {
		t.Errorf("%d alerts of acme are published and %d withheld, want 4 and 26", published, withheld)
	}
	if n := w.messages(bus.AlertsStream, "deadman.alerts.acme-flood.>"); n != 4 {
		t.Errorf("the stream has %d alerts of acme-flood, want 4", n)
	}
	// The resolution of a published alert is published, and that of a withheld one is not.
	for i := range 30 {
		w.publish(http.StatusAccepted, "acme.dry", fmt.Sprintf(`{"id": "f%d"}`, i), w.acme...)
	}
	w.eventually("the published alerts are resolved in the stream", func() bool {
		ends, out := 0, 0
		for _, a := range w.alertsOf("acme-flood", w.acme) {
			if a.Status == "resolved" {
				ends++
				if a.Published {
					out++
				}
			}
		}
		return ends == 30 && out == 4
	})
	if n := w.messages(bus.AlertsStream, "deadman.alerts.acme-flood.>"); n != 8 {
		t.Errorf("the stream has %d alerts of acme-flood, want 4 and their ends", n)
	}
	// With a higher quota, withheld alerts can be published after all.
	w.setQuota(`{}`)
	w.callExpecting(http.StatusOK, http.MethodPost, "/api/v1/alerts/republish", `{"rule": "acme-flood", "since": "2020-01-01T00:00:00Z"}`, append(slices.Clone(w.admin), "Content-Type", "application/json")...)
	w.eventually("all alerts of acme are in the stream", func() bool {
		return w.messages(bus.AlertsStream, "deadman.alerts.acme-flood.>") == 60
	})
	for _, a := range w.alertsOf("acme-flood", w.acme) {
		if a.Withheld {
			t.Errorf("%+v is withheld", a)
		}
	}
}

// One tenant can't fill the stream of alerts, even with the default limits.
func (w *tenants) bytesAreCounted(t *testing.T) {
	w.setQuota(`{}`)
	w.saveRule(http.StatusCreated, "", strings.NewReplacer("TEXT", `"{{event.text}}"`, "acme-flood", "acme-bytes", "acme.flood", "acme.wide").Replace(floodRule), w.acme...)
	published, withheld := w.flood("acme-bytes", "acme.wide", 150, `, "text": "`+strings.Repeat("x", 4000)+`"`)
	if published == 0 || withheld == 0 {
		t.Errorf("%d alerts of acme are published and %d withheld, want some of both", published, withheld)
	}
	use := w.usage("acme-", "alert_bytes", w.admin)
	if share := int64(4<<20) / 10; use.Limit != share || use.Used > share+share/10 || !use.Default {
		t.Errorf("acme takes %+v, want at most a tenth of the stream", use)
	}
	if filled := w.state(bus.AlertsStream, "").Bytes; filled > 1<<20 {
		t.Errorf("the stream has %d bytes", filled)
	}
}

func (w *tenants) quotaAlertsAreRaised(t *testing.T) {
	var raised []tenantAlert
	w.eventually("quotas are alerts", func() bool {
		raised = nil
		for _, a := range w.alertsOf("deadman", w.admin) {
			if strings.HasPrefix(a.Key, "quota/") && a.Published {
				raised = append(raised, a)
			}
		}
		return len(raised) >= 6
	})
	reported := make(map[string]int)
	for _, a := range raised {
		reported[a.Key]++
		if a.Labels["prefix"] != "acme-" || strings.Contains(a.Text, "zenith") {
			t.Errorf("%+v", a)
		}
	}
	for _, limit := range []string{"jobs", "job_bytes", "events", "event_bytes", "alerts", "alert_bytes"} {
		if n := reported["quota/acme-*/"+limit]; n != 1 {
			t.Errorf("%s: %d alerts, want 1; %v", limit, n, reported)
		}
		if use := w.usage("acme-", limit, w.acme); use.Refused == 0 {
			t.Errorf("acme sees %+v", use)
		}
	}
	page := string(w.callRaw(http.MethodGet, "/sessions", "", append(slices.Clone(w.acme), "Accept", "text/html")...).body)
	if !strings.Contains(page, "Quota") || !strings.Contains(page, "alert_bytes") {
		t.Errorf("the page of sessions shows no quota: %s", page)
	}
	var self struct{ Quota struct{ Prefix string } }
	w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/tokens/self", "", w.acme...).decode(t, &self)
	if self.Quota.Prefix != "acme-" {
		t.Errorf("acme's token: %+v", self)
	}
}

func (w *tenants) quotasAreHidden(t *testing.T) {
	for _, path := range []string{"/api/v1/quotas", "/api/v1/tokens/self", "/api/v1/rules", "/api/v1/alerts", "/api/v1/jobs", "/api/v1/history", "/", "/rules", "/alerts"} {
		got := w.callRaw(http.MethodGet, path, "", append(slices.Clone(w.zenith), "Accept", "text/html, application/json")...)
		if got.status != http.StatusOK || strings.Contains(string(got.body), "acme") || strings.Contains(string(got.body), "quota/") {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	if use := w.usage("zenith-", "jobs", w.zenith); use.Refused != 0 || use.Used == 0 {
		t.Errorf("zenith sees %+v", use)
	}
	asJSON := append(slices.Clone(w.zenith), "Content-Type", "application/json")
	for _, c := range []struct{ method, path, body string }{
		{http.MethodPut, "/api/v1/quotas/PREFIX-", `{"rules": 0}`},
		{http.MethodDelete, "/api/v1/quotas/PREFIX-", ""},
		{http.MethodGet, "/api/v1/dead-letters?rule=PREFIX-hold", ""},
		{http.MethodGet, "/metrics", ""},
	} {
		there := w.callRaw(c.method, strings.Replace(c.path, "PREFIX", "acme", 1), c.body, asJSON...)
		gone := w.callRaw(c.method, strings.Replace(c.path, "PREFIX", "absent", 1), c.body, asJSON...)
		if there.status != http.StatusForbidden || string(there.body) != string(gone.body) {
			t.Errorf("%s %s: %d %s, and of no tenant %s", c.method, c.path, there.status, there.body, gone.body)
		}
	}
}

func (w *tenants) quotasAreSet(t *testing.T) {
	asJSON := append(slices.Clone(w.admin), "Content-Type", "application/json")
	for path, body := range map[string]string{"acme-*": `{"rules": -1}`, "ACME": `{"rules": 1}`, "*": `{"rules": 1}`, "acme-": `{"rulez": 1}`} {
		if got := w.callRaw(http.MethodPut, "/api/v1/quotas/"+path, body, asJSON...); got.status != http.StatusUnprocessableEntity {
			t.Errorf("%s %s: %d %s", path, body, got.status, got.body)
		}
	}
	w.setQuota(`{"rules": 7, "alert_bytes": 5}`)
	if use := w.usage("acme-", "rules", w.acme); use.Limit != 7 || use.Default {
		t.Errorf("%+v", use)
	}
	w.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/quotas/acme-", "", w.admin...)
	if use := w.usage("acme-", "rules", w.acme); use.Limit != 200 || !use.Default {
		t.Errorf("after its deletion, while acme's token lives: %+v", use)
	}
	w.callExpecting(http.StatusNotFound, http.MethodDelete, "/api/v1/quotas/acme-", "", w.admin...)
	var log struct {
		Items []struct{ Action, Object, Detail string }
	}
	w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/audit?action=quota.*", "", w.admin...).decode(t, &log)
	if len(log.Items) < 2 || log.Items[0].Action != "quota.delete" || log.Items[1].Object != "quota/acme-" || log.Items[1].Detail != "rules 7; alert_bytes 5" {
		text, _ := json.Marshal(log)
		t.Errorf("the audit has %s", text)
	}
}

// state returns the state of a stream, by subject if a filter is given.
func (w *tenants) state(stream, filter string) jetstream.StreamState {
	w.Helper()
	js, err := jetstream.New(w.natsConn(bus.UserAdmin))
	if err != nil {
		w.Fatal(err)
	}
	s, err := js.Stream(w.Context(), stream)
	if err != nil {
		w.Fatal(err)
	}
	info, err := s.Info(w.Context(), jetstream.WithSubjectFilter(filter))
	if err != nil {
		w.Fatal(err)
	}
	return info.State
}
