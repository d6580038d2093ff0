package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/store"
	"deadman/rules"
	"deadman/web"
)

// newForgetter returns a forgetter of a store, to which it adds a rule of the operator and one of a tenant, and its broker, which has
// a stream with five events.
func newForgetter(t *testing.T, s *store.Store) (*forgetter, jetstream.JetStream) {
	t.Helper()
	url := bustest.Serve(t, bustest.Options(t)).ClientURL()
	js := bustest.JetStream(t, url)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: bus.EventsStream, Subjects: []string{"customers.>"}}); err != nil {
		t.Fatal(err)
	}
	b, err := bus.Connect(t.Context(), bus.Options{URL: url, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	lines := map[string]*access.Bounds{
		bus.EventsStream:                         nil,
		futurejobs.TenantsLine(bus.EventsStream): {Token: "acme", Prefix: "acme-", Subjects: []string{"customers.>"}},
	}
	for line, bounds := range lines {
		name, subject := "customer-late", "customers.joined"
		if bounds != nil {
			name, subject = "acme-late", "customers.paid"
		}
		documents, err := rules.Parse(fmt.Appendf(nil, "{name: %s, entity: customer, trigger: {event: %s, key: event.id}, escalate: [{after: 1h, severity: info}]}", name, subject), "")
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(documents[0])
		if err != nil {
			t.Fatal(err)
		}
		saved := rules.RuleVersion{Name: name, Entity: "customer", Document: text, Reads: []rules.StreamBinding{{Subject: subject, Stream: line}}, Bounds: bounds}
		if _, err := s.Save(t.Context(), saved, rules.AnyVersion); err != nil {
			t.Fatal(err)
		}
		if err := s.OpenCursor(t.Context(), futurejobs.Cursor{Stream: line}); err != nil {
			t.Fatal(err)
		}
	}
	f := &forgetter{s, rules.NewCatalog(s, 4), b.Streams, b.Eraser, "", forgetTime}
	if err := f.catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, e := range []string{"joined ada", "paid ada", "joined otto", "joined ada", "paid ada"} {
		var kind, key string
		if _, err := fmt.Sscan(e, &kind, &key); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := b.EventPublisher.PublishEvent(t.Context(), "customers."+kind, fmt.Appendf(nil, `{"id":%q}`, key), nil, ""); err != nil {
			t.Fatal(err)
		}
	}
	return f, js
}

// readEvents advances the positions of the lines of the stream of events.
func readEvents(t *testing.T, f *forgetter, operator, tenants uint64) {
	t.Helper()
	t.Helper()
	revision, err := f.store.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for line, last := range map[string]uint64{bus.EventsStream: operator, futurejobs.TenantsLine(bus.EventsStream): tenants} {
		c, _, err := f.store.Cursor(t.Context(), line)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.store.Apply(t.Context(), futurejobs.EffectBatch{Stream: line, After: c.LastSeq, Last: last, RuleSet: revision}); err != nil {
			t.Fatal(err)
		}
	}
}

// checkForgettable checks the events that a request would erase, and those that it leaves because a line has not read them.
func checkForgettable(t *testing.T, f *forgetter, request web.ForgetRequest, events, unread int64) {
	t.Helper()
	done, err := f.Forget(t.Context(), request)
	if err != nil || !done.Done || done.Events != events || done.UnreadEvents != unread {
		t.Fatalf("%+v, want %d events and %d that are not read: %v", done, events, unread, err)
	}
}

// The events of a key are those of rules of the operator and of tenants. Only those are erased that all lines have read: one
// that no node has read would be reported as lost. A request that has no time left answers with its progress.
func TestEventsOfForgottenKey(t *testing.T) {
	t.Parallel()
	f, _ := newForgetter(t, emptyStore(t))
	request := web.ForgetRequest{Entity: "customer", Key: "ada", DryRun: true}
	check := func(events, unread int64) {
		t.Helper()
		checkForgettable(t, f, request, events, unread)
	}
	check(0, 4)
	readEvents(t, f, 5, 3)
	check(2, 2)

	f.readTime = time.Nanosecond // each request reads one event, and the last one none
	request.DryRun = false
	want := []web.Forgotten{
		{After: 1, Through: 5, Events: 1}, {After: 2, Through: 5, Events: 1}, {After: 3, Through: 5}, {After: 4, Through: 5, UnreadEvents: 1}, {After: 5, Through: 5, UnreadEvents: 1},
	}
	for _, part := range want {
		done, err := f.Forget(t.Context(), request)
		if diff := cmp.Diff(part, done); diff != "" || err != nil {
			t.Fatalf("after %d (-want +got):\n%s%v", request.After, diff, err)
		}
		request.After, request.Through = done.After, done.Through
	}
	if done, err := f.Forget(t.Context(), request); err != nil || !done.Done || done.After != 0 || done.Pseudonym == "" {
		t.Errorf("the last request: %+v, %v", done, err)
	}
	f.readTime = forgetTime
	request = web.ForgetRequest{Entity: "customer", Key: "ada", DryRun: true}
	check(0, 2)
}

// The position of a line that lost its last rule holds no events of a key back.
func TestEventsAreForgottenPastLineWithoutRules(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, eventsAreForgottenPastLine)
}

func eventsAreForgottenPastLine(t *testing.T, s *store.Store) {
	f, _ := newForgetter(t, s)
	readEvents(t, f, 5, 1)
	request := web.ForgetRequest{Entity: "customer", Key: "ada"}
	check := func(events, unread int64) {
		t.Helper()
		request.DryRun = true
		checkForgettable(t, f, request, events, unread)
	}
	check(1, 3)
	if _, err := f.store.Delete(t.Context(), "acme-late", rules.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if err := f.catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(2, 0)
	request.DryRun = false
	if done, err := f.Forget(t.Context(), request); err != nil || done.Events != 2 {
		t.Errorf("%+v, want 2 events: %v", done, err)
	}
	check(0, 0)
}

// The messages of a key's alerts are erased although retention deleted the alerts from the database. A request without time says
// what it did not read.
func TestPrunedAlertsOfForgottenKey(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, prunedAlertsAreForgotten)
}

func prunedAlertsAreForgotten(t *testing.T, s *store.Store) {
	f, js := newForgetter(t, s)
	readEvents(t, f, 5, 5)
	if _, err := f.store.Delete(t.Context(), "acme-late", rules.AnyVersion); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), bus.AlertsStream)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range []alerts.Alert{
		{Rule: "customer-late", Entity: "customer", Key: "ada"},
		{Rule: "customer-late", Entity: "customer", Key: "otto"},
		{Rule: "order-late", Entity: "order", Key: "ada"},
		{Rule: "acme-late", Entity: "customer", Key: "ada"}, // of a deleted rule
	} {
		a.ID, a.Severity = alerts.ID{byte(i)}, alerts.Error
		data, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(t.Context(), a.Subject(), data); err != nil {
			t.Fatal(err)
		}
	}
	request := web.ForgetRequest{Entity: "customer", Key: "ada", DryRun: true, After: 5, Through: 5} // all events are read
	forget := func(messages, unread int64, left uint64) {
		t.Helper()
		done, err := f.Forget(t.Context(), request)
		if err != nil || !done.Done || done.AlertMessages != messages || done.UnreadAlerts != unread {
			t.Errorf("%+v, want %d messages and %d that are not read: %v", done, messages, unread, err)
		}
		info, err := stream.Info(t.Context())
		if err != nil || info.State.Msgs != left {
			t.Errorf("%d messages are left, want %d: %v", info.State.Msgs, left, err)
		}
	}
	forget(2, 0, 4)
	f.readTime = time.Nanosecond // one message is read
	forget(1, 3, 4)
	f.readTime, request.DryRun = forgetTime, false
	forget(2, 0, 2)
	forget(0, 0, 2)
}

// A job that begins while the events are read refuses the rest, and the error has the number of erased messages.
func TestForgetNamesWhatWasErasedBeforeRefusal(t *testing.T) {
	t.Parallel()
	f, _ := newForgetter(t, emptyStore(t))
	readEvents(t, f, 5, 5)
	rule, err := f.catalog.Newest("customer-late")
	if err != nil {
		t.Fatal(err)
	}
	isPending := false
	f.catalog.Tenant = func(string) string { // is called when the second event is matched
		if isPending {
			return ""
		}
		isPending = true
		start, err := rule.Start("ada", time.Time{}, time.Now().UTC(), nil, 4)
		if err != nil {
			t.Error(err)
		}
		if _, err := f.store.Apply(t.Context(), futurejobs.EffectBatch{RuleSet: f.catalog.Revision(), Effects: []futurejobs.Effect{start}}); err != nil {
			t.Error(err)
		}
		return ""
	}
	_, err = f.Forget(t.Context(), web.ForgetRequest{Entity: "customer", Key: "ada"})
	const want = "messages of the key that were erased before: 4 of the stream of events, 0 of that of alerts; repeat the request for the rest"
	if !errors.Is(err, store.ErrKeyInUse) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	if _, err = f.Forget(t.Context(), web.ForgetRequest{Entity: "customer", Key: "ada"}); !errors.Is(err, store.ErrKeyInUse) || strings.Contains(err.Error(), "erased") {
		t.Errorf("the key is in use from the start: %v", err)
	}
}

func TestHasValue(t *testing.T) {
	for data, want := range map[string]bool{
		`{"id":"4711"}`:                  true,
		`{"ids":[{"a":1},{"b":[4711]}]}`: true,
		`{"id":"47110"}`:                 false,
		`{"4711":1}`:                     false,
		`{"id":90071992547409931}`:       false,
		`no JSON, 4711`:                  false,
	} {
		if got := hasValue([]byte(data), "4711"); got != want {
			t.Errorf("%s: %v", data, got)
		}
	}
	if !hasValue([]byte(`{"id":90071992547409931}`), "90071992547409931") { // more digits than a float64 has
		t.Error("a large number is not found")
	}
}
