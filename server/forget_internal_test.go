package server

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/rules"
	"deadman/web"
)

// The events of a key are those of rules of the operator and of tenants. Only those are erased that all lines have read: one
// that no node has read would be reported as lost.
func TestEventsOfForgottenKey(t *testing.T) {
	t.Parallel()
	s := emptyStore(t)
	url := bustest.Serve(t, bustest.Options(t)).ClientURL()
	if _, err := bustest.JetStream(t, url).CreateStream(t.Context(), jetstream.StreamConfig{Name: bus.EventsStream, Subjects: []string{"customers.>"}}); err != nil {
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
	f := &forgetter{s, rules.NewCatalog(s, 4), b.Streams, b.Eraser, ""}
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
	check := func(want []uint64, wantUnread int64) {
		t.Helper()
		seqs, unread, err := f.stored(t.Context(), web.ForgetRequest{Entity: "customer", Key: "ada"})
		if err != nil || !slices.Equal(seqs, want) || unread != wantUnread {
			t.Errorf("read: %d, want %d; unread: %d, want %d; %v", seqs, want, unread, wantUnread, err)
		}
	}
	check(nil, 4)
	revision, err := s.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for line, last := range map[string]uint64{bus.EventsStream: 5, futurejobs.TenantsLine(bus.EventsStream): 3} {
		if _, err := s.Apply(t.Context(), futurejobs.EffectBatch{Stream: line, Last: last, RuleSet: revision}); err != nil {
			t.Fatal(err)
		}
	}
	check([]uint64{1, 2}, 2)
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
