package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
	"deadman/web"
)

const (
	reportRule = `name: report-due
entity: report
trigger: {schedule: "@stored", emit: {subject: reports.due}}
`
	reportLine    = `{"rule": "report-due", "id": "a", "schedule": "@hourly"}`
	schedulesPath = "/api/v1/schedules"
	reportPath    = schedulesPath + "/report-due"
)

// newScheduleFixture returns a fixture with the rule report-due.
func newScheduleFixture(t *testing.T, changes ...func(*web.Options, *fixture)) *fixture {
	s := newFixture(t, changes...)
	s.saveRule(reportRule)
	return s
}

// ChangeSchedules implements web.ScheduleActions.
func (s *fixture) ChangeSchedules(ctx context.Context, all []web.ScheduleChange) (web.ChangedSchedules, error) {
	if err := s.rules.Catalog.Refresh(ctx); err != nil {
		return web.ChangedSchedules{}, err
	}
	done := web.ChangedSchedules{Refused: make([]error, len(all))}
	var put []futurejobs.Schedule
	var gone []futurejobs.ScheduleRef
	for i, c := range all {
		catalog := rules.StoredCatalog{Catalog: s.rules.Catalog}
		rule, err := catalog.StoredRule(c.Rule)
		switch id, missing := catalog.RuleID(c.Rule); {
		case c.Deleted && missing == nil:
			gone = append(gone, futurejobs.ScheduleRef{RuleID: id, ID: c.ID})
		case err != nil:
			done.Refused[i] = err
		default:
			if done.Refused[i] = rule.Prepare(&c.Schedule, time.Now().UTC()); done.Refused[i] == nil {
				put = append(put, c.Schedule)
				if c.Enabled && c.NextAt.IsZero() {
					done.Ended = append(done.Ended, i)
				}
			}
		}
	}
	if len(put)+len(gone) == 0 {
		return done, nil
	}
	var err error
	done.ScheduleChanges, err = s.store.PutSchedules(ctx, put, gone)
	return done, err
}

// HasSchedules implements web.ScheduleActions.
func (s *fixture) HasSchedules(rule string) bool {
	_, err := rules.StoredCatalog{Catalog: s.rules.Catalog}.StoredRule(rule)
	return err == nil
}

// NextTicks implements web.ScheduleActions.
func (s *fixture) NextTicks(rule string, of futurejobs.Schedule, n int) []time.Time {
	stored, err := rules.StoredCatalog{Catalog: s.rules.Catalog}.StoredRule(rule)
	if err != nil {
		return nil
	}
	return stored.Next(of, n)
}

// putSchedule creates or replaces a schedule of report-due.
func (s *fixture) putSchedule(status int, path, body string, header ...string) (got web.Schedule) {
	s.t.Helper()
	a := requestPath(s.t, s.Server, "PUT", path, body, append(header, "Content-Type", "application/json")...)
	if err := json.Unmarshal([]byte(a.body), &got); a.StatusCode != status || err != nil {
		s.t.Fatalf("%s: %d %s", path, a.StatusCode, a.body)
	}
	return got
}

// TestScheduleLife checks that a schedule is created, replaced and deleted, that a change raises its version, and that it
// has its next ticks.
func TestScheduleLife(t *testing.T) {
	s := newScheduleFixture(t)
	path := reportPath + "/customer-1"
	body := `{"schedule": "30 8 * * *", "zone": "Asia/Tokyo", "data": {"customer": 1}}`
	made := s.putSchedule(201, path, body)
	if made.Rule != "report-due" || made.ID != "customer-1" || made.Schedule != "30 8 * * *" || made.Zone != "Asia/Tokyo" || string(made.Data) != `{"customer":1}` ||
		!made.Enabled || made.Version != 1 || made.CreatedAt.IsZero() || !made.UpdatedAt.Equal(made.CreatedAt) || !made.LastAt.IsZero() {
		t.Errorf("created: %+v", made)
	}
	checkNextTicks(t, made, func(at time.Time) bool { return at.Hour() == 23 && at.Minute() == 30 && at.Second() == 0 }, 24*time.Hour)
	if again := s.putSchedule(200, path, body); again.Version != 1 || !again.UpdatedAt.Equal(made.UpdatedAt) {
		t.Errorf("unchanged: %+v", again)
	}
	changed := s.putSchedule(200, path, `{"schedule": "@every 90m", "data": null}`)
	if changed.Version != 2 || changed.Zone != "" || changed.Data != nil || !changed.CreatedAt.Equal(made.CreatedAt) {
		t.Errorf("replaced: %+v", changed)
	}
	checkNextTicks(t, changed, func(at time.Time) bool { return !at.After(changed.UpdatedAt.Add(6 * 90 * time.Minute)) }, 90*time.Minute)
	if got := get[web.Schedule](t, s.Server, path); fmt.Sprint(got) != fmt.Sprint(changed) {
		t.Errorf("got %+v, want %+v", got, changed)
	}
	off := s.putSchedule(200, path, `{"schedule": "@every 90m", "enabled": false}`)
	if off.Enabled || off.Version != 3 || !off.NextAt.IsZero() || off.Next != nil {
		t.Errorf("disabled: %+v", off)
	}
	if once := s.putSchedule(201, reportPath+"/once", `{"schedule": "@at 2199-01-01T00:00:00Z"}`); len(once.Next) != 1 || !once.Next[0].Equal(once.NextAt) {
		t.Errorf("one tick: %+v", once)
	}
	if a := requestPath(t, s.Server, "DELETE", path, ""); a.StatusCode != 204 || a.body != "" {
		t.Errorf("deleted: %d %s", a.StatusCode, a.body)
	}
	for _, method := range []string{"GET", "DELETE"} {
		checkProblem(t, requestPath(t, s.Server, method, path, ""), 404, web.NotFound, "customer-1")
	}
}

// TestEndedSchedule checks that a schedule without a further tick is stored with a warning, alone and in a line of many.
func TestEndedSchedule(t *testing.T) {
	s := newScheduleFixture(t)
	past := `"schedule": "@at 2026-01-01T00:00:00Z"`
	if made := s.putSchedule(201, reportPath+"/a", `{`+past+`}`); len(made.Warnings) != 1 || !strings.Contains(made.Warnings[0], "no tick after now") || !made.NextAt.IsZero() {
		t.Errorf("past: %+v", made)
	}
	for id, body := range map[string]string{"off": `{"enabled": false, ` + past + `}`, "later": `{"schedule": "@at 2199-01-01T00:00:00Z"}`, "daily": `{"schedule": "@daily"}`} {
		if made := s.putSchedule(201, reportPath+"/"+id, body); len(made.Warnings) != 0 {
			t.Errorf("%s: %+v", id, made)
		}
	}
	if got := get[web.Schedule](t, s.Server, reportPath+"/a"); len(got.Warnings) != 0 {
		t.Errorf("read: %+v", got)
	}
	lines := reportLine + "\n\n{\n" + `{"rule": "report-due", "id": "b", ` + past + `}` + "\n" + `{"rule": "report-due", "id": "off", "deleted": true}` + "\n" + `{"rule": "report-due", "id": "c", ` + past + `}`
	if got := s.changeSchedules(lines); got.Ended != 2 || fmt.Sprint(got.EndedLines) != "[4 6]" || got.Created != 2 || got.Refused != 1 {
		t.Errorf("%+v", got)
	}
}

// TestSchedulesOfPausedRule checks that schedules of a rule that is paused or not enabled have no next ticks, and the reason.
func TestSchedulesOfPausedRule(t *testing.T) {
	s := newScheduleFixture(t)
	s.putSchedule(201, reportPath+"/a", `{"schedule": "@daily"}`)
	check := func(what string, isPaused bool) {
		t.Helper()
		one := get[web.Schedule](t, s.Server, reportPath+"/a")
		listed := get[web.Page[web.Schedule]](t, s.Server, schedulesPath+"?rule=report-due").Items[0]
		if one.Paused != isPaused || listed.Paused != isPaused || one.NextAt.IsZero() != isPaused || listed.NextAt.IsZero() != isPaused || (len(one.Next) == 0) != isPaused {
			t.Errorf("%s: %+v, listed as %+v", what, one, listed)
		}
	}
	check("at first", false)
	for _, verb := range []string{"pause", "resume"} {
		if a := requestPath(t, s.Server, "POST", "/api/v1/rules/report-due/"+verb, ""); a.StatusCode != 200 {
			t.Fatal(a.body)
		}
		check("after "+verb, verb == "pause")
	}
	s.saveRule(reportRule + "enabled: false\n")
	check("not enabled", true)
}

// checkNextTicks checks the next five ticks of a schedule.
func checkNextTicks(t *testing.T, s web.Schedule, is func(time.Time) bool, gap time.Duration) {
	t.Helper()
	if len(s.Next) != 5 || !s.Next[0].Equal(s.NextAt) || !s.NextAt.After(s.UpdatedAt) {
		t.Fatalf("next ticks: %+v", s)
	}
	for i, at := range s.Next {
		if !is(at) || i > 0 && at.Sub(s.Next[i-1]) != gap {
			t.Errorf("tick %d: %s of %v", i, at, s.Next)
		}
	}
}

// TestScheduleNames checks that a schedule is reachable with any id.
func TestScheduleNames(t *testing.T) {
	s := newScheduleFixture(t)
	for _, id := range []string{"a/b?c&d%20=", "ticks", "..", strings.Repeat("x", futurejobs.MaxScheduleID)} {
		query := "?id=" + url.QueryEscape(id)
		if made := s.putSchedule(201, reportPath+query, `{"schedule": "@daily"}`); made.ID != id {
			t.Errorf("%q is created as %q", id, made.ID)
		}
		if got := get[web.Schedule](t, s.Server, reportPath+query); got.ID != id {
			t.Errorf("%q is read as %q", id, got.ID)
		}
		if got := get[web.Page[web.ScheduleTick]](t, s.Server, reportPath+"/ticks"+query); len(got.Items) != 0 || got.Items == nil {
			t.Errorf("%q has the ticks %+v", id, got.Items)
		}
		if a := requestPath(t, s.Server, "DELETE", reportPath+query, ""); a.StatusCode != 204 {
			t.Errorf("%q: %d %s", id, a.StatusCode, a.body)
		}
	}
	if made := s.putSchedule(201, reportPath+"/a%2Fb", `{"schedule": "@daily"}`); made.ID != "a/b" {
		t.Errorf("created: %+v", made)
	}
}

// TestScheduleProblems checks that a refused schedule is not stored, and that its problem has the place of the error.
func TestScheduleProblems(t *testing.T) {
	s := newScheduleFixture(t)
	long := strings.Repeat("x", futurejobs.MaxScheduleID+1)
	for _, c := range []struct {
		path, body, location string
		status               int
	}{
		{reportPath + "/a", `{"schedule": "61 * * * *"}`, "body.schedule", 422},
		{reportPath + "/a", `{"schedule": "@never"}`, "body.schedule", 422},
		{reportPath + "/a", `{"schedule": "@daily", "zone": "Mars/Olympus"}`, "body.zone", 422},
		{reportPath + "/a", `{"schedule": "@daily", "data": "` + strings.Repeat("x", futurejobs.MaxScheduleData) + `"}`, "body.data", 422},
		{reportPath + "/" + long, `{"schedule": "@daily"}`, "path.id", 422},
		{reportPath + "?id=" + long, `{"schedule": "@daily"}`, "query.id", 422},
		{reportPath + "?id=", `{"schedule": "@daily"}`, "query.id", 400},
		{schedulesPath + "/order-unshipped/a", `{"schedule": "@daily"}`, "path.rule", 422},
		{reportPath + "/a", `{}`, "body", 422},
		{reportPath + "/a", `{"schedule": ""}`, "body.schedule", 422},
		{reportPath + "/a", `{"schedule": "@daily", "enabled": "no"}`, "body.enabled", 422},
		{reportPath + "/a", `{"schedule": "@daily", "shedule": 1}`, "body.shedule", 422},
	} {
		a := requestPath(t, s.Server, "PUT", c.path, c.body, "Content-Type", "application/json")
		if p := a.problem(t); a.StatusCode != c.status || len(p.Errors) == 0 || p.Errors[0].Location != c.location || p.Errors[0].Pointer != "" {
			t.Errorf("%.80s %.80s: %d %s, want %s", c.path, c.body, a.StatusCode, a.body, c.location)
		}
	}
	if got := get[web.Page[web.Schedule]](t, s.Server, schedulesPath+"?rule=report-due"); len(got.Items) != 0 {
		t.Errorf("stored: %+v", got.Items)
	}
	for _, path := range []string{"/absent/a", "/absent?id=a", "/absent/a/ticks", "?rule=absent", "/report-due/a"} {
		checkProblem(t, requestPath(t, s.Server, "GET", schedulesPath+path, ""), 404, web.NotFound)
	}
	checkProblem(t, requestPath(t, s.Server, "PUT", schedulesPath+"/absent/a", `{"schedule": "@daily"}`), 404, web.NotFound, "absent")
	checkProblem(t, requestPath(t, s.Server, "DELETE", schedulesPath+"/absent/a", ""), 404, web.NotFound, "absent")
	for _, path := range []string{"", "?prefix=a", "?rule=report-due&limit=0", "/report-due", "/report-due/a/ticks?outcome=started"} {
		checkProblem(t, requestPath(t, s.Server, "GET", schedulesPath+path, ""), 400, web.BadRequest)
	}
	checkProblem(t, requestPath(t, s.Server, "GET", schedulesPath+"?rule=report-due&cursor=none", ""), 400, web.BadCursor)
}

// TestScheduleList checks that the schedules of a rule are listed by id, by a prefix and in pages.
func TestScheduleList(t *testing.T) {
	s := newScheduleFixture(t)
	s.saveRule(strings.ReplaceAll(reportRule, "report-due", "other-due"))
	var body strings.Builder
	for i := range 25 {
		fmt.Fprintf(&body, `{"rule": "report-due", "id": "c-%02d", "schedule": "@daily"}`+"\n", i)
		fmt.Fprintf(&body, `{"rule": "other-due", "id": "c-%02d", "schedule": "@daily"}`+"\n", i)
	}
	if got := s.changeSchedules(body.String()); got.Created != 50 {
		t.Fatalf("%+v", got)
	}
	for prefix, want := range map[string]int{"": 25, "c-1": 10, "c-1*": 0, "d": 0} {
		var ids []string
		for next := ""; ; {
			page := get[web.Page[web.Schedule]](t, s.Server, schedulesPath+"?rule=report-due&limit=4&prefix="+url.QueryEscape(prefix)+"&cursor="+url.QueryEscape(next))
			for _, listed := range page.Items {
				if listed.Rule != "report-due" || listed.NextAt.IsZero() || listed.Next != nil || len(ids) > 0 && listed.ID <= ids[len(ids)-1] {
					t.Errorf("%q after %v: %+v", prefix, ids, listed)
				}
				ids = append(ids, listed.ID)
			}
			if next = page.Next; next == "" {
				break
			}
		}
		if len(ids) != want {
			t.Errorf("%q: %v, want %d", prefix, ids, want)
		}
	}
	if got := get[web.Page[web.Schedule]](t, s.Server, schedulesPath+"?rule=order-unshipped"); len(got.Items) != 0 {
		t.Errorf("a rule without stored schedules: %+v", got)
	}
}

// TestSchedulesOfSomeRules checks that a token with a prefix reads and changes the schedules of its rules only, and that
// changes need the scope rules.
func TestSchedulesOfSomeRules(t *testing.T) {
	s := newScheduleFixture(t, closedNode)
	s.saveRule(strings.ReplaceAll(reportRule, "report-due", "shop-due"))
	admin, shop := s.newToken("root", "", access.Admin), s.newToken("shop", "shop-", access.Rules, access.Read)
	daily := `{"schedule": "@daily"}`
	s.putSchedule(201, reportPath+"/a", daily, admin...)
	s.putSchedule(201, schedulesPath+"/shop-due/a", daily, shop...)
	requests := []struct{ method, path, body string }{
		{"GET", "?rule=RULE", ""},
		{"GET", "/RULE/a", ""},
		{"GET", "/RULE?id=a", ""},
		{"GET", "/RULE/a/ticks", ""},
		{"GET", "/RULE/ticks?id=a", ""},
		{"PUT", "/RULE/a", daily},
		{"PUT", "/RULE?id=a", daily},
		{"DELETE", "/RULE?id=a", ""},
		{"DELETE", "/RULE/a", ""},
	}
	for _, c := range requests {
		for _, rule := range []string{"report-due", "absent"} { // an unknown rule looks the same
			path := schedulesPath + strings.ReplaceAll(c.path, "RULE", rule)
			checkProblem(t, requestPath(t, s.Server, c.method, path, c.body, shop...), 403, web.Forbidden, "shop-*", rule)
		}
	}
	for _, c := range requests[:7] {
		if a := requestPath(t, s.Server, c.method, schedulesPath+strings.ReplaceAll(c.path, "RULE", "shop-due"), c.body, shop...); a.StatusCode != 200 {
			t.Errorf("%s %s: %d %s", c.method, c.path, a.StatusCode, a.body)
		}
	}
	lines := reportLine + "\n" + strings.ReplaceAll(reportLine, "report-due", "shop-due") + "\n" + `{"rule": "report-due", "id": "a", "deleted": true}`
	got := s.changeSchedules(lines, shop...)
	if got.Updated != 1 || got.Created+got.Deleted+got.Unknown != 0 || len(got.RefusedLines) != 2 || got.RefusedLines[0].Field != "rule" || !strings.Contains(got.RefusedLines[0].Message, "shop-*") {
		t.Errorf("%+v", got)
	}
	if a := requestPath(t, s.Server, "GET", reportPath+"/a", "", admin...); !strings.Contains(a.body, "@daily") {
		t.Errorf("the foreign schedule is %s", a.body)
	}
	reader := s.newToken("reader", "", access.Read)
	for _, c := range append(requests[5:], struct{ method, path, body string }{"POST", "/bulk", lines}) {
		checkProblem(t, requestPath(t, s.Server, c.method, schedulesPath+strings.ReplaceAll(c.path, "RULE", "report-due"), c.body, reader...), 403, web.Forbidden, "the scope rules")
	}
}

// heldSchedules refuses changes, as while the event of a tick may be in transit.
type heldSchedules struct{ *fixture }

func (heldSchedules) ChangeSchedules(context.Context, []web.ScheduleChange) (web.ChangedSchedules, error) {
	return web.ChangedSchedules{}, fmt.Errorf("put schedules: %w", futurejobs.ErrScheduleHeld)
}

// TestHeldSchedule checks that a change during the transit of an event is to be repeated.
func TestHeldSchedule(t *testing.T) {
	s := newScheduleFixture(t, func(o *web.Options, s *fixture) { o.Schedules = heldSchedules{s} })
	for _, c := range [][3]string{{"PUT", reportPath + "/a", `{"schedule": "@daily"}`}, {"DELETE", reportPath + "/a", ""}, {"POST", schedulesPath + "/bulk", reportLine}} {
		a := requestPath(t, s.Server, c[0], c[1], c[2])
		checkProblem(t, a, 503, web.Unavailable, "in transit", "try again")
		if a.Header.Get("Retry-After") != "3" {
			t.Errorf("%s %s: Retry-After is %q", c[0], c[1], a.Header.Get("Retry-After"))
		}
	}
}
