package web_test

import (
	"testing"
	"time"

	"deadman/web"
)

// TestOpenAlerts checks that the open alerts are the newest of each pending job, with their acknowledgements.
func TestOpenAlerts(t *testing.T) {
	s := newFixture(t)
	for _, key := range []string{"1", "2", "3"} {
		s.createJob(key, time.Hour, `{}`)
	}
	s.alert("1", "1 is late", 2*time.Hour)
	known := s.alert("1", "1 is still late", 3*time.Hour)
	s.alert("2", "2 is late", 2*time.Hour)
	requestPath(t, s.Server, "POST", "/api/v1/alerts/"+known.ID.String()+"/ack", `{"for": "2h"}`)

	open := func(query string) map[string]web.Alert {
		t.Helper()
		found := make(map[string]web.Alert)
		for _, a := range get[web.Page[web.Alert]](t, s.Server, "/api/v1/alerts?open=true"+query).Items {
			found[a.Text] = a
		}
		return found
	}
	got := open("")
	first, second := got["1 is still late"], got["2 is late"]
	if len(got) != 2 || first.Acknowledged == nil || first.Acknowledged.Alert != known.ID || second.ID != second.Record().ID || second.Acknowledged != nil {
		t.Errorf("open: %+v", got)
	}
	if got := open("&key=2&rule=order-unshipped&entity=order"); len(got) != 1 || got["2 is late"].Key != "2" {
		t.Errorf("of a key: %+v", got)
	}
	s.resolve("2")
	if got := open(""); len(got) != 1 || got["1 is still late"].Key != "1" {
		t.Errorf("after one was over: %+v", got)
	}
	checkProblem(t, requestPath(t, s.Server, "GET", "/api/v1/alerts?open=maybe", ""), 400, web.BadRequest, "open")
}

// TestSnoozedAlerts checks that an open alert has the end of a snooze that delays the next check of its job, and no other.
func TestSnoozedAlerts(t *testing.T) {
	s := newFixture(t)
	s.createJob("1", time.Hour, `{}`)
	id := s.alert("1", "1 is late", 2*time.Hour).ID.String()
	for _, c := range []struct {
		length string
		want   bool
	}{{"1m", false}, {"3h", true}} {
		decodeJob(t, requestPath(t, s.Server, "POST", "/api/v1/jobs/order-unshipped/1/snooze", `{"for": "`+c.length+`"}`), 200)
		job := get[web.Job](t, s.Server, "/api/v1/jobs/order-unshipped/1")
		want := job.SnoozedUntil
		if !c.want {
			want = time.Time{}
		}
		if job.SnoozedUntil.IsZero() || job.SnoozeIneffective == c.want {
			t.Errorf("%s: the job: %+v", c.length, job)
		}
		if got := get[web.Page[web.Alert]](t, s.Server, "/api/v1/alerts?open=true").Items[0]; !got.SnoozedUntil.Equal(want) {
			t.Errorf("%s: an open alert is snoozed until %s, want %s", c.length, got.SnoozedUntil, want)
		}
		if got := get[web.Alert](t, s.Server, "/api/v1/alerts/"+id); !got.SnoozedUntil.Equal(want) {
			t.Errorf("%s: one alert is snoozed until %s, want %s", c.length, got.SnoozedUntil, want)
		}
	}
}
