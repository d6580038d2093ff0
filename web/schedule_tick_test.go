package web_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/web"
)

// endSchedules stores schedules of report-due with a due tick, by their delay, and deletes them: their ticks are canceled.
func (s *fixture) endSchedules(late map[string]time.Duration) {
	s.t.Helper()
	rule, err := s.rules.Get(s.t.Context(), "report-due")
	failOn(s.t, err)
	for id, by := range late {
		_, err := s.store.PutSchedules(s.t.Context(), []futurejobs.Schedule{{RuleID: rule.RuleID, ID: id, Text: "@daily", Enabled: true, NextAt: s.now.Add(-by)}}, nil)
		failOn(s.t, err)
		_, err = s.store.PutSchedules(s.t.Context(), nil, []futurejobs.ScheduleRef{{RuleID: rule.RuleID, ID: id}})
		failOn(s.t, err)
	}
}

// TestTicksOfRule checks that the ticks of all schedules of a rule are listed in pages and by each filter, also those of
// deleted schedules and of a deleted rule.
func TestTicksOfRule(t *testing.T) {
	s := newScheduleFixture(t)
	s.endSchedules(map[string]time.Duration{"a": time.Hour, "b": time.Minute, "c/1": 24 * time.Hour})
	s.putSchedule(201, reportPath+"/new", `{"schedule": "@daily"}`)
	listed := func(query string) (ids []string) {
		t.Helper()
		for next := ""; ; {
			page := get[web.Page[web.ScheduleTick]](t, s.Server, reportPath+"/ticks?limit=1&"+query+"&cursor="+url.QueryEscape(next))
			for _, tick := range page.Items {
				ids = append(ids, tick.ID)
			}
			if next = page.Next; next == "" {
				return ids
			}
		}
	}
	all := []string{"b", "a", "c/1"}
	hourAgo := s.now.Add(-time.Hour).Format(time.RFC3339)
	filters := map[string][]string{
		"": all, "outcome=canceled": all, "outcome=failed": nil, "outcome=emitted": nil, "late=1h": all[1:], "late=2d": nil, "missed=true": nil,
		"from=" + hourAgo: all[:2], "to=" + hourAgo: all[2:], "id=c/1": all[2:], "id=c/1&outcome=failed": nil, "id=a&late=2h": nil, "id=new": nil,
	}
	for query, want := range filters {
		if got := listed(query); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", query, got, want)
		}
	}
	checkProblem(t, requestPath(t, s.Server, "GET", reportPath+"/ticks?id=customer-1", ""), 404, web.NotFound, "schedule customer-1 of rule report-due", "deadman schedule list report-due")
	checkProblem(t, requestPath(t, s.Server, "GET", reportPath+"/none/ticks?outcome=failed", ""), 404, web.NotFound, "schedule none")
	if a := requestPath(t, s.Server, "DELETE", "/api/v1/rules/report-due", ""); a.StatusCode >= 300 {
		t.Fatal(a.body)
	}
	for _, query := range []string{"", "outcome=canceled", "id=c/1"} {
		if got := listed(query); !slices.Equal(got, filters[query]) {
			t.Errorf("of the deleted rule, %q: %v", query, got)
		}
	}
	if got := get[web.Page[web.Tick]](t, s.Server, "/api/v1/rules/report-due/ticks"); len(got.Items) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestTickFilters checks that an empty span of time and an invalid delay are refused, with the place and the remedy.
func TestTickFilters(t *testing.T) {
	s := newScheduleFixture(t)
	for query, want := range map[string][2]string{
		"from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z": {"query.to", "2026-01-01T00:00:00Z is not after from, 2026-01-02T00:00:00Z; swap them"},
		"from=2026-01-02T00:00:00Z&to=2026-01-02T00:00:00Z": {"query.to", "leave one out"},
		"late=10":    {"query.late", "such as 10s"},
		"late=500ms": {"query.late", "at least one second"},
	} {
		for _, path := range []string{reportPath + "/ticks", reportPath + "/a/ticks", "/api/v1/rules/order-unshipped/ticks"} {
			p := checkProblem(t, requestPath(t, s.Server, "GET", path+"?"+query, ""), 400, web.BadRequest, want[1])
			if len(p.Errors) != 1 || p.Errors[0].Location != want[0] {
				t.Errorf("%s: %s", query, fmt.Sprint(p.Errors))
			}
		}
	}
}
