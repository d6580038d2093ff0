package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/server"
)

const (
	importDue = `
name: import-due
entity: import
trigger: {schedule: "@every 1s", emit: {subject: imports.due, data: {source: customers}}}
`
	importLate = `
name: import-late
entity: import
trigger: {event: imports.due, key: event.source}
escalate: [{after: 1s, step: primary}]
slot: 1s
`
	importMissing = `
name: import-missing
entity: import
trigger: {schedule: "@every 1s", keys: [products]}
again: keep
escalate: [{after: 1h, step: late}]
slot: 1s
`
)

// A tick creates a job, or emits an event for another rule; a save includes pending changes.
func TestNodeEmitsTicks(t *testing.T) {
	t.Parallel()
	n := startReadyNode(t, server.Config{Rules: ruleFolder(t, map[string]string{
		"late.yaml": importLate, "due.yaml": importDue, "missing.yaml": importMissing,
	})})
	var raised list
	n.eventually("the emitted event starts a job, and its alert is raised", func() bool {
		n.get("/api/v1/alerts?rule=import-late", &raised)
		return len(raised.Items) > 0
	})
	if first := raised.Items[0]; first.Key != "customers" || first.Step != "primary" {
		t.Errorf("alerts: %+v", first)
	}
	type waiting struct {
		Version int32     `json:"rule_version"`
		Since   time.Time `json:"since"`
		Next    time.Time `json:"next_check_at"`
		Event   struct{ Tick time.Time }
	}
	var before, after waiting
	n.eventually("a tick began a wait", func() bool {
		return n.get("/api/v1/jobs/import-missing/products", &before) == http.StatusOK
	})
	if !before.Since.Equal(before.Event.Tick) || !before.Next.Equal(before.Since.Add(time.Hour)) || before.Version != 1 {
		t.Errorf("it waits since its tick: %+v", before)
	}
	n.saveRule(http.StatusOK, "?bundle=file:x&adopt=true", strings.Replace(importMissing, "after: 1h", "after: 2h", 1))
	n.get("/api/v1/jobs/import-missing/products", &after)
	if after.Version != 2 || !after.Since.Equal(before.Since) || !after.Next.Equal(before.Since.Add(2*time.Hour)) {
		t.Errorf("after the save: %+v", after)
	}
	if ok, detail, _ := n.condition("ticks"); !ok {
		t.Errorf("/readyz: %s", detail)
	}
	for _, counted := range []string{`{outcome="started",rule="import-missing"}`, `{outcome="emitted",rule="import-due"}`} {
		if !strings.Contains(n.metrics(), "deadman_ticks_total"+counted) {
			t.Errorf("/metrics has no deadman_ticks_total%s", counted)
		}
	}
}

// The subject of an emission must be captured by a stream, or its delivery could not be verified.
func TestEmissionNeedsStream(t *testing.T) {
	t.Parallel()
	n := startReadyNode(t, server.Config{})
	js := bustest.JetStream(t, n.natsURL(bus.UserAdmin))
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "WORK", Subjects: []string{"work.>"}, Retention: jetstream.WorkQueuePolicy}); err != nil {
		t.Fatal(err)
	}
	daily := func(subject string) string {
		return "name: due\nentity: import\ntrigger: {schedule: '@daily', emit: {subject: " + subject + "}}\n"
	}
	if got := n.saveRule(http.StatusUnprocessableEntity, "", daily("work.due")); !strings.Contains(string(got.body), "/trigger/emit/subject") || !strings.Contains(string(got.body), "limits retention") {
		t.Errorf("%s", got.body)
	}
	n.saveRule(http.StatusCreated, "", daily("imports.due"))
	if stream, err := js.StreamNameBySubject(t.Context(), "imports.due"); err != nil || stream != "DEADMAN_EVENTS" {
		t.Errorf("imports.due is taken in by %q, %v", stream, err)
	}
}
