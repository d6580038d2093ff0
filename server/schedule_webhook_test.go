package server_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"deadman/server"
)

// tickReceiver is a webhook that accepts each event at its third attempt, and none on the path /broken.
type tickReceiver struct {
	*httptest.Server
	mu    sync.Mutex
	posts map[string][]string // bodies by Webhook-Id
}

func newTickReceiver(t *testing.T) *tickReceiver {
	r := &tickReceiver{posts: make(map[string][]string)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		id := request.Header.Get("Webhook-Id")
		r.posts[id] = append(r.posts[id], string(body))
		if err != nil || request.URL.Path == "/broken" || len(r.posts[id]) < 3 {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// received returns the bodies of an event's attempts.
func (r *tickReceiver) received(id string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.posts[id])
}

// An event for a webhook is posted until the webhook accepts it. After the last attempt its tick ends as failed, with the
// reason, and an alert reports it.
func TestStoredSchedulesPost(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, c server.Config) {
		r := newTickReceiver(t)
		c.Notify = channelFile(t, "channels: {billing: {kind: webhook, url: "+r.URL+"/ok}, broken: {kind: webhook, url: "+r.URL+"/broken}}\n")
		n := startReadyNode(t, c)
		const rule = `
name: due-WEBHOOK
entity: report
trigger: {schedule: "@stored", emit: {webhook: WEBHOOK, attempts: 3, interval: 1s}}
`
		save := func(webhook string) reply {
			return n.saveRule(http.StatusCreated, "", strings.ReplaceAll(rule, "WEBHOOK", webhook))
		}
		if got := string(save("nope").body); !strings.Contains(got, "trigger.emit.webhook: no channel of the kind webhook is named nope, so events are not posted; known are: billing, broken") {
			t.Errorf("an unknown channel: %s", got)
		}
		at := time.Now().Add(2 * time.Second).UTC().Truncate(time.Second)
		var lines strings.Builder
		for _, webhook := range []string{"billing", "broken"} {
			if got := string(save(webhook).body); strings.Contains(got, "webhook is named") {
				t.Errorf("a known channel: %s", got)
			}
			fmt.Fprintf(&lines, `{"rule": "due-%s", "id": "c1", "schedule": "@at %s", "data": {"customer": 1}}`+"\n", webhook, at.Format(time.RFC3339))
		}
		n.changeSchedules(lines.String())
		for webhook, want := range map[string]string{"billing": "emitted, attempts 3, reason ", "broken": "failed, attempts 3, reason webhook broken: it answers 503 Service Unavailable: not now"} {
			n.eventually("the tick of "+webhook, func() bool {
				var ticks storedTicks
				n.get("/api/v1/schedules/due-"+webhook+"/c1/ticks", &ticks)
				return len(ticks.Items) == 1 && strings.TrimSpace(fmt.Sprintf("%s, attempts %d, reason %s", ticks.Items[0].Outcome, ticks.Items[0].Attempts, ticks.Items[0].Reason)) == strings.TrimSpace(want)
			})
			id := fmt.Sprintf("due-%s/c1/%d", webhook, at.Unix())
			if got := r.received(id); !slices.Equal(got, slices.Repeat([]string{`{"customer": 1}`}, 3)) {
				t.Errorf("received of %s: %q", id, got)
			}
		}
		var listed struct {
			Items []struct {
				Name       string
				EventRules []string `json:"event_rules"`
			}
		}
		n.get("/api/v1/channels", &listed)
		for _, channel := range listed.Items {
			if !slices.Equal(channel.EventRules, []string{"due-" + channel.Name}) {
				t.Errorf("a channel of events: %+v", channel)
			}
		}
		text := ""
		n.eventually("an alert of the failed tick", func() bool {
			var raised struct {
				Items []struct{ Key, Status, Step, Text string }
			}
			n.get("/api/v1/alerts?rule=deadman", &raised)
			for _, a := range raised.Items {
				if a.Key == "rule/due-broken" && a.Status == "expired" && a.Step == "post" {
					text = a.Text
				}
			}
			return text != ""
		})
		if want := "rule due-broken: the event of schedule c1 at " + at.Format(time.RFC3339) + " was not accepted in 3 attempts: webhook broken: it answers 503"; !strings.HasPrefix(text, want) {
			t.Errorf("%s, want %s", text, want)
		}
	})
}

// A shutdown is no failure of a webhook: an event that it interrupts stays planned, also at its last attempt, and the next node
// posts it.
func TestShutdownUsesUpNoAttempt(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, c server.Config) {
		arrived, requests := make(chan struct{}), atomic.Int32{}
		r := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
			if requests.Add(1) > 1 {
				return
			}
			_, _ = io.Copy(io.Discard, request.Body) // the server notices a disconnect after the body
			close(arrived)
			<-request.Context().Done()
		}))
		t.Cleanup(r.Close)
		c.Notify = channelFile(t, "channels: {billing: {kind: webhook, url: "+r.URL+"}}\n")
		c.DataDir = newDataDir(t)
		n := startReadyNode(t, c)
		n.saveRule(http.StatusCreated, "", `
name: due
entity: report
trigger: {schedule: "@stored", emit: {webhook: billing, attempts: 1}}
`)
		n.changeSchedules(`{"rule": "due", "id": "c1", "schedule": "@at ` + time.Now().Add(2*time.Second).UTC().Format(time.RFC3339) + `"}` + "\n")
		<-arrived
		n.stop()
		if err := <-n.ended; err != nil {
			t.Fatal(err)
		}
		n = startReadyNode(t, c)
		var ticks storedTicks
		n.eventually("the tick has an outcome", func() bool {
			n.get("/api/v1/schedules/due/c1/ticks", &ticks)
			return len(ticks.Items) == 1 && ticks.Items[0].Outcome != "planned"
		})
		if got := ticks.Items[0]; got.Outcome != "emitted" || got.Attempts != 2 {
			t.Errorf("the tick: %+v, want emitted in the second attempt", got)
		}
	})
}
