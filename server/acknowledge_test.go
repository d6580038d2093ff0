package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"deadman/internal/bus"
	"deadman/server"
)

// repeatingRule repeats its alert until it is acknowledged.
const repeatingRule = `
name: insistent
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate:
  - {after: 1s, step: primary}
  - {every: 1s, until: acknowledged, step: nag}
slot: 1s
`

// ackFields is the acknowledgement in a response about a job.
type ackFields struct {
	Acknowledged *struct {
		By, Note string
		Until    time.Time
	}
}

// ackReply is the part of a NATS reply that these tests check.
type ackReply struct {
	ackFields
	Key, Error string
	Status     int
}

// acknowledge requests an acknowledgement over NATS.
func acknowledge(t *testing.T, nc *nats.Conn, subject, body string) (answer ackReply, code string) {
	t.Helper()
	m, err := nc.Request(subject, []byte(body), within)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		t.Fatalf("%s: %v", m.Data, err)
	}
	return answer, m.Header.Get(micro.ErrorCodeHeader)
}

// Alerts repeat until they are acknowledged, over NATS or HTTP. A resolve still ends the job, and then nothing can be
// acknowledged.
func TestAcknowledgingOverNTS(t *testing.T) {
	t.Parallel()
	n := startReadyNode(t, server.Config{Rules: ruleFolder(t, map[string]string{"insistent.yaml": repeatingRule})})
	nc := n.natsConn(bus.UserAcks)
	n.publishOrder(`{"id":"1"}`)
	var raised struct {
		Items []struct{ ID, Step, Status string }
	}
	n.eventually("three alerts are raised", func() bool { n.get("/api/v1/alerts?key=1", &raised); return len(raised.Items) >= 3 })
	alert := raised.Items[0].ID

	answer, code := acknowledge(t, nc, "deadman.acks."+alert, `{"note": "I am on it", "by": "ada"}`)
	if k := answer.Acknowledged; code != "" || answer.Key != "1" || k == nil || k.By != "nats:ada" || k.Note != "I am on it" || !k.Until.IsZero() {
		t.Fatalf("acknowledged: %+v, %s", answer, code)
	}
	n.get("/api/v1/alerts?key=1", &raised)
	before := len(raised.Items)
	var job ackFields
	if n.get("/api/v1/jobs/insistent/1", &job); job.Acknowledged == nil || job.Acknowledged.By != "nats:ada" {
		t.Errorf("the job is acknowledged as %+v", job.Acknowledged)
	}
	// After a permanent acknowledgement is removed, the alerts repeat again: none was raised in between.
	if status := n.call(http.MethodDelete, "/api/v1/alerts/"+alert+"/ack", "", nil); status != http.StatusOK {
		t.Fatalf("taken back: %d", status)
	}
	n.eventually("another alert is raised", func() bool { n.get("/api/v1/alerts?key=1", &raised); return len(raised.Items) > before })
	if status := n.call(http.MethodPost, "/api/v1/alerts/"+alert+"/ack", `{"for": "1h"}`, nil); status != http.StatusOK {
		t.Fatalf("for an hour: %d", status)
	}

	for body, want := range map[string]string{
		`{"for": "soon"}`: "422 body.for", `{"by": "` + strings.Repeat("x", 101) + `"}`: "422 by has 101 bytes", `{"note": "` + strings.Repeat("x", 501) + `"}`: "422 body.note",
		`{"by": "a\u001b[31m"}`: "422 by has a character at byte 1", `{"til": "1h"}`: `422 the request is not like`, `nonsense`: "422 the request is not like",
		`{"for": "1h"}{"for": "2h"}`: `422 the request is not like {"for": "2h", "note": "I am on it", "by": "ada"}: something follows the object`,
		`{"for": 2}`:                 `422 the request is not like {"for": "2h", "note": "I am on it", "by": "ada"}: for cannot be of the type number`,
		`"2h"`:                       `422 the request is not like {"for": "2h", "note": "I am on it", "by": "ada"}: it is no object but of the type string`,
	} {
		if answer, code := acknowledge(t, nc, "deadman.acks."+alert, body); !strings.HasPrefix(fmt.Sprint(answer.Status, " ", answer.Error), want) || code != fmt.Sprint(answer.Status) {
			t.Errorf("%s: %+v, %s; want %s", body, answer, code, want)
		}
	}
	if answer, _ := acknowledge(t, nc, "deadman.acks.no-id", ""); answer.Status != http.StatusUnprocessableEntity {
		t.Errorf("no id: %+v", answer)
	}
	if answer, _ := acknowledge(t, nc, "deadman.acks.019c0f5a-7d08-8000-9b1c-2f4a6c8e0b1d", ""); answer.Status != http.StatusNotFound {
		t.Errorf("no alert: %+v", answer)
	}

	if got := n.callRaw(http.MethodPost, "/api/v1/events/orders.shipped", `{"id":"1"}`); got.status >= 300 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	n.eventually("the end is reported", func() bool {
		n.get("/api/v1/alerts?key=1", &raised)
		return raised.Items[0].Status == "resolved"
	})
	if answer, code := acknowledge(t, nc, "deadman.acks."+alert, ""); code != "409" || !strings.Contains(answer.Error, "is over since 2") || !strings.Contains(answer.Error, "(resolved)") {
		t.Errorf("it is over: %+v, %s", answer, code)
	}
	var audit struct {
		Items []struct{ Actor, Action, Object, Detail string }
	}
	n.get("/api/v1/audit?action=alert.*", &audit)
	if len(audit.Items) != 3 {
		t.Errorf("audited: %+v", audit.Items)
	}
}
