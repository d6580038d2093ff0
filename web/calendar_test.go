package web_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"deadman/internal/access"
	"deadman/rules"
	"deadman/web"
)

const officeCalendar = "# head office\nzone: Europe/Berlin\ndays: mon-fri\nhours: \"09:00-17:30\"\nholidays: [\"12-25\"]\n"

// officeRule is a rule that uses the calendar office.
const officeRule = "name: NAME\nentity: ticket\ntrigger: {event: tickets.opened, key: event.id}\nescalate: [{after: 4h, of: office, step: lead}]\n"

func decodeCalendar(t *testing.T, a answer, status int) web.CalendarChange {
	t.Helper()
	var c web.CalendarChange
	if err := json.Unmarshal([]byte(a.body), &c); err != nil || a.StatusCode != status {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	return c
}

// TestCalendarVersions saves, reads, replaces and deletes a calendar.
func TestCalendarVersions(t *testing.T) {
	s := newFixture(t)
	const path = "/api/v1/calendars/office"
	checkProblem(t, requestPath(t, s.Server, "PUT", path, officeCalendar, "If-Match", `"1"`), 412, web.RuleConflict, "does not exist")
	if c := decodeCalendar(t, requestPath(t, s.Server, "PUT", path+"?dry_run=true", officeCalendar), 200); !c.DryRun || !c.Changed || c.Calendar.Zone != "Europe/Berlin" {
		t.Errorf("dry run: %+v", c)
	}
	checkProblem(t, requestPath(t, s.Server, "GET", path, ""), 404, web.NotFound, "calendar office")
	saved := requestPath(t, s.Server, "PUT", path, officeCalendar, "If-None-Match", "*")
	if c := decodeCalendar(t, saved, 200); !c.Changed || c.Calendar.Version != 1 || saved.Header.Get("ETag") != `"1"` || c.Calendar.SavedBy != access.Loopback {
		t.Errorf("saved: %+v", c)
	}
	if c := decodeCalendar(t, requestPath(t, s.Server, "PUT", path, officeCalendar), 200); c.Changed || c.Calendar.Version != 1 {
		t.Errorf("saved again: %+v", c)
	}
	checkProblem(t, requestPath(t, s.Server, "PUT", path, officeCalendar, "If-None-Match", "*"), 412, web.RuleConflict, "already exists")
	got := get[web.Calendar](t, s.Server, path)
	if got.Document != officeCalendar || got.Source != "database" || len(got.Week) != 7 || !slices.Equal(got.Week[0].Hours, []string{"09:00-17:30"}) || len(got.Week[6].Hours) != 0 {
		t.Errorf("read: %+v", got)
	}
	if len(got.Holidays) != 2 || !strings.HasSuffix(got.Holidays[0], "-12-25") || len(got.Rules) != 0 {
		t.Errorf("holidays %v, rules %v", got.Holidays, got.Rules)
	}
	named := decodeCalendar(t, requestPath(t, s.Server, "PUT", path+"?dry_run=true", "zone: UTC\nholidays: [de-by]\n"), 200).Calendar
	if names := slices.Sorted(maps.Values(named.HolidayNames)); len(named.Holidays) < 20 || !slices.Contains(names, "Fronleichnam") || len(names) != len(named.Holidays) {
		t.Errorf("public holidays %v, named %v", named.Holidays, named.HolidayNames)
	}
	decodeCalendar(t, requestPath(t, s.Server, "PUT", path, "zone: UTC\n", "If-Match", `"1"`), 200)
	versions := get[web.Page[web.CalendarVersion]](t, s.Server, path+"/versions").Items
	if len(versions) != 2 || versions[0].Version != 2 || versions[1].Document != officeCalendar {
		t.Errorf("versions: %+v", versions)
	}
	if all := get[web.Page[web.Calendar]](t, s.Server, "/api/v1/calendars").Items; len(all) != 1 || all[0].Version != 2 || all[0].Document != "" || !all[0].Open {
		t.Errorf("list: %+v", all)
	}
	if a := requestPath(t, s.Server, "DELETE", path, "", "If-Match", `"2"`); a.StatusCode != http.StatusNoContent {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	checkProblem(t, requestPath(t, s.Server, "DELETE", path, ""), 404, web.NotFound, "calendar office")
}

// TestCalendarErrors checks that a refused text has all its errors, with their places.
func TestCalendarErrors(t *testing.T) {
	s := newFixture(t)
	const text = "zone: Berlin\nhours: [\"09:00-17:30\", \"25:00-26:00\"]\nopen: yes\n"
	p := checkProblem(t, requestPath(t, s.Server, "PUT", "/api/v1/calendars/office", text), 422, web.Invalid, "not a time zone")
	want := []web.ProblemDetail{{Location: "zone", Line: 1, Column: 7}, {Location: "hours[1]", Line: 2, Column: 24}, {Location: "open", Line: 3, Column: 1}}
	for i, d := range p.Errors {
		if i >= len(want) || d.Location != want[i].Location || d.Line != want[i].Line || d.Column != want[i].Column {
			t.Errorf("error %d: %+v", i, d)
		}
	}
	if len(p.Errors) != len(want) {
		t.Errorf("%d errors", len(p.Errors))
	}
	checkProblem(t, requestPath(t, s.Server, "PUT", "/api/v1/calendars/Office", officeCalendar), 422, web.Invalid, "not a name")
	checkProblem(t, requestPath(t, s.Server, "PUT", "/api/v1/calendars/office", "# none\n"), 422, web.Invalid, "is empty")
	checkProblem(t, requestPath(t, s.Server, "PUT", "/api/v1/calendars/office", "zone: UTC\nholidays: "+strings.Repeat("#", 33<<10)), 413, web.TooLarge, "")
}

// TestUsedCalendarIsNotDeleted checks that a calendar of a rule can be replaced and not deleted.
func TestUsedCalendarIsNotDeleted(t *testing.T) {
	s := newFixture(t)
	const path = "/api/v1/calendars/office"
	checkProblem(t, requestPath(t, s.Server, "PUT", "/api/v1/rules/reply", strings.ReplaceAll(officeRule, "NAME", "reply")), 422, web.RuleInvalid, "there is no calendar; define it under calendars in the rule, save one")
	decodeCalendar(t, requestPath(t, s.Server, "PUT", path, officeCalendar), 200)
	decodeChange(t, requestPath(t, s.Server, "PUT", "/api/v1/rules/reply", strings.ReplaceAll(officeRule, "NAME", "reply")), 201)
	checkProblem(t, requestPath(t, s.Server, "DELETE", path, ""), 409, web.Conflict, "rules use the calendar office: reply;")
	if got := get[web.Calendar](t, s.Server, path); !slices.Equal(got.Rules, []string{"reply"}) {
		t.Errorf("used by %v", got.Rules)
	}
	decodeCalendar(t, requestPath(t, s.Server, "PUT", path, "zone: UTC\n"), 200)
	if a := requestPath(t, s.Server, "DELETE", "/api/v1/rules/reply", ""); a.StatusCode != http.StatusNoContent {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	if a := requestPath(t, s.Server, "DELETE", path, ""); a.StatusCode != http.StatusNoContent {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

// overtakenStore runs another change before a save.
type overtakenStore struct {
	rules.Store
	first func()
}

func (o *overtakenStore) overtake() {
	if first := o.first; first != nil {
		o.first = nil
		first()
	}
}

func (o *overtakenStore) Save(ctx context.Context, v rules.RuleVersion, version int32) (rules.RuleVersion, error) {
	o.overtake()
	return o.Store.Save(ctx, v, version)
}

func (o *overtakenStore) SaveCalendar(ctx context.Context, c rules.CalendarVersion, change rules.CalendarChange) (rules.CalendarVersion, error) {
	o.overtake()
	return o.Store.SaveCalendar(ctx, c, change)
}

// A save with If-Match: * replaces any version, also one that was saved a moment ago, and creates nothing.
func TestAnyExistingVersionIsReplaced(t *testing.T) {
	var calendars *rules.CalendarRegistry
	overtaken := &overtakenStore{}
	s := newFixture(t, func(o *web.Options, s *fixture) {
		overtaken.Store = s.store
		s.rules.Store, calendars = overtaken, o.Calendars.(*rules.CalendarRegistry)
		calendars.Store = overtaken
	})
	ctx := t.Context()
	for path, c := range map[string]struct {
		text         func(i string) string
		save, remove func() error
	}{
		"/api/v1/rules/paid": {
			func(i string) string { return strings.Replace(paidYAML, "after: 2h", "after: 2"+i+"m", 1) },
			func() error {
				_, err := s.rules.Save(ctx, []byte(strings.Replace(paidYAML, "after: 2h", "after: 9h", 1)), "paid", rules.SaveOptions{Version: rules.AnyVersion})
				return err
			},
			func() error { return s.rules.Delete(ctx, "paid", rules.AnyVersion, "") },
		},
		"/api/v1/calendars/office": {
			func(i string) string { return "zone: UTC # " + i + "\n" },
			func() error {
				_, _, err := calendars.Save(ctx, "office", "zone: Asia/Tokyo\n", rules.AnyVersion, false)
				return err
			},
			func() error { return calendars.Delete(ctx, "office", rules.AnyVersion) },
		},
	} {
		put := func(i string) answer { return requestPath(t, s.Server, "PUT", path, c.text(i), "If-Match", "*") }
		checkProblem(t, put("1"), 412, web.RuleConflict, "does not exist")
		failOn(t, c.save())
		overtaken.first = func() { failOn(t, c.save()); failOn(t, c.remove()); failOn(t, c.save()) }
		if a := put("2"); a.StatusCode != 200 {
			t.Errorf("%s is replaced after another save: %d %s", path, a.StatusCode, a.body)
		}
		overtaken.first = func() { failOn(t, c.remove()) }
		checkProblem(t, put("3"), 412, web.RuleConflict, "does not exist")
		checkProblem(t, requestPath(t, s.Server, "GET", path, ""), 404, web.NotFound)
	}
}
