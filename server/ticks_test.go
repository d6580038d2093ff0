package server_test

import (
	"fmt"
	"math"
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

// listedTick is a tick as GET /rules/{name}/ticks lists it.
type listedTick struct {
	Tick      time.Time
	AppliedAt time.Time `json:"applied_at"`
	Late      float64   `json:"late_seconds"`
	Outcome   string
	Missed    *int
	Attempts  int
	EventID   string `json:"event_id"`
}

type listedTicks struct {
	Items []listedTick
	Next  string
}

// Applied ticks of an emitting rule and of a rule with keys are listed, each once and newest first, with the id under which
// the stream has the event of the tick.
func TestAppliedTicksAreListed(t *testing.T) {
	t.Parallel()
	n := startReadyNode(t, server.Config{Rules: ruleFolder(t, map[string]string{
		"late.yaml": importLate, "due.yaml": importDue, "missing.yaml": importMissing,
	})})
	for rule, outcome := range map[string]string{"import-due": "emitted", "import-missing": "started"} {
		var all listedTicks
		n.eventually("three ticks of "+rule, func() bool {
			return n.get("/api/v1/rules/"+rule+"/ticks", &all) == http.StatusOK && len(all.Items) >= 3
		})
		for i, tick := range all.Items {
			wantID := ""
			if outcome == "emitted" {
				wantID = fmt.Sprintf("%s-%d", rule, tick.Tick.Unix())
			}
			late := tick.AppliedAt.Sub(tick.Tick)
			if tick.Outcome != outcome || tick.Missed == nil || tick.Attempts < 1 || tick.EventID != wantID || late < 0 || math.Abs(late.Seconds()-tick.Late) > 1e-6 {
				t.Errorf("%s: %+v", rule, tick)
			}
			if i > 0 {
				if gap := all.Items[i-1].Tick.Sub(tick.Tick); gap != time.Duration(*all.Items[i-1].Missed+1)*time.Second {
					t.Errorf("%s: %s after the tick before, and %d ticks are missed", rule, gap, *all.Items[i-1].Missed)
				}
			}
		}
		second := all.Items[1].Tick
		var first, rest, none listedTicks
		n.get(fmt.Sprintf("/api/v1/rules/%s/ticks?limit=1&from=%s&to=%s", rule, all.Items[2].Tick.Format(time.RFC3339), all.Items[0].Tick.Format(time.RFC3339)), &first)
		if len(first.Items) != 1 || !first.Items[0].Tick.Equal(second) || first.Next == "" {
			t.Fatalf("%s: first page %+v, want the tick at %s", rule, first, second)
		}
		n.get(fmt.Sprintf("/api/v1/rules/%s/ticks?limit=1&from=%s&cursor=%s", rule, all.Items[2].Tick.Format(time.RFC3339), first.Next), &rest)
		if len(rest.Items) != 1 || !rest.Items[0].Tick.Equal(all.Items[2].Tick) || rest.Next != "" {
			t.Errorf("%s: second page %+v, want the tick at %s", rule, rest, all.Items[2].Tick)
		}
		if n.get("/api/v1/rules/"+rule+"/ticks?outcome=skipped", &none); len(none.Items) != 0 {
			t.Errorf("%s: %+v are skipped", rule, none.Items)
		}
	}
	js := bustest.JetStream(t, n.natsURL(bus.UserAdmin))
	stream, err := js.Stream(t.Context(), bus.EventsStream)
	if err != nil {
		t.Fatal(err)
	}
	var due listedTicks
	n.get("/api/v1/rules/import-due/ticks?limit=1", &due)
	message, err := stream.GetLastMsgForSubject(t.Context(), "imports.due")
	if err != nil {
		t.Fatal(err)
	}
	if id := message.Header.Get("ce-id"); id < due.Items[0].EventID {
		t.Errorf("the last event is %s, an earlier tick has %s", id, due.Items[0].EventID)
	}
	if status := n.get("/api/v1/rules/none/ticks", nil); status != http.StatusNotFound {
		t.Errorf("an unknown rule: %d, want 404", status)
	}
	if status := n.get("/api/v1/rules/import-due/ticks?outcome=none", nil); status < 400 || status >= 500 {
		t.Errorf("an unknown outcome: %d", status)
	}
	if status := n.get("/api/v1/rules/import-due/ticks?cursor=none", nil); status != http.StatusBadRequest && status != http.StatusUnprocessableEntity {
		t.Errorf("a cursor of another list: %d", status)
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
