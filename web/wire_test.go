package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	"deadman/internal/access"
	"deadman/web"
)

// TestBoundedSenderReceivesNoSequence checks that a token with bounds gets no sequence of its event, since it counts
// the events of all senders.
func TestBoundedSenderReceivesNoSequence(t *testing.T) {
	s := newFixture(t, closedNode)
	bound := access.Bounds{Publish: []string{"orders.>"}}
	for name, c := range map[string]struct {
		request access.TokenRequest
		seq     bool
	}{
		"tenant":  {access.TokenRequest{Prefix: "acme-*", Bounds: bound}, false},
		"bounded": {access.TokenRequest{Bounds: bound}, false},
		"free":    {access.TokenRequest{}, true},
	} {
		c.request.Name, c.request.Scopes = name, []access.Scope{access.Events}
		_, secret, err := s.keeper.Create(t.Context(), c.request)
		failOn(t, err)
		for _, header := range [][]string{nil, {"Nats-Msg-Id", "one"}, {"Nats-Msg-Id", "one"}, {"Idempotency-Key", "two"}, {"Idempotency-Key", "two"}} {
			a := requestPath(t, s.Server, "POST", "/api/v1/events/orders.created", `{"id": "1"}`, append(header, "Authorization", "Bearer "+secret)...)
			if a.StatusCode != 202 || !strings.Contains(a.body, `"stream":"DEADMAN_EVENTS"`) || strings.Contains(a.body, `"seq":`) != c.seq {
				t.Errorf("%s, %v: %d %s", name, header, a.StatusCode, a.body)
			}
		}
	}
}

func TestEvents(t *testing.T) {
	s := newFixture(t)
	const path = "/api/v1/events/orders.created"
	post := func(body string, header ...string) web.PublishResult {
		t.Helper()
		a := requestPath(t, s.Server, "POST", path, body, header...)
		var taken web.PublishResult
		if err := json.Unmarshal([]byte(a.body), &taken); a.StatusCode != 202 || err != nil {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
		return taken
	}
	first := post(`{"id": "1"}`, "Content-Type", "application/json", "ce-type", "order", "Authorization", "Bearer secret", "Idempotency-Key", "one")
	if diff := cmp.Diff(web.PublishResult{
		Stream: "DEADMAN_EVENTS", Seq: 1, Affected: []web.AffectedEntity{{Rule: "order-unshipped", Entity: "order", Key: "1", Effect: "start"}},
	}, first); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if again := post(`{"id": "1"}`, "Idempotency-Key", "one"); !cmp.Equal(again, first) {
		t.Errorf("the repeat is %+v", again)
	}
	known := first
	known.Duplicate = true
	if again := post(`{"id": "1"}`, "Nats-Msg-Id", "one"); !cmp.Equal(again, known) {
		t.Errorf("the repeat by its id is %+v", again)
	}
	if other := post(strings.Repeat(" ", web.MaxEventBytes-2) + "{}"); other.Seq != 2 {
		t.Errorf("%+v", other)
	}

	reader, err := s.bus.Streams.Read(t.Context(), "DEADMAN_EVENTS", 0, nil)
	failOn(t, err)
	defer reader.Close()
	events, err := reader.Next(t.Context(), 10, 5*time.Second)
	failOn(t, err)
	e := events[0]
	if string(e.Data) != `{"id": "1"}` || e.Subject != "orders.created" || e.ID != "one" || e.Header["ce-type"][0] != "order" {
		t.Errorf("what was taken in is %+v", e)
	}
	for name := range e.Header {
		if strings.EqualFold(name, "Authorization") || strings.EqualFold(name, "User-Agent") {
			t.Errorf("a header of the request went along: %s", name)
		}
	}

	for subject, status := range map[string]int{"unread.subject": 409, "deadman.alerts.x": 400, "deadman-staging.acks.x": 400, "$JS.API.INFO": 400, "_INBOX.x": 400} {
		if a := requestPath(t, s.Server, "POST", "/api/v1/events/"+subject, "{}"); a.StatusCode != status || a.problem(t).Detail == "" {
			t.Errorf("%s: %d %s", subject, a.StatusCode, a.body)
		}
	}
}

// TestEventIDsAreApartBySubjectAndToken checks that a sender's id counts only with its token and subject, since a stream
// has one set of message ids for all subjects and publishers: no event is acknowledged and lost because another one has
// its id.
func TestEventIDsAreApartBySubjectAndToken(t *testing.T) {
	s := newFixture(t, closedNode)
	one, other := s.newToken("one", "", access.Events), s.newToken("other", "", access.Events)
	send := func(subject string, token []string, header string) web.PublishResult {
		t.Helper()
		a := requestPath(t, s.Server, "POST", "/api/v1/events/"+subject, `{"id": "77"}`, append([]string{header, "order-77", "Content-Type", "application/json"}, token...)...)
		var taken web.PublishResult
		if err := json.Unmarshal([]byte(a.body), &taken); a.StatusCode != 202 || err != nil {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
		return taken
	}
	// A publisher on NATS has used the id already.
	_, _, _, err := s.bus.EventPublisher.PublishEvent(t.Context(), "orders.shipped", nil, nil, "order-77")
	failOn(t, err)
	for i, c := range []struct {
		subject, header string
		token           []string
	}{
		{"orders.shipped", "Nats-Msg-Id", one},
		{"orders.created", "Nats-Msg-Id", one},
		{"orders.created", "Nats-Msg-Id", other},
		{"orders.shipped", "Idempotency-Key", other},
	} {
		first := send(c.subject, c.token, c.header)
		if first.Seq != uint64(i+2) || first.Duplicate {
			t.Errorf("%d: the event is %+v", i, first)
		}
		if again := send(c.subject, c.token, "Nats-Msg-Id"); again.Seq != first.Seq || !again.Duplicate {
			t.Errorf("%d: its repeat is %+v", i, again)
		}
	}
	if last := s.lastSequence(); last != 5 {
		t.Errorf("the stream ends at %d", last)
	}
}

// alertFollower is a client of the stream of alerts.
type alertFollower struct {
	lines *bufio.Scanner
	close func() error
}

func followAlerts(t *testing.T, url, query string, header ...string) *alertFollower {
	t.Helper()
	answer := openStream(t, url+"/api/v1/alerts"+query, header...)
	if answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %v", answer.StatusCode, answer.Header)
	}
	return &alertFollower{bufio.NewScanner(answer.Body), answer.Body.Close}
}

// next returns the next alert of the stream.
func (f *alertFollower) next(t *testing.T) (id string, a alerts.Alert) {
	t.Helper()
	for f.lines.Scan() {
		name, value, _ := strings.Cut(f.lines.Text(), ": ")
		switch name {
		case "id":
			id = value
		case "event":
			if value != "alert" {
				t.Fatalf("an event of kind %s", value)
			}
		case "data":
			failOn(t, json.Unmarshal([]byte(value), &a))
			return id, a
		}
	}
	t.Fatalf("the stream ended: %v", f.lines.Err())
	return "", a
}

func TestFollowAlerts(t *testing.T) {
	s := newFixture(t)
	for i := range 3 {
		s.createJob(fmt.Sprint(i), time.Second, `{"id": 1}`)
		s.alert(fmt.Sprint(i), "late\nby far", time.Hour)
	}
	f := followAlerts(t, s.URL, "?backlog=2")
	for _, want := range []string{"1", "2"} {
		if id, a := f.next(t); a.Key != want || id != a.ID.String() || a.Text != "late\nby far" {
			t.Errorf("%s is %+v, want that of %s", id, a, want)
		}
	}
	s.createJob("new", time.Second, `{}`)
	alert := s.alert("new", "late", time.Hour)
	if id, a := f.next(t); a.ID != alert.ID || id != alert.ID.String() {
		t.Errorf("%+v", a)
	}
	for query, want := range map[string]string{"?backlog=501": "query.backlog", "?limit=5": "query.limit"} {
		if a := requestPath(t, s.Server, "GET", "/api/v1/alerts"+query, "", "Accept", "text/event-stream"); a.StatusCode != 400 || !strings.Contains(a.problem(t).Detail, want) {
			t.Errorf("%s: %d %s", query, a.StatusCode, a.body)
		}
	}
}

// TestFollowersDoNotDelayStop checks that a stopping node does not wait for its followers for ever.
func TestFollowersDoNotDelayStop(t *testing.T) {
	s := newFixture(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	failOn(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(ctx, ln, s.Config.Handler, time.Minute) }()
	f := followAlerts(t, "http://"+ln.Addr().String(), "")
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the stop is not clean: %v", err)
	}
	for f.lines.Scan() {
	}
	if err := f.lines.Err(); err != nil {
		t.Errorf("the stream does not end but breaks: %v", err)
	}
}
