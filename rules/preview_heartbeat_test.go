package rules_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"deadman/rules"
)

// previewHeartbeat returns the lines of the preview of a ping and of those after it.
func previewHeartbeat(t *testing.T, text string, pings ...string) (lines []string, p rules.Preview) {
	t.Helper()
	var events []rules.PreviewEvent
	for i, ping := range pings {
		events = append(events, rules.PreviewEvent{At: clockTime(10, 10*i), Data: []byte(ping)})
	}
	p, err := (&rules.Registry{}).Preview(t.Context(), rules.PreviewRequest{Text: []byte(text), Events: events})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range p.Lines {
		line := fmt.Sprintf("%s %s %s%s", l.At.Format("15:04"), l.Kind, l.Text, l.Note)
		if !l.Next.IsZero() && l.Next.Year() == 2026 {
			line += " " + l.Next.Format("15:04")
		}
		lines = append(lines, line)
	}
	return lines, p
}

func TestPreviewOfPings(t *testing.T) {
	got, p := previewHeartbeat(t, tenMinuteRule, `{"key": "a"}`, `{"key": "a", "exit_status": 3}`)
	want := []string{
		"10:00 starts ping 10:12",
		"10:10 event ping 10:11",
		"10:11 alert device a: failed with exit status 3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if p.Reason != "the job stays pending until a heartbeat arrives" || p.Outcome != "" {
		t.Errorf("it ends with %q, %q", p.Outcome, p.Reason)
	}
}

func TestPreviewOfSilentEntity(t *testing.T) {
	got, _ := previewHeartbeat(t, tenMinuteRule, `{"key": "a", "kind": "expected"}`)
	want := []string{
		"10:00 starts ping 10:12",
		"10:12 alert device a: no heartbeat yet, expected every 10m, grace 2m",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestPreviewWithoutPing(t *testing.T) {
	for _, ping := range []string{`[]`, `{"key": "a", "kind": "green"}`, `{"kind": "success"}`} {
		if lines, p := previewHeartbeat(t, tenMinuteRule, ping); len(p.Refusals) != 1 || len(lines) != 0 {
			t.Errorf("%s: %v, refused %q", ping, lines, p.Refusals)
		}
	}
}

// Without an event, the first of the expected keys never reports; and pings are heartbeats even if events are.
func TestPreviewOfExpectedKeys(t *testing.T) {
	const text = `name: device-silent
entity: device
trigger: {heartbeat: {event: devices.beat, key: event.id, schedule: "5 10 * * *", grace: 2m, keys: [a, b]}}
`
	got, _ := previewHeartbeat(t, text, "")
	want := []string{
		"10:00 starts no heartbeat yet 10:07",
		`10:07 alert device a: no heartbeat yet, expected after each tick of "5 10 * * *", grace 2m`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	p, err := (&rules.Registry{}).Preview(t.Context(), rules.PreviewRequest{Text: []byte(text), Events: []rules.PreviewEvent{
		{At: clockTime(10, 0)}, {At: clockTime(10, 3), Subject: "ping", Data: []byte(`{"key": "a", "kind": "fail"}`)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Lines) != 3 || p.Lines[1].Note != "ping" || p.Lines[2].Text != "device a: failed; the ping had no body with the reason" || len(p.IgnoredEvents)+len(p.Refusals) > 0 {
		t.Errorf("a ping: %+v", p)
	}
}
