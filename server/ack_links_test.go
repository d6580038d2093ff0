package server_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"deadman/internal/bus/bustest"
	"deadman/internal/store/storetest"
	"deadman/server"
)

// linkMessage is a message of a webhook channel with its links.
type linkMessage struct {
	AckURL string `json:"ack_url"`
	Keys   []struct {
		Alert, Key string
		AckURL     string `json:"ack_url"`
	}
	Acknowledgements []struct{ By, Note, Key string }
}

// A link in a message acknowledges its alert, the link of a message all of its alerts, and the channel is told.
func TestLinksInMessagesAcknowledge(t *testing.T) {
	t.Parallel()
	for _, database := range []string{"sqlite", "postgres"} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var messages []linkMessage
			r := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
				var m struct{ Data linkMessage }
				if json.NewDecoder(request.Body).Decode(&m) == nil {
					mu.Lock()
					defer mu.Unlock()
					messages = append(messages, m.Data)
				}
			}))
			t.Cleanup(r.Close)
			c := server.Config{
				DataDir: bustest.Dir(t), Rules: ruleFolder(t, map[string]string{"payment.yaml": paymentRule}), PublicURL: "https://deadman.example.org/", Insecure: true,
				Notify: channelFile(t, "channels: {hook: {kind: webhook, url: "+r.URL+"}}\nroutes: [{to: hook, group_wait: 2s}]\n"),
			}
			if database == "postgres" {
				c.DatabaseURL, c.NATSURL = storetest.Postgres(t), startNATS(t)
			}
			n := startReadyNode(t, c)
			message := func(what string, has func(linkMessage) bool) (found linkMessage) {
				t.Helper()
				n.eventually(what, func() bool {
					mu.Lock()
					defer mu.Unlock()
					for _, m := range messages {
						if has(m) {
							found = m
							return true
						}
					}
					return false
				})
				return found
			}
			use := func(link string) {
				t.Helper()
				path, ok := strings.CutPrefix(link, "https://deadman.example.org")
				if !ok {
					t.Fatalf("the link is %q", link)
				}
				n.callExpecting(http.StatusOK, http.MethodGet, path, "")
				if got := n.callRaw(http.MethodPost, path, "name=ada", "Content-Type", "application/x-www-form-urlencoded"); got.status >= 400 {
					t.Fatalf("%d %s", got.status, got.body)
				}
			}
			acknowledged := func(rule, key string) bool {
				var job struct {
					Acknowledged struct{ By, Note string }
				}
				n.get("/api/v1/jobs/"+rule+"/"+key, &job)
				return job.Acknowledged.By == "channel:hook" && job.Acknowledged.Note == "by link, as ada"
			}
			n.call(http.MethodPost, "/api/v1/events/payments.started", `{"id":"p1"}`, nil)
			single := message("a message about one key", func(m linkMessage) bool { return len(m.Keys) == 1 && m.Keys[0].AckURL != "" })
			if single.AckURL != "" {
				t.Errorf("a message about one key has the link %s", single.AckURL)
			}
			use(single.Keys[0].AckURL)
			if !acknowledged("payment-unconfirmed", "p1") {
				t.Error("p1 is not acknowledged")
			}
			reported := message("the channel is told", func(m linkMessage) bool { return len(m.Acknowledgements) == 1 })
			if a := reported.Acknowledgements[0]; a.By != "channel:hook" || a.Note != "by link, as ada" || a.Key != "p1" {
				t.Errorf("%+v", a)
			}
			n.call(http.MethodPost, "/api/v1/events/payments.started", `{"id":"p2"}`, nil)
			n.call(http.MethodPost, "/api/v1/events/payments.started", `{"id":"p3"}`, nil)
			group := message("a message about two keys", func(m linkMessage) bool { return len(m.Keys) == 2 && m.AckURL != "" })
			use(group.AckURL)
			if !acknowledged("payment-unconfirmed", "p2") || !acknowledged("payment-unconfirmed", "p3") {
				t.Error("p2 and p3 are not acknowledged")
			}
		})
	}
}

// A node takes presses of buttons at its webhooks: of Mattermost by the token, of Slack by the signature.
func TestButtonsAcknowledgeAtWebhooks(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var sent []string
	r := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		if body, err := io.ReadAll(request.Body); err == nil {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, string(body))
		}
	}))
	t.Cleanup(r.Close)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"chat.url": r.URL, "slack.secret": "8f742231b10e8888abcd99yyyzzz85a5",
		"notify.yaml": "channels: {mm: {kind: mattermost, url_file: chat.url, ack_button: mm}, slack: {kind: slack, url_file: chat.url, ack_button: slack}}\nroutes: [{to: [mm, slack], group_wait: 0s}]\n",
		"hooks.yaml":  "hooks: [{name: mm, scheme: mattermost}, {name: slack, scheme: slack, secret_file: slack.secret}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := startReadyNode(t, server.Config{
		DataDir: bustest.Dir(t), Rules: ruleFolder(t, map[string]string{"payment.yaml": paymentRule}), PublicURL: "https://deadman.example.org", Insecure: true,
		Notify: filepath.Join(dir, "notify.yaml"), Hooks: filepath.Join(dir, "hooks.yaml"),
	})
	token := func(before string) (found string) {
		t.Helper()
		n.eventually("a message has a button", func() bool {
			mu.Lock()
			defer mu.Unlock()
			for _, body := range sent {
				if _, rest, ok := strings.Cut(body, before); ok {
					found, _, _ = strings.Cut(rest, `"`)
					return true
				}
			}
			return false
		})
		return found
	}
	const button = `"context":{"token":"`
	n.call(http.MethodPost, "/api/v1/events/payments.started", `{"id":"p1"}`, nil)
	press := `{"user_name": "ada", ` + button + token(button) + `"}}`
	n.callExpecting(http.StatusNotFound, http.MethodPost, "/hooks/mm", strings.Replace(press, button, button+"A", 1))
	n.callExpecting(http.StatusBadRequest, http.MethodPost, "/hooks/mm", `{"id": 1}`)
	if answer := n.callExpecting(http.StatusOK, http.MethodPost, "/hooks/mm", press); !strings.Contains(string(answer.body), `"props":{}`) || !strings.Contains(string(answer.body), "(by button, as ada)") {
		t.Errorf("%s", answer.body)
	}
	payload, err := json.Marshal(map[string]any{
		"type": "block_actions", "user": map[string]string{"username": "bob"}, "response_url": "https://evil.example/actions/1",
		"actions": []map[string]string{{"action_id": "acknowledge", "value": token(`"value":"`)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	body := url.Values{"payload": {string(payload)}}.Encode()
	signed := func(at time.Time) []string {
		mac := hmac.New(sha256.New, []byte("8f742231b10e8888abcd99yyyzzz85a5"))
		fmt.Fprintf(mac, "v0:%d:%s", at.Unix(), body)
		return []string{"X-Slack-Request-Timestamp", fmt.Sprint(at.Unix()), "X-Slack-Signature", "v0=" + hex.EncodeToString(mac.Sum(nil)), "Content-Type", "application/x-www-form-urlencoded"}
	}
	n.callExpecting(http.StatusUnauthorized, http.MethodPost, "/hooks/slack", body)
	n.callExpecting(http.StatusUnauthorized, http.MethodPost, "/hooks/slack", body, signed(time.Now().Add(-6*time.Minute))...)
	if answer := n.callExpecting(http.StatusBadRequest, http.MethodPost, "/hooks/slack", body, signed(time.Now())...); !strings.Contains(string(answer.body), "response_url is not of Slack") {
		t.Errorf("%s", answer.body)
	}
	var job struct {
		Acknowledged struct{ By, Note string }
	}
	if n.get("/api/v1/jobs/payment-unconfirmed/p1", &job); job.Acknowledged.By != "channel:mm" || job.Acknowledged.Note != "by button, as ada" {
		t.Errorf("%+v", job)
	}
}
