package server_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"deadman/internal/store/storetest"
	"deadman/server"
	"deadman/web"
)

const officeRule = `
name: reply
entity: ticket
trigger: {event: tickets.opened, key: event.id}
slot: 1s
escalate: [{after: 2s, of: office, step: lead}]
`

// A calendar that is changed on one node is in force on the others without a restart, for new and for pending jobs.
func TestChangedCalendarIsInForceOnAllNodes(t *testing.T) {
	t.Parallel()
	c := server.Config{DatabaseURL: storetest.Postgres(t), NATSURL: startNATS(t)}
	one := startReadyNode(t, c)
	two := startReadyNode(t, c)
	save := func(n *node, open bool) {
		t.Helper()
		at := time.Now().UTC().Add(12 * time.Hour) // closed now
		text := fmt.Sprintf("zone: UTC\nhours: \"%s-%s\"\n", at.Format("15:04"), at.Add(time.Hour).Format("15:04"))
		if open {
			text = "zone: UTC\n"
		}
		if status := n.call(http.MethodPut, "/api/v1/calendars/office", text, nil); status != http.StatusOK {
			t.Fatalf("the calendar is refused: %d", status)
		}
	}
	save(one, false)
	if status := two.call(http.MethodPut, "/api/v1/rules/reply", officeRule, nil); status != http.StatusCreated {
		t.Fatalf("the rule is refused by the other node: %d", status)
	}
	one.call(http.MethodPost, "/api/v1/events/tickets.opened", `{"id":"before"}`, nil)
	var waits struct {
		NextCheckAt time.Time `json:"next_check_at"`
	}
	two.eventually("the job waits for the calendar", func() bool {
		return two.get("/api/v1/jobs/reply/before", &waits) == http.StatusOK && waits.NextCheckAt.After(time.Now().Add(time.Hour))
	})
	save(two, true)
	one.call(http.MethodPost, "/api/v1/events/tickets.opened", `{"id":"after"}`, nil)
	for _, n := range []*node{one, two} {
		n.eventually("both tickets are alerted", func() bool {
			var raised web.Page[web.Alert]
			n.get("/api/v1/alerts", &raised)
			return len(raised.Items) == 2
		})
		var seen web.Calendar
		if n.get("/api/v1/calendars/office", &seen); !seen.Open || seen.Version != 2 {
			t.Errorf("a node knows %+v", seen)
		}
	}
}
