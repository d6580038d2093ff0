package web_test

import (
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"deadman/internal/access"
	"deadman/web"
)

func TestAcknowledging(t *testing.T) {
	s := newFixture(t)
	s.createJob("1", time.Hour, `{}`)
	a := s.alert("1", "1 is late", 3*time.Hour)
	path := "/api/v1/alerts/" + a.ID.String()
	if got := get[web.Alert](t, s.Server, path); got.Acknowledged != nil {
		t.Fatalf("without an actor: %+v", got.Acknowledged)
	}

	j := decodeJob(t, requestPath(t, s.Server, "POST", path+"/ack", `{"for": "2h", "note": "I am on it"}`), 200)
	k := j.Acknowledged
	if k == nil || k.By != access.Loopback || k.Alert != a.ID || k.Note != "I am on it" || k.Until.Sub(s.now) < 119*time.Minute || k.At.IsZero() {
		t.Fatalf("acknowledged: %+v", k)
	}
	entity := get[web.Entity](t, s.Server, "/api/v1/entities/order/1")
	for where, got := range map[string]*web.Acknowledged{
		"the alert": get[web.Alert](t, s.Server, path).Acknowledged, "the job": get[web.Job](t, s.Server, "/api/v1/jobs/order-unshipped/1").Acknowledged,
		"the entity": entity.Jobs.Items[0].Acknowledged,
	} {
		if got == nil || *got != *k {
			t.Errorf("%s is acknowledged as %+v, want %+v", where, got, k)
		}
	}

	until := s.now.Add(5 * time.Hour)
	if k := decodeJob(t, requestPath(t, s.Server, "POST", path+"/ack", fmt.Sprintf(`{"until": %q}`, until.Format(time.RFC3339))), 200).Acknowledged; !k.Until.Equal(until) || k.Note != "" {
		t.Errorf("until an instant: %+v", k)
	}
	for _, body := range []string{`{}`, ``, `{}`} {
		if k := decodeJob(t, requestPath(t, s.Server, "POST", path+"/ack", body), 200).Acknowledged; k == nil || !k.Until.IsZero() {
			t.Errorf("until resolved, by %q: %+v", body, k)
		}
	}
	for range 2 {
		if k := decodeJob(t, requestPath(t, s.Server, "DELETE", path+"/ack", ""), 200).Acknowledged; k != nil {
			t.Errorf("taken back: %+v", k)
		}
	}

	for body, part := range map[string]string{
		`{"for": "2d", "until": "2999-01-01T00:00:00Z"}`: "one of them", `{"for": "soon"}`: "90s", `{"for": "-1h"}`: "-1h",
		`{"until": "2020-01-01T00:00:00Z"}`: "in the past", `{"until": "2999-01-01T00:00:00Z"}`: "without an end",
	} {
		checkProblem(t, requestPath(t, s.Server, "POST", path+"/ack", body), 422, web.Invalid, part)
	}
	checkProblem(t, requestPath(t, s.Server, "POST", path+"/ack", `{"til": "2d"}`), 422, web.UnknownField, "until")
	s.resolve("1")
	for _, method := range []string{"POST", "DELETE"} {
		checkProblem(t, requestPath(t, s.Server, method, path+"/ack", ""), 409, web.Conflict, "a pending job")
		checkProblem(t, requestPath(t, s.Server, method, "/api/v1/alerts/019c0f5a-7d08-8000-9b1c-2f4a6c8e0b1d/ack", ""), 404, web.NotFound, "019c0f5a")
	}
}

// withClockAhead makes a fixture with a clock that is ahead by the stored duration.
func withClockAhead(by *atomic.Int64) func(*web.Options, *fixture) {
	return func(o *web.Options, _ *fixture) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(by.Load())) }
	}
}

// TestAcknowledgementIsOver checks that an expired acknowledgement is no longer returned, even before the job's next
// check, and the alert can be acknowledged again.
func TestAcknowledgementIsOver(t *testing.T) {
	var by atomic.Int64
	s := newFixture(t, withClockAhead(&by))
	s.createJob("1", time.Hour, `{}`)
	a := s.alert("1", "1 is late", 3*time.Hour)
	path := "/api/v1/alerts/" + a.ID.String()
	decodeJob(t, requestPath(t, s.Server, "POST", path+"/ack", `{"for": "2h", "note": "I am on it"}`), 200)
	acks := func() map[string]*web.Acknowledged {
		entity := get[web.Entity](t, s.Server, "/api/v1/entities/order/1")
		return map[string]*web.Acknowledged{
			"the alert":       get[web.Alert](t, s.Server, path).Acknowledged,
			"the open alerts": get[web.Page[web.Alert]](t, s.Server, "/api/v1/alerts?open=true").Items[0].Acknowledged,
			"the job":         get[web.Job](t, s.Server, "/api/v1/jobs/order-unshipped/1").Acknowledged,
			"the jobs":        get[web.Page[web.Job]](t, s.Server, "/api/v1/jobs").Items[0].Acknowledged,
			"the entity":      entity.Jobs.Items[0].Acknowledged,
		}
	}
	pages := map[string]string{
		"/alerts": "further steps are suppressed", "/alerts/" + a.ID.String(): "Remove acknowledgement",
		"/entities/order?key=1": "Acknowledged by <b>", "/": "acknowledged by <bdi>loopback</bdi>",
	}
	for _, c := range []struct {
		after time.Duration
		holds bool
	}{{0, true}, {119 * time.Minute, true}, {121 * time.Minute, false}} {
		by.Store(int64(c.after))
		for where, k := range acks() {
			if (k != nil) != c.holds {
				t.Errorf("after %s: %s is acknowledged as %+v", c.after, where, k)
			}
		}
		for page, wantText := range pages {
			if got := requestPath(t, s.Server, "GET", page, ""); got.StatusCode != 200 || strings.Contains(got.body, wantText) != c.holds {
				t.Errorf("after %s: %s: %d, the text is %q: %t", c.after, page, got.StatusCode, wantText, !c.holds)
			}
		}
	}
	form := url.Values{"do": {"ack"}, "by": {"rule"}, "group": {"order-unshipped"}, "seen": {a.ID.String()}, "for": {"4h"}, "back": {"/alerts"}}
	if got := postForm(t, s, "/alerts", form); got.StatusCode != 303 || !strings.Contains(got.Header.Get("Location"), "done=1") {
		t.Errorf("acknowledging all: %d %s", got.StatusCode, got.Header.Get("Location"))
	}
	for where, k := range acks() {
		if k == nil {
			t.Errorf("%s is not acknowledged again", where)
		}
	}
}

// postForm sends a form of a page without following a redirect.
func postForm(t *testing.T, s *fixture, path string, form url.Values) answer {
	t.Helper()
	return requestPath(t, s.Server, "POST", path, form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
}
