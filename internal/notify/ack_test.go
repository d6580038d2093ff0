package notify_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/acklinks"
	"deadman/internal/notify"
)

// acknowledge acknowledges the alerts of the pending jobs of keys.
func (w *fixture) acknowledge(by string, until time.Time, keys ...string) {
	w.t.Helper()
	var effects []futurejobs.Effect
	for _, key := range keys {
		ack := futurejobs.Ack{Alert: w.alertOf(key).ID, By: by, Until: until, Note: "on it"}
		effects = append(effects, futurejobs.Effect{Rule: w.rule, Ref: w.ref(key), Action: futurejobs.Acknowledge{Ack: ack}})
	}
	w.batch(effects...)
}

// Each channel that received an alert of a job is told once who acknowledged it, until when. Alertmanager and PagerDuty
// are not told.
func TestChannelsGetAcknowledgements(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		n := w.notifier(`
channels:
  team: {kind: webhook, url: $URL/team}
  am: {kind: alertmanager-webhook, url: $URL/am}
  other: {kind: webhook, url: $URL/other}
routes:
  - {rule: "order-*", to: [team, am], group_wait: 0s}
  - {to: other, group_wait: 0s}
`)
		w.fire(alerts.Error, nil, "a", "b")
		w.advance(n, 0)
		w.receiver.received()
		until := w.now.Add(2 * time.Hour).Truncate(time.Second)
		w.acknowledge("bob", until.Add(time.Hour), "a")
		w.acknowledge("ada", until, "a") // replaces the first one before the channels are told
		w.advance(n, 0)
		posts := w.receiver.received()
		got := webhookData(t, posts)
		if len(got) != 1 || got[0].Channel != "team" || got[0].Acknowledged != 1 || len(got[0].Alerts) != 0 || got[0].Count != 0 {
			t.Fatalf("%+v", got)
		}
		if d := got[0]; d.Title != "[ACKNOWLEDGED] order a waits" || len(d.Acknowledgements) != 1 || d.Acknowledgements[0].By != "ada" || !d.Acknowledgements[0].Until.Equal(until) || d.Acknowledgements[0].Key != "a" {
			t.Errorf("%+v", d)
		}
		if !strings.Contains(posts[0].body, `"type":"`+notify.AckMessageType+`"`) {
			t.Errorf("%.100s", posts[0].body)
		}
		w.advance(n, time.Minute)
		if again := w.receiver.received(); len(again) != 0 {
			t.Errorf("%d messages more", len(again))
		}
		// An acknowledgement of a job that ends before the channels are told, and a removed one, are not told.
		w.acknowledge("ada", until, "b")
		w.batch(futurejobs.Effect{Rule: w.rule, Ref: w.ref("b"), Action: futurejobs.Acknowledge{Ack: futurejobs.Ack{Alert: w.alertOf("b").ID}}})
		w.acknowledge("ada", until, "a")
		w.resolve("a")
		w.advance(n, 0)
		for _, d := range webhookData(t, w.receiver.received()) {
			if d.Acknowledged != 0 {
				t.Errorf("%+v", d)
			}
		}
	})
}

// Many acknowledgements are one message, and the acknowledgement of an alert that is not sent yet joins its message.
func TestManyAcknowledgementsAreOneMessage(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		n := w.notifier(oneHookFile)
		keys := numberedKeys("k", 450)
		w.fire(alerts.Error, nil, keys...)
		w.advance(n, 0)
		w.advance(n, 10*time.Second)
		w.receiver.received()
		w.acknowledge("ada", checks.Forever, keys...)
		w.advance(n, 0)
		w.advance(n, 10*time.Second)
		got := webhookData(t, w.receiver.received())
		if len(got) != 1 || got[0].Title != "[ACKNOWLEDGED] order-late: 450 alerts by ada" || got[0].Acknowledged != 450 || len(got[0].Acknowledgements) != 10 || !got[0].Acknowledgements[0].Until.IsZero() {
			t.Fatalf("%d: %+v", len(got), got)
		}
		w.fire(alerts.Error, nil, "new")
		w.advance(n, 0)
		w.acknowledge("bob", checks.Forever, "new")
		w.advance(n, 0)
		w.advance(n, 10*time.Second)
		got = webhookData(t, w.receiver.received())
		if len(got) != 1 || got[0].Count != 1 || got[0].Acknowledged != 1 {
			t.Errorf("%+v", got)
		}
		if err := prune(w, 0); err != nil {
			t.Error(err)
		}
	})
}

// Texts name the person, the end, the note and the alerts.
func TestTextOfAcknowledgements(t *testing.T) {
	at := time.Date(2026, 11, 26, 13, 0, 0, 0, time.UTC)
	m := newMessage()
	m.At = at
	m.Acks = alerts.AckSummary{
		Counts: []alerts.AckCount{{By: "ada", Until: at.Add(3 * time.Hour), Note: "on it", Count: 1}},
		First:  []alerts.ShownAck{{Alert: firingAlert("1"), By: "ada", Until: at.Add(3 * time.Hour), Note: "on it"}},
	}
	const one = "[ACKNOWLEDGED] order 1 waits\nAcknowledged by ada until 16:00 UTC (on it)\nrule order-late\nhttps://deadman.example.org/alerts/1\n"
	if got := m.Title() + "\n" + m.Text(); got != one {
		t.Error(got)
	}
	m.Acks.Counts[0].Count = 12
	m.Acks.First = append(m.Acks.First, alerts.ShownAck{Alert: firingAlert("2")})
	const many = "[ACKNOWLEDGED] order-late: 12 alerts by ada\nAcknowledged by ada until 16:00 UTC (on it): 12 alerts\n* order 1 waits\n* order 2 waits\nand 10 more\nhttps://deadman.example.org/alerts\n"
	if got := m.Title() + "\n" + m.Text(); got != many {
		t.Error(got)
	}
	m.Acks.Counts[0].Count = 2
	if want := "https://deadman.example.org/alerts?entity=order&rule=order-late&severity=critical"; m.Link() != want {
		t.Errorf("the link of two acknowledged keys is %s", m.Link())
	}
	m.Acks.First[1].Alert.Severity = alerts.Warning
	if want := "https://deadman.example.org/alerts?entity=order&rule=order-late"; m.Link() != want {
		t.Errorf("the link of two severities is %s", m.Link())
	}
}

// Messages have links for keys that are pending and not acknowledged, and one for all keys of one rule, unless the channel
// leaves them out. A message that resolves has none.
func TestMessagesHaveAckLinks(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		w.outlook = func(_ context.Context, a alerts.Alert) (notify.Outlook, error) {
			o := notify.Outlook{Pending: a.Status == alerts.Firing}
			if a.Key == "b" {
				o.Acknowledged = &futurejobs.Ack{By: "ada", Until: checks.Forever}
			}
			return o, nil
		}
		n := w.notifier(`
channels:
  team: {kind: webhook, url: $URL/team}
  public: {kind: webhook, url: $URL/public, ack_links: false}
routes:
  - {to: [team, public], group_wait: 0s}
`)
		links := func(channel string) (all string, keys map[string]string) {
			t.Helper()
			keys = make(map[string]string)
			for _, d := range webhookData(t, w.receiver.received()) {
				if d.Channel != channel {
					continue
				}
				all = d.AckURL
				for _, k := range d.Keys {
					keys[k.Key] = k.AckURL
				}
			}
			return all, keys
		}
		secret := must[[]byte](t)(w.AckKey(t.Context()))
		targetOf := func(link string) acklinks.Target {
			t.Helper()
			token, _ := strings.CutPrefix(link, "https://deadman.example.org"+acklinks.Prefix)
			return must[acklinks.Target](t)(acklinks.Verify(secret, token, w.now))
		}
		w.fire(alerts.Error, nil, "a", "b")
		w.advance(n, 0)
		all, keys := links("team")
		if got := targetOf(keys["a"]); got.Alert != w.alertOf("a").ID || got.Channel != "team" || got.ExpiresAt != w.now.Add(acklinks.Lifetime).Truncate(time.Second) {
			t.Errorf("%+v", got)
		}
		if got := targetOf(all); got.Message == 0 || got.Channel != "team" || keys["b"] != "" {
			t.Errorf("%+v, and %q of an acknowledged key", got, keys["b"])
		}
		w.fire(alerts.Error, nil, "c")
		w.advance(n, time.Minute)
		if all, keys := links("public"); all != "" || keys["c"] != "" {
			t.Errorf("a channel without links has %q and %v", all, keys)
		}
		w.resolve("a")
		w.advance(n, time.Minute)
		if all, keys := links("team"); all != "" || len(keys) != 1 || keys["a"] != "" {
			t.Errorf("a resolved key has %q and %v", all, keys)
		}
	})
}
