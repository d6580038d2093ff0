package ha_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	ordersEvery = 50 * time.Millisecond
	shippedIn   = time.Second // for every second order
	publishIn   = 2 * time.Second

	commitsEvery = 250 * time.Millisecond
)

// load publishes orders, each until NATS acknowledges it, and ships every second one.
type load struct {
	b       *bed
	name    string // the beginning of the ids of its orders
	orders  *reader
	alerts  *reader
	ended   chan struct{}
	flights sync.WaitGroup

	mu      sync.Mutex
	acked   map[string]bool // message ids
	slowest time.Duration   // time until an event was acknowledged
	silent  time.Duration   // longest time without a commit of another client of Postgres
}

// startLoad begins to publish orders.
func (b *bed) startLoad(name string) *load {
	b.Helper()
	l := &load{
		b: b, name: strings.ReplaceAll(name, " ", "-"), orders: b.newReader("ORDERS"), alerts: b.newReader("DEADMAN_ALERTS"),
		ended: make(chan struct{}), acked: map[string]bool{},
	}
	l.flights.Go(l.commit)
	l.flights.Go(func() {
		tick := time.NewTicker(ordersEvery)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-tick.C:
				l.flights.Go(func() { l.order(i) })
			case <-l.ended:
				return
			}
		}
	})
	return l
}

// commit commits a transaction on the primary again and again, to know how long Postgres itself takes none.
func (l *load) commit() {
	admin := l.b.adminURL(direct)
	tick := time.NewTicker(commitsEvery)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-tick.C:
		case <-l.ended:
			return
		}
		ctx, cancel := context.WithTimeout(l.b.Context(), publishIn)
		c, err := pgx.Connect(ctx, admin)
		if err == nil {
			_, err = c.Exec(ctx, `SELECT pg_current_xact_id()`) // its commit is replicated
			_ = c.Close(ctx)
		}
		cancel()
		if err == nil {
			l.silent = max(l.silent, time.Since(last))
			last = time.Now()
		}
	}
}

// stop stops to publish orders, and waits until those that were begun are acknowledged.
func (l *load) stop() {
	close(l.ended)
	l.flights.Wait()
}

func (l *load) order(i int) {
	id := fmt.Sprintf("%s-%d", l.name, i)
	if l.publish("orders.created", id) && i%2 == 0 {
		<-time.After(shippedIn)
		l.publish("orders.shipped", id)
	}
}

// publish publishes an event until it is acknowledged, and reports whether it was.
func (l *load) publish(subject, id string) bool {
	begun := time.Now()
	msg := nats.NewMsg(subject)
	msg.Data = fmt.Appendf(nil, `{"id": %q}`, id)
	for {
		ctx, cancel := context.WithTimeout(l.b.Context(), publishIn)
		_, err := l.b.js.PublishMsg(ctx, msg, jetstream.WithMsgID(subject+"/"+id))
		cancel()
		if err == nil {
			break
		}
		if time.Since(begun) > patience || l.b.Context().Err() != nil {
			l.b.Errorf("%s %s is not acknowledged: %v", subject, id, err)
			return false
		}
		<-time.After(100 * time.Millisecond)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[subject+"/"+id] = true
	l.slowest = max(l.slowest, time.Since(begun))
	return true
}

// reader reads the messages of a stream one by one, from the end of the stream at its creation.
type reader struct {
	js     jetstream.JetStream
	stream string
	next   uint64
}

func (b *bed) newReader(stream string) *reader {
	b.Helper()
	r := &reader{js: b.js, stream: stream}
	within(b.T, "the stream "+stream+" answers", func(ctx context.Context) error {
		s, err := r.js.Stream(ctx, stream)
		if err == nil {
			r.next = s.CachedInfo().State.LastSeq + 1
		}
		return err
	})
	return r
}

// read calls each with the new messages. After an error it continues with the next call.
func (r *reader) read(ctx context.Context, each func(*jetstream.RawStreamMsg) error) error {
	s, err := r.js.Stream(ctx, r.stream)
	if err != nil {
		return err
	}
	for last := s.CachedInfo().State.LastSeq; r.next <= last; r.next++ {
		msg, err := s.GetMsg(ctx, r.next)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err == nil {
			err = each(msg)
		}
		if err != nil {
			return fmt.Errorf("%s, message %d: %w", r.stream, r.next, err)
		}
	}
	return nil
}
