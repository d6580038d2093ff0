package notify_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/notify"
)

// alertmanagerFile has an Alertmanager. Its route has limits that an Alertmanager does not need.
const alertmanagerFile = `
channels: {am: {kind: alertmanager, url: $URL/am/}}
routes: [{to: am, group_wait: 10m, max_per_hour: 1}]
`

// postedAlerts decodes the requests to an Alertmanager, without those that only find out if it answers.
func postedAlerts(t *testing.T, posts []post) (all [][]amAlert) {
	t.Helper()
	for _, p := range posts {
		if !strings.HasPrefix(p.path, "/am") {
			continue
		}
		var posted []amAlert
		if err := json.Unmarshal([]byte(p.body), &posted); err != nil || posted == nil {
			t.Fatalf("%.100s: %v", p.body, err)
		}
		if p.path != "/am/api/v2/alerts" || p.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s, %v", p.path, p.header)
		}
		if len(posted) > 0 {
			all = append(all, posted)
		}
	}
	return all
}

// pass passes time, and runs steps of a notifier until nothing is left to be sent.
func (w *fixture) pass(n *notify.Notifier, d time.Duration) [][]amAlert {
	w.t.Helper()
	for range 4 {
		w.advance(n, d)
		d = 0
	}
	return postedAlerts(w.t, w.receiver.received())
}

// alertmanager returns a notifier after its first round.
func (w *fixture) alertmanager(file string) *notify.Notifier {
	w.t.Helper()
	n := w.notifier(file)
	w.pass(n, 0)
	return n
}

// sentKeys returns the keys of sent alerts, with their ends after or before the current time.
func (w *fixture) sentKeys(sent [][]amAlert) string {
	var texts []string
	for _, a := range slices.Concat(sent...) {
		texts = append(texts, fmt.Sprintf("%s %s %s", a.Labels["key"], a.Labels["severity"], a.EndsAt.Sub(w.now)))
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}

// An Alertmanager gets each open alert at once and in every interval, with an end in the future, until it is resolved.
func TestAlertmanagerGetsOpenAlertsAgain(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		n := w.alertmanager(alertmanagerFile)
		w.fire(alerts.Critical, map[string]string{"site-name": "north", "9 a": "b", "key": "none", "site_name": "exact", "alertname": "none"}, "a", "b")
		began := w.now
		first := w.pass(n, 0)
		if got := w.sentKeys(first); got != "a critical 4m0s, b critical 4m0s" {
			t.Fatal(got)
		}
		a := first[0][slices.IndexFunc(first[0], func(a amAlert) bool { return a.Labels["key"] == "a" })]
		want := amAlert{
			Labels: model.LabelSet{
				"alertname": "order-late", "entity": "order", "key": "a", "severity": "critical", "step": "primary", "site_name": "exact", "__a": "b",
			},
			Annotations: model.LabelSet{"summary": "order a waits", "description": "about order-late"},
			StartsAt:    began.Add(-time.Hour), EndsAt: began.Add(4 * time.Minute),
			GeneratorURL: "https://deadman.example.org/alerts/" + w.alertOf("a").ID.String(),
		}
		if diff := cmp.Diff(want, a, cmp.Comparer(time.Time.Equal)); diff != "" {
			t.Errorf("the alert (-want +got):\n%s", diff)
		}
		if got := w.sentKeys(w.pass(n, 50*time.Second)); got != "" {
			t.Errorf("within the interval: %s", got)
		}
		for range 3 {
			if got := w.sentKeys(w.pass(n, time.Minute)); got != "a critical 4m0s, b critical 4m0s" {
				t.Errorf("after an interval: %s", got)
			}
		}
		w.resolve("a")
		resolved := w.alertWith("a", alerts.Resolved).DecidedAt
		got := w.pass(n, 0)
		if len(got) != 1 || len(got[0]) != 1 || !got[0][0].EndsAt.Equal(resolved) || !got[0][0].Labels.Equal(a.Labels) || got[0][0].Annotations["summary"] != "it happened" {
			t.Errorf("resolved: %+v", got)
		}
		// Its end is repeated until an interval is over: the Alertmanager's clock may be behind.
		isEnd := func(p amAlert) bool { return p.Labels["key"] == "a" && p.EndsAt.Equal(resolved) }
		if got := w.pass(n, time.Minute); !slices.ContainsFunc(slices.Concat(got...), isEnd) {
			t.Errorf("the next round does not repeat the end: %+v", got)
		}
		if got := w.sentKeys(w.pass(n, time.Minute)); got != "b critical 4m0s" {
			t.Errorf("after the resolve: %s", got)
		}
		if got := w.deliveryState("b"); got != "am sent after 1" {
			t.Error(got)
		}
	})
}

// A node that takes over, or restarts, sends the open alerts at once, and a node that is not the notifying node none.
func TestAlertmanagerGetsOpenAlertsOfOneNode(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		w.fire(alerts.Warning, nil, "a")
		n := w.alertmanager(alertmanagerFile)
		w.elsewhere = true
		if got := w.pass(n, time.Hour); len(got) != 0 {
			t.Errorf("the other node sends %+v", got)
		}
		w.elsewhere = false
		if got := w.sentKeys(w.pass(w.notifier(alertmanagerFile), 0)); got != "a warning 4m0s" {
			t.Errorf("after a takeover: %s", got)
		}
	})
}

// The steps of a job are alerts of their own, resolved together. Alerts of jobs that end without a resolve, muted ones, and
// those of other channels are not sent again.
func TestAlertmanagerGetsTheAlertsOfItsRoutes(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		n := w.alertmanager(`
channels:
  am: {kind: alertmanager, url: $URL/am, resend_interval: 10m}
  other: {kind: webhook, url: $URL/other}
routes:
  - {severity: info, to: other}
  - {to: am}
`)
		w.fire(alerts.Info, nil, "elsewhere")
		w.fire(alerts.Warning, nil, "a", "cancelled")
		w.raise(alerts.Critical, nil, "a")
		w.raise(alerts.Info, nil, "a") // to the other channel
		must[alerts.Mute](t)(w.CreateMute(t.Context(), alerts.Mute{Match: alerts.Match{"key": "muted"}, Reason: "test", EndsAt: w.now.Add(time.Hour)}))
		w.fire(alerts.Critical, nil, "muted")
		const open = "a critical 40m0s, a warning 40m0s, cancelled warning 40m0s"
		if got := w.sentKeys(w.pass(n, 0)); got != open {
			t.Errorf("at first: %s", got)
		}
		w.receiver.received()
		w.batch(futurejobs.Effect{Rule: w.rule, Ref: w.ref("cancelled"), Action: futurejobs.End{Outcome: "cancelled"}})
		if got := w.sentKeys(w.pass(n, 10*time.Minute)); got != "a critical 40m0s, a warning 40m0s" {
			t.Errorf("after a cancellation: %s", got)
		}
		w.resolve("a")
		if got := w.sentKeys(w.pass(n, 0)); strings.Count(got, "a ") != 2 || strings.Contains(got, "40m") || strings.Contains(got, "info") {
			t.Errorf("after the resolve: %s", got)
		}
	})
}

// An alert that was closed before it is sent is not sent as firing: its message may be later than that of its end.
func TestAlertmanagerGetsNoClosedAlert(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		n := w.alertmanager(alertmanagerFile)
		w.receiver.setStatus(http.StatusInternalServerError)
		w.fire(alerts.Warning, nil, "a", "b")
		w.pass(n, 0)
		w.resolve("a")
		w.pass(n, time.Minute)
		w.receiver.setStatus(0)
		var got [][]amAlert
		for range 3 {
			got = append(got, w.pass(n, 10*time.Minute)...)
		}
		resolved := w.alertWith("a", alerts.Resolved).DecidedAt
		for _, a := range slices.Concat(got...) {
			if a.Labels["key"] == "a" && a.EndsAt.After(resolved) {
				t.Errorf("it fires until %s, after its end at %s", a.EndsAt, resolved)
			}
		}
		if !strings.Contains(w.sentKeys(got), "a warning") || !strings.Contains(w.sentKeys(got), "b warning 4m0s") {
			t.Errorf("sent: %s", w.sentKeys(got))
		}
	})
}

// Thousands of alerts are sent in pages, first with their message, then in each round.
func TestAlertmanagerGetsManyAlertsInPages(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		n := w.alertmanager(alertmanagerFile)
		keys := numberedKeys("k", 1200)
		w.fire(alerts.Error, nil, keys...)
		for _, after := range []time.Duration{0, time.Minute} { // the message, and a round
			got := w.pass(n, after)
			counts := make(map[string]int)
			for _, a := range slices.Concat(got...) {
				counts[string(a.Labels["key"])]++
			}
			if len(got) != 3 || len(counts) != len(keys) {
				t.Errorf("after %s there are %d requests with %d keys, want 3 with %d", after, len(got), len(counts), len(keys))
			}
		}
		w.receiver.during = func() { w.elsewhere = true } // the first request of a round has no alerts
		if got := w.pass(n, time.Minute); len(got) != 0 {
			t.Errorf("another node sends the open alerts since the start of a round, and this one sends %d pages", len(got))
		}
		w.receiver.during, w.elsewhere = nil, false
		w.resolve(keys...)
		for _, a := range slices.Concat(w.pass(n, 0)...) {
			if a.EndsAt.After(w.now.Add(3 * time.Minute)) {
				t.Fatalf("resolved: %+v", a)
			}
			keys = slices.DeleteFunc(keys, func(key string) bool { return key == string(a.Labels["key"]) })
		}
		if len(keys) > 0 {
			t.Errorf("%d alerts are not resolved", len(keys))
		}
	})
}

// A round that an Alertmanager does not accept makes its channel fail, also without alerts.
func TestAlertmanagerThatDoesNotAnswerFails(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		n := w.alertmanager(alertmanagerFile)
		w.receiver.setStatus(http.StatusNotFound)
		for range alerts.FailingAfter {
			w.pass(n, time.Minute)
		}
		state := must[[]alerts.ChannelState](t)(n.Channels(t.Context()))[0]
		if state.Tries < alerts.FailingAfter || state.FailingSince.IsZero() || !strings.Contains(state.Error, "it answers 404") || !strings.Contains(state.Error, "has the kind alertmanager-webhook") {
			t.Errorf("%+v", state)
		}
		w.receiver.setStatus(0)
		var got [][]amAlert
		for range 3 {
			got = append(got, w.pass(n, time.Minute)...)
		}
		if state = must[[]alerts.ChannelState](t)(n.Channels(t.Context()))[0]; state.Tries != 0 || !state.FailingSince.IsZero() {
			t.Errorf("%+v", state)
		}
		// Its own alert is a condition: it is open until the channel works.
		first := slices.Concat(got...)[0]
		if first.Labels["key"] != "channel/am" || first.Labels["alertname"] != alerts.SystemRule {
			t.Errorf("sent: %+v", got)
		}
	})
}

// Each member of a cluster gets each alert. A member that fails delays no alert of the others, and gets the open ones later.
func TestAlertmanagersOfCluster(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		other := newWebhookReceiver(t)
		gone := httptest.NewServer(http.NotFoundHandler())
		gone.Close()
		w.secret("am.header", "Bearer opensesame")
		n := w.alertmanager(`
channels: {am: {kind: alertmanager, urls: ["$URL/am", "` + other.URL + `/am", "` + gone.URL + `"], headers: {Authorization: {file: am.header}}}}
routes: [{to: am}]
`)
		sent := func(d time.Duration) (mine, others string) {
			t.Helper()
			mine = w.sentKeys(w.pass(n, d))
			posts := other.received()
			for _, p := range posts {
				if p.header.Get("Authorization") != "Bearer opensesame" {
					t.Errorf("headers %s", slices.Sorted(maps.Keys(p.header)))
				}
			}
			return mine, w.sentKeys(postedAlerts(t, posts))
		}
		w.fire(alerts.Warning, nil, "a")
		if mine, others := sent(0); mine != "a warning 4m0s" || others != mine {
			t.Errorf("one got %q, the other %q", mine, others)
		}
		other.setStatus(http.StatusInternalServerError)
		w.fire(alerts.Warning, nil, "b")
		if mine, others := sent(0); mine != "b warning 4m0s" || others != mine {
			t.Errorf("one got %q, the other, which refused, %q", mine, others)
		}
		w.fire(alerts.Warning, nil, "c")
		if mine, others := sent(0); mine != "c warning 4m0s" || others != "" {
			t.Errorf("one got %q, the other, which had refused, %q", mine, others)
		}
		other.setStatus(0)
		const all = "a warning 4m0s, b warning 4m0s, c warning 4m0s"
		if mine, others := sent(time.Minute); mine != all || others != all {
			t.Errorf("one got %q, the other, back again, %q", mine, others)
		}
		if state := must[[]alerts.ChannelState](t)(n.Channels(t.Context()))[0]; state.Tries != 0 || state.Sent != 3 {
			t.Errorf("%+v", state)
		}
		reason, err := n.Test(t.Context(), "am")
		w.must(err)
		if !strings.Contains(reason, "connection refused") || strings.Contains(reason, "opensesame") {
			t.Errorf("the test of a channel with a member that is gone: %q", reason)
		}
	})
}
