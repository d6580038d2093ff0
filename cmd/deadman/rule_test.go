package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"deadman/rules/document"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/rules"
	"deadman/web"
)

// applyOutput is the JSON output of rule apply.
type applyOutput struct {
	DryRun bool      `json:"dry_run"`
	Rules  []applied `json:"rules"`
}

// actions returns the action for each rule.
func (o applyOutput) actions() map[string]action {
	all := make(map[string]action)
	for _, r := range o.Rules {
		all[r.Name] = r.Action
	}
	return all
}

func ruleNamed(name string) string { return strings.Replace(goodRule, "order-unshipped", name, 1) }

func checkEqual[T any](t *testing.T, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestApply checks that apply saves only changed rules, and does nothing the second time.
func TestApply(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	dir := filepath.Join(t.TempDir(), "shop")
	writeFile(t, dir, "a.yaml", ruleNamed("a")+"---"+ruleNamed("b"))
	writeFile(t, dir, "inner/c.json", `{"name": "c", "entity": "order", "trigger": {"event": "orders.created", "key": "event.id"}, "escalate": [{"after": "1h", "step": "primary"}]}`)

	dry := readJSON[applyOutput](n, "rule", "apply", "-f", dir, "--dry-run")
	checkEqual(t, dry.actions(), map[string]action{"a": created, "b": created, "c": created})
	if !dry.DryRun || len(readJSON[web.Page[web.Rule]](n, "rule", "list").Items) != 0 {
		t.Errorf("a dry run is none: %+v", dry)
	}
	n.expect(0, []string{"rule", "apply", "-f", dir}, "created    a  version 1", "3 rules: 3 created")
	checkEqual(t, readJSON[applyOutput](n, "rule", "apply", "-f", dir).actions(), map[string]action{"a": unchanged, "b": unchanged, "c": unchanged})

	writeFile(t, dir, "a.yaml", strings.Replace(ruleNamed("a"), "after: 1h", "after: 2h", 1))
	n.expect(0, []string{"rule", "apply", "-f", dir, "--dry-run"}, "changed    a", "    -  - after: 1h", "    +  - after: 2h", "(dry run, no changes made)")
	again := readJSON[applyOutput](n, "rule", "apply", "-f", dir)
	checkEqual(t, again.actions(), map[string]action{"a": changed, "c": unchanged})
	if again.Rules[0].Version != 2 || again.Rules[0].Bundle != "file:shop" {
		t.Errorf("%+v", again.Rules[0])
	}
	if page := readJSON[web.Page[web.RuleVersion]](n, "rule", "versions", "a"); len(page.Items) != 2 || page.Items[0].Version != 2 {
		t.Errorf("%+v", page)
	}
}

// TestPrune checks that pruning deletes the rules of the bundle that no file contains, and no others.
func TestPrune(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	shop, other := filepath.Join(t.TempDir(), "shop"), filepath.Join(t.TempDir(), "other")
	file := writeFile(t, shop, "a.yaml", ruleNamed("a"))
	writeFile(t, shop, "b.yaml", ruleNamed("b"))
	writeFile(t, other, "c.yaml", ruleNamed("c"))
	n.mustRun("rule", "apply", "-f", shop, "-f", other)
	if got := n.run(ruleNamed("d"), "rule", "apply", "-f", "-"); got.code != 0 || !strings.Contains(got.out, "d  version 1  standard input") {
		t.Errorf("%+v", got)
	}
	if err := os.Remove(filepath.Join(shop, "b.yaml")); err != nil {
		t.Fatal(err)
	}

	checkEqual(t, readJSON[applyOutput](n, "rule", "apply", "-f", shop).actions(), map[string]action{"a": unchanged})
	n.expect(0, []string{"rule", "apply", "-f", shop, "--prune", "--dry-run"}, "deleted    b  version 1  file:shop", "(dry run, no changes made)")
	names := func() (names []string) {
		for _, r := range readJSON[web.Page[web.Rule]](n, "rule", "list").Items {
			names = append(names, r.Name)
		}
		return names
	}
	checkEqual(t, names(), []string{"a", "b", "c", "d"})
	n.expect(2, []string{"rule", "apply", "-f", shop, "--prune"}, "would delete 1 rule", "(b)", "--yes")
	checkEqual(t, names(), []string{"a", "b", "c", "d"})
	checkEqual(t, readJSON[applyOutput](n, "rule", "apply", "-f", shop, "--prune", "--yes").actions(), map[string]action{"a": unchanged, "b": deleted})
	checkEqual(t, names(), []string{"a", "c", "d"})

	n.expect(2, []string{"rule", "apply", "-f", file, "--prune"}, "--prune requires folders", "--bundle")
	n.expect(2, []string{"rule", "apply", "-f", "-", "--prune"}, "--prune requires folders")
	checkEqual(t, readJSON[applyOutput](n, "rule", "apply", "-f", filepath.Join(other, "c.yaml"), "--bundle", "file:other", "--prune").actions(), map[string]action{"c": unchanged})
	checkEqual(t, names(), []string{"a", "c", "d"})
}

// TestApplyIsWholeOrNothing checks that no rule is changed if one is refused, by the program or by the node, and that
// all errors are reported.
func TestApplyIsWholeOrNothing(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	shop, other := filepath.Join(t.TempDir(), "shop"), filepath.Join(t.TempDir(), "other")
	writeFile(t, shop, "a.yaml", ruleNamed("a"))
	n.mustRun("rule", "apply", "-f", shop)

	writeFile(t, other, "0.yaml", ruleNamed("new"))
	file := writeFile(t, other, "a.yaml", strings.Replace(ruleNamed("a"), "entity: order", "entity: parcel", 1))
	bad := writeFile(t, other, "bad.yaml", strings.Replace(ruleNamed("bad"), "entity", "entitty", 1))
	n.expect(3, []string{"rule", "apply", "-f", other}, bad+":3:", "entitty", "2 errors")
	if err := os.Remove(bad); err != nil {
		t.Fatal(err)
	}
	n.expect(1, []string{"rule", "apply", "-f", other}, file+": a: ", "file:shop", "adopt")

	calendar := writeFile(t, other, "z.yaml", strings.Replace(ruleNamed("z"), "after: 1h,", "after: 1h, of: ofice,", 1))
	n.expect(1, []string{"rule", "apply", "-f", other}, file, calendar+": z: escalate[0].of: ", "ofice", "2 errors")
	if page := readJSON[web.Page[web.Rule]](n, "rule", "list"); len(page.Items) != 1 || page.Items[0].Version != 1 {
		t.Errorf("something was changed: %+v", page)
	}
	var lint struct{ Problems document.Problems }
	got := n.run("", "rule", "apply", "-f", calendar, "-o", "json")
	if err := json.Unmarshal([]byte(got.out), &lint); err != nil || got.code != 3 || len(lint.Problems) != 1 || lint.Problems[0].Pointer != "/escalate/0/of" {
		t.Errorf("%v: %+v", err, got)
	}
}

// TestApplyAdoptsAndBackfills checks that a rule of another folder is taken over on request, and that past
// events of streams are counted and then processed.
func TestApplyAdoptsAndBackfills(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	shop, other := filepath.Join(t.TempDir(), "shop"), filepath.Join(t.TempDir(), "other")
	writeFile(t, shop, "a.yaml", ruleNamed("a"))
	n.mustRun("rule", "apply", "-f", shop)
	writeFile(t, other, "a.yaml", ruleNamed("a"))
	n.expect(1, []string{"rule", "apply", "-f", other}, "file:shop")
	n.expect(0, []string{"rule", "apply", "-f", other, "--adopt"}, "changed    a  version 2")
	if page := readJSON[web.Page[web.Rule]](n, "rule", "list"); len(page.Items) != 1 || page.Items[0].Bundle != "file:other" {
		t.Errorf("adopted: %+v", page)
	}

	for _, id := range []string{"1", "2", "3"} {
		n.mustRun("event", "send", "orders.created", `{"id": "`+id+`"}`)
	}
	writeFile(t, other, "late.yaml", ruleNamed("late"))
	n.expect(0, []string{"rule", "apply", "-f", other, "--backfill", "1h", "--dry-run"}, "created    late", "3 jobs from past events")
	n.expect(0, []string{"rule", "apply", "-f", other, "--backfill", "1h"}, "3 jobs from past events")
	if page := readJSON[web.Page[web.Job]](n, "job", "list", "--rule", "late"); len(page.Items) != 3 {
		t.Errorf("%d wait, want 3", len(page.Items))
	}
	n.expect(2, []string{"rule", "apply", "-f", other, "--backfill", "tomorrow"}, "--backfill", "invalid time")
	n.expect(2, []string{"rule", "apply", "-f", other, "--raise-past"}, "--raise-past needs --backfill")
	past := filepath.Join(t.TempDir(), "past")
	writeFile(t, past, "b.yaml", strings.Replace(ruleNamed("b"), "orders.created, key: event.id", "orders.created, key: event.id, since: event.at", 1))
	n.mustRun("event", "send", "orders.created", `{"id": "4", "at": "`+time.Now().Add(-24*time.Hour).UTC().Format(time.RFC3339)+`"}`)
	n.expect(0, []string{"rule", "apply", "-f", past, "--backfill", "1h", "--dry-run"}, "1 job from past events, 1 of them skips steps that were due before")
	n.expect(0, []string{"rule", "apply", "-f", past, "--backfill", "1h"}, "1 job from past events, 1 of them skips steps that were due before")
	n.expect(0, []string{"explain", "order", "4"}, "past steps skipped: ")
	n.expect(0, []string{"rule", "apply", "-f", past, "--backfill", "1s"}, "unchanged  b  version 1  0 jobs from past events")
	writeFile(t, past, "b.yaml", ruleNamed("b"))
	if dry := n.mustRun("rule", "apply", "-f", past, "--backfill", "1s", "--dry-run"); !strings.HasPrefix(dry, "changed    b  ") || !strings.Contains(dry, " from past events") || strings.Contains(dry, "b  version") {
		t.Errorf("a dry run of a change: %s", dry)
	}
}

func TestApplyUsage(t *testing.T) {
	t.Parallel()
	file := writeFile(t, t.TempDir(), "a.yaml", goodRule)
	env := []string{"DEADMAN_URL=http://" + stoppedNode}
	for _, c := range []struct {
		code  int
		args  []string
		parts []string
	}{
		{2, nil, []string{"requires a file"}},
		{2, []string{"-f", "/nowhere"}, []string{"/nowhere"}},
		{2, []string{"-f", file, "--apply-to", "all"}, []string{`--apply-to is "all"`, "new or pending"}},
		{1, []string{"-f", file}, []string{"cannot reach", "DEADMAN_URL"}},
	} {
		args := append([]string{"rule", "apply"}, c.args...)
		runInProcess(t, "", env, args...).check(t, args, c.code, c.parts...)
	}
}

// TestRuleVerbs checks the commands on one rule.
func TestRuleVerbs(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	n.expect(0, []string{"rule", "list"}, "no rules; write a first one with deadman rule new")
	file := writeFile(t, filepath.Join(t.TempDir(), "shop"), "rule.yaml", goodRule)
	n.mustRun("rule", "apply", "-f", filepath.Dir(file)) // from then on the single file is in its bundle, too
	writeFile(t, filepath.Dir(file), "rule.yaml", strings.Replace(goodRule, "after: 1h", "after: 2h", 1))
	n.mustRun("job", "create", "order-unshipped", "7", "--event", `{"id": "7"}`)
	n.expect(0, []string{"rule", "apply", "-f", file, "--apply-to", "pending"}, "version 2  1 pending job moved")
	if j := readJSON[web.Job](n, "job", "get", "order-unshipped", "7"); j.RuleVersion != 2 {
		t.Errorf("the job goes by version %d", j.RuleVersion)
	}

	text := n.mustRun("rule", "get", "order-unshipped")
	if d, err := rules.Parse([]byte(text), "printed"); err != nil || d[0].Escalate[0].After.String() != "2h" {
		t.Errorf("what is printed is no rule: %v\n%s", err, text)
	}
	if d := readJSON[document.Document](n, "rule", "get", "order-unshipped", "--version", "1"); d.Escalate[0].After.String() != "1h" {
		t.Errorf("version 1 is %+v", d)
	}
	n.expect(1, []string{"rule", "get", "order-unshipped", "--version", "3"}, "no version 3")
	n.expect(1, []string{"rule", "get", "absent"}, "absent", "not found")
	n.expect(0, []string{"rule", "diff", "order-unshipped", "1", "2"}, "-  - after: 1h\n", "+  - after: 2h\n")
	n.expect(0, []string{"rule", "diff", "order-unshipped", "2", "2"}, "no differences")
	n.expect(1, []string{"rule", "diff", "order-unshipped", "1", "two"}, "query.to")
	n.expect(0, []string{"rule", "versions", "order-unshipped"}, "VERSION", "file:shop")

	n.expect(0, []string{"rule", "pause", "order-unshipped"}, "creates no new jobs")
	n.expect(0, []string{"rule", "list"}, "paused")
	if r := readJSON[web.Rule](n, "rule", "resume", "order-unshipped"); !r.PausedAt.IsZero() {
		t.Errorf("%+v", r)
	}
	n.expect(0, []string{"rule", "list", "--paused", "false"}, "enabled", "orders.created orders.shipped")
	n.mustRun("rule", "pause", "order-unshipped")
	n.expect(2, []string{"rule", "resume"}, "requires a RULE, or filters")
	n.expect(2, []string{"rule", "resume", "order-unshipped", "--all"}, "requires a RULE, or filters")
	n.expect(0, []string{"rule", "resume", "--prefix", "order-*", "--reason", "cost"}, "no rule of the selection is paused")
	n.expect(0, []string{"rule", "resume", "--prefix", "order-*"}, "resumed: 1 rule: order-unshipped")
	if r := readJSON[web.Resumed](n, "rule", "resume", "--all"); r.Resumed != 0 || r.Rules == nil {
		t.Errorf("%+v", r)
	}

	n.expect(1, []string{"rule", "delete", "order-unshipped"}, "file:shop")
	n.expect(0, []string{"rule", "delete", "order-unshipped", "--bundle", "file:shop"}, "deleted: rule order-unshipped")
	n.expect(1, []string{"rule", "delete", "order-unshipped", "-o", "json"}, "not found")
}

// TestApplyReportsUnreadSubjects checks that apply reports the part of a wildcard that streams do not take in.
func TestApplyReportsUnreadSubjects(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	js := bustest.JetStream(t, bustest.LogIn(t, n.dir, n.at.NATS, bus.UserAdmin))
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "SHOP", Subjects: []string{"orders.*"}}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := writeFile(t, dir, "a.yaml", strings.Replace(ruleNamed("a"), "orders.created", "orders.>", 1)+"---"+ruleNamed("b"))
	const note = "note: streams cover only part of subject orders.>: orders.*"
	n.expect(0, []string{"rule", "apply", "-f", file, "--dry-run"}, note, "2 created (dry run")
	n.expect(0, []string{"rule", "apply", "-f", file}, note, "2 created")
	received := []web.PartialSubject{{Subject: "orders.>", Covered: []string{"orders.*"}}}
	all := readJSON[applyOutput](n, "rule", "apply", "-f", file).Rules
	if len(all) != 2 {
		t.Fatalf("%+v", all)
	}
	checkEqual(t, all[0].Partly, received)
	checkEqual(t, all[1].Partly, nil)
}
