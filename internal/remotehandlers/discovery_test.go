package remotehandlers_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"deadman/checks/lookup"
	"deadman/internal/remotehandlers"
)

// addInstance starts one more instance of a service on subjects.
func (s fixture) addInstance(t *testing.T, name, version string, answer micro.HandlerFunc, subjects ...string) {
	t.Helper()
	service, err := micro.AddService(s.conn, micro.Config{Name: name, Version: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = service.Stop() }) // the connection may be closed first
	for i, subject := range subjects {
		if err := service.AddEndpoint(string(rune('a'+i)), answer, micro.WithEndpointSubject(subject)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.conn.Flush(); err != nil {
		t.Fatal(err)
	}
}

func TestDiscover(t *testing.T) {
	s := newFixture(t)
	if got, err := s.services.Discover(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("without services: %v, %v", got, err)
	}
	answers := func(r micro.Request) { _ = r.Respond([]byte(`{"next": null}`)) }
	s.addInstance(t, "shipping", "1.0.0", answers, remotehandlers.Subject("shipping"), "orders.list")
	s.addInstance(t, "shipping", "1.1.0", answers, remotehandlers.Subject("shipping"))
	s.addInstance(t, "shipping", "1.0.0", answers, remotehandlers.Subject("shipping"), remotehandlers.Subject("billing"))
	s.addInstance(t, "old", "0.1.0", answers, remotehandlers.Subject("shipping"))
	s.addInstance(t, "elsewhere", "2.0.0", answers, "deadman.handlers", "other.deadman.handlers.x", remotehandlers.Subject("a.b"))
	for _, text := range []string{"hello", `{"type": "other", "endpoints": [{"subject": "deadman.handlers.fake"}]}`} {
		if _, err := s.conn.Subscribe(remotehandlers.Discovery, func(m *nats.Msg) { _ = m.Respond([]byte(text)) }); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.conn.Subscribe(remotehandlers.Subject("plain"), func(m *nats.Msg) { _ = m.Respond([]byte("{}")) }); err != nil {
		t.Fatal(err)
	}
	got, err := s.services.Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	billing := remotehandlers.Instances{Service: "shipping", Versions: []string{"1.0.0"}, Instances: 1}
	if diff := cmp.Diff(remotehandlers.Directory{"billing": billing}, remotehandlers.Directory{"billing": got["billing"]}); diff != "" {
		t.Error(diff)
	}
	shipping := got["shipping"]
	if shipping.Service != "shipping, old" && shipping.Service != "old, shipping" || shipping.Instances != 4 {
		t.Errorf("%+v", shipping)
	}
	if diff := cmp.Diff([]string{"0.1.0", "1.0.0", "1.1.0"}, shipping.Versions); diff != "" {
		t.Error(diff)
	}
	if _, ok := got.Of("any"); ok || len(got) != 2 {
		t.Errorf("there are others: %+v", got)
	}
	s.addInstance(t, "all", "3.0.0", answers, "deadman.handlers.>")
	got, err = s.services.Discover(t.Context())
	if all, ok := got.Of("any"); err != nil || !ok || all.Service != "all" {
		t.Errorf("%+v, %v", all, err)
	}
	if diff := cmp.Diff([]string{"billing", "shipping"}, got.Names()); diff != "" {
		t.Error(diff)
	}
}

func TestStateOfService(t *testing.T) {
	s := newFixture(t)
	state := func(health lookup.Health, answered, failed bool) {
		t.Helper()
		got := s.services.State("shipping")
		if got.Health != health || got.AnsweredAt.IsZero() == answered || got.ErrorAt.IsZero() == failed || (got.Error == "") == failed {
			t.Errorf("%+v", got)
		}
	}
	state(lookup.New, false, false)
	shipping := s.services.Named("shipping")
	state(lookup.New, false, false)
	_ = outageOf(t, shipping)
	state(lookup.Failing, false, true)
	s.serve(t, "shipping", func(r micro.Request) { _ = r.Respond([]byte(`{"next": null}`)) })
	if _, err := shipping.Check(within(t), check); err != nil {
		t.Fatal(err)
	}
	state(lookup.Up, true, true) // the last error remains
	if other := s.services.State("other"); other.Health != lookup.New {
		t.Errorf("%+v", other)
	}
}
