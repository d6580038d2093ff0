package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/server"
)

// Node is the way of a whole node.
const Node = "node"

const (
	aheadFirst = 5 * time.Second // from inserting jobs to their slot
	aheadMost  = 2 * time.Minute
	alertsMost = 2 * time.Minute // maximum time from a slot to its last alert
)

// latencyWays measure the alerts of a whole node on a private broker.
func latencyWays(_ context.Context, g database, o Options) (ways []contender, over func(context.Context) error, err error) {
	server, err := bus.StartServer(bus.ServerOptions{Dir: o.Dir + "/nats", Addr: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	l := latency{ground: g, jobs: o.Jobs, url: server.ClientURL()}
	return []contender{{Node, l.measure}}, func(context.Context) error { server.Close(); return nil }, nil
}

// latency measures the time from the slot to the alerts of jobs.
type latency struct {
	ground database
	jobs   int
	url    string // of the broker
}

// errLate means that the slot came before all jobs were inserted.
var errLate = errors.New("the slot came before its jobs were inserted")

// measure retries with a later slot.
func (l latency) measure(ctx context.Context) (r Result, err error) {
	for ahead := aheadFirst; ahead <= aheadMost; ahead *= 2 {
		if r, err = l.measureAhead(ctx, ahead); !errors.Is(err, errLate) {
			return r, err
		}
	}
	return r, fmt.Errorf("%w within %v; measure with fewer jobs", err, aheadMost)
}

func (l latency) measureAhead(ctx context.Context, ahead time.Duration) (r Result, err error) {
	if err := l.ground.clear(ctx); err != nil {
		return r, fmt.Errorf("clear: %w", err)
	}
	stop, err := l.serve(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	clock := futurejobs.NewClock(l.ground.now, time.Now)
	if err := clock.Sync(ctx); err != nil {
		return r, err
	}
	nc, err := nats.Connect(l.url)
	if err != nil {
		return r, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return r, err
	}
	listener, quiet, err := listenToRule(ctx, js, "bench", clock.Now)
	if err != nil {
		return r, err
	}
	defer quiet()

	begun := clock.Now()
	if err := l.ground.fill(ctx, Finish, l.jobs, ahead); err != nil {
		return r, fmt.Errorf("fill: %w", err)
	}
	if !clock.Now().Before(begun.Add(ahead - time.Second)) { // the slot begins on a second
		return r, errLate
	}
	return l.awaitAlerts(ctx, ahead, listener)
}

// awaitAlerts waits for the alerts of all jobs.
func (l latency) awaitAlerts(ctx context.Context, ahead time.Duration, listener alertListener) (r Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, ahead+alertsMost)
	defer cancel()
	watch := watchMemory()
	defer watch.stop()
	cpu := processTime()
	delays, err := listener(ctx, l.jobs)
	if err != nil {
		return r, err
	}
	r = Result{Shape: Latency, Way: Node, Jobs: l.jobs, CPU: processTime() - cpu, Memory: watch.peak()}
	r.quantiles(delays)
	r.Took = r.Most
	return r, nil
}

// serve runs a node until stop.
func (l latency) serve(ctx context.Context) (stop func() error, err error) {
	o := l.ground.options()
	serving, cease := context.WithCancel(context.WithoutCancel(ctx))
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- server.Run(serving, server.Config{
			DatabaseURL: o.DatabaseURL, DataDir: o.DataDir, NATSURL: l.url, HTTPAddr: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
			FirstToken: func(string, string) {}, Ready: func(server.Endpoints) { close(ready) },
		})
	}()
	stop = func() error { cease(); return <-ended }
	select {
	case <-ready:
		return stop, nil
	case err := <-ended:
		cease()
		return nil, err
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), stop())
	}
}

// alertListener waits for n alerts and returns the delay of each after its slot.
type alertListener func(ctx context.Context, n int) ([]time.Duration, error)

// listenToRule subscribes to the alerts of a rule, one per job.
func listenToRule(ctx context.Context, js jetstream.JetStream, rule string, now func() time.Time) (listener alertListener, stop func(), err error) {
	consumer, err := js.OrderedConsumer(ctx, bus.AlertsStream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{"deadman.alerts." + rule + ".>"}, DeliverPolicy: jetstream.DeliverNewPolicy,
	})
	if err != nil {
		return nil, nil, err
	}
	var mu sync.Mutex
	var delays []time.Duration
	var failed error
	reading, err := consumer.Consume(func(msg jetstream.Msg) {
		at := now()
		slot, err := slotOf(msg.Data())
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = err
			return
		}
		delays = append(delays, at.Sub(slot))
	})
	if err != nil {
		return nil, nil, err
	}
	listener = func(ctx context.Context, n int) ([]time.Duration, error) {
		for {
			mu.Lock()
			got, err := slices.Clone(delays), failed
			mu.Unlock()
			if err != nil || len(got) >= n {
				return got, err
			}
			select {
			case <-ctx.Done():
				return nil, fmt.Errorf("%d of %d alerts were received: %w", len(got), n, ctx.Err())
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	return listener, reading.Stop, nil
}

// slotOf returns the slot of a firing alert.
func slotOf(alert []byte) (time.Time, error) {
	var decoded struct {
		Slot   time.Time
		Status string
	}
	if err := json.Unmarshal(alert, &decoded); err != nil {
		return time.Time{}, err
	}
	if decoded.Status != "firing" {
		return time.Time{}, fmt.Errorf("an alert is %s: %s", decoded.Status, alert)
	}
	return decoded.Slot, nil
}
