package notify

import (
	"bytes"
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
)

// webhook is a channel that posts JSON, signed by Standard Webhooks 1.0 (https://www.standardwebhooks.com) if a
// secret is configured.
type webhook struct {
	url    string
	secret []byte // nil: unsigned
	client *http.Client
}

const secretPrefix = "whsec_"

func newWebhook(s Spec, client *http.Client) (*webhook, error) {
	w := &webhook{url: s.URL, client: client}
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

// MessageType is the type of webhook messages.
const MessageType = "dev.deadman.alerts"

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
}

// Send implements Channel.
func (w *webhook) Send(ctx context.Context, m Message) error {
	body, err := json.Marshal(WebhookMessage{
		Type: MessageType, Timestamp: m.At.UTC(), Data: WebhookData{
			Channel: m.Channel, Route: m.Route, Topic: m.Topic, Title: m.Title(), Count: m.Notification.Alerts,
			Truncated: m.Notification.Alerts - len(m.Alerts), Alerts: m.Alerts, URL: m.Link(),
		},
	})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	key, stamp := m.Key(), strconv.FormatInt(m.At.Unix(), 10)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Webhook-Id", key)
	r.Header.Set("Webhook-Timestamp", stamp)
	if w.secret != nil {
		mac := hmac.New(sha256.New, w.secret)
		fmt.Fprintf(mac, "%s.%s.%s", key, stamp, body)
		r.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return do(w.client, r)
}
