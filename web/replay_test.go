package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/bus"
	"deadman/internal/replaytasks"
	"deadman/rules"
	"deadman/web"
)

// heldStreams are streams that deliver nothing until the test releases them.
type heldStreams struct {
	*bus.Streams
	free chan struct{}
}

func (s heldStreams) Replay(ctx context.Context, stream string, subjects []string, since time.Time, through uint64) iter.Seq2[futurejobs.Event, error] {
	return func(yield func(futurejobs.Event, error) bool) {
		select {
		case <-s.free:
		case <-ctx.Done():
		}
		s.Streams.Replay(ctx, stream, subjects, since, through)(yield)
	}
}

// newReplayFixture makes a closed fixture with an order, and with a runner whose streams deliver nothing until free is closed.
func newReplayFixture(t *testing.T) (s *fixture, free chan struct{}) {
	free = make(chan struct{})
	s = newFixture(t, closedNode, func(o *web.Options, s *fixture) {
		o.Replays = s.newReplays(heldStreams{s.bus.Streams, free})
	})
	_, _, _, err := s.bus.EventPublisher.PublishEvent(t.Context(), "orders.created", []byte(`{"id": "1"}`), nil, "")
	failOn(t, err)
	return s, free
}

// newReplays returns a runner of replays, which runs until the test ends.
func (s *fixture) newReplays(streams replaytasks.Streams) *replaytasks.Runner {
	r := replaytasks.New(replaytasks.Options{Streams: streams, Limits: replaytasks.DefaultLimits, Node: "host/1", Now: time.Now, Log: discardLog})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	s.t.Cleanup(func() {
		stop()
		failOn(s.t, <-ended)
	})
	return r
}

const replayPath = "/api/v1/rules/order-unshipped/replays"

// sinceHour is the body of a replay of the last hour.
func sinceHour(more string) string {
	return fmt.Sprintf(`{"since": %q%s}`, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), more)
}

// startReplay starts a replay, and returns it.
func (s *fixture) startReplay(path, body string, as []string) (r web.Replay) {
	s.t.Helper()
	a := requestPath(s.t, s.Server, "POST", path, body, append(as, "Content-Type", "application/json")...)
	if a.StatusCode != 202 {
		s.t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	failOn(s.t, json.Unmarshal([]byte(a.body), &r))
	if got := a.Header.Get("Location"); got != "/api/v1/replays/"+r.ID || r.State != "running" || r.Result != nil || r.Node != "host/1" {
		s.t.Errorf("started: %s %+v", got, r)
	}
	return r
}

// endedReplay returns a replay after its end.
func (s *fixture) endedReplay(id string, as []string) (r web.Replay) {
	s.t.Helper()
	for r.EndedAt.IsZero() {
		a := requestPath(s.t, s.Server, "GET", "/api/v1/replays/"+id, "", as...)
		if a.StatusCode != 200 {
			s.t.Fatalf("%d %s", a.StatusCode, a.body)
		}
		failOn(s.t, json.Unmarshal([]byte(a.body), &r))
		time.Sleep(5 * time.Millisecond)
	}
	return r
}

// Saved and unsaved rules are replayed, and a replay is known to the token that started it alone.
func TestReplay(t *testing.T) {
	s, free := newReplayFixture(t)
	reader, writer, other := s.newToken("reader", "", access.Read), s.newToken("writer", "", access.Rules), s.newToken("other", "", access.Admin)
	saved := s.startReplay(replayPath, sinceHour(""), reader)
	unsaved := s.startReplay("/api/v1/rules/replays", sinceHour(`, "rule": `+quoted(strings.Replace(unshippedRule, "name: order-unshipped", "name: draft", 1))), writer)
	if saved.Version != 1 || saved.Rule != "order-unshipped" || unsaved.Version != 0 || unsaved.Rule != "draft" {
		t.Errorf("%+v, %+v", saved, unsaved)
	}
	for _, method := range []string{"GET", "DELETE"} {
		a := requestPath(t, s.Server, method, "/api/v1/replays/"+saved.ID, "", other...)
		checkProblem(t, a, 404, web.NotFound, "a replay is known to the node and to the token that started it")
	}
	close(free)
	for _, r := range []web.Replay{s.endedReplay(saved.ID, reader), s.endedReplay(unsaved.ID, writer)} {
		if r.State != "done" || r.Progress != 1 || r.Events != 1 || r.Result.Summary.Pending != 1 || r.Result.Summary.Name != r.Rule || r.ExpiresAt.IsZero() {
			t.Errorf("%+v", r)
		}
	}
	if a := requestPath(t, s.Server, "DELETE", "/api/v1/replays/"+saved.ID, "", reader...); a.StatusCode != 204 {
		t.Errorf("removed: %d %s", a.StatusCode, a.body)
	}
	if a := requestPath(t, s.Server, "GET", "/api/v1/replays/"+saved.ID, "", reader...); a.StatusCode != 404 {
		t.Errorf("after its removal: %d %s", a.StatusCode, a.body)
	}
}

// A token or tenant has one running replay, and the node two. A cancelled one leaves its place to the next.
func TestReplaysAreBounded(t *testing.T) {
	s, _ := newReplayFixture(t)
	ada, bob, eve := s.newToken("ada", "", access.Read), s.newToken("bob", "", access.Read), s.newToken("eve", "", access.Read)
	acme, acme2, zenith := s.newToken("acme", "order-*", access.Read), s.newToken("acme2", "order-*", access.Read), s.newToken("zenith", "order-u*", access.Read)
	refused := func(as []string, status int, kind web.Kind, want string) {
		t.Helper()
		a := requestPath(t, s.Server, "POST", replayPath, sinceHour(""), append(as, "Content-Type", "application/json")...)
		checkProblem(t, a, status, kind, want)
	}
	first := s.startReplay(replayPath, sinceHour(""), acme)
	refused(acme, 429, web.TooManyRequests, "the rules order-* is running; cancel it with DELETE")
	refused(acme2, 429, web.TooManyRequests, "the rules order-* is running")
	refused(zenith, 503, web.Unavailable, "other replays are running on this node")
	second := s.startReplay(replayPath, sinceHour(""), ada)
	refused(ada, 429, web.TooManyRequests, "is running; cancel it")
	refused(bob, 503, web.Unavailable, "other replays are running on this node")
	for _, one := range []struct {
		id string
		as []string
	}{{first.ID, acme}, {second.ID, ada}} {
		if a := requestPath(t, s.Server, "DELETE", "/api/v1/replays/"+one.id, "", one.as...); a.StatusCode != 204 {
			t.Errorf("%d %s", a.StatusCode, a.body)
		}
		if r := s.endedReplay(one.id, one.as); r.State != "cancelled" || r.Reason != "it was cancelled" || r.Result != nil {
			t.Errorf("%+v", r)
		}
	}
	// Refused requests and ended replays hold no place. The permit is returned right after the end.
	for _, as := range [][]string{zenith, eve} {
		var status int
		for status != 202 {
			a := requestPath(t, s.Server, "POST", replayPath, `{"since": "2030-01-01T00:00:00Z"}`, append(as, "Content-Type", "application/json")...)
			if a.StatusCode != 503 {
				checkProblem(t, a, 422, web.Invalid, "is not in the past")
				s.startReplay(replayPath, sinceHour(""), as)
				status = 202
			}
		}
	}
}

// Rules that streams cannot replay, ranges out of bounds and tokens without the scope are refused before anything runs.
func TestReplaysAreRefused(t *testing.T) {
	s, _ := newReplayFixture(t)
	reader, writer, tenant := s.newToken("reader", "", access.Read), s.newToken("writer", "", access.Rules), s.newToken("tenant", "order-*", access.Rules)
	draft := func(text string) string { return sinceHour(`, "rule": ` + quoted(text)) }
	const path = "/api/v1/rules/replays"
	beat := "name: order-beat\nentity: job\ntrigger: {heartbeat: {every: 1h}}\n"
	foreign := strings.Replace(unshippedRule, "orders.created", "parcels.created", 1)
	for _, c := range []struct {
		path, body string
		as         []string
		status     int
		kind       web.Kind
		want       string
	}{
		{path, draft(unshippedRule), reader, 403, web.Forbidden, "does not have the scope rules"},
		{path, draft(foreign), tenant, 422, web.RuleInvalid, "may not read the subject"},
		{path, draft(strings.Replace(unshippedRule, "name: order-", "name: parcel-", 1)), tenant, 403, web.Forbidden, "limited to the rules order-*"},
		{"/api/v1/rules/parcel-x/replays", sinceHour(""), tenant, 403, web.Forbidden, "limited to the rules order-*"},
		{path, draft(beat), writer, 422, web.Invalid, "are in no stream"},
		{path, draft("name: order-h\nentity: order\ntrigger: {event: orders.created, key: event.id}\nhandler: h\n"), writer, 422, web.Invalid, "which may have effects"},
		{path, draft(unshippedRule + "---\n" + beat), writer, 422, web.RuleInvalid, "several rules"},
		{path, draft("name: x\n"), writer, 422, web.RuleInvalid, "entity"},
		{path, draft(unshippedRule + "lookup: {sql: {source: shop, query: select 1}}\nwhile: state != nil\n"), writer, 422, web.Invalid, "past answers are unknown"},
		{path, sinceHour(`, "lookup_result": {}, "rule": ` + quoted(unshippedRule)), writer, 422, web.Invalid, "has no lookup"},
		{replayPath, `{"since": "2020-01-01T00:00:00Z"}`, reader, 422, web.Invalid, "more than 366d ago"},
		{replayPath, `{}`, reader, 422, web.Invalid, "since"},
		{replayPath + "?version=7", sinceHour(""), reader, 404, web.NotFound, "version 7"},
		{"/api/v1/rules/nope/replays", sinceHour(""), reader, 404, web.NotFound, "nope"},
	} {
		a := requestPath(t, s.Server, http.MethodPost, c.path, c.body, append(c.as, "Content-Type", "application/json")...)
		if p := a.problem(t); a.StatusCode != c.status || p.Type != c.kind.URN() || !strings.Contains(a.body, c.want) {
			t.Errorf("%s %s: %d %s", c.path, c.body, a.StatusCode, a.body)
		}
	}
	_, err := s.rules.Save(t.Context(), []byte(strings.Replace(foreign, "order-unshipped", "order-foreign", 1)), "", rules.SaveOptions{})
	failOn(t, err)
	a := requestPath(t, s.Server, http.MethodPost, "/api/v1/rules/order-foreign/replays", sinceHour(""), append(tenant, "Content-Type", "application/json")...)
	checkProblem(t, a, 422, web.RuleInvalid, "may not read the subject")
}

// The editor shows the progress of a replay, cancels it, and shows its result. A visitor who may not change rules replays the
// saved version.
func TestReplayInEditor(t *testing.T) {
	s, free := newReplayFixture(t)
	reader, writer := s.newToken("reader", "", access.Read), s.newToken("writer", "", access.Rules)
	post := func(as []string, path string, form url.Values, want ...string) (id string) {
		t.Helper()
		a := requestPath(t, s.Server, "POST", path, form.Encode(), append(as, "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin")...)
		for _, part := range want {
			if a.StatusCode != 200 || !strings.Contains(a.body, part) {
				t.Errorf("%s: %d lacks %s:\n%s", path, a.StatusCode, part, a.body)
			}
		}
		_, id, _ = strings.Cut(a.body, "/try-replay/")
		id, _, _ = strings.Cut(id, `"`)
		return id
	}
	form := func(text, days string) url.Values {
		return url.Values{"text": {text}, "rule": {"order-unshipped"}, "version": {"1"}, "days": {days}, "found": {""}}
	}
	post(writer, "/try-replay", form(unshippedRule, "2"), "Select the days")
	post(writer, "/try-replay", form("name: x\n", "7"), "errors:", "entity")
	post(writer, "/try-replay", url.Values{"text": {unshippedRule}, "days": {"7"}, "found": {"{"}}, "is not JSON")
	post(writer, "/try-replay/nope", nil, "replay nope on node host/1: not found")

	id := post(writer, "/try-replay", form(unshippedRule, "7"), "<progress", "0 events", "Cancel")
	post(writer, "/try-replay/"+id, nil, "<progress", `hx-trigger="every`)
	post(writer, "/try-replay/"+id+"/cancel", nil, "The replay was cancelled.")
	if r := s.endedReplay(id, writer); r.State != "cancelled" {
		t.Errorf("%+v", r)
	}
	close(free)
	id = post(reader, "/try-replay", form("not: saved", "7"), "<progress")
	s.endedReplay(id, reader)
	for range 2 { // cancelling an ended replay keeps its result
		post(reader, "/try-replay/"+id+"/cancel", nil, "<b>0 alerts</b>", "by version 1 and 1 event", "0 of 1 jobs were resolved")
	}
}

// quoted returns a text as JSON.
func quoted(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(raw)
}
