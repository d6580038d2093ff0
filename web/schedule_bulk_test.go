package web_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	futurejobs "deadman/future_jobs"
	"deadman/web"
)

const scheduleBulkPath = schedulesPath + "/bulk"

// changeSchedules sends lines of schedules.
func (s *fixture) changeSchedules(body string, header ...string) (got web.ScheduleBulkResult) {
	s.t.Helper()
	a := requestPath(s.t, s.Server, "POST", scheduleBulkPath, body, header...)
	if err := json.Unmarshal([]byte(a.body), &got); a.StatusCode != 200 || err != nil {
		s.t.Fatalf("%d: %.500s", a.StatusCode, a.body)
	}
	if got.Refused != len(got.RefusedLines) {
		s.t.Errorf("the count is not that of the list: %+v", got)
	}
	return got
}

// storedSchedules returns the number of schedules of report-due.
func (s *fixture) storedSchedules() int {
	s.t.Helper()
	return len(get[web.Page[web.Schedule]](s.t, s.Server, schedulesPath+"?rule=report-due&limit=500").Items)
}

// TestScheduleBulk checks that valid lines change schedules regardless of the others, and that each refused line gets its
// number, its error and a remedy.
func TestScheduleBulk(t *testing.T) {
	s := newScheduleFixture(t)
	for _, id := range []string{"same", "changed", "gone"} {
		s.putSchedule(201, reportPath+"/"+id, `{"schedule": "@daily"}`)
	}
	line := func(fields string) string { return `{"rule": "report-due", ` + fields + `}` }
	lines := []string{
		line(`"id": "new", "schedule": "30 8 * * MON-FRI", "zone": "Europe/Berlin", "data": {"a": [1, "}"]}, "enabled": true`),
		``,
		line(`"id": "same", "schedule": "@daily", "data": null, "deleted": false`), // 3
		line(`"id": "changed", "schedule": "@daily", "enabled": false`),
		line(`"id": "gone", "deleted": true`), // 5
		line(`"id": "absent", "deleted": true`),
		line(`"id": "new", "schedule": "@daily"`), // 7: of line 1
		line(`"id": "gone", "schedule": "@daily"`),
		line(`"id": "x"`), // 9
		line(`"id": "x", "deleted": true, "enabled": false`),
		line(`"id": "x", "schedule": "@daily", "enabled": "yes"`), // 11
		line(`"id": "x", "schedule": "@daily", "enabled": 1`),
		line(`"id": "x", "schedule": "99 * * * *"`), // 13
		line(`"id": "y", "schedule": "@daily", "zone": "Mars/Olympus"`),
		line(`"id": "z", "schedule": "@daily", "data": {"a": tru}`), // 15
		line(`"id": "", "schedule": "@daily"`),
		line(`"id": "` + strings.Repeat("x", futurejobs.MaxScheduleID+1) + `", "schedule": "@daily"`), // 17
		line(`"schedule": "@daily"`),
		`{"rule": "absent", "id": "x", "schedule": "@daily"}`, // 19
		`{"rule": "order-unshipped", "id": "x", "schedule": "@daily"}`,
		line(`"key": "x", "schedule": "@daily"`), // 21
		line(`"id": "w", "schedule": "@daily", "data": "` + strings.Repeat("x", futurejobs.MaxScheduleData) + `"`),
		line(`"id": "v", "schedule": "@daily", "data": {"of": "` + strings.Repeat("x", web.MaxBulkLine) + `"}`), // 23
		line(`"id": "u", "schedule": ""`),
		line(`"id": "absent"`) + line(`"id": "t"`), // 25
		`{"rule": "absent", "id": "y", "deleted": true}`,
		line(`"id": "\u0000", "schedule": "@daily"`), // 27
		line(`"id": "last", "schedule": "@daily", "zone": ""`),
	}
	got := s.changeSchedules(strings.Join(lines, "\n"), "Content-Type", "application/x-ndjson")
	if got.Created != 2 || got.Updated != 1 || got.Unchanged != 1 || got.Deleted != 1 || got.Unknown != 1 {
		t.Errorf("%+v", got)
	}
	want := map[int][2]string{
		7: {"id", "line 1 has the same rule and id"}, 8: {"id", "line 5 has the same rule and id"}, 9: {"schedule", "missing"}, 10: {"enabled", "deletes"},
		11: {"enabled", "without quotes"}, 12: {"enabled", "neither true nor false"}, 13: {"schedule", ""}, 14: {"zone", "time zone"}, 15: {"data", "JSON"},
		16: {"id", "empty"}, 17: {"id", "the limit is 256"}, 18: {"id", "missing"}, 19: {"rule", "absent: not found"}, 20: {"rule", "@stored"},
		21: {"", "unknown field"}, 22: {"data", ""}, 23: {"", "give data less"}, 24: {"schedule", "empty"}, 25: {"", "a line of its own"},
		26: {"rule", "not found"}, 27: {"id", ""},
	}
	for _, w := range got.RefusedLines {
		if of, ok := want[w.Line]; !ok || w.Field != of[0] || !strings.Contains(w.Message, of[1]) || len(w.Message) > 300 {
			t.Errorf("line %d, field %q: %.400s; want %q", w.Line, w.Field, w.Message, of)
		}
		delete(want, w.Line)
	}
	if len(want) > 0 {
		t.Errorf("not refused: %v", want)
	}
	made := get[web.Schedule](t, s.Server, reportPath+"/new")
	if made.Schedule != "30 8 * * MON-FRI" || made.Zone != "Europe/Berlin" || string(made.Data) != `{"a":[1,"}"]}` || !made.Enabled {
		t.Errorf("created: %+v", made)
	}
	if changed := get[web.Schedule](t, s.Server, reportPath+"/changed"); changed.Enabled || changed.Version != 2 {
		t.Errorf("changed: %+v", changed)
	}
	if n := s.storedSchedules(); n != 4 {
		t.Errorf("%d schedules are stored, want 4", n)
	}
}

// TestScheduleBulkIsRefusedAsWhole checks that a body that is wrong as a whole changes nothing, and that the largest
// number of lines is accepted.
func TestScheduleBulkIsRefusedAsWhole(t *testing.T) {
	s := newScheduleFixture(t)
	var many strings.Builder
	for i := range web.MaxBulkLines {
		fmt.Fprintf(&many, `{"rule": "report-due", "id": "%d", "schedule": "@daily"}`+"\n", i)
	}
	for name, c := range map[string]struct {
		body, kind string
		status     int
		is         web.Kind
		part       string
	}{
		"one line too many": {many.String() + reportLine, "", 413, web.TooLarge, "more than 10000 lines"},
		"blank":             {"\n \n", "", 422, web.Invalid, "customer-1234"},
		"an array":          {"\n[" + reportLine + "]", "application/json", 422, web.Invalid, "jq -c"},
		"a form":            {reportLine, "application/x-www-form-urlencoded", 415, web.UnsupportedType, "--data-binary"},
	} {
		checkProblem(t, requestPath(t, s.Server, "POST", scheduleBulkPath, c.body, "Content-Type", c.kind), c.status, c.is, c.part)
		if n := s.storedSchedules(); n != 0 {
			t.Fatalf("%s: %d schedules are stored", name, n)
		}
	}
	if got := s.changeSchedules(many.String()); got.Created != web.MaxBulkLines {
		t.Errorf("%+v", got)
	}
	if got := s.changeSchedules(many.String()); got.Unchanged != web.MaxBulkLines || got.Created+got.Updated > 0 {
		t.Errorf("%+v", got)
	}
}

// TestRepeatedScheduleBulk checks that a repeated request is not executed again.
func TestRepeatedScheduleBulk(t *testing.T) {
	s := newScheduleFixture(t)
	body := reportLine + "\n{"
	first := requestPath(t, s.Server, "POST", scheduleBulkPath, body, "Idempotency-Key", "load-1")
	if a := requestPath(t, s.Server, "DELETE", reportPath+"/a", ""); first.StatusCode != 200 || a.StatusCode != 204 {
		t.Fatalf("%d, %d %s", first.StatusCode, a.StatusCode, a.body)
	}
	again := requestPath(t, s.Server, "POST", scheduleBulkPath, body, "Idempotency-Key", "load-1")
	if again.body != first.body || again.Header.Get("Idempotent-Replayed") != "true" || s.storedSchedules() != 0 {
		t.Errorf("it was done again: %s, %d stored", again.body, s.storedSchedules())
	}
	checkProblem(t, requestPath(t, s.Server, "POST", scheduleBulkPath, reportLine, "Idempotency-Key", "load-1"), 422, web.IdempotencyConflict, "")
}
