package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// webhook is a channel that posts JSON, signed by Standard Webhooks 1.0 (https://www.standardwebhooks.com) if a
// secret is configured.
type webhook struct {
	url    string
	header http.Header
	secret []byte // nil: unsigned
	client *http.Client
}

const secretPrefix = "whsec_"

func newWebhook(s Spec, client *http.Client) (*webhook, error) {
	w := &webhook{url: s.URL, header: headerOf(s.Headers), client: client}
	if s.Secret == "" {
		return w, nil
	}
	var err error
	w.secret, err = base64.StdEncoding.DecodeString(strings.TrimPrefix(s.Secret, secretPrefix))
	if err != nil || len(w.secret) < 24 || len(w.secret) > 64 {
		return nil, fmt.Errorf("the secret is not as Standard Webhooks has it; write %s and 24 to 64 random bytes in base64", secretPrefix)
	}
	return w, nil
}

// The types of webhook messages.
const (
	MessageType    = "dev.deadman.alerts"
	AckMessageType = "dev.deadman.acknowledgements" // has no alerts
)

// WebhookMessage is the body of a webhook request.
type WebhookMessage struct {
	Type      string      `json:"type"`
	Timestamp time.Time   `json:"timestamp"` // time of sending
	Data      WebhookData `json:"data"`
}

// WebhookData is the JSON form of a message.
type WebhookData struct {
	Channel   string         `json:"channel"`
	Route     string         `json:"route"`
	Topic     string         `json:"topic"` // the common property of its alerts
	Title     string         `json:"title"`
	Count     int            `json:"count"` // of all alerts, including truncated ones
	Truncated int            `json:"truncated"`
	Alerts    []alerts.Alert `json:"alerts"`
	URL       string         `json:"url,omitempty"`

	Severities map[alerts.Severity]int `json:"severities"`        // numbers of keys that are not resolved
	Resolved   int                     `json:"resolved"`          // number of keys that are
	Keys       []WebhookKey            `json:"keys"`              // the first 10
	AckURL     string                  `json:"ack_url,omitempty"` // acknowledges all alerts; absent: those of keys do

	Acknowledgements []WebhookAcked `json:"acknowledgements,omitempty"` // of jobs; the first 10
	Acknowledged     int            `json:"acknowledged,omitempty"`     // number of acknowledged jobs
}

// WebhookAcked is the JSON form of the acknowledgement of a job.
type WebhookAcked struct {
	Alert  alerts.ID `json:"alert"`
	Rule   string    `json:"rule"`
	Entity string    `json:"entity"`
	Key    string    `json:"key"`
	Text   string    `json:"text"`
	WebhookAck
	URL string `json:"url,omitempty"`
}

// WebhookKey is the JSON form of the state of a key.
type WebhookKey struct {
	Alert        alerts.ID       `json:"alert"` // the newest of the message
	Rule         string          `json:"rule"`
	Entity       string          `json:"entity"`
	Key          string          `json:"key"`
	Resolved     bool            `json:"resolved"`
	Severity     alerts.Severity `json:"severity"`
	Text         string          `json:"text"`
	Description  string          `json:"description,omitempty"` // of the rule
	Runbook      string          `json:"runbook,omitempty"`
	Next         *WebhookStep    `json:"next,omitempty"`
	Acknowledged *WebhookAck     `json:"acknowledged,omitempty"`
	AckURL       string          `json:"ack_url,omitempty"`
	URL          string          `json:"url,omitempty"`
}

// WebhookStep is the JSON form of a NextStep.
type WebhookStep struct {
	Step     string          `json:"step"`
	Severity alerts.Severity `json:"severity"`
	At       time.Time       `json:"at"`
	To       []string        `json:"to,omitempty"` // names of channels
}

// WebhookAck is the JSON form of an acknowledgement.
type WebhookAck struct {
	By    string    `json:"by"`
	Until time.Time `json:"until,omitzero"` // absent: until the job ends
	Note  string    `json:"note,omitempty"`
}

// webhookKeys converts the states of keys.
func webhookKeys(keys []KeyState) []WebhookKey {
	all := make([]WebhookKey, 0, len(keys))
	for _, k := range keys[:min(len(keys), shownKeys)] {
		one := WebhookKey{
			Alert: k.ID, Rule: k.Rule, Entity: k.Entity, Key: k.Key, Resolved: k.IsResolved(), Severity: k.Severity, Text: k.Text,
			Description: k.Description, Runbook: k.Alert.Runbook(), AckURL: k.AckURL, URL: k.URL,
		}
		if n := k.Next; n != nil {
			one.Next = &WebhookStep{n.Name, n.Severity, n.At.UTC(), n.To}
		}
		if a := k.Acknowledged; a != nil {
			ack := webhookAck(*a)
			one.Acknowledged = &ack
		}
		all = append(all, one)
	}
	return all
}

func webhookAck(a futurejobs.Ack) WebhookAck {
	w := WebhookAck{By: a.By, Note: a.Note}
	if !a.IsUntilResolved() {
		w.Until = a.Until.UTC()
	}
	return w
}

// data returns the JSON form of a message.
func (m Message) data() WebhookData {
	d := WebhookData{
		Channel: m.Channel, Route: m.Route, Topic: m.Topic, Title: m.Title(), Count: m.Notification.Alerts,
		Truncated: m.Notification.Alerts - len(m.Alerts), Alerts: append([]alerts.Alert{}, m.Alerts...), URL: m.Link(),
		Severities: make(map[alerts.Severity]int), Keys: webhookKeys(m.keys()), AckURL: m.AckURL,
	}
	d.Acknowledged = m.acked()
	for _, k := range m.Acks.First {
		a := k.Alert
		d.Acknowledgements = append(d.Acknowledgements, WebhookAcked{
			Alert: a.ID, Rule: a.Rule, Entity: a.Entity, Key: a.Key, Text: a.Text, URL: a.URL,
			WebhookAck: webhookAck(futurejobs.Ack{By: k.By, Until: k.Until, Note: k.Note}),
		})
	}
	for _, c := range m.counts() {
		if c.Resolved {
			d.Resolved += c.Count
		} else {
			d.Severities[c.Severity] += c.Count
		}
	}
	return d
}

// Send implements Channel.
func (w *webhook) Send(ctx context.Context, m Message) error {
	kind := MessageType
	if m.isAck() {
		kind = AckMessageType
	}
	body, err := json.Marshal(WebhookMessage{Type: kind, Timestamp: m.At.UTC(), Data: m.data()})
	if err != nil {
		return err
	}
	r, err := newPost(ctx, w.url, w.header, body)
	if err != nil {
		return err
	}
	w.sign(r, m.Key(), m.At, body)
	if m.Trace != "" {
		r.Header.Set("Traceparent", m.Trace)
	}
	return do(w.client, r)
}

// sign sets the headers of Standard Webhooks.
func (w *webhook) sign(r *http.Request, id string, at time.Time, body []byte) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	r.Header.Set("Webhook-Id", id)
	r.Header.Set("Webhook-Timestamp", stamp)
	if w.secret == nil {
		return
	}
	mac := hmac.New(sha256.New, w.secret)
	fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body)
	r.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}
