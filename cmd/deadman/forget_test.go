package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"deadman/internal/testwait"
	"deadman/web"
)

// customerRule is a rule of an entity whose keys are personal data.
const customerRule = `
name: customer-unverified
entity: customer
trigger: {event: customers.signed_up, key: event.email}
resolve: {event: customers.verified, key: event.email}
escalate: [{after: 1h}]
`

// TestForgetCommand checks the refusal of a key with a pending job, and the counts before and after.
func TestForgetCommand(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	n.mustRun("rule", "apply", "-f", writeFile(t, t.TempDir(), "rule.yaml", customerRule))
	const key = "erika@example.org"
	n.expect(1, []string{"forget", "client", key, "--yes"}, `no rule has or had the entity "client"`)
	if got := n.mustRun("forget", "customer", key, "--dry-run"); got != "customer "+key+": nothing would be deleted\n" {
		t.Errorf("of an unknown key: %q", got)
	}
	n.mustRun("event", "send", "customers.signed_up", `{"email":"`+key+`"}`)
	testwait.Until(t, "the job is pending", func() bool { return strings.Contains(n.mustRun("job", "list"), key) })
	n.expect(1, []string{"forget", "customer", key, "--yes"}, "1 pending jobs have it; cancel them first")
	n.mustRun("job", "cancel", "customer-unverified", key)

	var counted web.Forgotten
	testwait.Until(t, "the event is read by all lines", func() bool {
		counted = readJSON[web.Forgotten](n, "forget", "customer", key, "--dry-run")
		return counted.UnreadEvents == 0
	})
	if counted.Jobs != 1 || counted.Events != 1 || counted.AuditEntries != 1 || counted.Pseudonym != "" {
		t.Errorf("dry run: %+v", counted)
	}
	done := n.mustRun("forget", "customer", key, "--yes")
	if !strings.HasPrefix(done, "customer "+key+": 1 job and 1 stored event deleted\naudit log: forgotten-") {
		t.Errorf("done: %q", done)
	}
	for _, list := range [][]string{{"history", "list"}, {"token", "audit"}} {
		if got := n.mustRun(list...); strings.Contains(got, key) {
			t.Errorf("%v has it:\n%s", list, got)
		}
	}
}

// TestForgetReadsLongStreamInParts checks that the command repeats the request until the node has read all events, adds the
// numbers up, and names what was deleted before a refusal. A proxy bounds each request to one message.
func TestForgetReadsLongStreamInParts(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	n.mustRun("rule", "apply", "-f", writeFile(t, t.TempDir(), "rule.yaml", customerRule))
	const key = "erika@example.org"
	for range 3 {
		n.mustRun("event", "send", "customers.signed_up", `{"email":"`+key+`"}`)
		n.mustRun("event", "send", "customers.verified", `{"email":"otto@example.org"}`)
	}
	n.mustRun("event", "send", "customers.verified", `{"email":"`+key+`"}`)
	testwait.Until(t, "all events are read, and the job has ended", func() bool {
		return strings.Contains(n.mustRun("history", "list"), key) && readJSON[web.Forgotten](n, "forget", "customer", key, "--dry-run").UnreadEvents == 0
	})

	target, err := url.Parse(n.at.HTTP)
	if err != nil {
		t.Fatal(err)
	}
	proxy, isInUse := httputil.NewSingleHostReverseProxy(target), false
	requests := 0
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request web.ForgetRequest
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Error(err)
		}
		if requests++; isInUse && requests == 2 {
			if got := n.run("", "job", "create", "customer-unverified", key); got.code != exitOK {
				t.Errorf("%+v", got)
			}
		}
		request.Limit = 1
		body, err := json.Marshal(request)
		if err != nil {
			t.Error(err)
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header["X-Forwarded-For"] = nil // the proxy adds none
		r.Host = target.Host
		proxy.ServeHTTP(w, r)
	}))
	defer front.Close()
	through := &inProcessNode{t: t, env: []string{"DEADMAN_URL=" + front.URL}}
	counted := readJSON[web.Forgotten](through, "forget", "customer", key, "--dry-run")
	if counted.Events != 4 || counted.Jobs != 1 || !counted.Done || requests != 8 {
		t.Errorf("%d requests: %+v", requests, counted)
	}
	isInUse, requests = true, 0
	through.expect(1, []string{"forget", "customer", key, "--yes"}, "1 pending jobs have it; cancel them first", "1 stored event deleted before; repeat the command for the rest")
	n.mustRun("job", "cancel", "customer-unverified", key)
	isInUse = false
	if done := through.mustRun("forget", "customer", key, "--yes"); !strings.HasPrefix(done, "customer "+key+": 2 jobs and 3 stored events deleted\n") {
		t.Errorf("done: %q", done)
	}
}
