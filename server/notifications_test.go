package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"deadman/internal/bus/bustest"
	"deadman/internal/store/storetest"
	"deadman/server"
)

// receiver records the alerts received by a webhook: their statuses, steps and texts.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	received []string
	steps    []string // with the status: "full firing"
	texts    []string
	failing  bool
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		var m struct {
			Data struct {
				Alerts []struct{ Status, Step, Text, URL string }
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil || json.Unmarshal(body, &m) != nil || r.failing {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		for _, a := range m.Data.Alerts {
			r.received = append(r.received, a.Status)
			r.steps, r.texts = append(r.steps, a.Step+" "+a.Status), append(r.texts, a.Text)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) statusList() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.received, " ")
}

// stepList returns the steps of the received alerts, each with its status, in order.
func (r *receiver) stepList() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.steps)
}

// textList returns the texts of the received alerts.
func (r *receiver) textList() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.texts, "\n")
}

func (r *receiver) setFailing(deaf bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failing = deaf
}

func channelFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNotificationsOfAlertAndItsEnd(t *testing.T) {
	t.Parallel()
	for _, database := range []string{"sqlite", "postgres"} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t)
			c := server.Config{
				DataDir: bustest.Dir(t), Rules: ruleFolder(t, map[string]string{"payment.yaml": paymentRule}),
				Notify: channelFile(t, "channels: {hook: {kind: webhook, url: "+r.URL+"}}\nroutes: [{to: hook, group_wait: 0s}]\n"),
			}
			if database == "postgres" {
				c.DatabaseURL, c.NATSURL = storetest.Postgres(t), startNATS(t)
			}
			r.setFailing(true)
			n := startReadyNode(t, c)
			n.call(http.MethodPost, "/api/v1/events/payments.started", `{"id":"p1"}`, nil)
			var channels struct {
				Items []struct{ State, Error string }
			}
			n.eventually("the channel is reported as failing", func() bool {
				n.get("/api/v1/channels", &channels)
				return len(channels.Items) == 1 && channels.Items[0].State == "failing"
			})
			var ready struct{ Ready bool }
			n.get("/readyz", &ready)
			if ok, detail, _ := n.condition("notifications"); !ready.Ready || ok || !strings.Contains(detail, "hook") {
				t.Errorf("ready is %t, the condition %t: %q", ready.Ready, ok, detail)
			}
			n.stop() // the next node sends the pending notifications
			if err := <-n.ended; err != nil {
				t.Fatal(err)
			}
			r.setFailing(false)
			n = startReadyNode(t, c)
			n.eventually("a notification arrives", func() bool { return r.statusList() == "firing" })
			n.call(http.MethodPost, "/api/v1/events/payments.confirmed", `{"id":"p1"}`, nil)
			n.eventually("the resolve arrives", func() bool { return r.statusList() == "firing resolved" })
			var raised struct{ Items []struct{ ID string } }
			n.get("/api/v1/alerts", &raised)
			var alert struct {
				Deliveries []struct{ Channel, State string }
			}
			n.eventually("the alert knows", func() bool {
				n.get("/api/v1/alerts/"+raised.Items[len(raised.Items)-1].ID, &alert)
				return len(alert.Deliveries) == 1 && alert.Deliveries[0].State == "sent"
			})
		})
	}
}

func TestInvalidChannelFileStopsStart(t *testing.T) {
	t.Parallel()
	err := server.Run(t.Context(), server.Config{
		DataDir: bustest.Dir(t), HTTPAddr: "127.0.0.1:0", NATSAddr: "127.0.0.1:0", Notify: channelFile(t, "chanels: {}"),
	})
	if err == nil || !strings.Contains(err.Error(), "notify.yaml:1:1") || !strings.Contains(err.Error(), "did you mean \"channels\"?") {
		t.Errorf("%v", err)
	}
}

func TestNodeWithoutChannelsIsNotReady(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	c := server.Config{DatabaseURL: storetest.Postgres(t), NATSURL: startNATS(t)}
	reported := c
	reported.Notify = channelFile(t, "channels: {hook: {kind: webhook, url: "+r.URL+"}}\n")
	n := startReadyNode(t, reported)
	n.stop()
	if err := <-n.ended; err != nil {
		t.Fatal(err)
	}
	n = startReadyNode(t, c)
	n.eventually("/readyz reports that no channel is configured", func() bool {
		var ready struct {
			Conditions []struct{ Name, Detail string }
		}
		return n.get("/readyz?all", &ready) == http.StatusServiceUnavailable && strings.Contains(fmt.Sprint(ready.Conditions), "notifications cannot be sent")
	})
	n.stop()
	if err := <-n.ended; err != nil {
		t.Fatal(err)
	}
	reported.Notify = channelFile(t, "channels: {}\n") // notifications are off
	n = startReadyNode(t, reported)
	n.eventually("it is well", func() bool { return n.get("/readyz?all", nil) == http.StatusOK })
}

// A message has the description of the rule, the next step of the job, and the acknowledgement.
func TestNotificationsShowWhatComesNext(t *testing.T) {
	t.Parallel()
	const rule = `name: payment-slow
description: Call the bank.
entity: payment
slot: 1s
trigger: {event: payments.begun, key: event.id}
resolve: {event: payments.done, key: event.id}
escalate: [{after: 1s, step: first, severity: warning}, {after: 20s, step: second, severity: error}, {after: 2h, step: third, severity: critical}]
`
	for _, database := range []string{"sqlite", "postgres"} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var texts []string
			r := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				var m struct{ Text string }
				if json.NewDecoder(request.Body).Decode(&m) == nil {
					texts = append(texts, m.Text)
				}
			}))
			t.Cleanup(r.Close)
			folder := t.TempDir()
			if err := os.WriteFile(filepath.Join(folder, "url"), []byte("mattermost://"+strings.TrimPrefix(r.URL, "http://")+"/token/town?disabletls=yes"), 0o600); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(folder, "notify.yaml")
			if err := os.WriteFile(path, []byte("channels: {chat: {kind: shoutrrr, url_file: url}}\nroutes: [{to: chat, group_wait: 0s}]\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			c := server.Config{DataDir: bustest.Dir(t), Rules: ruleFolder(t, map[string]string{"slow.yaml": rule}), Notify: path}
			if database == "postgres" {
				c.DatabaseURL, c.NATSURL = storetest.Postgres(t), startNATS(t)
			}
			n := startReadyNode(t, c)
			has := func(parts ...string) func() bool {
				return func() bool {
					mu.Lock()
					defer mu.Unlock()
					return slices.ContainsFunc(texts, func(text string) bool {
						return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
					})
				}
			}
			n.call(http.MethodPost, "/api/v1/events/payments.begun", `{"id":"p1"}`, nil)
			n.eventually("the first message names the second step", has("[WARNING\\] no payments.done for payment p1 within 1s of payments.begun", "Call the bank.", "Next: second (error) at ", ", to chat"))
			n.eventually("the second message names the third step", has("[ERROR\\]", "within 20s of", "Next: third (critical) at "))
		})
	}
}
