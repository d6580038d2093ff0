package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
)

// chat is an incoming webhook of Slack or Mattermost. Its messages can have a button that acknowledges alerts.
type chat struct {
	kind   Kind
	url    string
	hook   string // that receives presses of buttons
	format format
	client *http.Client
}

// sectionSize is the maximum size of a message, in bytes: Slack accepts 3000 characters in a section.
const sectionSize = 2900

func newChat(s Spec, client *http.Client) *chat {
	c := &chat{kind: s.Kind, url: s.URL, hook: s.AckButton, format: markdown, client: client}
	if s.Kind == Slack {
		c.format = entities
	}
	return c
}

// chatMessage is the body of a message to Slack or Mattermost, and of a change of one.
type chatMessage struct {
	Text        string           `json:"text"`                  // of Slack: for notifications
	Blocks      []slackBlock     `json:"blocks,omitempty"`      // of Slack
	Attachments []chatAttachment `json:"attachments,omitempty"` // of Mattermost

	ReplaceOriginal bool   `json:"replace_original,omitempty"` // of Slack
	ResponseType    string `json:"response_type,omitempty"`    // of Slack; ephemeral: only for the person who pressed
}

// slackBlock is a section or a row of buttons (https://docs.slack.dev/reference/block-kit/blocks).
type slackBlock struct {
	Type     string        `json:"type"`
	Text     *slackText    `json:"text,omitempty"`
	Elements []slackButton `json:"elements,omitempty"`
}

type slackText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type slackButton struct {
	Type     string    `json:"type"`
	ActionID string    `json:"action_id"`
	Text     slackText `json:"text"`
	Style    string    `json:"style"`
	Value    string    `json:"value"`
}

// chatAttachment has buttons of Mattermost (https://developers.mattermost.com/integrate/plugins/interactive-messages/).
type chatAttachment struct {
	Fallback string             `json:"fallback"`
	Actions  []mattermostButton `json:"actions"`
}

type mattermostButton struct {
	ID          string                `json:"id"`
	Type        string                `json:"type"`
	Name        string                `json:"name"`
	Style       string                `json:"style"`
	Integration mattermostIntegration `json:"integration"`
}

type mattermostIntegration struct {
	URL     string            `json:"url"`
	Context mattermostContext `json:"context"` // never shown to readers
}

type mattermostContext struct {
	Token string `json:"token"`
}

// buttonText is the text of the button, and buttonID its name.
const (
	buttonText = "Acknowledge"
	buttonID   = "acknowledge"
)

// message returns the body of a message. A message of Slack is a section, which a change replaces.
func (c *chat) message(m Message) chatMessage {
	if c.kind == Slack {
		title, text := fitting(m, c.format, sectionSize)
		body := chatMessage{Text: title, Blocks: []slackBlock{{Type: "section", Text: &slackText{"mrkdwn", "*" + title + "*\n" + text}}}}
		if m.AckButton != "" {
			body.Blocks = append(body.Blocks, slackBlock{Type: "actions", Elements: []slackButton{{
				Type: "button", ActionID: buttonID, Text: slackText{"plain_text", buttonText}, Style: "primary", Value: m.AckButton,
			}}})
		}
		return body
	}
	title, text := fitting(m, c.format, textSize)
	body := chatMessage{Text: title + "\n" + text}
	if m.AckButton != "" {
		body.Attachments = []chatAttachment{{Fallback: buttonText, Actions: []mattermostButton{{
			ID: buttonID, Type: "button", Name: buttonText, Style: "primary",
			Integration: mattermostIntegration{m.PublicURL + "/hooks/" + c.hook, mattermostContext{m.AckButton}},
		}}}}
	}
	return body
}

// Send implements Channel.
func (c *chat) Send(ctx context.Context, m Message) error {
	return postJSON(ctx, c.client, c.url, c.message(m))
}

func postJSON(ctx context.Context, client *http.Client, url string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	return do(client, r)
}
