package server_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

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
