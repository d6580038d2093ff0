package web_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"deadman/web"
)

// TestLargeEventsAreLeftOutOfLists checks that a list and the page of an entity leave out a large event and link to it.
func TestLargeEventsAreLeftOutOfLists(t *testing.T) {
	s := newFixture(t)
	large := `{"id":"1","filler":"` + strings.Repeat("x", 200<<10) + `"}`
	s.createJob("1", time.Hour, large)
	alert := s.alert("1", "order 1 waits", time.Hour)
	s.writeDeadLetters(1, 200<<10)

	var page web.Page[web.Alert]
	var of web.Entity
	var letters web.Page[web.DeadLetter]
	for path, into := range map[string]any{"/alerts": &page, "/entities/order/1": &of, "/dead-letters": &letters} {
		a := requestPath(t, s.Server, "GET", "/api/v1"+path, "")
		if failOn(t, json.Unmarshal([]byte(a.body), into)); a.StatusCode != 200 || len(a.body) > 20_000 {
			t.Errorf("%s: %d, %d bytes", path, a.StatusCode, len(a.body))
		}
	}
	if a := page.Items[0]; !a.BodiesOmitted || a.Event != nil || a.Text != "order 1 waits" {
		t.Errorf("an alert of a list: %t, %d bytes, %s", a.BodiesOmitted, len(a.Event), a.Text)
	}
	if !of.Alerts.Items[0].BodiesOmitted || !of.Jobs.Items[0].BodiesOmitted || of.Jobs.Items[0].Event != nil {
		t.Errorf("of an entity: %.300v", of)
	}
	if l := letters.Items[0]; !l.BodyOmitted || l.Body != "" {
		t.Errorf("a letter of a list: %t, %d bytes", l.BodyOmitted, len(l.Body))
	}
	for _, path := range []string{"/alerts/" + alert.ID.String(), "/jobs/order-unshipped/1", "/dead-letters/1"} {
		a := requestPath(t, s.Server, "GET", "/api/v1"+path, "")
		if a.StatusCode != 200 || len(a.body) < 200<<10 || strings.Contains(a.body, "_omitted") {
			t.Errorf("%s by itself: %d, %d bytes", path, a.StatusCode, len(a.body))
		}
	}
	people := []string{"Accept", "text/html"}
	if a := requestPath(t, s.Server, "GET", "/entities/order?key=1", "", people...); !strings.Contains(a.body, "The event is too large for this page. Use <code>deadman job get order-unshipped") || len(a.body) > 50_000 {
		t.Errorf("the page of the entity, of %d bytes, does not say that the event is left out", len(a.body))
	}
	if a := requestPath(t, s.Server, "GET", "/rules/order-unshipped", "", people...); a.StatusCode != 200 || len(a.body) > 200<<10 {
		t.Errorf("the page of the rule: %d, %d bytes", a.StatusCode, len(a.body))
	}
}
