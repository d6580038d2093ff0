package replaytasks_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/replaytasks"
	"deadman/internal/testdisk"
	"deadman/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testdisk.InMemory(m)) }

const unshipped = `name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: parcels.shipped, key: event.id}
escalate:
  - {after: 3h, step: late, text: "order {{key}} is late"}
`

// pacedStreams are streams whose messages count as stored every half hour since a time, and are delivered one by one.
type pacedStreams struct {
	*bus.Streams
	since time.Time
	next  chan struct{} // nil: all at once
	read  atomic.Int64
	err   error // in place of the third message; errPanic: a panic
}

func (s *pacedStreams) Replay(ctx context.Context, stream string, subjects []string, _ time.Time, through uint64) iter.Seq2[futurejobs.Event, error] {
	return func(yield func(futurejobs.Event, error) bool) {
		for e, err := range s.Streams.Replay(ctx, stream, subjects, time.Time{}, through) {
			if s.next != nil {
				select {
				case <-s.next:
				case <-ctx.Done():
				}
			}
			if s.read.Add(1) == 3 && s.err != nil {
				err = s.err
				if errors.Is(err, errPanic) {
					panic(err)
				}
			}
			var place int
			if _, err := fmt.Sscanf(string(e.Data), `{"id": "%d"`, &place); err != nil {
				panic(err)
			}
			e.At = s.since.Add(time.Duration(place) * 30 * time.Minute)
			if e.Subject == "parcels.shipped" {
				e.At = e.At.Add(4 * time.Hour)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

var errPanic = errors.New("a bug")

// fixture is a runner over a broker with two streams. Of ten orders, a half hour apart, the first five are shipped after four
// hours.
type fixture struct {
	*replaytasks.Runner
	t       *testing.T
	streams *pacedStreams
	bus     *bus.Bus
	js      jetstream.JetStream
	now     time.Time
	stop    func() // and wait
}

func newFixture(t *testing.T, limits func(*replaytasks.Limits), paced bool) *fixture {
	t.Helper()
	broker := bustest.Serve(t, bustest.Options(t))
	b, err := bus.Dial(bus.Options{URL: broker.ClientURL(), Log: slog.New(slog.DiscardHandler)})
	failOn(t, err)
	t.Cleanup(b.Close)
	f := &fixture{t: t, bus: b, js: bustest.JetStream(t, broker.ClientURL()), now: time.Date(2026, 3, 2, 20, 0, 0, 0, time.UTC)}
	for name, subject := range map[string]string{"ORDERS": "orders.>", "PARCELS": "parcels.>"} {
		_, err := f.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{subject}})
		failOn(t, err)
	}
	for i := range 10 {
		f.publish("orders.created", i)
		if i < 5 {
			f.publish("parcels.shipped", i)
		}
	}
	f.streams = &pacedStreams{Streams: b.Streams, since: f.now.Add(-10 * time.Hour)}
	if paced {
		f.streams.next = make(chan struct{})
	}
	o := replaytasks.Options{Streams: f.streams, Limits: replaytasks.DefaultLimits, Node: "here/1", Now: func() time.Time { return f.now }, Log: slog.New(slog.DiscardHandler)}
	if limits != nil {
		limits(&o.Limits)
	}
	f.Runner = replaytasks.New(o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	f.stop = func() {
		cancel()
		if err, ok := <-ended; ok {
			close(ended)
			failOn(t, err)
		}
	}
	t.Cleanup(func() { f.stop() })
	return f
}

func failOn(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) publish(subject string, id int) {
	f.t.Helper()
	_, err := f.js.Publish(f.t.Context(), subject, fmt.Appendf(nil, `{"id": "%d"}`, id))
	failOn(f.t, err)
}

// request returns a request to replay a rule over the last ten hours.
func (f *fixture) request(text string) replaytasks.Request {
	f.t.Helper()
	rule, err := (&rules.Registry{Binder: f.bus.Binder}).Replayable(f.t.Context(), []byte(text), "", 0)
	failOn(f.t, err)
	return replaytasks.Request{Replayable: rule, Since: f.streams.since, Owner: "ada", Tenant: "ada"}
}

func (f *fixture) start(q replaytasks.Request) (task replaytasks.Task, ended <-chan struct{}) {
	f.t.Helper()
	done := make(chan struct{})
	task, err := f.Start(f.t.Context(), q, func() { close(done) })
	failOn(f.t, err)
	return task, done
}

func (f *fixture) task(id string) replaytasks.Task {
	f.t.Helper()
	task, err := f.Task("ada", id)
	failOn(f.t, err)
	return task
}

// ended starts a replay, and returns it after its end.
func (f *fixture) ended(q replaytasks.Request) replaytasks.Task {
	f.t.Helper()
	task, ended := f.start(q)
	<-ended
	return f.task(task.ID)
}

// consumers returns the number of consumers at the broker.
func (f *fixture) consumers() (n int) {
	for _, name := range []string{"ORDERS", "PARCELS"} {
		stream, err := f.js.Stream(f.t.Context(), name)
		failOn(f.t, err)
		n += stream.CachedInfo().State.Consumers
	}
	return n
}

// The events of two streams are merged by time: an order is late at three hours and resolved at four.
func TestReplayOfStreams(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil, false)
	got := f.ended(f.request(unshipped))
	if got.State != replaytasks.Done || got.Events != 15 || got.Raised != 10 || got.Progress() != 1 || got.Reason != "" || len(got.Warnings) != 0 {
		t.Fatalf("%+v", got)
	}
	r := got.Result
	if r.Summary.Started != 10 || r.Summary.Late != 5 || r.Summary.Pending != 5 || r.Summary.Alerts["late"] != 10 || len(r.Alerts) != 15 || r.Further != 0 {
		t.Errorf("%+v, %d alerts", r.Summary, len(r.Alerts))
	}
	if first := r.Alerts[0]; !first.Slot.Equal(f.streams.since.Add(3*time.Hour)) || first.Text != "order 0 is late" || first.Step != "late" {
		t.Errorf("the first alert is %+v", first)
	}
	if steps := r.Histogram.Steps; len(steps) != 1 || steps[0].Alerts != 10 || len(r.Histogram.Bins) == 0 || len(r.Timeline.Bars) != 1 {
		t.Errorf("%+v %+v", r.Histogram, r.Timeline)
	}
	if n := f.consumers(); n != 0 {
		t.Errorf("%d consumers are left", n)
	}
}

// The progress rises with the events, and a cancelled replay reads no further.
func TestReplayIsCancelled(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil, true)
	task, ended := f.start(f.request(unshipped))
	last := task
	for i := range 9 {
		f.streams.next <- struct{}{}
		for i > 3 && f.task(task.ID).Events == last.Events {
			time.Sleep(time.Millisecond)
		}
		now := f.task(task.ID)
		read := now.Progress() * 15 // messages of both streams
		if now.State != replaytasks.Running || now.Result != nil || i > 3 && (now.Progress() <= last.Progress() || read < float64(i)-0.01 || read > float64(i)+1.01) {
			t.Fatalf("after %d: %+v, progress %v then %v", i, now, last.Progress(), now.Progress())
		}
		last = now
	}
	if _, err := f.Task("eve", task.ID); !errors.Is(err, futurejobs.ErrNotFound) || !strings.Contains(err.Error(), "here/1") {
		t.Errorf("another owner: %v", err)
	}
	if err := f.Cancel("eve", task.ID); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("another owner cancels: %v", err)
	}
	failOn(t, f.Cancel("ada", task.ID))
	<-ended
	if got := f.task(task.ID); got.State != replaytasks.Cancelled || got.Reason != "it was cancelled" || got.Result != nil || got.Progress() >= 1 {
		t.Errorf("%+v", got)
	}
	if n := f.consumers(); n != 0 {
		t.Errorf("%d consumers are left", n)
	}
	failOn(t, f.Cancel("ada", task.ID))
	if _, err := f.Task("ada", task.ID); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("after its removal: %v", err)
	}
}

// A node that stops ends its replays, and begins no other.
func TestReplayEndsWithNode(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil, true)
	q := f.request(unshipped)
	task, ended := f.start(q)
	f.stop()
	select {
	case <-ended:
	default:
		t.Error("the runner returned before the end of its replay")
	}
	if got := f.task(task.ID); got.State != replaytasks.Cancelled || !strings.Contains(got.Reason, "shutting down") {
		t.Errorf("%+v", got)
	}
	if _, err := f.Start(t.Context(), q, func() {}); !errors.Is(err, replaytasks.ErrStopping) {
		t.Errorf("after the stop: %v", err)
	}
}

// Each limit ends a replay with its reason and a remedy.
func TestReplayLimits(t *testing.T) {
	t.Parallel()
	for want, limit := range map[string]func(*replaytasks.Limits){
		"more than 14 events":         func(l *replaytasks.Limits) { l.Events = 14 },
		"more than 20 bytes":          func(l *replaytasks.Limits) { l.Bytes = 20 },
		"took more than 1ms":          func(l *replaytasks.Limits) { l.Time = time.Millisecond },
		"exceed the memory":           func(l *replaytasks.Limits) { l.Memory = 5 << 10 },
		"does not deliver the events": nil,
		"internal error":              nil,
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, limit, strings.HasPrefix(want, "took"))
			remedy := "choose a shorter range"
			switch want {
			case "does not deliver the events":
				f.streams.err, remedy = errors.New("lost stream ORDERS"), "/readyz"
			case "internal error":
				f.streams.err, remedy = errPanic, "the log of the node"
			}
			got := f.ended(f.request(unshipped))
			if got.State != replaytasks.Failed || !strings.Contains(got.Reason, want) || !strings.Contains(got.Reason, remedy) || got.Result != nil {
				t.Errorf("%+v", got)
			}
			if strings.Contains(got.Reason, "ORDERS") {
				t.Errorf("the reason shows the stream: %s", got.Reason)
			}
		})
	}
}

// A result keeps its first alerts, and counts the others.
func TestReplayKeepsFirstAlerts(t *testing.T) {
	t.Parallel()
	for _, limit := range []func(*replaytasks.Limits){
		func(l *replaytasks.Limits) { l.Alerts = 4 },
		func(l *replaytasks.Limits) { l.AlertBytes = 100 },
	} {
		got := newFixture(t, limit, false)
		if r := got.ended(got.request(unshipped)).Result; r == nil || len(r.Alerts) != 4 || r.Further != 11 || r.Summary.Alerts["late"] != 10 {
			t.Errorf("%+v", r)
		}
	}
}

// Ended replays are removed after their time, and the oldest of a tenant beyond its number.
func TestEndedReplaysAreRemoved(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(l *replaytasks.Limits) { l.KeptTasks, l.KeptNode = 2, 4 }, false)
	known := func(all ...replaytasks.Task) (yes []bool) {
		for _, one := range all {
			_, err := f.Task("ada", one.ID)
			yes = append(yes, err == nil)
		}
		return yes
	}
	q := f.request(unshipped)
	other := q
	other.Tenant = "zoe"
	first, foreign, second, third := f.ended(q), f.ended(other), f.ended(q), f.ended(q)
	if diff := cmp.Diff([]bool{false, true, true, true}, known(first, foreign, second, third)); diff != "" {
		t.Errorf("beyond two of a tenant:\n%s", diff)
	}
	other.Tenant = "eve"
	fourth := f.ended(other)
	other.Tenant = "bob"
	fifth := f.ended(other)
	if diff := cmp.Diff([]bool{false, true, true, true, true}, known(foreign, second, third, fourth, fifth)); diff != "" {
		t.Errorf("beyond four of the node:\n%s", diff)
	}
	f.now = f.now.Add(15 * time.Minute)
	if diff := cmp.Diff([]bool{false, false, false}, known(second, third, fourth)); diff != "" {
		t.Errorf("after 15 minutes:\n%s", diff)
	}
}

// A request that cannot begin is refused with its remedy, and what the streams lack is a warning.
func TestReplayRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil, false)
	const lookup = "while: 'state != nil'\nlookup: {sql: {source: shop, query: select 1}}\n"
	late := f.request(unshipped)
	late.Since = f.now
	long := f.request(unshipped)
	long.Since = f.now.Add(-367 * futurejobs.Day)
	given := f.request(unshipped)
	given.Found = []byte("{}")
	wrong := f.request(unshipped + lookup)
	wrong.Found = []byte("[1]")
	for want, q := range map[string]replaytasks.Request{
		"is not in the past": late, "more than 366d ago": long, "has no lookup": given, "--lookups": f.request(unshipped + lookup), "write an object, or null": wrong,
	} {
		if _, err := f.Start(t.Context(), q, func() {}); !errors.Is(err, replaytasks.ErrRequest) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s: %v", want, err)
		}
	}
	found := f.request(unshipped + lookup)
	found.Found = []byte("null")
	if got := f.ended(found); got.State != replaytasks.Done || got.Raised != 0 || got.Result.Summary.InTime != 10 {
		t.Errorf("no record exists: %+v %+v", got, got.Result)
	}
	parcels, err := f.js.Stream(t.Context(), "PARCELS")
	failOn(t, err)
	failOn(t, parcels.Purge(t.Context(), jetstream.WithPurgeKeep(1)))
	f.streams.since = f.now.Add(-10 * time.Hour)
	got := f.ended(f.request(unshipped + "pause: {event: nowhere.held, key: event.id, until: nowhere.freed}\n"))
	text := strings.Join(got.Warnings, "\n")
	if !strings.Contains(text, "The stream of parcels.shipped has deleted its events before") || !strings.Contains(text, "nowhere.held") || strings.Contains(text, "PARCELS") {
		t.Errorf("warnings: %s", text)
	}
}
