package web_test

import (
	"encoding/json"
	"testing"
	"time"

	"deadman/web"
)

func TestAlertsAreRepublished(t *testing.T) {
	s := newFixture(t)
	s.createJob("1", time.Hour, `{"id": "1"}`)
	a := s.alert("1", "order 1 waits", time.Hour)
	since := s.now.Add(-time.Minute).Format(time.RFC3339)
	published := func() bool {
		t.Helper()
		return get[web.Alert](t, s.Server, "/api/v1/alerts/"+a.ID.String()).Published
	}
	for _, c := range []struct {
		body      string
		want      int64
		published bool
	}{
		{`{"since": "` + since + `", "dry_run": true}`, 1, true},
		{`{"since": "2999-01-01T00:00:00Z"}`, 0, true},
		{`{"since": "` + since + `", "rule": "order-unshipped"}`, 1, false},
		{`{"since": "` + since + `"}`, 0, false}, // it is unpublished
	} {
		answer := requestPath(t, s.Server, "POST", "/api/v1/alerts/republish", c.body)
		var got web.RepublishResult
		if err := json.Unmarshal([]byte(answer.body), &got); answer.StatusCode != 200 || err != nil || got != (web.RepublishResult{Alerts: c.want}) {
			t.Errorf("%s: %d %s", c.body, answer.StatusCode, answer.body)
		}
		_, _, err := s.store.Unpublished(t.Context(), []int16{0, 1, 2, 3}, 1, nil) // as the relay does
		failOn(t, err)
		if published() != c.published {
			t.Errorf("%s: published is %v", c.body, !c.published)
		}
	}
	checkProblem(t, requestPath(t, s.Server, "POST", "/api/v1/alerts/republish", `{"since": "`+since+`", "rule": "absent"}`), 404, web.NotFound, "absent")
	checkProblem(t, requestPath(t, s.Server, "POST", "/api/v1/alerts/republish", `{"since": "0001-01-01T00:00:00Z"}`), 422, web.Invalid, "since")
}
