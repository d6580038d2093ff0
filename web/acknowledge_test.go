package web_test

import (
	"fmt"
	"testing"
	"time"

	"deadman/access"
	"deadman/web"
)

func TestAcknowledging(t *testing.T) {
	s := newStand(t)
	s.place("1", time.Hour, `{}`)
	a := s.alert("1", "1 is late", 3*time.Hour)
	path := "/api/v1/alerts/" + a.ID.String()
	if got := get[web.Alert](t, s.Server, path); got.Acknowledged != nil {
		t.Fatalf("acknowledged by nobody: %+v", got.Acknowledged)
	}

	j := jobOf(t, do(t, s.Server, "POST", path+"/ack", `{"for": "2h", "note": "I am on it"}`), 200)
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
	if k := jobOf(t, do(t, s.Server, "POST", path+"/ack", fmt.Sprintf(`{"until": %q}`, until.Format(time.RFC3339))), 200).Acknowledged; !k.Until.Equal(until) || k.Note != "" {
		t.Errorf("until an instant: %+v", k)
	}
	for _, body := range []string{`{}`, ``, `{}`} {
		if k := jobOf(t, do(t, s.Server, "POST", path+"/ack", body), 200).Acknowledged; k == nil || !k.Until.IsZero() {
			t.Errorf("for good, by %q: %+v", body, k)
		}
	}
	for range 2 {
		if k := jobOf(t, do(t, s.Server, "DELETE", path+"/ack", ""), 200).Acknowledged; k != nil {
			t.Errorf("taken back: %+v", k)
		}
	}

	for body, part := range map[string]string{
		`{"for": "2d", "until": "2999-01-01T00:00:00Z"}`: "one of them", `{"for": "soon"}`: "90s", `{"for": "-1h"}`: "-1h",
		`{"until": "2020-01-01T00:00:00Z"}`: "within a year", `{"until": "2999-01-01T00:00:00Z"}`: "for good",
	} {
		isProblem(t, do(t, s.Server, "POST", path+"/ack", body), 422, web.Invalid, part)
	}
	isProblem(t, do(t, s.Server, "POST", path+"/ack", `{"til": "2d"}`), 422, web.UnknownField, "until")
	s.end("1")
	for _, method := range []string{"POST", "DELETE"} {
		isProblem(t, do(t, s.Server, method, path+"/ack", ""), 409, web.Conflict, "a wait that goes on")
		isProblem(t, do(t, s.Server, method, "/api/v1/alerts/019c0f5a-7d08-8000-9b1c-2f4a6c8e0b1d/ack", ""), 404, web.NotFound, "019c0f5a")
	}
}
