package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	"deadman/internal/acklinks"
)

// Buttons acknowledges alerts with the buttons of messages in Slack and Mattermost. It is safe for concurrent use.
type Buttons struct {
	Links     *acklinks.Links
	Client    *http.Client // of changes of messages in Slack
	PublicURL string
	Now       func() time.Time
	Log       *slog.Logger
}

// ErrPress means that the body of a press is not as the chat sends it.
var ErrPress = errors.New("the request is no press of a button of deadman; the hook takes interactive messages of Slack or Mattermost")

// press is a press of a button.
type press struct {
	token    string
	user     string
	response string // of Slack: the address for a change of the message
}

// updateTime bounds the change of a message in Slack, which expects the answer to a press within three seconds.
const updateTime = 2 * time.Second

// slackHosts are the hosts to which Slack's changes of messages are sent.
var slackHosts = []string{"hooks.slack.com", "hooks.slack-gov.com"}

// Press acknowledges the alerts of a button, and returns the answer for the chat: the message has the acknowledgement in
// place of the button then. hook is the webhook that received the press; a button of a channel with another webhook is
// invalid. The caller has verified the signature of Slack. It returns ErrPress, and acklinks.ErrInvalid for
// the unsigned press of Mattermost. Another reason not to acknowledge is shown to the person who pressed. An acknowledgement
// without a change of its message in Slack is logged, as the channel gets a message about it anyway.
func (b *Buttons) Press(ctx context.Context, kind, hook string, body []byte) (answer []byte, err error) {
	of := Kind(kind)
	p, err := readPress(of, body)
	if err != nil {
		return nil, err
	}
	s, err := b.Links.Use(ctx, p.token, hook, p.user)
	refusal := ""
	switch {
	case errors.Is(err, acklinks.ErrInvalid) && of == Mattermost:
		return nil, err
	case errors.Is(err, acklinks.ErrInvalid), errors.Is(err, acklinks.ErrExpired), errors.Is(err, acklinks.ErrUsed):
		refusal = "Not acknowledged: " + strings.ReplaceAll(err.Error(), "the link", "the button")
	case err != nil:
		return nil, err
	case s.Alerts == 0 && s.IsMessage:
		refusal = "All alerts of this message are resolved."
	}
	if of == Mattermost {
		return json.Marshal(b.mattermostAnswer(s, refusal))
	}
	changing, cancel := context.WithTimeout(ctx, updateTime)
	defer cancel()
	change := chatMessage{ResponseType: "ephemeral", Text: refusal}
	if refusal == "" {
		change = (&chat{kind: Slack, format: entities}).message(b.acknowledged(s))
		change.ReplaceOriginal = true
	}
	err = postJSON(changing, b.Client, p.response, change)
	if err == nil {
		return nil, nil
	}
	reason := Spec{URL: p.response}.reason(err)
	if refusal != "" {
		return nil, fmt.Errorf("answer to a press of a button in Slack: %s", reason)
	}
	b.Log.WarnContext(ctx, "an acknowledged message in Slack keeps its button", "channel", s.Channel, "err", reason)
	return nil, nil
}

// mattermostAnswer is the answer to a press in Mattermost.
type mattermostAnswer struct {
	Update    *mattermostPost `json:"update,omitempty"`
	Ephemeral string          `json:"ephemeral_text,omitempty"`
}

// mattermostPost replaces a message, with its buttons.
type mattermostPost struct {
	Message string   `json:"message"`
	Props   struct{} `json:"props"`
}

func (b *Buttons) mattermostAnswer(s acklinks.State, refusal string) mattermostAnswer {
	if refusal != "" {
		return mattermostAnswer{Ephemeral: refusal}
	}
	body := (&chat{kind: Mattermost, format: markdown}).message(b.acknowledged(s))
	return mattermostAnswer{Update: &mattermostPost{Message: body.Text}}
}

// acknowledged returns the message about the alerts of a button after a press: as the message about an acknowledgement, or
// about a resolved alert.
func (b *Buttons) acknowledged(s acklinks.State) Message {
	a := s.First.Alert
	m := Message{Notification: alerts.Notification{Channel: s.Channel, Topic: "rule=" + a.Rule}, PublicURL: b.PublicURL, Zone: b.Links.Zone(), At: b.Now()}
	if b.PublicURL != "" && a.ID != (alerts.ID{}) {
		a.URL = m.PublicURL + "/alerts/" + a.ID.String()
	}
	if ack := s.First.Ack; ack != nil {
		m.Acks = alerts.AckSummary{
			Counts: []alerts.AckCount{{By: ack.By, Until: ack.Until, Note: ack.Note, Count: s.Alerts}},
			First:  []alerts.ShownAck{{Alert: a, By: ack.By, Until: ack.Until, Note: ack.Note}},
		}
		return m
	}
	m.Notification.Alerts, m.Alerts = 1, []alerts.Alert{a}
	m.Keys = []KeyState{{KeyState: alerts.KeyState{Alert: a, Closed: true}}}
	return m
}

// readPress reads the body of a press.
func readPress(kind Kind, body []byte) (press, error) {
	var p press
	if kind == Mattermost {
		var in struct {
			UserName string            `json:"user_name"`
			Context  mattermostContext `json:"context"`
		}
		if err := json.Unmarshal(body, &in); err != nil || in.Context.Token == "" {
			return p, ErrPress
		}
		return press{token: in.Context.Token, user: in.UserName}, nil
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return p, ErrPress
	}
	var in struct {
		Type string `json:"type"`
		User struct{ Username, Name, ID string }
		URL  string `json:"response_url"`

		Actions []struct {
			ID    string `json:"action_id"`
			Value string
		}
	}
	if err := json.Unmarshal([]byte(form.Get("payload")), &in); err != nil || in.Type != "block_actions" || len(in.Actions) != 1 || in.Actions[0].ID != buttonID {
		return p, ErrPress
	}
	to, err := url.Parse(in.URL)
	if err != nil || to.Scheme != "https" || to.User != nil || !slices.Contains(slackHosts, to.Host) {
		return p, fmt.Errorf("%w: its response_url is not of Slack", ErrPress)
	}
	return press{token: in.Actions[0].Value, user: cmp.Or(in.User.Username, in.User.Name, in.User.ID), response: in.URL}, nil
}
