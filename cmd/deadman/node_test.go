package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	"deadman/internal/testwait"
	"deadman/server"
	"deadman/web"
)

// quickRule is the sample rule with times short enough for a test.
const quickRule = `
name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id, since: event.placed_at}
resolve:
  - {event: orders.shipped, key: event.id}
  - {event: orders.changed, key: event.id, if: event.status == "CANCELLED", as: cancelled}
escalate:
  - {after: 6s, step: primary, severity: warning, text: "order {{key}} is not shipped"}
  - {after: 8s, step: escalated, severity: critical}
slot: 1s
hold: 1h
`

// node is a node in its own process.
type node struct {
	dir  string
	args []string
	cmd  *exec.Cmd
	log  *bytes.Buffer
}

// startNode runs a node with the rules in a fresh data folder, or without rules if empty.
func startNode(t *testing.T, rules string) *node {
	t.Helper()
	return startNodeFlags(t, rules)
}

func startNodeFlags(t *testing.T, rules string, flags ...string) *node {
	t.Helper()
	n := &node{dir: t.TempDir()}
	n.args = []string{"serve", "--data-dir", n.dir, "--nats-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"}
	n.args = append(n.args, flags...)
	if rules != "" {
		n.args = append(n.args, "--rules", filepath.Dir(writeFile(t, t.TempDir(), "rules/rule.yaml", rules)))
	}
	n.start(t)
	t.Cleanup(func() {
		if n.cmd.ProcessState == nil {
			n.stop(t)
		}
	})
	return n
}

func (n *node) start(t *testing.T) {
	t.Helper()
	n.log = new(bytes.Buffer)
	n.cmd = command(context.WithoutCancel(t.Context()), t, nil, n.args...)
	n.cmd.Stdout, n.cmd.Stderr = n.log, n.log
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the node serves", func() bool {
		_, err := os.Stat(filepath.Join(n.dir, "endpoints.json"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return err == nil
	})
	if i := slices.Index(n.args, "--http-addr"); n.args[i+1] == "127.0.0.1:0" { // clients expect a restarted node there
		n.args[i+1] = strings.TrimPrefix(endpointsOf(t, n).HTTP, "http://")
	}
}

// endpointsOf returns the endpoints of an embedded node.
func endpointsOf(t *testing.T, n *node) (at server.Endpoints) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(n.dir, "endpoints.json"))
	if err == nil {
		err = json.Unmarshal(data, &at)
	}
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// stop stops the node as an operator would.
func (n *node) stop(t *testing.T) {
	t.Helper()
	sendSignal(t, n.cmd, syscall.SIGTERM)
	if err := n.cmd.Wait(); err != nil {
		t.Errorf("the node does not stop well: %v\n%s", err, n.log)
	}
}

func sendSignal(t *testing.T, to *exec.Cmd, s os.Signal) {
	t.Helper()
	if err := to.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// env makes the client find the node by its data folder, as for users.
func (n *node) env() []string { return []string{"DEADMAN_DATA_DIR=" + n.dir} }

func (n *node) run(t *testing.T, args ...string) result {
	t.Helper()
	return runBinary(t, n.env(), args...)
}

// runJSON runs a command that must succeed and decodes its JSON output.
func runJSON[T any](t *testing.T, n *node, args ...string) T {
	t.Helper()
	got := n.run(t, append(args, "-o", "json")...)
	var v T
	if err := json.Unmarshal([]byte(got.out), &v); got.code != 0 || err != nil {
		t.Fatalf("%v: %v\n%+v", args, err, got)
	}
	return v
}

func TestDemo(t *testing.T) {
	t.Parallel()
	n := startNode(t, quickRule)
	got := n.run(t, "demo")
	if got.code != 0 {
		t.Fatalf("%+v\n%s", got, n.log)
	}
	for part, times := range map[string]int{
		" placed by ": 12, "shipped in time": 8, "cancelled by": 1, "shipped late": 1,
		"warning   order-unshipped": 3, "critical  order-unshipped": 2, "resolved  order-unshipped": 1, "done: 12 orders": 1,
	} {
		if found := strings.Count(got.out, part); found != times {
			t.Errorf("%q is there %d times, want %d", part, found, times)
		}
	}
	if t.Failed() {
		t.Log(got.out)
	}
	if page := runJSON[web.Page[web.EndedJob]](t, n, "history", "list"); len(page.Items) != 10 {
		t.Errorf("%d orders ended, want 10", len(page.Items))
	}
	if page := runJSON[web.Page[web.Job]](t, n, "job", "list"); len(page.Items) != 2 {
		t.Errorf("%d orders are watched on, want 2", len(page.Items))
	}
	part := runJSON[web.Page[web.Alert]](t, n, "alert", "list").Items[0].ID.String()[:4] // of all alerts
	if got := n.run(t, "alert", "get", part); got.code != 2 || !strings.Contains(got.err, "several alerts have ids that begin or end with "+part+"; give more characters of one of them:\n  "+part) || !strings.Contains(got.err, "rule order-unshipped, order ") {
		t.Errorf("an ambiguous id: %+v", got)
	}
}

// TestDemoWithoutRules checks that a node without rules gets the sample rule, and that the printed command removes
// it.
func TestDemoWithoutRules(t *testing.T) {
	t.Parallel()
	n := startNode(t, "")
	got := n.run(t, "demo")
	if got.code != 0 {
		t.Fatalf("%+v\n%s", got, n.log)
	}
	const way = " rule delete order-unshipped\n"
	for part, times := range map[string]int{way: 1, "warning   order-unshipped": 3, "critical  order-unshipped": 2, "resolved  order-unshipped": 1, "done: 12 orders": 1} {
		if found := strings.Count(got.out, part); found != times {
			t.Errorf("%q is there %d times, want %d:\n%s", part, found, times, got.out)
		}
	}
	if again := n.run(t, "rule", "delete", "order-unshipped", "--yes"); again.code != 0 {
		t.Errorf("%+v", again)
	}
}

// TestDemoWithOtherRules checks that a node with rules keeps them, and that the demo's advice works without a copy of
// the repository.
func TestDemoWithOtherRules(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ rule, wantText string }{
		"none takes orders": {strings.ReplaceAll(quickRule, "orders.", "parcels."), "no stream takes in"},
		"it takes hours":    {strings.NewReplacer("6s", "3h", "8s", "8h").Replace(quickRule), "first checks an order in "},
	} {
		n := startNode(t, c.rule)
		got := n.run(t, "demo")
		if got.code != 1 || !strings.Contains(got.err, c.wantText) || !strings.Contains(got.err, "/new-rule?from=order-unshipped") || strings.Contains(got.err, "examples/") {
			t.Errorf("%s: %+v", what, got)
		}
		if there := runJSON[web.Page[web.Rule]](t, n, "rule", "list"); len(there.Items) != 1 || there.Items[0].Version != 1 {
			t.Errorf("%s: the rules are %+v", what, there.Items)
		}
	}
}

// TestVerbs checks the commands from an event to its alert and resolution.
func TestVerbs(t *testing.T) {
	t.Parallel()
	n := startNode(t, quickRule)
	const key = "a/b \x1b[31m"
	order := func(key string) string {
		raw, err := json.Marshal(map[string]string{"id": key, "placed_at": "2020-01-01T00:00:00Z"})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	taken := runJSON[web.PublishResult](t, n, "event", "send", "orders.created", order(key), "--id", "1")
	known := taken
	known.Duplicate = true
	if again := runJSON[web.PublishResult](t, n, "event", "send", "orders.created", order(key), "--id", "1"); !cmp.Equal(again, known) || taken.Seq != 1 || taken.Duplicate {
		t.Errorf("an event and its repeat: %+v, %+v", taken, again)
	}
	file := writeFile(t, t.TempDir(), "event.json", "not JSON")
	if got := n.run(t, "event", "send", "orders.created", "@"+file); got.code != exitCondition || !strings.Contains(got.out, "message 2") {
		t.Errorf("%+v", got)
	}
	var raised web.Page[alerts.Alert]
	testwait.Until(t, "the alert is there", func() bool {
		raised = runJSON[web.Page[alerts.Alert]](t, n, "alert", "list", "--key", key)
		return len(raised.Items) == 1
	})
	if a := raised.Items[0]; a.Step != "escalated" || a.SkippedSteps[0] != "primary" || a.Key != key {
		t.Errorf("%+v", a)
	}
	testwait.Until(t, "the dead letter is there", func() bool {
		got := n.run(t, "dead-letter", "list")
		return strings.Contains(got.out, "not JSON") && strings.Contains(got.out, "orders.created")
	})
	for _, args := range [][]string{
		{"alert", "list"}, {"alert", "get", raised.Items[0].ID.String()}, {"job", "list", "--rule", "order-unshipped"}, {"job", "get", "order-unshipped", key},
	} {
		if got := n.run(t, args...); got.code != 0 || !strings.Contains(got.out, `a/b \x1b[31m`) || strings.Contains(got.out, "\x1b") {
			t.Errorf("%v: %+v", args, got)
		}
	}
	id := raised.Items[0].ID.String()
	if got := n.run(t, "alert", "ack", id, "--for", "2h", "--note", "I am on it"); got.code != 0 || !strings.Contains(got.out, "acknowledged   by loopback") || !strings.Contains(got.out, "\nuntil          20") {
		t.Errorf("%+v", got)
	}
	if got := n.run(t, "alert", "get", id); !strings.Contains(got.out, "note           I am on it") {
		t.Errorf("acknowledged: %+v", got)
	}
	if got := n.run(t, "job", "list", "--rule", "order-unshipped"); !strings.Contains(got.out, "ACKED") || !strings.Contains(got.out, "until 20") {
		t.Errorf("acknowledged: %+v", got)
	}
	short := id[len(id)-8:]
	if got := n.run(t, "alert", "list"); !strings.Contains(got.out, short) || strings.Contains(got.out, id) {
		t.Errorf("without a short id: %+v", got)
	}
	if got := n.run(t, "alert", "get", short); !strings.Contains(got.out, id) {
		t.Errorf("by a short id: %+v", got)
	}
	if got := n.run(t, "alert", "ack", strings.ToUpper(short)); got.code != 0 || !strings.Contains(got.out, "until          no end") {
		t.Errorf("%+v", got)
	}
	if got := n.run(t, "alert", "unack", short); got.code != 0 || strings.Contains(got.out, "\nacknowledged") {
		t.Errorf("%+v", got)
	}
	if got := n.run(t, "alert", "ack", "order-unshipped", key); got.code != 0 || !strings.Contains(got.out, "until          no end") {
		t.Errorf("by its job: %+v", got)
	}
	if got := n.run(t, "job", "list", "--rule", "order-unshipped"); !strings.Contains(got.out, "no end") {
		t.Errorf("acknowledged for good: %+v", got)
	}
	if got := n.run(t, "alert", "unack", id); got.code != 0 || strings.Contains(got.out, "\nacknowledged") {
		t.Errorf("%+v", got)
	}
	for _, c := range []struct{ args, want string }{
		{"groups", "1 critical"},
		{"ack --rule other --severity critical", "0 alerts acknowledged"},
		{"ack --rule order-unshipped --for 1h --note mine", "1 alert acknowledged"},
		{"groups --by severity", "critical 0 1"},
		{"list --open --acknowledged true", "acked"},
		{"list --open --acknowledged false", "no open alerts match these filters"},
		{"snooze " + id + " --for 1h", "snoozed until"},
		{"get " + id, "snoozed until 20"},
		{"list --open", "acked, snoozed"},
	} {
		if got := n.run(t, append([]string{"alert"}, strings.Fields(c.args)...)...); got.code != 0 || !strings.Contains(strings.Join(strings.Fields(got.out), " "), c.want) || strings.Contains(got.out, "-92233") {
			t.Errorf("alert %s: %+v, want %q", c.args, got, c.want)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		part string
	}{
		{[]string{"alert", "ack", id, "--for", "2h", "--until", "+2h"}, 2, "only one of --for and --until"},
		{[]string{"alert", "ack", id, "--for", "2 h"}, 2, "--for"},
		{[]string{"alert", "ack", "x"}, 2, "not an alert id"},
		{[]string{"alert", "ack", "019c0f5a-7d08-8000-9b1c-2f4a6c8e0b1d"}, 1, "not found"},
		{[]string{"alert", "ack", id[:9] + "ffff"}, 1, "no alert has an id that begins or ends with"},
		{[]string{"alert", "ack", "order-unshipped", "other"}, 1, "not found"},
		{[]string{"alert", "ack"}, 2, "or a filter such as --rule"},
		{[]string{"alert", "ack", id, "--rule", "order-unshipped"}, 2, "not both"},
		{[]string{"alert", "ack", "--all", "--rule", "order-unshipped"}, 2, "cannot be combined"},
		{[]string{"alert", "ack", "--label", "team"}, 2, "NAME=VALUE"},
		{[]string{"alert", "unack"}, 2, "requires ID"},
	} {
		if got := n.run(t, c.args...); got.code != c.code || !strings.Contains(got.err, c.part) {
			t.Errorf("%v: %+v", c.args, got)
		}
	}
	if got := n.run(t, "job", "list", "--limit", "501"); got.code != 2 || !strings.Contains(got.err, "500") {
		t.Errorf("over the limit: %+v", got)
	}
	if got := n.run(t, "job", "cancel", "order-unshipped", key); got.code != 0 || !strings.Contains(got.out, "cancelled") {
		t.Errorf("%+v", got)
	}
	if got := n.run(t, "job", "cancel", "order-unshipped", key); got.code != 1 || !strings.Contains(got.err, "not found") {
		t.Errorf("cancelled twice: %+v", got)
	}
	if got := n.run(t, "alert", "ack", id); got.code != 1 || !strings.Contains(got.err, "is over since") {
		t.Errorf("acknowledged once it is over: %+v", got)
	}
	if got := n.run(t, "history", "list"); !strings.Contains(got.out, "cancelled") {
		t.Errorf("%+v", got)
	}
}

// TestTail checks that a tail survives a restart of its node: it continues, prints the alerts of the gap, and repeats
// none.
func TestTail(t *testing.T) {
	t.Parallel()
	n := startNode(t, quickRule)
	place := func(key string) {
		runJSON[web.PublishResult](t, n, "event", "send", "orders.created", `{"id": "`+key+`", "placed_at": "2020-01-01T00:00:00Z"}`)
	}
	place("before")
	testwait.Until(t, "the alert is there", func() bool {
		return len(runJSON[web.Page[alerts.Alert]](t, n, "alert", "list").Items) == 1
	})

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tail := command(ctx, t, n.env(), "alert", "tail", "--backlog", "1", "-o", "json")
	out, err := tail.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tail.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	next := func() string {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("the tail ended: %v", lines.Err())
		}
		var a alerts.Alert
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		return a.Key
	}
	if key := next(); key != "before" {
		t.Errorf("the backlog is %s", key)
	}
	place("live")
	if key := next(); key != "live" {
		t.Errorf("then comes %s", key)
	}
	sendSignal(t, tail, syscall.SIGSTOP) // so that it does not reconnect too early
	n.stop(t)
	n.start(t)
	place("after")
	place("later")
	testwait.Until(t, "the alerts are there", func() bool {
		return len(runJSON[web.Page[alerts.Alert]](t, n, "alert", "list").Items) == 4
	})
	sendSignal(t, tail, syscall.SIGCONT)
	if missed := []string{next(), next()}; !slices.Contains(missed, "after") || !slices.Contains(missed, "later") {
		t.Errorf("after the node was away come %s", missed)
	}
	sendSignal(t, tail, os.Interrupt)
	if err := tail.Wait(); err != nil {
		t.Errorf("Ctrl-C is no good end: %v", err)
	}
}
