package web_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/web"
)

// TestAlertGroups checks that open alerts are counted by fields, and that alerts that match are acknowledged at once.
func TestAlertGroups(t *testing.T) {
	s := newFixture(t)
	for i := range 7 {
		key := fmt.Sprint(i)
		s.createJob(key, time.Hour, `{}`)
		s.alert(key, key+" is late", 2*time.Hour)
	}
	s.createJob("quiet", time.Hour, `{}`)
	groups := func(query string) web.AlertGroups {
		t.Helper()
		return get[web.AlertGroups](t, s.Server, "/api/v1/alerts/groups"+query)
	}
	ack := func(body string) web.AckAllResult {
		t.Helper()
		a := requestPath(t, s.Server, "POST", "/api/v1/alerts/ack", body)
		var did web.AckAllResult
		if err := json.Unmarshal([]byte(a.body), &did); a.StatusCode != 200 || err != nil {
			t.Fatalf("%s: %d %s", body, a.StatusCode, a.body)
		}
		return did
	}
	third := get[web.Page[web.Alert]](t, s.Server, "/api/v1/alerts?open=true").Items[4].ID // the third oldest

	for by, value := range map[string]string{"rule": "order-unshipped", "severity": "warning", "entity": "order", "status": "firing", "team": ""} {
		got := groups("?by=" + by)
		if len(got.Items) != 1 || got.By != by || got.Items[0].Value != value || got.Items[0].Unacknowledged != 7 {
			t.Errorf("by %s: %+v", by, got)
		}
		if diff := cmp.Diff(got.Total, got.Items[0].OpenAlertCounts); diff != "" || got.Total.OldestAt.IsZero() {
			t.Errorf("total by %s (-total +group):\n%s", by, diff)
		}
	}
	for by, want := range map[string]string{
		"team": "no open alert has the label team; no rule has labels", "severty": "no open alert has the label severty; did you mean severity?; no rule has labels", "key": "", "step": "", "rule": "",
	} {
		if got := groups("?by=" + by).Note; got != want {
			t.Errorf("note by %s: %q, want %q", by, got, want)
		}
	}
	if got := groups("?by=key"); len(got.Items) != 7 || got.Items[0].Value != "0" || got.Items[0].Unacknowledged != 1 {
		t.Errorf("by key: %+v", got)
	}
	if got := groups("?by=step&label=step=primary"); len(got.Items) != 1 || got.Items[0].Value != "primary" || got.Items[0].Unacknowledged != 7 {
		t.Errorf("by step: %+v", got)
	}
	if got := ack(fmt.Sprintf(`{"match": {"rule": "order-unshipped"}, "through": %q, "note": "seen"}`, third)); got != (web.AckAllResult{Acknowledged: 3}) {
		t.Errorf("acknowledged through the third alert: %+v", got)
	}
	if got := groups("").Total; got.Unacknowledged != 4 || got.Acknowledged != 3 || got.Severities["warning"] != 4 {
		t.Errorf("counted after 3 acknowledgements: %+v", got)
	}
	for query, want := range map[string]int{"acknowledged=true": 3, "acknowledged=false": 4, "label=team=": 7, "label=team=x": 0, "through=" + third.String(): 3, "severity=critical": 0} {
		if got := get[web.Page[web.Alert]](t, s.Server, "/api/v1/alerts?open=true&"+query); len(got.Items) != want {
			t.Errorf("%d open alerts with %s, want %d", len(got.Items), query, want)
		}
	}
	for _, body := range []string{`{"match": {"rule": "another"}}`, `{"match": {"severity": "critical"}}`, `{"match": {"label": "team=x"}}`} {
		if got := ack(body); got != (web.AckAllResult{}) {
			t.Errorf("%s acknowledged %+v", body, got)
		}
	}
	if got := ack(`{"match": {"all": true}, "for": "2h"}`); got != (web.AckAllResult{Acknowledged: 4, Before: 3}) {
		t.Errorf("acknowledged the rest: %+v", got)
	}
	if got := groups("").Total; got.Unacknowledged != 0 || got.Acknowledged != 7 || !got.OldestAt.IsZero() {
		t.Errorf("counted after all acknowledgements: %+v", got)
	}
	unack := func(body string) (did web.UnackAllResult) {
		t.Helper()
		a := requestPath(t, s.Server, "POST", "/api/v1/alerts/unack", body)
		if err := json.Unmarshal([]byte(a.body), &did); a.StatusCode != 200 || err != nil {
			t.Fatalf("%s: %d %s", body, a.StatusCode, a.body)
		}
		return did
	}
	if got := unack(`{"match": {"severity": "critical"}}`); got != (web.UnackAllResult{}) {
		t.Errorf("unacknowledged criticals: %+v", got)
	}
	if got := unack(fmt.Sprintf(`{"match": {"rule": "order-unshipped"}, "through": %q}`, third)); got != (web.UnackAllResult{Unacknowledged: 3}) {
		t.Errorf("unacknowledged through the third alert: %+v", got)
	}
	if got := groups("").Total; got.Unacknowledged != 3 || got.Acknowledged != 4 {
		t.Errorf("counted after 3 removals: %+v", got)
	}
	if got := unack(`{"match": {"all": true}}`); got != (web.UnackAllResult{Unacknowledged: 4}) {
		t.Errorf("unacknowledged the rest: %+v", got)
	}
	checkProblem(t, requestPath(t, s.Server, "POST", "/api/v1/alerts/unack", `{"match": {}}`), 422, web.Invalid, "body.match", "it selects no alerts")

	checkProblem(t, requestPath(t, s.Server, "POST", "/api/v1/alerts/ack", `{"match": {}}`), 422, web.Invalid, "body.match", "it selects no alerts")
	checkProblem(t, requestPath(t, s.Server, "POST", "/api/v1/alerts/ack", `{"match": {"all": true, "rule": "x"}}`), 422, web.Invalid, "body.match.all")
	checkProblem(t, requestPath(t, s.Server, "POST", "/api/v1/alerts/ack", `{"match": {"label": "team"}}`), 422, web.Invalid, "NAME=VALUE")
	checkProblem(t, requestPath(t, s.Server, "POST", "/api/v1/alerts/ack", `{}`), 422, web.Invalid, "match")
	checkProblem(t, requestPath(t, s.Server, "GET", "/api/v1/alerts?label=team=x", ""), 400, web.BadRequest, "add open=true")
}
