package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"deadman/internal/doctor"
)

// The exit code is 3 if a check failed or could not be made, as on the database of a running node.
func TestDoctor(t *testing.T) {
	t.Parallel()
	env := []string{"DEADMAN_DATA_DIR=" + filepath.Join(t.TempDir(), "data")}
	runBinary(t, env, "doctor").check(t, []string{"doctor"}, exitOK, "heartbeat: no heartbeat is configured", "set DEADMAN_HEARTBEAT_URL", "3 warnings, 5 ok")
	runBinary(t, env, "doctor", "--all").check(t, []string{"doctor", "--all"}, exitOK, "database schema: none yet", "broker: embedded")
	runBinary(t, append(env, "DEADMAN_CALENDARS=none.yaml"), "doctor").check(t, []string{"doctor"}, exitCondition, "calendars file: ", "none.yaml", "1 failed")

	channels := filepath.Join(t.TempDir(), "notify.yaml")
	if err := os.WriteFile(channels, []byte("channels: {a: {kind: alertmanager, url: 'http://am:9093'}}\nroutes: [{to: b}, {to: a, severity: loud}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	runBinary(t, append(env, "DEADMAN_NOTIFY="+channels), "doctor").check(t, []string{"doctor"}, exitCondition,
		"did you mean \"a\"?\n         "+channels+":2:37: routes[1].severity: \"loud\" is no severity")

	n := startNode(t, "")
	got := runBinary(t, []string{"DEADMAN_DATA_DIR=" + n.dir}, "doctor", "-o", "json")
	var report struct {
		State    doctor.State     `json:"state"`
		Findings []doctor.Finding `json:"findings"`
	}
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || got.code != exitCondition || report.State != doctor.Unknown {
		t.Fatalf("beside a running node: %v: %+v", err, got)
	}
	var unknown []string
	for _, f := range report.Findings {
		if f.State == doctor.Unknown {
			unknown = append(unknown, f.Check)
		}
	}
	if slices.Sort(unknown); !slices.Equal(unknown, []string{"database", "rules"}) {
		t.Errorf("unknown are %q of %+v", unknown, report.Findings)
	}
}
