package web_test

import (
	"testing"
	"time"

	"deadman/web"
)

// TestTrails checks that single jobs and entities have trails, and lists do not.
func TestTrails(t *testing.T) {
	s := newFixture(t)
	s.createJob("1", time.Hour, `{"n": 1}`)
	s.createJob("2", time.Hour, `{"n": 1}`)
	for _, key := range []string{"1", "2"} {
		if a := requestPath(t, s.Server, "POST", "/api/v1/jobs/order-unshipped/"+key+"/snooze", `{"for": "2h"}`); a.StatusCode != 200 {
			t.Fatalf("snooze: %d %s", a.StatusCode, a.body)
		}
	}
	if a := requestPath(t, s.Server, "DELETE", "/api/v1/jobs/order-unshipped/2", ""); a.StatusCode != 204 {
		t.Fatalf("cancel: %d %s", a.StatusCode, a.body)
	}
	snoozed := func(name string, j web.Job) {
		t.Helper()
		if len(j.Trail) != 1 || j.Trail[0].Kind != "snooze" || j.Trail[0].Next.Before(s.now.Add(2*time.Hour)) {
			t.Errorf("%s: %+v", name, j.Trail)
		}
	}
	snoozed("one job", get[web.Job](t, s.Server, "/api/v1/jobs/order-unshipped/1"))
	pending := get[web.Entity](t, s.Server, "/api/v1/entities/order/1").Jobs.Items[0]
	snoozed("a job of an entity", pending)
	if string(pending.Event) != `{"n":1}` {
		t.Errorf("a job of an entity began with %s", pending.Event)
	}
	snoozed("an ended job of an entity", get[web.Entity](t, s.Server, "/api/v1/entities/order/2").History.Items[0].Job)

	for _, path := range []string{"/api/v1/jobs?key=1", "/api/v1/jobs"} {
		if j := get[web.Page[web.Job]](t, s.Server, path).Items[0]; j.Trail != nil || j.Event != nil {
			t.Errorf("%s has what lists do not: %+v", path, j)
		}
	}
	for _, path := range []string{"/api/v1/history?key=2", "/api/v1/history"} {
		if e := get[web.Page[web.EndedJob]](t, s.Server, path).Items[0]; e.Trail != nil {
			t.Errorf("%s has what lists do not: %+v", path, e)
		}
	}
}
