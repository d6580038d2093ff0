package web_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"deadman/internal/access"
	"deadman/web"
)

// countHours moves the clock of the store by two hours, and counts the jobs that ended before.
func (s *fixture) countHours() {
	s.t.Helper()
	s.store.GoBy(func(reported time.Time) time.Time { return reported.Add(2 * time.Hour) })
	for {
		counted, err := s.store.CountOutcomeHour(s.t.Context())
		failOn(s.t, err)
		if !counted {
			return
		}
	}
}

// TestRuleStatistics checks the counts of jobs resolved in time and late, and the percentiles of the time they took, in each
// window.
func TestRuleStatistics(t *testing.T) {
	s := newFixture(t)
	const path = "/api/v1/rules/order-unshipped/statistics"
	if none := get[web.RuleStatistics](t, s.Server, path); !none.To.IsZero() || len(none.Items) != 0 || none.P50 != nil || none.Window != "day" {
		t.Errorf("nothing is counted: %+v", none)
	}
	created := s.now
	for i := range 20 { // started 1 to 20 hours ago; the last one is late
		s.now = created.Add(-time.Duration(i+1)*time.Hour - 2*time.Minute)
		key := fmt.Sprint(i)
		s.createJob(key, 48*time.Hour, `{}`)
		if i == 19 {
			s.alert(key, "it waits", 96*time.Hour)
		}
		s.resolve(key)
	}
	s.now = created
	s.createJob("pending", time.Hour, `{}`)
	s.countHours()
	for window, buckets := range map[string]int{"day": 24, "week": 7, "month": 30} {
		got := get[web.RuleStatistics](t, s.Server, path+"?window="+window)
		sum := web.StatisticsBucket{}
		for i, b := range got.Items {
			sum.InTime, sum.Late, sum.Never = sum.InTime+b.InTime, sum.Late+b.Late, sum.Never+b.Never
			if width := time.Duration(got.Bucket) * time.Second; !b.From.Equal(got.From.Add(time.Duration(i)*width)) || !got.From.Equal(got.From.Truncate(width)) {
				t.Errorf("%s: bucket %d begins at %s", window, i, b.From)
			}
		}
		if len(got.Items) != buckets || got.InTime != 19 || got.Late != 1 || got.Never != 0 || sum.InTime != 19 || sum.Late != 1 || sum.Never != 0 {
			t.Errorf("%s: %+v", window, got)
		}
		if end := got.From.Add(time.Duration(got.Bucket) * time.Second * time.Duration(buckets)); end.Before(got.To) || end.Sub(got.To) > 26*time.Hour {
			t.Errorf("%s: the buckets end at %s, and %s is counted", window, end, got.To)
		}
		if got.P50 == nil || *got.P50 != 10*3600 || *got.P95 != 19*3600 {
			t.Errorf("%s: the percentiles are %v and %v", window, got.P50, got.P95)
		}
		if got.To.Before(created) || got.CountedFrom.Before(got.From) || got.CountedFrom.After(got.To) {
			t.Errorf("%s: from %s to %s, counted from %s", window, got.From, got.To, got.CountedFrom)
		}
	}
	for query, want := range map[string]int64{"": 20, "&rule=order-unshipped": 20, "&entity=order": 20, "&entity=other": 0, "&rule=none": 0} {
		got := get[web.Statistics](t, s.Server, "/api/v1/history/statistics?window=month"+query)
		if got.InTime+got.Late+got.Never != want || got.To.IsZero() || len(got.Items) != 30 {
			t.Errorf("all rules, %s: %+v", query, got)
		}
	}
	s.waitForLastDay()
	if a := requestPath(t, s.Server, "GET", path+"?window=year", ""); a.StatusCode != 400 || !strings.Contains(a.body, "day, week, month") {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if a := requestPath(t, s.Server, "GET", "/api/v1/rules/none/statistics", ""); a.StatusCode != 404 {
		t.Errorf("an unknown rule: %d %s", a.StatusCode, a.body)
	}
}

// TestRuleStatisticsOfPrefix checks that a token with a prefix does not get the statistics of other rules.
func TestRuleStatisticsOfPrefix(t *testing.T) {
	s := newFixture(t, closedNode)
	others := s.newToken("theirs", "acme-*", access.Read)
	s.now = s.now.Add(-time.Hour)
	s.createJob("1", 48*time.Hour, `{}`)
	s.resolve("1")
	s.countHours()
	if got := decode[web.Statistics](t, requestPath(t, s.Server, "GET", "/api/v1/history/statistics", "", others...).body); got.To.IsZero() || got.InTime != 0 {
		t.Errorf("of the rules of the prefix: %+v", got)
	}
	if a := requestPath(t, s.Server, "GET", "/api/v1/rules/order-unshipped/statistics", "", others...); a.StatusCode != 403 && a.StatusCode != 404 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

// waitForLastDay waits until the list of rules has the jobs of TestRuleStatistics.
func (s *fixture) waitForLastDay() {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		day := get[web.Page[web.Rule]](s.t, s.Server, "/api/v1/rules").Items[0].LastDay
		if day != nil {
			inTime, late := int64(0), int64(0)
			for i := range day.InTime {
				inTime, late = inTime+day.InTime[i], late+day.Late[i]
			}
			if len(day.InTime) != 24 || inTime != 19 || late != 1 {
				s.t.Errorf("the last day has %+v", day)
			}
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatal("the list of rules has no last day")
		}
		<-time.NewTimer(50 * time.Millisecond).C
	}
}
