package web_test

import (
	"strings"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/web"
)

const silentRule = `name: device-silent
entity: device
trigger: {heartbeat: {event: devices.*.beat, key: wildcard(1), every: 10m}}
slot: 1s
escalate:
  - {after: 0s, step: first, text: "{{key}} is silent"}
  - {after: 1h, step: second}
`

// unlimitedHold is the hold time of a missing heartbeat.
const unlimitedHold = 3650 * 24 * time.Hour

// TestNoCheckBeforeEvent checks that a missing heartbeat has no next check after the last step until it arrives, and
// that no check years away is shown. With a limited hold, the next check is at its end.
func TestNoCheckBeforeEvent(t *testing.T) {
	for name, c := range map[string]struct {
		rule  string
		steps []time.Duration // until the next check after each
		none  bool
	}{
		"all said":          {silentRule, []time.Duration{time.Hour, unlimitedHold}, true},
		"a step is left":    {silentRule, []time.Duration{time.Hour}, false},
		"nothing said":      {strings.Replace(silentRule, "10m", "3000d", 1), nil, false},
		"checked before":    {silentRule, []time.Duration{time.Hour, 24 * time.Hour}, false},
		"held for a time":   {silentRule + "hold: 90d\n", []time.Duration{time.Hour, 90 * 24 * time.Hour}, false},
		"held for a decade": {strings.Replace(unshippedRule, "slot", "hold: 3650d\nslot", 1), []time.Duration{time.Hour, unlimitedHold}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t)
			s.saveRule(c.rule)
			s.readStream(c.rule)
			s.createJob("a", 3000*24*time.Hour, `{}`)
			for i, next := range c.steps {
				s.alert("a", strings.Repeat("!", i+1), next)
			}
			path := "/api/v1/jobs/" + s.rule.Name
			entity := get[web.Entity](t, s.Server, "/api/v1/entities/"+s.rule.Entity+"/a")
			for where, j := range map[string]web.Job{
				"the job": get[web.Job](t, s.Server, path+"/a"), "the jobs": get[web.Page[web.Job]](t, s.Server, "/api/v1/jobs?rule="+s.rule.Name).Items[0],
				"the entity": entity.Jobs.Items[0],
			} {
				if j.NextCheckAt.IsZero() != c.none {
					t.Errorf("%s is checked at %s", where, j.NextCheckAt)
				}
			}
			if trail := entity.Jobs.Items[0].Trail; len(trail) > 0 && trail[len(trail)-1].NoNextCheck != c.none {
				t.Errorf("the last entry is %+v", trail[len(trail)-1])
			}
			if jobs := s.ruleJobCounts(); jobs.NextCheckAt.IsZero() != c.none {
				t.Errorf("a job of the rule is checked at %s", jobs.NextCheckAt)
			}
			for page, wantText := range map[string]string{
				"/entities/" + s.rule.Entity + "?key=a": "no check scheduled until an event arrives", "/jobs": ">waits for an event<", "/": "No check is scheduled.",
			} {
				if got := requestPath(t, s.Server, "GET", page, ""); got.StatusCode != 200 || strings.Contains(got.body, wantText) != c.none {
					t.Errorf("%s: %d, and the text is %q: %t", page, got.StatusCode, wantText, !c.none)
				}
			}
			if name != "all said" {
				return
			}
			listed, err := s.store.Job(t.Context(), s.rule.Name, "a")
			failOn(t, err)
			for i, next := range c.steps {
				listed.Trail = listed.Trail.With(futurejobs.Entry{Kind: futurejobs.Checked, At: s.now, Step: []string{"first", "second"}[i], Next: s.now.Add(next)}.Trail())
			}
			s.settle(futurejobs.Decision{Job: listed.Job})
			requestPath(t, s.Server, "DELETE", path+"/a", "")
			ended := get[web.Entity](t, s.Server, "/api/v1/entities/"+s.rule.Entity+"/a").History.Items[0]
			if len(ended.Trail) != 2 || ended.Trail[0].NoNextCheck || !ended.Trail[1].NoNextCheck || !ended.Trail[1].Next.IsZero() {
				t.Errorf("the trail of the ended job is %+v", ended.Trail)
			}
			if got := requestPath(t, s.Server, "GET", "/entities/"+s.rule.Entity+"?key=a", ""); !strings.Contains(got.body, "no further check until a signal arrives") {
				t.Errorf("the page of the ended job: %s", got.body)
			}
		})
	}
}

// readStream makes the fixture work by the rule of a text.
func (s *fixture) readStream(text string) {
	s.t.Helper()
	name, _, _ := strings.Cut(strings.TrimPrefix(text, "name: "), "\n")
	failOn(s.t, s.rules.Catalog.Refresh(s.t.Context()))
	newest, err := s.rules.Catalog.Newest(name)
	failOn(s.t, err)
	s.rule = newest.Engine()
}

// ruleJobCounts returns the job counts of the fixture's rule in the rule list, once they are available.
func (s *fixture) ruleJobCounts() web.RuleJobs {
	s.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for range time.Tick(10 * time.Millisecond) {
		for _, r := range get[web.Page[web.Rule]](s.t, s.Server, "/api/v1/rules").Items {
			if r.Name == s.rule.Name && r.Jobs != nil && r.Jobs.Pending > 0 {
				return *r.Jobs
			}
		}
		if time.Now().After(deadline) {
			s.t.Fatal("the jobs of the rule are not counted")
		}
	}
	return web.RuleJobs{}
}
