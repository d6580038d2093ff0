package web_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"deadman/internal/notify"
	"deadman/web"
)

// withChannel makes a fixture with a channel; its receiver answers with a status.
func withChannel(t *testing.T, status int, changes ...func(*web.Options, *fixture)) *fixture {
	t.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	t.Cleanup(receiver.Close)
	return newFixture(t, append(changes, func(o *web.Options, s *fixture) {
		config, err := notify.Parse([]byte("channels: {hook: {kind: webhook, url: "+receiver.URL+"}, spare: {kind: webhook, url: "+receiver.URL+"}}"), "notify.yaml")
		failOn(t, err)
		client := notify.NewClient()
		t.Cleanup(client.CloseIdleConnections)
		n, err := notify.New(notify.Options{
			Config: config, Store: s.store, Client: client, Holds: func() bool { return true }, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		})
		failOn(t, err)
		o.Channels = n
	})...)
}

func TestChannels(t *testing.T) {
	s := withChannel(t, 200)
	if got := get[web.Page[web.Channel]](t, s.Server, "/api/v1/channels?limit=1"); len(got.Items) != 1 || got.Items[0].Name != "hook" ||
		got.Items[0].State != "new" || got.Next != "hook" {
		t.Errorf("%+v", got)
	}
	s.saveRule(strings.ReplaceAll(strings.ReplaceAll(reportRule, "subject: reports.due", "webhook: hook"), "report-due", "posted"))
	s.saveRule(reportRule)
	for _, c := range get[web.Page[web.Channel]](t, s.Server, "/api/v1/channels").Items {
		if posts := c.Name == "hook"; posts != slices.Equal(c.EventRules, []string{"posted"}) || c.Sent != 0 {
			t.Errorf("with a rule that posts events: %+v", c)
		}
	}
	if got := get[web.Page[web.Channel]](t, s.Server, "/api/v1/channels?cursor=hook"); len(got.Items) != 1 || got.Items[0].Name != "spare" || got.Next != "" {
		t.Errorf("%+v", got)
	}
	if a := requestPath(t, s.Server, "POST", "/api/v1/channels/hook/test", ""); a.StatusCode != 200 || !strings.Contains(a.body, `"delivered":true`) {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	checkProblem(t, requestPath(t, s.Server, "POST", "/api/v1/channels/absent/test", ""), 404, web.NotFound, "channel list")
	deaf := withChannel(t, 500)
	if a := requestPath(t, deaf.Server, "POST", "/api/v1/channels/hook/test", ""); a.StatusCode != 200 ||
		!strings.Contains(a.body, `"delivered":false`) || !strings.Contains(a.body, "it answers 500") {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	silent := newFixture(t)
	checkProblem(t, requestPath(t, silent.Server, "POST", "/api/v1/channels/hook/test", ""), 404, web.NotFound, "--notify")
	if got := get[web.Page[web.Channel]](t, silent.Server, "/api/v1/channels"); len(got.Items) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestMutesAreMadeAndEnded(t *testing.T) {
	s := newFixture(t)
	for range 2 {
		a := requestPath(t, s.Server, "POST", "/api/v1/mutes", `{"match": {"rule": "order-*", "site": "north"}, "reason": "mended", "for": "2h"}`)
		if a.StatusCode != 201 || !strings.Contains(a.body, `"active":true`) || !strings.Contains(a.body, `"created_by":"loopback"`) {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
	}
	first := get[web.Page[web.Mute]](t, s.Server, "/api/v1/mutes?limit=1")
	if len(first.Items) != 1 || first.Items[0].ID != 2 || first.Next == "" {
		t.Fatalf("%+v", first)
	}
	if a := requestPath(t, s.Server, "DELETE", "/api/v1/mutes/2", ""); a.StatusCode != 204 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	checkProblem(t, requestPath(t, s.Server, "DELETE", "/api/v1/mutes/2", ""), 404, web.NotFound, "mute list")
	all := get[web.Page[web.Mute]](t, s.Server, "/api/v1/mutes")
	if len(all.Items) != 2 || all.Items[0].Active || all.Items[0].EndedBy != "loopback" || !all.Items[1].Active {
		t.Errorf("%+v", all)
	}
	checkProblem(t, requestPath(t, s.Server, "GET", "/api/v1/mutes?cursor=x", ""), 400, web.BadCursor, "cursor")
}

// TestMuteBeginsLater checks that a mute with a start in the future is pending, is not among those in effect, and can be ended.
func TestMuteBeginsLater(t *testing.T) {
	s := newFixture(t)
	starts := time.Now().Add(3 * time.Hour).UTC().Truncate(time.Second)
	a := requestPath(t, s.Server, "POST", "/api/v1/mutes", `{"match": {"site": "north"}, "reason": "upgrade", "starts_at": "`+starts.Format(time.RFC3339)+`", "for": "2h"}`)
	var made web.Mute
	if err := json.Unmarshal([]byte(a.body), &made); err != nil || a.StatusCode != 201 || made.State != "pending" || made.Active ||
		!made.StartsAt.Equal(starts) || !made.EndsAt.Equal(starts.Add(2*time.Hour)) {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	if got := get[web.Page[web.Mute]](t, s.Server, "/api/v1/mutes?active=true"); len(got.Items) != 0 {
		t.Errorf("in effect: %+v", got.Items)
	}
	if got := get[web.Page[web.Mute]](t, s.Server, "/api/v1/mutes"); len(got.Items) != 1 || got.Items[0].State != "pending" || !got.Items[0].EndsAt.Equal(made.EndsAt) {
		t.Errorf("all: %+v", got.Items)
	}
	if a := requestPath(t, s.Server, "DELETE", "/api/v1/mutes/1", ""); a.StatusCode != 204 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	if got := get[web.Page[web.Mute]](t, s.Server, "/api/v1/mutes"); got.Items[0].State != "ended" || got.Items[0].EndedBy != "loopback" {
		t.Errorf("ended before its start: %+v", got.Items)
	}
}

// TestMuteOfUnknownValuesWarns checks that a mute whose rule, entity or label does not exist is created with a warning.
func TestMuteOfUnknownValuesWarns(t *testing.T) {
	s := newFixture(t)
	decodeChange(t, requestPath(t, s.Server, "PUT", "/api/v1/rules/labelled", strings.Replace(unshippedRule, "order-unshipped", "labelled", 1)+"labels: {team: shop}\n"), 201)
	for _, c := range []struct{ match, want string }{
		{`{"rule": "order-unshiped"}`, "no rule is named order-unshiped; the mute takes effect once there is one; did you mean order-unshipped?"},
		{`{"rule": "payment-*", "severity": "error"}`, "no rule has a name that matches payment-*; the mute takes effect once there is one"},
		{`{"rule": "order-unshipped"}`, ""},
		{`{"rule": "order-*"}`, ""},
		{`{"rule": "deadman", "entity": "node", "stream": "X"}`, ""}, // alerts of the node itself
		{`{"entity": "ordr"}`, "no rule has the entity ordr; the mute takes effect once there is one; did you mean order?"},
		{`{"entity": "ord*", "team": "shop"}`, ""},
		{`{"rul": "order-unshipped"}`, "neither a rule nor an open alert has the label rul; did you mean rule?"},
		{`{"label.team": "shop", "entity": "x*"}`, "no rule has an entity that matches x*; the mute takes effect once there is one\n" +
			"neither a rule nor an open alert has the label label.team; did you mean team?"},
		{`{"tema": "shop"}`, "neither a rule nor an open alert has the label tema; did you mean team?"},
	} {
		a := requestPath(t, s.Server, "POST", "/api/v1/mutes", `{"match": `+c.match+`, "reason": "mended", "for": "2h"}`)
		var made web.Mute
		if err := json.Unmarshal([]byte(a.body), &made); err != nil || a.StatusCode != 201 || made.Reach.Warning != c.want {
			t.Errorf("%s: %d %q, want %q", c.match, a.StatusCode, made.Reach.Warning, c.want)
		}
	}
}

// inHours returns a time of today or later for requests.
func inHours(n int) string {
	return time.Now().Add(time.Duration(n) * time.Hour).UTC().Format(time.RFC3339)
}

func TestInvalidMutes(t *testing.T) {
	s := newFixture(t)
	for _, c := range []struct{ name, body, wantText string }{
		{"everything", `{"match": {}, "reason": "r", "for": "1h"}`, "every alert"},
		{"a field without a pattern", `{"match": {"rule": ""}, "reason": "r", "for": "1h"}`, "rule: a pattern"},
		{"a mistyped severity", `{"match": {"severity": "crit"}, "reason": "r", "for": "1h"}`, "severity: \"crit\" is not a severity"},
		{"a pattern of no severity", `{"match": {"severity": "x*"}, "reason": "r", "for": "1h"}`, "is not a severity"},
		{"a mistyped status", `{"match": {"status": "foo"}, "reason": "r", "for": "1h"}`, "status: \"foo\" is not a status"},
		{"another operator", `{"match": {"severity!": "info"}, "reason": "r", "for": "1h"}`, "a match has = only"},
		{"a name with a space", `{"match": {"rule name": "x"}, "reason": "r", "for": "1h"}`, "nor the name of a label"},
		{"no reason", `{"match": {"rule": "x"}, "reason": "", "for": "1h"}`, "reason"},
		{"no end", `{"match": {"rule": "x"}, "reason": "r"}`, "no end is set"},
		{"two ends", `{"match": {"rule": "x"}, "reason": "r", "for": "1h", "until": "2199-01-01T00:00:00Z"}`, "one of them"},
		{"a past end", `{"match": {"rule": "x"}, "reason": "r", "until": "2001-01-01T00:00:00Z"}`, "in the past"},
		{"for ever", `{"match": {"rule": "x"}, "reason": "r", "until": "2199-01-01T00:00:00Z"}`, "within a year"},
		{"a past start", `{"match": {"rule": "x"}, "reason": "r", "starts_at": "2001-01-01T00:00:00Z", "for": "1h"}`, "body.starts_at"},
		{"a far start", `{"match": {"rule": "x"}, "reason": "r", "starts_at": "2199-01-01T00:00:00Z", "for": "1h"}`, "create the mute later"},
		{"an end before the start", `{"match": {"rule": "x"}, "reason": "r", "starts_at": "` + inHours(2) + `", "until": "` + inHours(1) + `"}`, "is not after the start of the mute"},
		{"an end at the start", `{"match": {"rule": "x"}, "reason": "r", "starts_at": "` + inHours(2) + `", "until": "` + inHours(2) + `"}`, "is not after the start of the mute"},
		{"a year after the start", `{"match": {"rule": "x"}, "reason": "r", "starts_at": "` + inHours(2) + `", "for": "366d"}`, "body.until"},
		{"a start without an end", `{"match": {"rule": "x"}, "reason": "r", "starts_at": "` + inHours(2) + `"}`, "no end is set"},
		{"no span", `{"match": {"rule": "x"}, "reason": "r", "for": "soon"}`, "body.for"},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkProblem(t, requestPath(t, s.Server, "POST", "/api/v1/mutes", c.body), 422, web.Invalid, c.wantText)
		})
	}
	if got := get[web.Page[web.Mute]](t, s.Server, "/api/v1/mutes"); len(got.Items) != 0 {
		t.Errorf("%+v", got)
	}
}
