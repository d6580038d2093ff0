package web_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/store"
	"deadman/web"
)

// TestEndOfAlerts checks that an alert has its end once its job ended, or once it was closed, in the API and on its page.
func TestEndOfAlerts(t *testing.T) {
	s := newFixture(t)
	raised := make(map[string]alerts.Alert)
	for _, key := range []string{"pending", "acknowledged", "cancelled", "exhausted", "resolved"} {
		s.createJob(key, time.Hour, `{}`)
		raised[key] = s.alert(key, key+" is late", 3*time.Hour)
	}
	requestPath(t, s.Server, "POST", "/api/v1/alerts/"+raised["cancelled"].ID.String()+"/close", `{"reason": "handled by phone: twice"}`)
	requestPath(t, s.Server, "POST", "/api/v1/alerts/"+raised["acknowledged"].ID.String()+"/ack", `{}`)
	s.resolve("resolved")
	late, err := s.store.Job(t.Context(), s.rule.Name, "exhausted")
	failOn(t, err)
	s.settle(futurejobs.Decision{Job: late.Job, Outcome: checks.Exhausted})
	loss := alerts.StreamLoss("ORDERS", s.now.Add(-time.Minute), s.now, "was deleted")
	for _, key := range []string{"closed", "lost"} {
		loss.Topic = "stream/" + key
		raised[key], _, err = s.store.WriteSystemAlert(t.Context(), loss)
		failOn(t, err)
	}
	_, err = s.store.CloseLoss(access.As(t.Context(), access.Actor{Name: "ada"}), raised["closed"], "checked by hand")
	failOn(t, err)

	listed := make(map[alerts.ID]*web.AlertEnd)
	for _, a := range get[web.Page[web.Alert]](t, s.Server, "/api/v1/alerts?ended=true&limit=100").Items {
		listed[a.ID] = a.Ended
	}
	checkProblem(t, requestPath(t, s.Server, "GET", "/api/v1/alerts?ended=true&limit=101", ""), 400, web.BadRequest, "at most 100")
	checkProblem(t, requestPath(t, s.Server, "GET", "/api/v1/alerts?ended=true&open=true", ""), 400, web.BadRequest, "leave open out")
	for key, want := range map[string]struct {
		end  *web.AlertEnd
		page string
	}{
		"pending": {nil, ""}, "lost": {nil, ""}, "acknowledged": {nil, ""},
		"cancelled": {&web.AlertEnd{Outcome: checks.Cancelled, By: "loopback", Reason: "handled by phone: twice"}, "Closed by <b><bdi>loopback</bdi></b> at <time"},
		"exhausted": {&web.AlertEnd{Outcome: checks.Exhausted, Reason: "orders.shipped never came"}, "(exhausted): <bdi>orders.shipped never came</bdi>."},
		"resolved":  {&web.AlertEnd{Outcome: checks.Resolved}, "(resolved)."},
		"closed":    {&web.AlertEnd{Outcome: checks.Cancelled, By: "ada", Reason: "checked by hand"}, "Closed by <b><bdi>ada</bdi></b> at <time"},
	} {
		got := get[web.Alert](t, s.Server, "/api/v1/alerts/"+raised[key].ID.String()).Ended
		if diff := cmp.Diff(got, listed[raised[key].ID]); diff != "" {
			t.Errorf("%s: the end in the list (-alone +listed):\n%s", key, diff)
		}
		_, page, _ := strings.Cut(requestPath(t, s.Server, "GET", "/alerts/"+raised[key].ID.String(), "").body, "<h1>")
		page, _, _ = strings.Cut(page, "</h2>")
		if want.end == nil {
			if got != nil || strings.Contains(page, "Over") || strings.Contains(page, "Closed by") {
				t.Errorf("%s: the alert is open, and its end is %+v on\n%s", key, got, page)
			}
			continue
		}
		if got == nil || got.At.IsZero() || got.Outcome != want.end.Outcome || got.By != want.end.By || got.Reason != want.end.Reason {
			t.Errorf("%s: the end is %+v, want %+v", key, got, want.end)
		}
		if !strings.Contains(page, want.page) || strings.Contains(page, `class="pill warning"`) || strings.Contains(page, `class="pill error"`) {
			t.Errorf("%s: the page has no %q, or looks open:\n%s", key, want.page, page)
		}
	}
	all := requestPath(t, s.Server, "GET", "/alerts/all?decided_after=2026-01-31T15:04:05Z", "").body
	for key, want := range map[string]string{
		"pending": "open", "lost": "open", "acknowledged": "acknowledged", "cancelled": "over", "exhausted": "over", "resolved": "over", "closed": "",
	} {
		_, row, _ := strings.Cut(all, `<li id="alert-`+raised[key].ID.String())
		row, _, _ = strings.Cut(row, "</li>")
		_, state, _ := strings.Cut(row, `<span class="tag">`)
		if state, _, _ = strings.Cut(state, "</span>"); row == "" || state != want {
			t.Errorf("%s: the list of all alerts marks it otherwise than %q:\n%s", key, want, row)
		}
		end, ended := map[string]string{
			"cancelled": "closed by <bdi>loopback</bdi> <time", "exhausted": "exhausted <time", "resolved": "resolved <time", "closed": "closed by <bdi>ada</bdi> <time",
		}[key]
		if !strings.Contains(row, end) || strings.Contains(row, "raised <time") != ended {
			t.Errorf("%s: the list of all alerts has no end %q:\n%s", key, end, row)
		}
	}
	if !strings.Contains(all, `Raised since <time datetime="2026-01-31T15:04:05Z"`) {
		t.Errorf("the list of all alerts shows the time of its filter otherwise:\n%s", all)
	}

	// Retention may delete the history of a job before its alert.
	if _, err := s.store.Prune(t.Context(), store.Retention{History: -3 * futurejobs.Day}); err != nil { // of the jobs that end up to then
		t.Fatal(err)
	}
	at := raised["exhausted"].ID.String()
	if got := get[web.Alert](t, s.Server, "/api/v1/alerts/"+at).Ended; got == nil || !got.At.IsZero() || got.Outcome != "unknown" {
		t.Errorf("without history the end is %+v", got)
	}
	if page := requestPath(t, s.Server, "GET", "/alerts/"+at, ""); page.StatusCode != 200 || !strings.Contains(page.body, "the history no longer has it") {
		t.Errorf("the page without history: %d\n%s", page.StatusCode, page.body)
	}
}
