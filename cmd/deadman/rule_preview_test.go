package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"deadman/rules"
	"deadman/server"
)

// holdRule is a rule with all features of a preview.
const holdRule = `
name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
pause: {event: orders.changed, key: event.id, if: event.status == "ON_HOLD"}
escalate:
  - {after: 1h, step: primary, severity: warning, text: "order {{key}} of {{event.customer}} is not shipped"}
  - {after: 3h, step: escalated, severity: critical}
slot: 15m
hold: 1d
labels: {team: fulfilment}
`

// runPreview returns the output of a preview of the rule in the file.
func runPreview(t *testing.T, file string, args ...string) result {
	t.Helper()
	return runInProcess(t, "", nil, append([]string{"rule", "preview", "-f", file, "--at", "2026-01-31T10:05:00Z"}, args...)...)
}

const ada = `{"id": "1", "customer": "Ada"}`

func TestPreview(t *testing.T) {
	t.Parallel()
	file := writeFile(t, t.TempDir(), "rule.yaml", holdRule)
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"to the end", []string{"--event", ada}, 0, `
order-unshipped  job for 1, started 2026-01-31 10:05:00 UTC

  Saturday, 31 January 2026
  10:05:00            ┌ starts        orders.created
                      │               first check at 11:15:00
  11:15:00    +1h10m  ├ warning       primary
                      │               order 1 of Ada is not shipped
                      │               team: fulfilment
  13:15:00    +3h10m  ├ critical      escalated
                      │               no orders.shipped for order 1 within 3h of orders.created
                      │               team: fulfilment
                      │
  Sunday, 1 February 2026
  13:15:00  +1d3h10m  └ ends          exhausted
`},
		{"paused, then shipped", []string{
			"--event", ada, "--then", "orders.shipped@+6h", "--then", `orders.changed={"id":"1","status":"OK"}@+4h`,
			"--then", `orders.changed={"id":"1","status":"ON_HOLD"}@+90m`,
		}, 0, `
order-unshipped  job for 1, started 2026-01-31 10:05:00 UTC

  Saturday, 31 January 2026
  10:05:00          ┌ starts        orders.created
                    │               first check at 11:15:00
  11:15:00  +1h10m  ├ warning       primary
                    │               order 1 of Ada is not shipped
                    │               team: fulfilment
  11:35:00  +1h30m  ├ event         orders.changed
                    │               paused
  14:05:00     +4h  ├ event         orders.changed
                    │               next check at 15:45:00
  15:45:00  +5h40m  ├ critical      escalated
                    │               no orders.shipped for order 1 within 3h of orders.created
                    │               team: fulfilment
  16:05:00     +6h  ├ resolved      escalated
                    │               order 1: resolved after 6h
                    │               team: fulfilment
  16:05:00     +6h  └ ends          resolved
`},
		{"not to the end", []string{"--event", ada, "--until", "+2h"}, 0, `
order-unshipped  job for 1, started 2026-01-31 10:05:00 UTC

  Saturday, 31 January 2026
  10:05:00          ┌ starts        orders.created
                    │               first check at 11:15:00
  11:15:00  +1h10m  ├ warning       primary
                    │               order 1 of Ada is not shipped
                    │               team: fulfilment
                    ┊ still pending at the end of the preview
`},
		{"a dead letter", []string{"--event", `{"customer": "Ada"}`}, 3, `
order-unshipped  no event triggers a job: it would become a dead letter
dead letter  orders.created at 2026-01-31T10:05:00Z: trigger: key event.id: expected text or a number, not a missing value
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := runPreview(t, file, c.args...)
			if got.code != c.code || got.err != "" {
				t.Errorf("%+v", got)
			}
			compareText(t, got.out, c.want)
		})
	}
}

func TestPreviewUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := writeFile(t, dir, "rule.yaml", holdRule)
	several := writeFile(t, dir, "several.yaml", holdRule+"---"+goodRule[:1]+strings.Replace(goodRule[1:], "order-unshipped", "other", 1))
	office := writeFile(t, dir, "office.yaml", strings.Replace(holdRule, "after: 1h,", "after: 1h, of: office,", 1))
	known := writeFile(t, dir, "calendars.yaml", "calendars:\n  office: {zone: UTC, days: mon-fri, hours: \"09:00-17:00\"}\n")
	own := writeFile(t, dir, "own.yaml", strings.Replace(holdRule, "after: 1h,", "after: 1h, of: office,", 1)+"calendars: {office: {zone: UTC, days: mon-fri, hours: \"09:00-17:00\"}}\n")
	bad := writeFile(t, dir, "bad.yaml", strings.Replace(holdRule, "entity", "entitty", 1))
	for _, c := range []struct {
		code  int
		args  []string
		parts []string
	}{
		{2, []string{}, []string{"-f FILE", "--rule"}},
		{2, []string{"-f", file}, []string{"--event is required"}},
		{2, []string{"-f", "-", "--event", "-"}, []string{"cannot both read standard input"}},
		{2, []string{"-f", file, "--event", "{"}, []string{"--event: {", "not valid JSON"}},
		{2, []string{"-f", file, "--event", "{}", "--at", "soon"}, []string{"--at"}},
		{2, []string{"-f", file, "--event", "{}", "--until", "soon"}, []string{"--until"}},
		{2, []string{"-f", file, "--event", "{}", "--then", "orders.shipped"}, []string{"--then: orders.shipped has no time"}},
		{2, []string{"-f", file, "--event", "{}", "--then", "orders.shipped@"}, []string{"no subject or no time"}},
		{2, []string{"-f", file, "--event", "{}", "--then", "=1@+1h"}, []string{"no subject"}},
		{2, []string{"-f", file, "--event", "{}", "--then", "orders.shipped={@+1h"}, []string{"--then: {", "not valid JSON"}},
		{2, []string{"-f", file, "--event", "{}", "--then", "orders.shipped@-1h"}, []string{"is before --event at"}},
		{2, []string{"-f", dir, "--event", "{}"}, []string{"is a folder"}},
		{3, []string{"-f", bad, "--event", "{}"}, []string{bad + ":3:", "entitty"}},
		{2, []string{"-f", several, "--event", ada}, []string{"several rules", "order-unshipped, other"}},
		{2, []string{"-f", several, "--event", ada, "--rule", "othr"}, []string{"no rule othr", "did you mean other?"}},
		{0, []string{"-f", several, "--event", ada, "--rule", "other"}, []string{"other  job for 1"}},
		{2, []string{"-f", office, "--event", ada}, []string{"calendar office", "--calendars"}},
		{0, []string{"-f", own, "--event", ada, "--at", "2026-01-31T10:00:00Z"}, []string{"Monday, 2 February 2026\n  10:00:00  +2d  "}},
		{0, []string{"-f", office, "--event", ada, "--calendars", known, "--at", "2026-01-31T10:00:00Z"}, []string{"Monday, 2 February 2026\n  10:00:00  +2d  "}},
		{3, []string{"-f", office, "--event", ada, "--calendars", writeFile(t, dir, "none.yaml", "calendars:\n  shop: {zone: UTC}\n")}, []string{office + ": ", "escalate[0].of: "}},
	} {
		args := append([]string{"rule", "preview"}, c.args...)
		runInProcess(t, "", nil, args...).check(t, args, c.code, c.parts...)
	}
}

// TestPreviewOfSavedRule checks that the previews of a rule in a file and on the node are equal.
func TestPreviewOfSavedRule(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	file := writeFile(t, filepath.Join(t.TempDir(), "shop"), "rule.yaml", holdRule)
	n.mustRun("rule", "apply", "-f", file)
	args := []string{"--event", ada, "--then", "orders.shipped@+2h", "-o", "json"}
	here := runPreview(t, file, args...)
	there := n.run("", append([]string{"rule", "preview", "--rule", "order-unshipped", "--at", "2026-01-31T10:05:00Z"}, args...)...)
	var a, b rules.Preview
	if err := errors.Join(json.Unmarshal([]byte(here.out), &a), json.Unmarshal([]byte(there.out), &b)); err != nil {
		t.Fatalf("%v\n%+v\n%+v", err, here, there)
	}
	checkEqual(t, b, a)
	if a.Outcome != "resolved" || a.Key != "1" || len(a.Lines) != 4 {
		t.Errorf("%+v", a)
	}
	n.expect(1, []string{"rule", "preview", "--rule", "absent", "--event", ada}, "absent", "not found")
}

// TestPreviewNamesChannels checks that the preview of a rule of a node names the channels of its alerts.
func TestPreviewNamesChannels(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	channels := writeFile(t, folder, "channels.yaml", `channels: {chat: {kind: webhook, url: "http://127.0.0.1:9/"}, phone: {kind: webhook, url: "http://127.0.0.1:9/"}}
routes: [{severity: critical, to: [phone, chat]}]
`)
	n := newInProcessNode(t, func(c *server.Config) { c.Notify = channels })
	n.mustRun("rule", "apply", "-f", writeFile(t, folder, "rule.yaml", holdRule))
	args := []string{"rule", "preview", "--rule", "order-unshipped", "--at", "2026-01-31T10:05:00Z", "--event", ada, "--then", "orders.shipped@+9h"}
	got := n.run("", args...)
	got.check(t, args, 0, "→ no channel\n", "→ phone, chat\n")
	if times := strings.Count(got.out, "→ phone, chat\n"); times != 2 {
		t.Errorf("the step escalated and the resolved alert reach two channels, but %d lines name them:\n%s", times, got.out)
	}
}

// TestTimelineFits checks that all texts fit the terminal, and that none can control it.
func TestTimelineFits(t *testing.T) {
	var out bytes.Buffer
	p := inProcess(&out, nil)
	long := strings.Repeat("long words and \x1b[2J ", 20)
	line := func(i int, k rules.PreviewKind) rules.PreviewLine {
		return rules.PreviewLine{At: at(i), Kind: k, Step: "primary\n", Text: long, Note: long, Labels: map[string]string{"a": long}, SkippedSteps: []string{long}, Channels: []string{long}}
	}
	tl := &timeline{io: p, width: 70, of: rules.Preview{Rule: "r", Key: "k", Since: at(0), Lines: []rules.PreviewLine{
		line(1, rules.LineAlert), line(2, rules.LineCheck), line(3, rules.LineEnds),
	}, Outcome: "x", Reason: long}}
	tl.of.Lines[2].Note = "exhausted"
	if err := tl.show(); err != nil {
		t.Fatal(err)
	}
	for text := range strings.Lines(out.String()) {
		text = strings.TrimSuffix(text, "\n")
		if n := utf8.RuneCountInString(text); n > 70 || strings.Contains(text, "\x1b") {
			t.Errorf("%d letters: %s", n, text)
		}
	}
	if n := strings.Count(out.String(), "long"); n != 6*20 {
		t.Errorf("%d words are there, want 120:\n%s", n, &out)
	}
}

// TestTimelineSince checks that a job that began before its event is counted from its beginning.
func TestTimelineSince(t *testing.T) {
	t.Parallel()
	file := writeFile(t, t.TempDir(), "rule.yaml", strings.Replace(holdRule, "key: event.id}", "key: event.id, since: event.placed_at}", 1))
	got := runPreview(t, file, "--event", `{"id": "1", "customer": "Ada", "placed_at": "`+time.Date(2026, 1, 31, 9, 55, 0, 0, time.UTC).Format(time.RFC3339)+`"}`)
	got.check(t, nil, 0, "started 2026-01-31 09:55:00 UTC", "10:05:00     +10m  ┌ starts", "11:00:00    +1h5m")
}

const tickingRule = `
name: import-missing
entity: import
trigger: {schedule: "30 2 * * *", zone: Europe/Berlin, keys: [customers, products]}
resolve: {event: imports.finished, key: event.source}
escalate:
  - {at: "06:00", step: late, severity: critical}
  - {after: 8h, step: later}
slot: 5m
hold: 1d
`

// TestPreviewOfTicks checks that a schedule needs no event, and that ticks are printed in its zone across changes of
// the clock.
func TestPreviewOfTicks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := writeFile(t, dir, "rule.yaml", tickingRule)
	const next = `
  next ticks, Europe/Berlin
  Sun 29 Mar 2026 03:00:00 CEST  late at 06:00:00  later at 11:00:00
  Mon 30 Mar 2026 02:30:00 CEST  late at 06:00:00  later at 10:30:00
  Tue 31 Mar 2026 02:30:00 CEST  late at 06:00:00  later at 10:30:00
  Wed 1 Apr 2026 02:30:00 CEST  late at 06:00:00  later at 10:30:00
  Thu 2 Apr 2026 02:30:00 CEST  late at 06:00:00  later at 10:30:00
`
	const begins = `
import-missing  job for customers, started 2026-03-29 01:00:00 UTC

  Sunday, 29 March 2026
`
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"it comes in between": {[]string{"--then", `imports.finished={"source":"customers"}@2026-03-29T08:00:00Z`}, begins + `  01:00:00       ┌ starts        a tick
                 │               first check at 04:00:00
  04:00:00  +3h  ├ critical      late
                 │               no imports.finished for import customers by 06:00 CEST
  08:00:00  +7h  ├ resolved      late
                 │               import customers: resolved after 7h
  08:00:00  +7h  └ ends          resolved
`},
		"the next tick begins anew": {nil, begins + `  01:00:00           ┌ starts        a tick
                     │               first check at 04:00:00
  04:00:00      +3h  ├ critical      late
                     │               no imports.finished for import customers by 06:00 CEST
  09:00:00      +8h  ├ warning       later
                     │               no imports.finished for import customers within 8h of the tick
                     │
  Monday, 30 March 2026
  00:30:00  +23h30m  ├ resolved      later
                     │               import customers: restarted by a new trigger
  00:30:00  +23h30m  └ ends          restarted
`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runInProcess(t, "", nil, append([]string{"rule", "preview", "-f", file, "--at", "2026-03-28T12:00:00Z"}, c.args...)...)
			if got.code != 0 || got.err != "" {
				t.Errorf("%+v", got)
			}
			compareText(t, got.out, c.want+next)
		})
	}
	got := runInProcess(t, "", nil, "rule", "preview", "-f", file, "--event", ada)
	if got.code == 0 || !strings.Contains(got.err, "a schedule triggers the jobs, not an event") {
		t.Errorf("with an event: %+v", got)
	}
	emits := writeFile(t, dir, "emit.yaml", "name: due\nentity: import\ntrigger: {schedule: '@at 2026-03-28T12:30:00Z', emit: {subject: imports.due}}\n")
	compareText(t, runInProcess(t, "", nil, "rule", "preview", "-f", emits, "--at", "2026-03-28T12:00:00Z").out, `
due  the rule creates no jobs: each tick publishes an event on imports.due

  next ticks, UTC
  Sat 28 Mar 2026 12:30:00 UTC  emits imports.due
`)
	compareText(t, runInProcess(t, "", nil, "rule", "preview", "-f", emits, "--at", "2026-03-28T12:30:00Z").out, `
due  the schedule does not tick any more
`)
}

// TestPreviewOfHeartbeat checks that a heartbeat with keys needs no event: its first key never reports, unless it
// pings.
func TestPreviewOfHeartbeat(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := writeFile(t, dir, "backup.yaml", "name: backup\nentity: host\ntrigger: {heartbeat: {event: backups.done, key: event.id, every: 1h, keys: [photos]}}\n")
	silent := runPreview(t, file)
	if silent.code != 0 || !strings.Contains(silent.out, "no heartbeat yet") || !strings.Contains(silent.out, "host photos: no heartbeat yet, expected every 1h") {
		t.Errorf("%+v", silent)
	}
	postponed := runPreview(t, file, "--then", `ping={"key": "photos"}@+30m`)
	if postponed.code != 0 || !strings.Contains(postponed.out, "no heartbeat since 10:35:00 UTC") {
		t.Errorf("%+v", postponed)
	}
	pinged := writeFile(t, dir, "pinged.yaml", "name: backup\nentity: host\ntrigger: {heartbeat: {schedule: '@daily'}}\n")
	if got := runPreview(t, pinged); got.code != 2 || !strings.Contains(got.err, `--event '{"key": "backup"}'`) {
		t.Errorf("without keys: %+v", got)
	}
}
