package notify_test

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/notify"
)

// A message has one line for each key, in the state of its newest alert, and counts the keys by severity.
func TestMessageHasStateOfEachKeyOnce(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		n := w.notifier(oneHookFile)
		w.fire(alerts.Warning, nil, "a", "b", "c")
		w.advance(n, 0)
		w.fire(alerts.Critical, nil, "a")
		w.resolve("b")
		w.advance(n, 0)
		w.advance(n, 10*time.Second)
		got := webhookData(t, w.receiver.received())
		if len(got) != 1 {
			t.Fatalf("%d messages", len(got))
		}
		var keys []string
		for _, k := range got[0].Keys {
			state := string(k.Severity)
			if k.Resolved {
				state = "resolved"
			}
			keys = append(keys, k.Key+" "+state)
		}
		if diff := cmp.Diff([]string{"a critical", "c warning", "b resolved"}, keys); diff != "" {
			t.Error(diff)
		}
		if d := got[0]; d.Title != "[CRITICAL] order-late: 1 critical, 1 warning, 1 resolved" || d.Count != 5 || d.Resolved != 1 || d.Severities[alerts.Warning] != 1 {
			t.Errorf("%+v", d)
		}
	})
}

// A message that is sent late shows a key as resolved, if a later alert has closed the alert.
func TestLateMessageShowsClosedAlertsAsResolved(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		n := w.notifier(oneHookFile)
		w.fire(alerts.Error, nil, "a", "b")
		w.advance(n, 0)
		w.receiver.setStatus(500)
		w.advance(n, 10*time.Second)
		w.resolve("a")
		w.advance(n, 0)
		w.receiver.setStatus(0)
		w.receiver.received()
		w.advance(n, time.Minute)
		got := webhookData(t, w.receiver.received())
		if len(got) == 0 || got[0].Title != "[ERROR] order-late: 1 error, 1 resolved" {
			t.Errorf("%+v", got)
		}
	})
}

// The text about one alert has what a person needs to act on it.
func TestTextOfOneAlert(t *testing.T) {
	at := time.Date(2026, 11, 26, 13, 0, 0, 0, time.UTC)
	berlin := must[*time.Location](t)(time.LoadLocation("Europe/Berlin"))
	a := firingAlert("1042")
	a.Text, a.Step, a.Since = "no orders.shipped for order 1042 within 3h of orders.created", "primary", at.Add(-3*time.Hour)
	a.Labels = map[string]string{"runbook": "https://wiki.example.com/unshipped", "site": "north"}
	m := newMessage(a)
	m.At, m.Zone = at, berlin
	m.Keys = []notify.KeyState{{KeyState: alerts.KeyState{Alert: a}, Outlook: notify.Outlook{
		Description: "Look into the warehouse system,\nthen call the carrier.",
		Next:        &notify.NextStep{Name: "escalated", Severity: alerts.Critical, At: at.Add(24 * time.Hour), To: []string{"on-call", "team"}},
	}}}
	const want = `[CRITICAL] no orders.shipped for order 1042 within 3h of orders.created
rule order-late, step primary, since 11:00 CET · site=north
Look into the warehouse system, then call the carrier.
Runbook: https://wiki.example.com/unshipped
Next: escalated (critical) at Fri 27 Nov 14:00 CET, to on-call, team
https://deadman.example.org/alerts/1
`
	if diff := cmp.Diff(want, m.Title()+"\n"+m.Text()); diff != "" {
		t.Error(diff)
	}
	m.Keys[0].Next, m.Keys[0].Acknowledged = nil, &futurejobs.Ack{By: "ada", Until: checks.Forever, Note: "on it"}
	if text := m.Text(); !strings.Contains(text, "\nAcknowledged by ada until it is resolved (on it)\n") {
		t.Error(text)
	}
	m.Keys[0].Acknowledged.Until = at.Add(2 * time.Hour)
	if text := m.Text(); !strings.Contains(text, "\nAcknowledged by ada until 16:00 CET (on it)\n") {
		t.Error(text)
	}
}

// A next step that all keys share has a line of its own; other ones follow their keys.
func TestTextOfSeveralAlerts(t *testing.T) {
	at := time.Date(2026, 11, 26, 13, 0, 0, 0, time.UTC)
	m := newMessage(firingAlert("1"), firingAlert("2"), firingAlert("3"))
	m.At = at
	for i, a := range m.Alerts {
		k := notify.KeyState{KeyState: alerts.KeyState{Alert: a}, Outlook: notify.Outlook{Description: "Call the carrier."}}
		if i < 2 {
			k.Next = &notify.NextStep{Name: "lead", Severity: alerts.Critical, At: at.Add(time.Hour)}
		} else {
			k.Acknowledged = &futurejobs.Ack{By: "ada", Until: at.Add(time.Hour)}
		}
		m.Keys = append(m.Keys, k)
	}
	const want = `CRITICAL  order 1 waits
CRITICAL  order 2 waits
CRITICAL  order 3 waits · acknowledged by ada until 14:00 UTC
Call the carrier.
Next: lead (critical) at 14:00 UTC
`
	text := func() string {
		text, _, _ := strings.Cut(m.Text(), "https://")
		return text
	}
	if diff := cmp.Diff(want, text()); diff != "" {
		t.Error(diff)
	}
	m.Keys[1].Next = &notify.NextStep{Name: "lead", Severity: alerts.Critical, At: at.Add(2 * time.Hour)}
	if got := text(); !strings.HasPrefix(got, "CRITICAL  order 1 waits · next: lead (critical) at 14:00 UTC\nCRITICAL  order 2 waits · next: lead (critical) at 15:00 UTC\n") {
		t.Error(got)
	}
}

// A message about several rules links to the open alerts of each rule that has some.
func TestTextOfSeveralRules(t *testing.T) {
	all := make([]alerts.Alert, 5)
	for i, rule := range []string{"order-late", "a b", "order-late", "stock-low", "c"} {
		all[i] = firingAlert(strconv.Itoa(i))
		all[i].Rule = rule
	}
	all[3].Status = alerts.Resolved
	m := newMessage(all...)
	const want = `CRITICAL  order-late: order 0 waits
CRITICAL  a b: order 1 waits
CRITICAL  order-late: order 2 waits
RESOLVED  stock-low: order 3 waits
CRITICAL  c: order 4 waits
Open alerts of order-late: https://deadman.example.org/alerts?rule=order-late
Open alerts of a b: https://deadman.example.org/alerts?rule=a+b
Open alerts of c: https://deadman.example.org/alerts?rule=c
https://deadman.example.org/alerts?
`
	if diff := cmp.Diff(want, linkQuery.ReplaceAllString(m.Text(), "alerts?\n")); diff != "" {
		t.Error(diff)
	}
	m.PublicURL = ""
	if text := m.Text(); strings.Contains(text, "Open alerts") {
		t.Error(text)
	}
}

// linkQuery matches the query of the last link of a text.
var linkQuery = regexp.MustCompile(`alerts\?[^\n]*\n$`)

// A key that is only a part of a word of the text is named in front of it.
func TestTitleNamesKeyOnce(t *testing.T) {
	for text, want := range map[string]string{
		"order 10 waits":       "[CRITICAL] order 1: order 10 waits",
		"order 1 waits":        "[CRITICAL] order 1 waits",
		"order 10 and 1 wait":  "[CRITICAL] order 10 and 1 wait",
		"(1)":                  "[CRITICAL] (1)",
		"":                     "[CRITICAL] order 1: order-late",
		strings.Repeat("é", 3): "[CRITICAL] order 1: ééé",
	} {
		a := firingAlert("1")
		a.Text = text
		if got := newMessage(a).Title(); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
}

// The next step names the channels of its route, not those of the alert.
func TestNextStepReachesChannelsOfItsSeverity(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		w.outlook = func(context.Context, alerts.Alert) (notify.Outlook, error) {
			return notify.Outlook{Next: &notify.NextStep{Name: "lead", Severity: alerts.Critical, At: w.now.Add(time.Hour)}}, nil
		}
		n := w.notifier(`
channels:
  team: {kind: webhook, url: $URL/team}
  phone: {kind: webhook, url: $URL/phone}
routes:
  - {severity: critical, to: phone, continue: true}
  - {to: team, group_wait: 0s}
`)
		w.fire(alerts.Warning, nil, "a")
		w.advance(n, 0)
		got := webhookData(t, w.receiver.received())
		if len(got) != 1 || got[0].Keys[0].Next == nil || !cmp.Equal(got[0].Keys[0].Next.To, []string{"phone", "team"}) {
			t.Errorf("%+v", got)
		}
	})
}

// The title of a resolved alert with the default text has the word once.
func TestTitleHasResolvedOnce(t *testing.T) {
	a := firingAlert("1")
	a.Status = alerts.Resolved
	for text, want := range map[string]string{
		"order 1: resolved after 6h":                 "[RESOLVED] order 1 after 6h",
		"order 1: resolved":                          "[RESOLVED] order 1",
		"order 1: cancelled after 6h":                "[RESOLVED] order 1: cancelled after 6h",
		"the carrier reports that 1 was resolved on": "[RESOLVED] the carrier reports that 1 was resolved on",
	} {
		a.Text = text
		if got := newMessage(a).Title(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestLongTextIsThereOnce checks that the title and the text of a message about one alert do not repeat a long text, and that
// times in texts of the node are in the zone of the message.
func TestLongTextIsThereOnce(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	gap := alerts.StreamLoss("ORDERS", at, at.Add(time.Hour), "was deleted").Alert(at)
	polish := firingAlert("1")
	polish.Text = strings.Repeat("zamówienie ", 16) + "; żadne nie zostało wysłane"
	over := firingAlert("1")
	over.Status, over.Text = alerts.Resolved, "order 1: "+strings.Repeat("checked by hand ", 20)
	for name, c := range map[string]struct {
		alert       alerts.Alert
		title, text string
	}{
		"gap": {
			gap, "[ERROR] deadman: stream ORDERS was deleted: events stored after 2026-01-02 04:04:05 CET and until 2026-01-02 05:04:05 CET may be missing",
			"Check what happened in that time, create, resolve or cancel jobs by hand (deadman job), then close this alert\nrule deadman, step lost, since 04:04 CET",
		},
		"not ASCII": {polish, "[CRITICAL] order 1: " + strings.Repeat("zamówienie ", 15) + "zamówienie ", "Żadne nie zostało wysłane\nrule"},
		"resolved":  {over, "[RESOLVED] order 1: " + strings.Repeat("checked by hand ", 11) + "…", "… checked by hand checked by hand checked by hand checked by hand checked by hand checked by hand checked by hand checked by hand checked by hand\nrule"},
	} {
		m := newMessage(c.alert)
		m.Zone, m.At = berlin, at
		if got := m.Title(); got != c.title {
			t.Errorf("%s: the title is %q, want %q", name, got, c.title)
		}
		if got := m.Text(); !strings.HasPrefix(got, c.text) || strings.Contains(got, "UTC") {
			t.Errorf("%s: the text is\n%s\nwant\n%s", name, got, c.text)
		}
	}
}

// The times that a node writes into its alerts are in the zone of the message. Times in the reason of an error, which may be
// values of an event, are left as they are.
func TestTimesOfSystemAlertsAreInZone(t *testing.T) {
	berlin := must[*time.Location](t)(time.LoadLocation("Europe/Berlin"))
	for text, want := range map[string]string{
		"ticks cannot be applied from 2026-11-30T04:00:00Z on: no calendar":     "ticks cannot be applied from 2026-11-30 05:00:00 CET on: no calendar",
		"not read to its end from 2026-07-01T22:30:00Z to 2026-07-01T22:31:00Z": "not read to its end from 2026-07-02 00:30:00 CEST to 2026-07-02 00:31:00 CEST",
		"events after 2026-11-30 04:00:00.25 UTC":                               "events after 2026-11-30 05:00:00 CET",
		"failed since 2026-11-30T04:00:00.5Z: refused":                          "failed since 2026-11-30 05:00:00 CET: refused",
		`refused since 2026-13-30T04:00:00Z: "2026-11-30T04:00:00Z" is no date`: `refused since 2026-13-30T04:00:00Z: "2026-11-30T04:00:00Z" is no date`,
		"the time is 2026-11-30T04:00:00Z":                                      "the time is 2026-11-30T04:00:00Z",
	} {
		system := alerts.SystemAlert{Topic: "rule/a", Step: "ticks", Status: alerts.Firing, Severity: alerts.Error, Text: text}
		of := firingAlert("1")
		of.Text = "order 1: " + text
		for title, a := range map[string]alerts.Alert{"[ERROR] deadman: " + want: system.Alert(time.Time{}), "[CRITICAL] order 1: " + text: of} {
			m := newMessage(a)
			m.Zone = berlin
			if got := m.Title(); got != title {
				t.Errorf("the title is %q, want %q", got, title)
			}
		}
	}
}

// TestSystemAlertHasRemedy checks that a message about alerts of a node about itself names their subject once and the place of
// their remedies, and that a resolved one has none.
func TestSystemAlertHasRemedy(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	unfit := alerts.SystemAlert{Topic: "node/shop-1", Step: "unfit", Status: alerts.Firing, Severity: alerts.Warning, Since: at, Text: "node shop-1 is unfit and hands its shards over: it cannot settle"}
	m := newMessage(unfit.Alert(at))
	m.PublicURL, m.At = "https://deadman.example.org", at
	if got := m.Title(); got != "[WARNING] deadman: node shop-1 is unfit and hands its shards over: it cannot settle" {
		t.Errorf("the title is %q", got)
	}
	const page = "What to do: https://deadman.example.org/docs/operations/troubleshooting#condition-node\n"
	if got := m.Text(); strings.Count(got, page) != 1 {
		t.Errorf("the text is\n%s", got)
	}
	m.PublicURL = ""
	if got := m.Text(); !strings.Contains(got, "What to do: see Condition node, in docs/operations/troubleshooting.md\n") {
		t.Errorf("without an address of pages the text is\n%s", got)
	}
	second := unfit
	second.Topic, second.Text = "node/shop-2", "node shop-2 is unfit and hands its shards over: it cannot settle"
	several := newMessage(unfit.Alert(at), second.Alert(at), firingAlert("1"))
	several.PublicURL, several.At = "https://deadman.example.org", at
	if got := several.Text(); strings.Count(got, page) != 1 || strings.Contains(got, "node/shop") || strings.Count(got, "deadman: node shop-1") != 1 || strings.Contains(got, "deadman: deadman") {
		t.Errorf("the text about several is\n%s", got)
	}
	unfit.Status = alerts.Resolved
	over := newMessage(unfit.Alert(at))
	over.PublicURL = "https://deadman.example.org"
	if got := over.Text(); strings.Contains(got, "What to do") {
		t.Errorf("the text of the resolved alert is\n%s", got)
	}
}
