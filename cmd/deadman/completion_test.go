package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// completions returns the completions for the shell, and the line with the directive.
func completions(t *testing.T, env []string, args ...string) (words []string, directive string) {
	t.Helper()
	got := runInProcess(t, "", env, append([]string{"__completeNoDesc"}, args...)...)
	if got.code != 0 {
		t.Fatalf("%v: %+v", args, got)
	}
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	return lines[:len(lines)-1], lines[len(lines)-1]
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	n.mustRun("rule", "apply", "-f", writeFile(t, filepath.Join(t.TempDir(), "shop"), "rules.yaml", goodRule+"---"+ruleNamed("order-lost")+"---"+ruleNamed("payment")))
	absent := []string{"DEADMAN_URL=http://" + stoppedNode}
	const words, files, endings = ":4", ":0", ":8"
	for _, c := range []struct {
		env       []string
		args      []string
		want      []string
		directive string
	}{
		{n.env, []string{"rule", "get", ""}, []string{"order-lost", "order-unshipped", "payment"}, words},
		{n.env, []string{"rule", "get", "order-"}, []string{"order-lost", "order-unshipped"}, words},
		{n.env, []string{"rule", "get", "payment", ""}, nil, words},
		{n.env, []string{"job", "cancel", "p"}, []string{"payment"}, words},
		{n.env, []string{"history", "list", "--rule", "p"}, []string{"payment"}, words},
		{absent, []string{"rule", "get", ""}, nil, words},
		{[]string{"DEADMAN_URL=no"}, []string{"rule", "get", ""}, nil, words},
		{nil, []string{"alert", "list", "--severity", ""}, []string{"info", "warning", "error", "critical"}, words},
		{nil, []string{"alert", "list", "--status", ""}, []string{"firing", "resolved", "undetermined", "gave_up", "expired"}, words},
		{nil, []string{"token", "create", "x", "--scope", ""}, []string{"read", "events", "oncall", "rules", "admin"}, words},
		{nil, []string{"rule", "apply", "-f", ""}, []string{"yaml", "yml", "json"}, endings},
		{nil, []string{"rule", "lint", ""}, []string{"yaml", "yml", "json"}, endings},
		{nil, []string{"rule", "list", "-o", ""}, []string{"text", "json"}, words},
		{nil, []string{"replay", "-o", ""}, []string{"text", "json", "csv"}, words},
		{nil, []string{"version", ""}, nil, words},
		{nil, []string{"serve", "--config", ""}, []string{"yaml", "yml"}, endings},
		{nil, []string{"serve", "--data-dir", ""}, nil, ":16"},
		{nil, []string{"serve", "--nats-creds", ""}, nil, files},
		{nil, []string{"serve", "--log-format", ""}, []string{"auto", "text", "json"}, words},
	} {
		got, directive := completions(t, c.env, c.args...)
		if strings.Join(got, " ") != strings.Join(c.want, " ") || directive != c.directive {
			t.Errorf("%v: %q, %s; want %q, %s", c.args, got, directive, c.want, c.directive)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		runInProcess(t, "", nil, "completion", shell).check(t, []string{shell}, 0, "deadman")
	}
}
