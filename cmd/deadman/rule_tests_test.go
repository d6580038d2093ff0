package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const lateTests = `
tests:
- name: a late order raises an alert
  events:
  - {at: 5m, subject: orders.created, data: {id: "1", customer: Ada}}
  until: 2h
  alerts: [{at: %s, key: "1", step: primary}]
`

// TestRuleTest runs tests of rules, and checks the exit codes and the forms of the output.
func TestRuleTest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rule := writeFile(t, dir, "order-unshipped.yaml", holdRule)
	tests := writeFile(t, dir, "order-unshipped.test.yaml", strings.Replace(lateTests, "%s", "1h15m", 1))
	writeFile(t, dir, "other.yaml", strings.Replace(holdRule, "name: order-unshipped", "name: other", 1))
	writeFile(t, dir, "package.json", `{"name": "not-a-rule"}`)
	run := func(code int, parts []string, args ...string) result {
		got := runInProcess(t, "", nil, append([]string{"rule", "test"}, args...)...)
		got.check(t, args, code, parts...)
		return got
	}
	run(0, []string{"ok    " + tests, "other.yaml  no tests", "1 test passed in ", "coverage 14 %"}, dir)
	run(0, []string{"ok    " + tests, "1 test passed"}, rule)
	run(3, []string{"less than --min-coverage 50"}, dir, "--min-coverage", "50")
	run(0, []string{"order-unshipped: step escalated never raises an alert", "order-unshipped: pause[0].if: event.status == \"ON_HOLD\" is never evaluated", "1/2"}, tests, "--coverage")
	run(2, []string{`no test has a name that contains "nothing"`}, dir, "--run", "nothing")
	run(2, []string{"--min-coverage: 101 is not a percentage"}, dir, "--min-coverage", "101")
	run(2, []string{"--min-coverage: NaN is not a percentage"}, dir, "--min-coverage", "NaN")
	run(2, []string{`--min-coverage: "abc" is not a number; see deadman rule test --help`}, dir, "--min-coverage", "abc")
	run(2, []string{`--min-coverage: "1e999" is out of range`}, dir, "--min-coverage", "1e999")
	run(2, []string{"other.yaml has no tests: ", "other.test.yaml does not exist"}, filepath.Join(dir, "other.yaml"))
	run(2, []string{"contains no tests of rules (*.test.yaml)"}, t.TempDir())
	run(2, []string{"no such file"}, filepath.Join(dir, "missing.yaml"))
	run(2, []string{"nowhere"}, dir, "--junit", filepath.Join(dir, "nowhere", "a.xml"))

	writeFile(t, dir, "order-unshipped.test.yaml", strings.Replace(lateTests, "%s", "1h5m", 1))
	wrong := writeFile(t, dir, "wrong.test.yaml", "tests:\n- nam: a\n")
	report := filepath.Join(dir, "report.xml")
	run(3, []string{
		"FAIL  " + tests, "a late order raises an alert", tests + ":7: 1 alert not as expected", "- [1h5m]   1    primary          line 7",
		"+ [1h15m]  1    primary  firing", "order-unshipped is checked each 15m only", wrong + ":2:3: tests[0].nam: unknown field \"nam\"; did you mean \"name\"?",
		"2 failed, 0 passed",
	}, dir, "--junit", report)
	if text, err := os.ReadFile(report); err != nil || !strings.Contains(string(text), `<testsuites name="deadman rule test" tests="2" failures="1" errors="1"`) {
		t.Errorf("%v %s", err, text)
	}
	got := run(3, nil, dir, "-o", "json")
	var read struct {
		Passed, Failed int
		Files          []struct {
			File     string
			Problems []string
			Tests    []struct {
				Name     string
				Failures []struct {
					Line        int
					Diff        struct{ Lines []struct{ Sign string } }
					Explanation []struct{ At, Kind, Text string }
				}
			}
		}
		Coverage struct {
			Percent float64
			Rules   []struct{ Rule string }
		}
	}
	if err := json.Unmarshal([]byte(got.out), &read); err != nil {
		t.Fatal(err)
	}
	if read.Failed != 2 || len(read.Files) != 2 || len(read.Files[1].Problems) == 0 || read.Coverage.Percent == 0 || len(read.Coverage.Rules) != 2 {
		t.Errorf("%+v", read)
	}
	if f := read.Files[0].Tests[0].Failures[0]; f.Line != 7 || len(f.Diff.Lines) != 2 || f.Explanation[0].Text != "orders.created starts the job; next check at 1h15m" {
		t.Errorf("%+v", f)
	}
}

// A rule whose tests cannot be read is not one without tests, and an error of a rule is shown once.
func TestRuleTestDoesNotMissUnreadTests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir, "a.yaml", strings.Replace(holdRule, "name: order-unshipped", "name: a", 1))
	writeFile(t, dir, "a.test.yaml", "tests: [{name: a, alertz: []}]")
	writeFile(t, dir, "b.yaml", "name: b\nentity: order\ntriggr: 1\n")
	writeFile(t, dir, "b.test.yaml", strings.Replace(lateTests, "%s", "1h15m", 1))
	writeFile(t, dir, "c.yaml", strings.Replace(holdRule, "name: order-unshipped", "name: c", 1))
	got := runInProcess(t, "", nil, "rule", "test", dir)
	got.check(t, nil, 3, `did you mean "alerts"?`, "c.yaml  no tests", "2 failed, 0 passed")
	if strings.Count(got.out, "no tests") != 1 || strings.Count(got.out, `field "triggr"`) != 1 {
		t.Errorf("it prints\n%s", got.out)
	}
}

// A file of tests is no file of rules.
func TestTestFilesAreNoRuleFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir, "order-unshipped.yaml", holdRule)
	tests := writeFile(t, dir, "order-unshipped.test.yaml", "tests: []\n")
	runInProcess(t, "", nil, "rule", "lint", dir).check(t, nil, 0, "1 rule in 1 file: no errors")
	runInProcess(t, "", nil, "rule", "lint", tests).check(t, nil, 2, tests+" has tests, not rules; run them with deadman rule test")
}

// Tests, replays and previews have the alert of a run that starts too often, because they run the engine.
func TestTooOftenWithoutNode(t *testing.T) {
	t.Parallel()
	const reason = "host photos: run r2 started 3m after the previous run, less than 10m"
	dir := t.TempDir()
	rule := writeFile(t, dir, "backup.yaml", "name: backup\nentity: host\ntrigger: {heartbeat: {event: backups, key: event.id, kind: event.kind, run: event.run, every: 1h, too_often: 10m, keys: [photos]}}\n")
	writeFile(t, dir, "backup.test.yaml", `tests:
- name: a second run raises an alert
  events:
  - {at: 0s, subject: backups, data: {id: photos, kind: start, run: r1}}
  - {at: 3m, subject: backups, data: {id: photos, kind: start, run: r2}}
  until: 30m
  alerts: [{at: 4m, key: photos, text: "`+reason+`"}]
`)
	args := []string{"rule", "test", dir}
	runInProcess(t, "", nil, args...).check(t, args, 0, "1 test passed")
	code, text, _ := replayCLI(t, `{"subject": "backups", "time": "2026-03-02T10:00:00Z", "data": {"id": "photos", "kind": "start", "run": "r1"}}
{"subject": "backups", "time": "2026-03-02T10:03:00Z", "data": {"id": "photos", "kind": "start", "run": "r2"}}
{"subject": "backups", "time": "2026-03-02T10:05:00Z", "data": {"id": "photos", "kind": "success", "run": "r2"}}
`, "-f", rule, "--events", "-")
	if code != 0 || !strings.Contains(text, reason) || strings.Contains(text, "recovered") {
		t.Errorf("the replay has %d\n%s", code, text)
	}
	got := runPreview(t, rule, "--then", `ping={"key": "photos", "kind": "start", "run": "r1"}@+30m`, "--then", `ping={"key": "photos", "kind": "start", "run": "r2"}@+33m`)
	if got.code != 0 || !strings.Contains(got.out, reason) {
		t.Errorf("the preview has %+v", got)
	}
}
