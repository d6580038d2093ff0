package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/acklinks"
	"deadman/internal/notify"
)

// Acknowledge and AcknowledgeAll apply acknowledgements to the jobs of alerts.
func (w *fixture) Acknowledge(ctx context.Context, id alerts.ID, a futurejobs.Ack) (futurejobs.ListedJob, error) {
	listed, err := w.Alert(ctx, id)
	if err != nil {
		return futurejobs.ListedJob{}, err
	}
	_, err = w.AcknowledgeAll(ctx, []futurejobs.ListedAlert{listed}, a)
	return futurejobs.ListedJob{}, err
}

func (w *fixture) AcknowledgeAll(ctx context.Context, all []futurejobs.ListedAlert, a futurejobs.Ack) (int, error) {
	for _, listed := range all {
		a.Alert, a.By = listed.ID, access.ActorOf(ctx).Name
		w.batch(futurejobs.Effect{Rule: w.rule, Ref: w.ref(listed.Key), Action: futurejobs.Acknowledge{Ack: a}})
	}
	return len(all), nil
}

// sentButton is a message with a button, in the form of Slack or Mattermost.
type sentButton struct {
	Text   string
	Blocks []struct {
		Text     struct{ Text string }
		Elements []struct{ Value string }
	}
	Attachments []struct {
		Actions []struct {
			Integration struct {
				URL     string
				Context json.RawMessage
			}
		}
	}
	Replace  bool   `json:"replace_original"`
	Response string `json:"response_type"`
}

// A button of Slack acknowledges the alert, and its message has the acknowledgement in place of the button. A button of
// Mattermost does so for all alerts of a message.
func TestButtonsAcknowledge(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		w.outlook = func(_ context.Context, a alerts.Alert) (notify.Outlook, error) {
			return notify.Outlook{Pending: a.Status == alerts.Firing}, nil
		}
		w.secret("slack", w.receiver.URL+"/slack/services/secret")
		w.secret("mm", w.receiver.URL+"/mm/hooks/secret")
		n := w.notifier(`
channels:
  slack: {kind: slack, url_file: slack, ack_button: slack-presses}
  mm: {kind: mattermost, url_file: mm, ack_button: mm-presses}
routes:
  - {severity: critical, to: slack, group_wait: 0s}
  - {to: mm, group_wait: 0s}
`)
		slack, client := newReceivers(t)
		links := &acklinks.Links{Store: w.Store, Acks: w, Uses: w.Store, Enabled: n.HasAckLinks, Now: func() time.Time { return w.now }, Zone: n.Zone}
		buttons := &notify.Buttons{
			Links: links, Client: client, PublicURL: "https://deadman.example.org",
			Now: func() time.Time { return w.now }, Log: slog.New(slog.DiscardHandler),
		}
		sent := func() (m sentButton) {
			t.Helper()
			posts := w.receiver.received()
			if len(posts) != 1 {
				t.Fatalf("%d messages", len(posts))
			}
			w.must(json.Unmarshal([]byte(posts[0].body), &m))
			return m
		}
		pressSlack := func(token, response string) (sentButton, error) {
			t.Helper()
			payload := must[[]byte](t)(json.Marshal(map[string]any{
				"type": "block_actions", "user": map[string]string{"id": "U1", "username": "ada"}, "response_url": response,
				"actions": []map[string]string{{"action_id": "acknowledge", "value": token}},
			}))
			_, err := buttons.Press(t.Context(), "slack", "slack-presses", []byte(url.Values{"payload": {string(payload)}}.Encode()))
			var m sentButton
			for _, r := range slack.received() {
				w.must(json.Unmarshal(r.body, &m))
			}
			return m, err
		}
		const response = "https://hooks.slack.com/actions/T1/2/3"
		w.fire(alerts.Critical, nil, "<a>")
		w.advance(n, 0)
		m := sent()
		if len(m.Blocks) != 2 || !strings.HasPrefix(m.Blocks[0].Text.Text, "*[CRITICAL] order &lt;a&gt; waits*\n") || strings.Contains(m.Blocks[0].Text.Text, acklinks.Prefix) || len(m.Blocks[1].Elements) != 1 {
			t.Fatalf("%+v", m)
		}
		token := m.Blocks[1].Elements[0].Value
		for _, other := range []string{"https://evil.example/actions/1", "http://hooks.slack.com/x", "https://hooks.slack.com@evil.example/", "https://hooks.slack.com.evil.example/", ""} {
			if _, err := pressSlack(token, other); !errors.Is(err, notify.ErrPress) {
				t.Errorf("a change is sent to %q: %v", other, err)
			}
		}
		if _, err := links.Open(t.Context(), token); !errors.Is(err, acklinks.ErrInvalid) {
			t.Errorf("the token of a button opens a link: %v", err)
		}
		// Presses of Mattermost are unsigned: a button of Slack is none of theirs.
		if _, err := buttons.Press(t.Context(), "mattermost", "mm-presses", []byte(`{"user_name": "eve", "context": {"token": "`+token+`"}}`)); !errors.Is(err, acklinks.ErrInvalid) {
			t.Errorf("a button of Slack is pressed at another hook: %v", err)
		}
		if m, err := pressSlack(token+"A", response); err != nil || m.Response != "ephemeral" || m.Replace || !strings.Contains(m.Text, "Not acknowledged: the button is invalid") {
			t.Errorf("%+v, %v", m, err)
		}
		if job := must[futurejobs.ListedJob](t)(w.Job(t.Context(), w.rule.Name, "<a>")); job.Ack != nil {
			t.Fatalf("%+v", job.Ack)
		}
		m, err := pressSlack(token, response)
		if err != nil || !m.Replace || len(m.Blocks) != 1 || !strings.Contains(m.Blocks[0].Text.Text, "*[ACKNOWLEDGED] order &lt;a&gt; waits*\nAcknowledged by channel:slack until it is resolved (by button, as ada)\n") {
			t.Errorf("%+v, %v", m, err)
		}
		if job := must[futurejobs.ListedJob](t)(w.Job(t.Context(), w.rule.Name, "<a>")); job.Ack == nil || job.Ack.By != "channel:slack" || job.Ack.Note != "by button, as ada" {
			t.Errorf("%+v", job.Ack)
		}
		w.advance(n, 0) // the message about the acknowledgement
		w.receiver.received()

		w.fire(alerts.Error, nil, "b", "c")
		w.advance(n, time.Minute)
		m = sent()
		if len(m.Attachments) != 1 || len(m.Attachments[0].Actions) != 1 || m.Attachments[0].Actions[0].Integration.URL != "https://deadman.example.org/hooks/mm-presses" {
			t.Fatalf("%+v", m)
		}
		body := `{"user_name": "bob", "context": ` + string(m.Attachments[0].Actions[0].Integration.Context) + `}`
		var answer struct {
			Update    struct{ Message string }
			Ephemeral string `json:"ephemeral_text"`
		}
		w.must(json.Unmarshal(must[[]byte](t)(buttons.Press(t.Context(), "mattermost", "mm-presses", []byte(body))), &answer))
		if !strings.Contains(answer.Update.Message, "order-late: 2 alerts by channel:mm") || !strings.Contains(answer.Update.Message, "(by button, as bob)") {
			t.Errorf("%+v", answer)
		}
		for _, key := range []string{"b", "c"} {
			if job := must[futurejobs.ListedJob](t)(w.Job(t.Context(), w.rule.Name, key)); job.Ack == nil || job.Ack.Note != "by button, as bob" {
				t.Errorf("%s: %+v", key, job.Ack)
			}
		}
		// Presses with tokens of links, changed tokens and other bodies acknowledge nothing.
		w.fire(alerts.Error, nil, "d")
		link := acklinks.Sign(must[[]byte](t)(w.AckKey(t.Context())), acklinks.Target{Channel: "mm", Alert: w.alertOf("d").ID, ExpiresAt: w.now.Add(time.Hour)})
		for body, want := range map[string]error{
			`{"user_name": "eve", "context": {"token": "` + link + `"}}`: acklinks.ErrInvalid,
			`{"user_name": "eve", "context": {"token": "x"}}`:            acklinks.ErrInvalid,
			`{"context": {}}`: notify.ErrPress, `payload={}`: notify.ErrPress, ``: notify.ErrPress,
		} {
			if _, err := buttons.Press(t.Context(), "mattermost", "mm-presses", []byte(body)); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", body, err, want)
			}
		}
		if job := must[futurejobs.ListedJob](t)(w.Job(t.Context(), w.rule.Name, "d")); job.Ack != nil {
			t.Errorf("%+v", job.Ack)
		}
	})
}

func TestButtonsNeedIncomingWebhooks(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		w.secret("hook", "slack://hook:AAAAAAAAA-BBBBBBBBB-123456789123456789123456@webhook")
		w.secret("https", "https://hooks.slack.com/services/A/B/C")
		for channel, want := range map[string]string{
			"{kind: slack, url_file: hook, ack_button: presses}":      "buttons need an incoming webhook",
			"{kind: webhook, url_file: https, ack_button: presses}":   "buttons need an incoming webhook",
			"{kind: slack, url_file: https, ack_button: A b}":         "ack_button is no name of a webhook",
			"{kind: mattermost, url_file: hook}":                      "the URL is no web address",
			"{kind: mattermost, url: 'https://mm.example.org/hooks'}": "write it into a file",
		} {
			if _, err := notify.Parse([]byte("channels: {team: "+channel+"}"), w.dir+"/notify.yaml"); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", channel, err, want)
			}
		}
	})
}
