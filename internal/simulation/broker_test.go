package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/events"
)

// broker is the streams of all nodes, as JetStream keeps them: sequences without repeats, one time for each message, and a new
// creation time when a stream is created again.
type broker struct {
	mu      sync.Mutex
	streams map[string]*stream
	alerts  []alerts.Alert // in the order of the stream of alerts
	has     map[alerts.ID]bool
}

// stream is one stream of events.
type stream struct {
	name      string
	createdAt time.Time
	messages  []message // in the order of their sequences; deleted ones are left out
	lastSeq   uint64
	lastAt    time.Time
	replaced  bool          // another stream has the name now
	arrived   chan struct{} // closed at the next message
}

// message is one message of a stream.
type message struct {
	futurejobs.Event
	visibleAt time.Time // when readers receive it
}

func newBroker(names ...string) *broker {
	b := &broker{streams: make(map[string]*stream), has: make(map[alerts.ID]bool)}
	for _, name := range names {
		b.streams[name] = newStream(name)
	}
	return b
}

func newStream(name string) *stream {
	return &stream{name: name, createdAt: time.Now().Truncate(time.Microsecond), arrived: make(chan struct{})}
}

// store appends an event to a stream. Readers receive it after the lag.
func (b *broker) store(name, subject, id string, data []byte, lag time.Duration) futurejobs.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, now := b.streams[name], time.Now().Truncate(time.Microsecond)
	if !now.After(s.lastAt) {
		now = s.lastAt.Add(time.Microsecond)
	}
	s.lastSeq++
	s.lastAt = now
	e := futurejobs.Event{Stream: name, Subject: subject, Seq: s.lastSeq, At: now, ID: id, Data: data, StreamCreatedAt: s.createdAt}
	s.messages = append(s.messages, message{e, now.Add(lag)})
	close(s.arrived)
	s.arrived = make(chan struct{})
	return e
}

// storeAlert appends an alert unless the stream has it.
func (b *broker) storeAlert(a alerts.Alert) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.has[a.ID] {
		b.has[a.ID] = true
		b.alerts = append(b.alerts, a)
	}
}

// deletion is the deletion of the messages of a stream.
type deletion struct {
	cut
	events []futurejobs.Event // deleted ones, read or not
}

// delete deletes the messages of a stream, or replaces it by an empty one.
func (b *broker) delete(c cut) deletion {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, d := b.streams[c.stream], deletion{cut: c}
	for _, m := range s.messages {
		d.events = append(d.events, m.Event)
	}
	s.messages = nil
	if c.recreates {
		s.replaced = true
		close(s.arrived)
		b.streams[c.stream] = newStream(c.stream)
	}
	return d
}

// brokerClient is the broker as one node sees it.
type brokerClient struct {
	*gate
	broker *broker
}

var (
	_ events.Streams   = brokerClient{}
	_ alerts.Publisher = brokerClient{}
)

// find returns a stream while the broker is locked.
func (b *broker) find(name string) (*stream, error) {
	s := b.streams[name]
	if s == nil {
		return nil, events.ErrGone
	}
	return s, nil
}

// locked runs a call on the streams.
func locked[T any](ctx context.Context, c brokerClient, operation, name string, do func(s *stream) (T, error)) (T, error) {
	return call(ctx, c.gate, streams, operation+" "+name, func(context.Context) (result T, err error) {
		c.broker.mu.Lock()
		defer c.broker.mu.Unlock()
		s, err := c.broker.find(name)
		if err != nil {
			return result, err
		}
		return do(s)
	})
}

// Info implements events.Streams.
func (c brokerClient) Info(ctx context.Context, name string) (events.Info, error) {
	return locked(ctx, c, "Info", name, func(s *stream) (events.Info, error) { return s.info(), nil })
}

func (s *stream) info() events.Info {
	i := events.Info{CreatedAt: s.createdAt, FirstSeq: s.lastSeq + 1, LastSeq: s.lastSeq, LastAt: s.lastAt}
	if len(s.messages) > 0 {
		i.FirstSeq, i.FirstAt = s.messages[0].Seq, s.messages[0].At
		i.Deleted = s.lastSeq - i.FirstSeq + 1 - uint64(len(s.messages))
	}
	return i
}

// First implements events.Streams.
func (c brokerClient) First(ctx context.Context, name string, from uint64) (seq uint64, at time.Time, err error) {
	e, err := locked(ctx, c, "First", name, func(s *stream) (futurejobs.Event, error) {
		for _, m := range s.messages {
			if m.Seq >= from {
				return m.Event, nil
			}
		}
		return futurejobs.Event{}, nil
	})
	return e.Seq, e.At, err
}

// Before implements events.Streams.
func (c brokerClient) Before(ctx context.Context, name string, at time.Time) (uint64, error) {
	return locked(ctx, c, "Before", name, func(s *stream) (uint64, error) {
		for _, m := range s.messages {
			if m.At.After(at) {
				return m.Seq - 1, nil
			}
		}
		return s.lastSeq, nil
	})
}

// Read implements events.Streams.
func (c brokerClient) Read(ctx context.Context, name string, after uint64, subjects []string) (events.Reader, error) {
	return locked(ctx, c, "Read", name, func(s *stream) (events.Reader, error) {
		return &reader{client: c, stream: s, subjects: subjects, last: after, counted: after}, nil
	})
}

// reader reads one stream.
type reader struct {
	client   brokerClient
	stream   *stream
	subjects []string
	last     uint64 // last sequence that was returned, or through which the stream was drained
	counted  uint64 // losses through this sequence were returned
}

var errReplaced = errors.New("the stream was replaced")

// Next implements events.Reader.
func (r *reader) Next(ctx context.Context, limit int, wait time.Duration) ([]futurejobs.Event, error) {
	if err := run(ctx, r.client.gate, streams, "Next "+r.stream.name, func(context.Context) error { return nil }); err != nil {
		return nil, err
	}
	timeout := time.After(wait)
	for {
		got, arrived, later, err := r.visible(limit)
		if len(got) > 0 || err != nil {
			return got, err
		}
		var soon <-chan time.Time
		if !later.IsZero() {
			soon = time.After(time.Until(later))
		}
		select {
		case <-arrived:
		case <-soon:
		case <-timeout:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-r.client.dead:
			return nil, errDead
		}
	}
}

// visible returns the next messages that readers receive by now, and otherwise the time of the next one, if it is known.
func (r *reader) visible(limit int) (got []futurejobs.Event, arrived <-chan struct{}, later time.Time, err error) {
	b := r.client.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.stream.replaced {
		return nil, nil, later, errReplaced
	}
	until, isDelayed := r.client.deployment.delayed(r.client.node, streams)
	for _, m := range r.after(r.last) {
		switch {
		case isDelayed:
			return got, r.stream.arrived, until, nil
		case m.visibleAt.After(time.Now()):
			return got, r.stream.arrived, m.visibleAt, nil
		case len(got) == limit:
			return got, r.stream.arrived, later, nil
		}
		r.last = m.Seq
		got = append(got, m.Event)
	}
	return got, r.stream.arrived, later, nil
}

// after returns the messages on the subjects after a sequence.
func (r *reader) after(seq uint64) (left []message) {
	for _, m := range r.stream.messages {
		if m.Seq > seq && slices.Contains(r.subjects, m.Subject) {
			left = append(left, m)
		}
	}
	return left
}

// End implements events.Reader. It is uncertain while the stream has no leader.
func (r *reader) End(ctx context.Context) (end uint64, ok bool, err error) {
	end, err = locked(ctx, r.client, "End", r.stream.name, func(s *stream) (uint64, error) {
		if s != r.stream {
			return 0, errReplaced
		}
		_, leaderless := r.client.deployment.active(election, "")
		ok = !leaderless
		return s.lastSeq, nil
	})
	return end, ok && err == nil, err
}

// Drained implements events.Reader.
func (r *reader) Drained(ctx context.Context, seq, end uint64) (bool, error) {
	return locked(ctx, r.client, "Drained", r.stream.name, func(*stream) (bool, error) {
		left := r.after(seq)
		if len(left) > 0 && left[0].Seq <= end {
			return false, nil
		}
		r.last = max(r.last, end)
		return true, nil
	})
}

// Left implements events.Reader.
func (r *reader) Left() uint64 {
	r.client.broker.mu.Lock()
	defer r.client.broker.mu.Unlock()
	return uint64(len(r.after(r.last)))
}

// Lost implements events.Reader.
func (r *reader) Lost(ctx context.Context) (events.Loss, error) {
	return locked(ctx, r.client, "Lost", r.stream.name, func(*stream) (l events.Loss, err error) {
		has := make(map[uint64]bool)
		for _, m := range r.stream.messages {
			has[m.Seq] = true
		}
		for seq := r.counted + 1; seq <= r.last; seq++ {
			if !has[seq] {
				l.Gone = append(l.Gone, events.Span{First: seq, Last: seq})
			}
		}
		l.Gone, r.counted = events.Union(l.Gone, nil), max(r.counted, r.last)
		return l, nil
	})
}

// Close implements events.Reader.
func (r *reader) Close() {}

// Publish implements alerts.Publisher. While publications fail, a batch is refused, stored in part, or stored without an
// acknowledgement.
func (c brokerClient) Publish(ctx context.Context, batch []alerts.Alert) (sent []alerts.Alert, err error) {
	l := c.luck("Publish " + batch[0].ID.String())
	if err := c.enter(ctx, streams, l); err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	through := len(batch)
	_, broken := c.deployment.active(publications, c.node)
	if broken && l.share(4) < 0.5 {
		through = int(l.share(5) * float64(len(batch)+1))
	}
	for _, a := range batch[:through] {
		c.broker.storeAlert(a)
	}
	if err := c.leave(ctx, streams, l); err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	switch {
	case broken && l.share(6) < 0.5:
		c.deployment.count("alerts stored without an acknowledgement")
		return nil, errNoAnswer
	case through < len(batch):
		c.deployment.count("alerts stored in part")
		return batch[:through], errors.New("the stream stores no message")
	}
	return batch, nil
}
