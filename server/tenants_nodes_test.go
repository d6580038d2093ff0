package server_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"deadman/internal/bus/bustest"
	"deadman/internal/store/storetest"
	"deadman/server"
)

// learnTime bounds the wait until a node knows a quota and its use on other nodes.
const learnTime = within

// tenantNodes is several nodes on one database and one broker, with a tenant that uses all of them.
type tenantNodes struct {
	*tenants            // the first node
	nodes    []*tenants // all of them
}

func newTenantNodes(t *testing.T, nodes int) *tenantNodes {
	t.Helper()
	c := server.Config{DatabaseURL: storetest.Postgres(t), NATSURL: startNATS(t)}
	w := &tenantNodes{tenants: newTenants(t, c.WithQuotasEvery(time.Second))}
	w.nodes = append(w.nodes, w.tenants)
	for range nodes - 1 {
		another := *w.tenants
		another.config.DataDir = bustest.Dir(t)
		another.start(t)
		w.nodes = append(w.nodes, &another)
	}
	return w
}

// A prefix has its quota on each node from the first request of its first token on, and on the node that created the
// token before that. A node without such a request has it with the first rule of the prefix. The nodes of this test
// read quotas only for these reasons.
func TestFirstTokenHasQuotaImmediately(t *testing.T) {
	t.Parallel()
	c := server.Config{DatabaseURL: storetest.Postgres(t), NATSURL: startNATS(t)}
	w := &tenantNodes{tenants: newTenants(t, c.WithQuotasEvery(time.Hour))}
	w.saveRule(http.StatusCreated, "", strings.ReplaceAll(zenithRule, "zenith", "delta"), w.admin...)
	w.publish(http.StatusAccepted, "delta.created", `{"id": "d1"}`, w.admin...)
	w.eventually("the node reads the rule of delta", func() bool {
		return w.callRaw(http.MethodGet, "/api/v1/jobs/delta-late/d1", "", w.admin...).status == http.StatusOK
	})
	another := *w.tenants
	another.config.DataDir = bustest.Dir(t)
	another.start(t)
	listed := func(n *tenants, prefix string, as []string) bool {
		var quotas struct{ Items []struct{ Prefix string } }
		n.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/quotas", "", as...).decode(t, &quotas)
		return slices.ContainsFunc(quotas.Items, func(q struct{ Prefix string }) bool { return q.Prefix == prefix })
	}
	beta := w.newTenantToken("beta")
	if !listed(w.tenants, "beta-", w.admin) {
		t.Error("the node that created the first token of beta does not know its quota")
	}
	if !listed(&another, "beta-", beta) {
		t.Error("another node that answers beta does not know its quota")
	}
	w.newTenantToken("delta")
	w.eventually("the use of a new quota is counted", func() bool { return w.usage("delta-", "rules", w.admin).Used == 1 })
	gamma := w.newTenantToken("gamma")
	w.saveRule(http.StatusCreated, "", strings.ReplaceAll(zenithRule, "zenith", "gamma"), gamma...)
	another.eventually("a node with a rule of gamma knows its quota", func() bool { return listed(&another, "gamma-", another.admin) })
}

// withT returns the nodes for a subtest.
func (w *tenantNodes) withT(t *testing.T) *tenantNodes {
	again := &tenantNodes{}
	for _, n := range w.nodes {
		one, node := *n, *n.node
		node.T, one.node = t, &node
		again.nodes = append(again.nodes, &one)
	}
	again.tenants = again.nodes[0]
	return again
}

// sendEverywhere sends concurrent requests, each to the next node, and returns the responses by node.
func (w *tenantNodes) sendEverywhere(requests int, send func(n *tenants, i int) reply) [][]reply {
	w.Helper()
	answers := make([][]reply, len(w.nodes))
	var all sync.WaitGroup
	for at, n := range w.nodes {
		all.Go(func() {
			for i := at; i < requests; i += len(w.nodes) {
				answers[at] = append(answers[at], send(n, i))
			}
		})
	}
	all.Wait()
	return answers
}

// countAnswers returns the numbers of responses with a status and with a quota refusal, and fails the test for others.
func (w *tenantNodes) countAnswers(answers [][]reply, status, refusal int) (taken, refused int64) {
	w.Helper()
	for _, got := range slices.Concat(answers...) {
		if got.status == status {
			taken++
			continue
		}
		w.checkOverQuota(got, refusal)
		refused++
	}
	return taken, refused
}

// waitForEach waits until a condition holds on each node, and fails the test after the time in which nodes must learn of
// it.
func (w *tenantNodes) waitForEach(what string, holds func(n *tenants) bool) {
	w.Helper()
	startedAt := time.Now()
	for i, n := range w.nodes {
		for !holds(n) {
			if time.Since(startedAt) > learnTime {
				w.Fatalf("after %v it does not hold on node %d of %d: %s", learnTime, i+1, len(w.nodes), what)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// checkUsage waits until all nodes report the same refusals of a limit, and the same use unless used is negative.
func (w *tenantNodes) checkUsage(limit string, used, refused int64) {
	w.Helper()
	var first usage
	w.waitForEach(fmt.Sprintf("of %s %d are used and %d refused", limit, used, refused), func(n *tenants) bool {
		got := n.usage("acme-", limit, n.acme)
		first = w.usage("acme-", limit, w.admin)
		return got == first && got.Refused == refused && (used < 0 || got.Used == used)
	})
}

// refusalsByNodes returns the sum of the refusals reported by each node.
func (w *tenantNodes) refusalsByNodes(limit string) (sum int64) {
	w.Helper()
	for _, n := range w.nodes {
		text := string(n.callExpecting(http.StatusOK, http.MethodGet, "/metrics", "", n.admin...).body)
		_, after, has := strings.Cut(text, `deadman_quota_refused_total{quota="`+limit+`"} `)
		if !has {
			continue
		}
		number, _, _ := strings.Cut(after, "\n")
		refused, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			w.Fatal(err)
		}
		sum += refused
	}
	return sum
}

// A tenant on three nodes has one quota: rules are exact, events are limited per node, and jobs and alerts can exceed
// the quota only by the amount accepted before the nodes know of each other.
func TestQuotasHoldOnSeveralNodes(t *testing.T) {
	t.Parallel()
	w := newTenantNodes(t, 3)
	for _, attack := range []struct {
		name string
		play func(*tenantNodes, *testing.T)
	}{
		{"rules", (*tenantNodes).rulesAreCounted},
		{"versions", (*tenantNodes).versionsAreCounted},
		{"jobs", (*tenantNodes).jobsAreCounted},
		{"events", (*tenantNodes).eventsAreCounted},
		{"alerts", (*tenantNodes).alertsAreCounted},
		{"bytes", (*tenantNodes).bytesAreCounted},
		{"refusals", (*tenantNodes).refusalsAddUp},
	} {
		t.Run(attack.name, func(t *testing.T) {
			again := w.withT(t)
			attack.play(again, t)
			for i, n := range again.nodes {
				n.checkZenithWorks(fmt.Sprintf("%s-%d", attack.name, i))
			}
		})
	}
}

func (w *tenantNodes) rulesAreCounted(t *testing.T) {
	w.setQuota(`{"rules": 5}`)
	name := func(i int) string { return fmt.Sprintf("acme-n%d", i) }
	answers := w.sendEverywhere(15, func(n *tenants, i int) reply {
		return n.callRaw(http.MethodPut, "/api/v1/rules/"+name(i), strings.Replace(holdRule, "acme-hold", name(i), 1), append(slices.Clone(n.acme), "Content-Type", "application/yaml")...)
	})
	if saved, _ := w.countAnswers(answers, http.StatusCreated, http.StatusUnprocessableEntity); saved != 4 { // includes acme-late
		t.Errorf("%d rules were saved over %d nodes, want 4", saved, len(w.nodes))
	}
	w.waitForEach("5 rules are counted", func(n *tenants) bool {
		use := n.usage("acme-", "rules", n.acme)
		return use.Limit == 5 && use.Used == 5
	})
	for i := range 15 {
		w.callRaw(http.MethodDelete, "/api/v1/rules/"+name(i), "", w.acme...)
	}
	// Capacity freed on one node is available on another at once.
	w.nodes[2].saveRule(http.StatusCreated, "", holdRule, w.acme...)
}

// createJob creates a job of the tenant on a node.
func (w *tenants) createJob(key string) reply {
	w.Helper()
	return w.callRaw(http.MethodPost, "/api/v1/jobs", `{"rule": "acme-hold", "key": "`+key+`"}`, append(slices.Clone(w.acme), "Content-Type", "application/json")...)
}

// countJobs returns the number of pending jobs listed for the tenant.
func (w *tenants) countJobs() int64 {
	w.Helper()
	var jobs list
	w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/jobs?limit=500", "", w.acme...).decode(w.T, &jobs)
	return int64(len(jobs.Items))
}

func (w *tenantNodes) jobsAreCounted(t *testing.T) {
	w.setQuota(`{}`)
	w.waitForEach("the rule takes jobs", func(n *tenants) bool {
		got := n.createJob("first").status
		return got == http.StatusCreated || got == http.StatusConflict // the previous node created it
	})
	before, room := w.countJobs(), int64(8)
	limit := before + room
	w.nodes[1].setQuota(fmt.Sprintf(`{"jobs": %d}`, limit))
	w.waitForEach("the limit of another node holds", func(n *tenants) bool {
		use := n.usage("acme-", "jobs", n.acme)
		return use.Limit == limit && use.Used == before
	})
	answers := w.sendEverywhere(90, func(n *tenants, i int) reply { return n.createJob(fmt.Sprintf("n%d", i)) })
	begun, refused := w.countAnswers(answers, http.StatusCreated, http.StatusUnprocessableEntity)
	if begun < room || begun > room*int64(len(w.nodes)) {
		t.Errorf("%d jobs began over %d nodes that had room for %d each", begun, len(w.nodes), room)
	}
	if got := w.countJobs(); got != before+begun {
		t.Errorf("%d jobs are pending, want %d", got, before+begun)
	}
	w.checkUsage("jobs", before+begun, refused)
	// Once the nodes know of each other, no node has capacity for requests or events.
	answers = w.sendEverywhere(9, func(n *tenants, i int) reply { return n.createJob(fmt.Sprintf("late%d", i)) })
	if begun, _ := w.countAnswers(answers, http.StatusCreated, http.StatusUnprocessableEntity); begun != 0 {
		t.Errorf("%d jobs began although all nodes knew that there was no room", begun)
	}
	w.sendEverywhere(9, func(n *tenants, i int) reply {
		_, answer := n.publish(http.StatusAccepted, "acme.hold", fmt.Sprintf(`{"id": "event%d"}`, i), n.acme...)
		return answer
	})
	w.eventually("events without room are dead letters", func() bool { return len(w.deadLetters("acme-hold")) == 9 })
	w.checkUsage("jobs", before+begun, refused+18)
	// Capacity freed on one node is available on each.
	for i := range 90 {
		w.callRaw(http.MethodDelete, fmt.Sprintf("/api/v1/jobs/acme-hold/n%d", i), "", w.acme...)
	}
	w.checkUsage("jobs", before, refused+18)
	for i, n := range w.nodes {
		if got := n.createJob(fmt.Sprintf("again%d", i)); got.status != http.StatusCreated {
			t.Errorf("node %d has no room again: %d %s", i+1, got.status, got.body)
		}
	}
}

// Each node accepts as many events per second as the quota allows.
func (w *tenantNodes) eventsAreCounted(t *testing.T) {
	const limit = 4
	w.setQuota(fmt.Sprintf(`{"events": %d}`, limit))
	w.waitForEach("the limit of another node holds", func(n *tenants) bool { return n.usage("acme-", "events", n.acme).Limit == limit })
	startedAt := time.Now()
	answers := w.sendEverywhere(120, func(n *tenants, _ int) reply {
		return n.callRaw(http.MethodPost, "/api/v1/events/acme.shipped", `{"id": "stranger"}`, n.acme...)
	})
	least, highest := int64(2*limit), int64(2*limit)+int64(limit*time.Since(startedAt).Seconds())+1
	for i := range w.nodes {
		if taken, _ := w.countAnswers(answers[i:i+1], http.StatusAccepted, http.StatusTooManyRequests); taken < least || taken > highest {
			t.Errorf("node %d took %d events, want %d to %d", i+1, taken, least, highest)
		}
	}
	for range 40 {
		for _, n := range w.nodes {
			n.publish(http.StatusAccepted, "zenith.shipped", `{"id": "stranger"}`, n.zenith...)
		}
	}
	_, refused := w.countAnswers(answers, http.StatusAccepted, http.StatusTooManyRequests)
	w.checkUsage("events", -1, refused)
	w.setQuota(`{"events": 0}`)
	w.waitForEach("no event is taken", func(n *tenants) bool {
		return n.callRaw(http.MethodPost, "/api/v1/events/acme.shipped", `{"id": "stranger"}`, n.acme...).status == http.StatusTooManyRequests
	})
	w.setQuota(`{}`)
	w.waitForEach("events are taken again", func(n *tenants) bool {
		return n.callRaw(http.MethodPost, "/api/v1/events/acme.shipped", `{"id": "stranger"}`, n.acme...).status == http.StatusAccepted
	})
}

// flood raises alerts of acme about keys, by events over all nodes, and waits until each alert is published or
// withheld.
func (w *tenantNodes) flood(name string, keys int, text string) (published, withheld int64) {
	w.Helper()
	rule := strings.NewReplacer("TEXT", `"{{event.text}}"`, "acme-flood", "acme-"+name, "acme.flood", "acme."+name).Replace(floodRule)
	w.saveRule(http.StatusCreated, "", rule, w.acme...)
	w.sendEverywhere(keys, func(n *tenants, i int) reply {
		_, answer := n.publish(http.StatusAccepted, "acme."+name, fmt.Sprintf(`{"id": "f%d", "text": %q}`, i, text), n.acme...)
		return answer
	})
	w.eventually("all alerts are published or withheld", func() bool {
		published, withheld = 0, 0
		for _, a := range w.alertsOf("acme-"+name, w.acme) {
			if a.Published {
				published++
			} else if a.Withheld {
				withheld++
			}
		}
		return published+withheld == int64(keys)
	})
	return published, withheld
}

func (w *tenantNodes) alertsAreCounted(*testing.T) {
	// Alert counts restart with each hour, so the test avoids its end.
	if left := time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)); left < time.Minute {
		time.Sleep(left)
	}
	w.checkAlertLimit("alerts", "spread", 4)
}

func (w *tenantNodes) bytesAreCounted(*testing.T) { w.checkAlertLimit("alert_bytes", "wide", 20_000) }

// checkAlertLimit fails the test unless a limit of alerts with some capacity holds across all nodes.
func (w *tenantNodes) checkAlertLimit(limit, name string, room int64) {
	w.Helper()
	w.setQuota(`{}`)
	// Recently published alerts are counted.
	var used int64
	time.Sleep(learnTime / 4)
	w.waitForEach("alerts are counted", func(n *tenants) bool {
		used = w.usage("acme-", limit, w.acme).Used
		return n.usage("acme-", limit, n.acme).Used == used
	})
	w.setQuota(fmt.Sprintf(`{%q: %d}`, limit, used+room))
	w.waitForEach("the limit of another node holds", func(n *tenants) bool { return n.usage("acme-", limit, n.acme).Limit == used+room })
	before := w.usage("acme-", limit, w.acme).Refused
	published, withheld := w.flood(name, 90, strings.Repeat("x", 2000))
	w.Logf("%s: %d published, %d withheld", limit, published, withheld)
	if published == 0 || published > 45 {
		w.Errorf("%d alerts are published and %d withheld over %d nodes that had room for %d", published, withheld, len(w.nodes), room)
	}
	w.checkUsage(limit, -1, before+withheld)
	if limit == "alerts" {
		w.checkUsage(limit, used+published, before+withheld)
	}
	// Once the nodes know of each other, no node has capacity.
	if published, _ := w.flood(name+"-later", 15, ""); published != 0 {
		w.Errorf("%d alerts are published although all nodes knew that there was no room", published)
	}
	w.checkUsage(limit, -1, before+withheld+15)
}

// refusalsAddUp compares the refusals of each node with the reported total.
func (w *tenantNodes) refusalsAddUp(*testing.T) {
	w.setQuota(`{}`)
	for _, limit := range []string{"jobs", "events", "alerts", "alert_bytes"} {
		use := w.usage("acme-", limit, w.acme)
		if use.Refused == 0 {
			w.Errorf("%s refused nothing", limit)
		}
		w.checkUsage(limit, -1, use.Refused)
		if sum := w.refusalsByNodes(limit); sum != use.Refused {
			w.Errorf("%s refused %d, and the nodes say %d in all", limit, use.Refused, sum)
		}
		for _, n := range w.nodes {
			if use := n.usage("zenith-", limit, n.zenith); use.Refused != 0 {
				w.Errorf("zenith, which did as always, was refused %+v", use)
			}
		}
	}
}
