package bus_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/access"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/subjects"
	"deadman/rules"
)

func bind(t *testing.T, b *bus.Bus, subjects ...string) []rules.StreamBinding {
	t.Helper()
	reads, err := b.Binder.Bind(t.Context(), subjects)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range reads {
		if r.At.IsZero() || r.CreatedAt.IsZero() {
			t.Errorf("%s from %s: neither its time nor its stream's is known", r.Subject, r.Stream)
		}
		reads[i].At, reads[i].CreatedAt = time.Time{}, time.Time{}
	}
	return reads
}

func subjectsOf(t *testing.T, js jetstream.JetStream, stream string) []string {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(slices.Values(s.CachedInfo().Config.Subjects))
}

func TestBindCapturesUnboundSubjects(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	b := connect(t, s)
	js := bustest.JetStream(t, s.ClientURL())

	want := []rules.StreamBinding{{Subject: "orders.created", Stream: bus.EventsStream}, {Subject: "orders.shipped", Stream: bus.EventsStream}}
	if diff := cmp.Diff(want, bind(t, b, "orders.shipped", "orders.created", "orders.created")); diff != "" {
		t.Error(diff)
	}
	if _, _, _, err := b.EventPublisher.PublishEvent(t.Context(), "orders.created", nil, nil, ""); err != nil {
		t.Fatal(err)
	}
	got := bind(t, b, "orders.created")
	want = []rules.StreamBinding{{Subject: "orders.created", Stream: bus.EventsStream, From: 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what was there at the save is not for the rule: %+v", got)
	}
	bind(t, b, "orders.*", "*.shipped") // the subjects overlap, so the second is covered only in part
	if diff := cmp.Diff([]string{"orders.*"}, subjectsOf(t, js, bus.EventsStream)); diff != "" {
		t.Errorf("a wildcard takes the place of what it includes: %s", diff)
	}
}

func TestBindFindsStreams(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	logged := &bustest.Log{}
	b := connect(t, s, func(o *bus.Options) { o.Log = slog.New(slog.NewTextHandler(logged, nil)) })
	js := bustest.JetStream(t, s.ClientURL())
	makeStream(t, js, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	makeStream(t, js, jetstream.StreamConfig{Name: "BERLIN", Subjects: []string{"devices.berlin.>"}})
	makeStream(t, js, jetstream.StreamConfig{Name: "PARIS", Subjects: []string{"devices.paris.>"}})
	makeStream(t, js, jetstream.StreamConfig{Name: "KV_x", Subjects: []string{"$KV.x.>"}})

	for _, c := range []struct {
		subject string
		streams []string
	}{
		{"orders.created", []string{"ORDERS"}},
		{"orders.>", []string{"ORDERS"}},
		{"devices.*.beat", []string{"BERLIN", "PARIS"}},
		{"devices.*.*.beat", []string{"BERLIN", "PARIS"}},
		{"*.*.created", []string{"BERLIN", "ORDERS", "PARIS"}},
		{"devices.rome.beat", []string{bus.EventsStream}},
	} {
		var got []string
		for _, r := range bind(t, b, c.subject) {
			got = append(got, r.Stream)
		}
		if diff := cmp.Diff(c.streams, got); diff != "" {
			t.Errorf("%s: %s", c.subject, diff)
		}
	}
	routes, err := b.Binder.Routes(t.Context(), []string{"orders.>", "devices.*.beat", "others.*"})
	if err != nil {
		t.Fatal(err)
	}
	want := []rules.SubjectRoute{
		{Subject: "orders.>", Streams: []string{"ORDERS"}},
		{Subject: "devices.*.beat", Streams: []string{"BERLIN", "DEADMAN_EVENTS", "PARIS"}, Takes: []string{"devices.berlin.>", "devices.rome.beat", "devices.paris.>"}},
		{Subject: "others.*", Capture: true},
	}
	if diff := cmp.Diff(want, routes); diff != "" {
		t.Errorf("by which streams subjects come: %s", diff)
	}
	if !strings.Contains(logged.String(), "devices.*.beat") || strings.Contains(logged.String(), "subject=orders.>") {
		t.Errorf("only subjects without a stream belong in the log: %s", logged)
	}
}

func TestBindRefuses(t *testing.T) {
	b := connect(t, serve(t, bustest.Dir(t)))
	for _, subject := range []string{
		"", ">", "$JS.API.>", "$KV.x.y", "_INBOX.abc", "deadman.alerts.>", "deadman", "deadman-staging.alerts.>", "orders..created",
		".orders", "*.created", "orders.", "orders. created", "orders.\x00", strings.Repeat("a", 300),
	} {
		if _, err := b.Binder.Bind(t.Context(), []string{"fine", subject}); !errors.Is(err, rules.ErrSubject) {
			t.Errorf("%q: %v", subject, err)
		}
	}
	if _, _, _, err := b.EventPublisher.PublishEvent(t.Context(), "fine", nil, nil, ""); !errors.Is(err, bus.ErrNoStream) {
		t.Errorf("a refused rule changed something: %v", err)
	}
}

func TestBindRefusesRetentionThatDeletes(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	b := connect(t, s)
	js := bustest.JetStream(t, s.ClientURL())
	makeStream(t, js, jetstream.StreamConfig{Name: "WORK", Subjects: []string{"work.>"}, Retention: jetstream.WorkQueuePolicy})
	makeStream(t, js, jetstream.StreamConfig{Name: "MOVED", Subjects: []string{"moved.*"}, SubjectTransform: &jetstream.SubjectTransformConfig{Source: "moved.*", Destination: "elsewhere.{{wildcard(1)}}"}})
	if _, err := b.Binder.Bind(t.Context(), []string{"moved.a"}); !errors.Is(err, rules.ErrSubject) || !strings.Contains(err.Error(), "MOVED") {
		t.Errorf("what is stored under another subject: %v", err)
	}
	makeStream(t, js, jetstream.StreamConfig{Name: "FANS", Subjects: []string{"fans.>"}, Retention: jetstream.InterestPolicy})

	for subject, stream := range map[string]string{"work.done": "WORK", "fans.*": "FANS"} {
		_, err := b.Binder.Bind(t.Context(), []string{subject})
		if !errors.Is(err, rules.ErrSubject) || !strings.Contains(err.Error(), stream) || !strings.Contains(err.Error(), "sources") {
			t.Errorf("%s: %v", subject, err)
		}
	}
	makeStream(t, js, jetstream.StreamConfig{Name: "FANS_COPY", Sources: []*jetstream.StreamSource{{Name: "FANS"}}})
	want := []rules.StreamBinding{{Subject: "fans.*", Stream: "FANS_COPY"}}
	if diff := cmp.Diff(want, bind(t, b, "fans.*")); diff != "" {
		t.Errorf("the remedy does not help: %s", diff)
	}
	// A copy of a stream that can be read itself would deliver every event twice.
	makeStream(t, js, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	makeStream(t, js, jetstream.StreamConfig{Name: "ORDERS_COPY", Mirror: &jetstream.StreamSource{Name: "ORDERS"}})
	want = []rules.StreamBinding{{Subject: "orders.created", Stream: "ORDERS"}}
	if diff := cmp.Diff(want, bind(t, b, "orders.created")); diff != "" {
		t.Error(diff)
	}
}

func TestNodesBindAtOnce(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	const nodes, each = 4, 8
	var want []string
	var all sync.WaitGroup
	for n := range nodes {
		b := connect(t, s)
		for i := range each {
			want = append(want, fmt.Sprintf("node%d.event%d", n, i))
		}
		all.Go(func() {
			for i := range each {
				if _, err := b.Binder.Bind(t.Context(), []string{fmt.Sprintf("node%d.event%d", n, i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if diff := cmp.Diff(want, subjectsOf(t, bustest.JetStream(t, s.ClientURL()), bus.EventsStream)); diff != "" {
		t.Errorf("a subject was lost: %s", diff)
	}
}

// TestTransportsReportRisksOfStream checks that a stream that may delete single messages is reported, with the setting.
func TestTransportsReportRisksOfStream(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	b := connect(t, s)
	js := bustest.JetStream(t, s.ClientURL())
	for name, cfg := range map[string]jetstream.StreamConfig{
		"NEWEST": {MaxMsgsPerSubject: 1}, "ROLLED": {AllowRollup: true}, "AGED": {AllowMsgTTL: true}, "SAFE": {MaxMsgs: 100},
	} {
		cfg.Name, cfg.Subjects = name, []string{name + ".>"}
		if _, err := js.CreateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	routes, err := b.Binder.Routes(t.Context(), []string{"NEWEST.a", "ROLLED.*", "AGED.a", "SAFE.a"})
	if err != nil {
		t.Fatal(err)
	}
	for i, setting := range []string{"max_msgs_per_subject", "allow_rollup_hdrs", "allow_msg_ttl", ""} {
		risks := strings.Join(routes[i].Risks, "; ")
		if (setting == "") != (risks == "") || !strings.Contains(risks, setting) {
			t.Errorf("%s: %q, want %s", routes[i].Subject, risks, setting)
		}
	}
}

// TestTransportsWithoutBroker checks that a node starting while the broker goes away retries: the error is
// ErrUnreachable.
func TestTransportsWithoutBroker(t *testing.T) {
	server := serve(t, bustest.Dir(t))
	b := connect(t, server)
	server.Close()
	if _, err := b.Binder.Routes(t.Context(), []string{"orders.created"}); !errors.Is(err, bus.ErrUnreachable) {
		t.Errorf("%v, want ErrUnreachable", err)
	}
}

// TestStreamsDeletedDuringSearch checks that a stream deleted between listing and query counts as missing,
// without an error.
func TestStreamsDeletedDuringSearch(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	b := connect(t, s)
	js := bustest.JetStream(t, s.ClientURL())
	ended := make(chan error, 1)
	stop := make(chan struct{})
	var made atomic.Int64
	go func() {
		var err error
		for isOver := false; err == nil && !isOver; {
			if _, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}, Storage: jetstream.MemoryStorage}); err == nil {
				made.Add(1)
				time.Sleep(5 * time.Millisecond)
				err = js.DeleteStream(t.Context(), "ORDERS")
			}
			select {
			case <-stop:
				isOver = true
			default:
			}
		}
		ended <- err
	}()
	found := map[int]int{}
	for made.Load() < 500 {
		reads, err := b.Binder.Find(t.Context(), []string{"orders.created"})
		if err != nil {
			t.Error(err)
			break
		}
		found[len(reads)]++
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if found[0] == 0 || found[1] == 0 {
		t.Errorf("it was there and it was not: %v", found)
	}
}

// TestBindCapturesAllAtOnce checks that one call changes the stream once, whatever the number of its subjects.
func TestBindCapturesAllAtOnce(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	b := connect(t, s)
	js := bustest.JetStream(t, s.ClientURL())
	bind(t, b, "first")
	updates, err := js.Conn().SubscribeSync("$JS.EVENT.ADVISORY.STREAM.UPDATED." + bus.EventsStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.Conn().Flush(); err != nil { // the broker has the subscription before the update, which another connection requests
		t.Fatal(err)
	}
	all := []string{"first", "parcels.*.sent", "parcels.x.>", "acme.s00"}
	want := []string{"first", "parcels.*.sent"} // parcels.x.> overlaps
	for i := range 33 {
		want = append(want, fmt.Sprintf("acme.s%02d", i))
		all = append(all, want[len(want)-1])
	}
	slices.Sort(want)
	if reads := bind(t, b, all...); len(reads) != 36 {
		t.Errorf("%d reads, want one for each subject", len(reads))
	}
	if diff := cmp.Diff(want, subjectsOf(t, js, bus.EventsStream)); diff != "" {
		t.Errorf("captured subjects: %s", diff)
	}
	if _, err := updates.NextMsg(10 * time.Second); err != nil {
		t.Fatalf("no update of the stream: %v", err)
	}
	if more, err := updates.NextMsg(200 * time.Millisecond); err == nil {
		t.Errorf("the stream is updated again: %.200s", more.Data)
	}
	bind(t, b, "acme.>", "acme.s01")
	if diff := cmp.Diff([]string{"acme.>", "first", "parcels.*.sent"}, subjectsOf(t, js, bus.EventsStream)); diff != "" {
		t.Errorf("a wildcard takes the place of what it includes: %s", diff)
	}
}

// TestSubjectsOfTenantAreBounded checks that a token with a prefix captures no more subjects than its quota, and that the
// subjects of others neither count nor are refused.
func TestSubjectsOfTenantAreBounded(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	b := connect(t, s)
	js := bustest.JetStream(t, s.ClientURL())
	var quotas access.Quotas
	quotas.Set([]access.Quota{{Prefix: "acme-", Set: map[access.Limited]int64{access.LimitSubjects: 3}}, {Prefix: "zenith-"}}, 0)
	b.EventsStream.BoundBy(&quotas)
	as := func(name string) context.Context {
		return access.Within(t.Context(), &access.Bounds{Token: name, Prefix: name + "-", Subjects: subjects.List{name + ".>"}, Publish: subjects.List{name + "-out.>"}})
	}
	for i, step := range []struct {
		by       context.Context
		subjects []string
		over     bool
	}{
		{as("acme"), []string{"acme.a", "acme.b", "acme.c", "acme.d"}, true}, // there is no stream yet
		{as("zenith"), []string{"zenith.a", "zenith.b", "zenith.c", "zenith.d"}, false},
		{as("acme"), []string{"acme.a", "acme.b"}, false},
		{as("acme"), []string{"acme.c", "acme.d"}, true},
		{as("acme"), []string{"acme.b", "acme-out.tick"}, false},
		{as("acme"), []string{"acme.c"}, true},
		{as("acme"), []string{"acme.a", "acme.b"}, false}, // captured already
		{t.Context(), []string{"acme.e"}, false},          // not the tenant's own: it counts
		{as("acme"), []string{"acme.f.*"}, true},
		{as("acme"), []string{"acme.>"}, false}, // it takes the place of the others
		{as("acme"), []string{"acme.c", "acme.d", "acme.f.*"}, false},
	} {
		_, err := b.Binder.Bind(step.by, step.subjects)
		if errors.Is(err, access.ErrQuota) != step.over || !step.over && err != nil {
			t.Errorf("step %d: %v, over the quota %v", i, err, step.over)
		}
	}
	if diff := cmp.Diff([]string{"acme-out.tick", "acme.>", "zenith.a", "zenith.b", "zenith.c", "zenith.d"}, subjectsOf(t, js, bus.EventsStream)); diff != "" {
		t.Errorf("captured subjects: %s", diff)
	}
	b.EventsStream.Inspect(t.Context())
	if n := b.EventsStream.CountWithin([]*access.Bounds{{Subjects: subjects.List{"acme.>"}}, {Subjects: subjects.List{"acme.x"}, Publish: subjects.List{"acme-out.>"}}}); n != 2 {
		t.Errorf("%d subjects are counted, want 2", n)
	}
}

// TestSubjectsAreBoundedOnSeveralNodes checks that saves on two nodes at once capture as many subjects as the quota allows.
func TestSubjectsAreBoundedOnSeveralNodes(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	js := bustest.JetStream(t, s.ClientURL())
	var quotas access.Quotas
	quotas.Set([]access.Quota{{Prefix: "acme-", Set: map[access.Limited]int64{access.LimitSubjects: 4}}}, 0)
	ctx := access.Within(t.Context(), &access.Bounds{Token: "acme", Prefix: "acme-", Subjects: subjects.List{"acme.>"}})
	var saves sync.WaitGroup
	var refused atomic.Int64
	for node := range 2 {
		b := connect(t, s)
		b.EventsStream.BoundBy(&quotas)
		for i := range 6 {
			saves.Go(func() {
				_, err := b.Binder.Bind(ctx, []string{fmt.Sprintf("acme.%d.%d", node, i)})
				switch {
				case errors.Is(err, access.ErrQuota):
					refused.Add(1)
				case err != nil:
					t.Error(err)
				}
			})
		}
	}
	saves.Wait()
	if n := len(subjectsOf(t, js, bus.EventsStream)); n != 4 || refused.Load() != 8 {
		t.Errorf("%d subjects are captured and %d saves are refused, want 4 and 8", n, refused.Load())
	}
}
