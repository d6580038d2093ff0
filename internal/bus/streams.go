package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sort"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	futurejobs "deadman/future_jobs"
	"deadman/internal/events"
	own "deadman/internal/subjects"
)

// leaderRetry is the pause before a stream without a certain leader is queried again.
const leaderRetry = 100 * time.Millisecond

var _ events.Streams = (*Streams)(nil)

// Streams reads the streams of the broker.
type Streams struct{ conn *Conn }

// Read opens a reader of a stream's messages on the subjects after a sequence. The reader returns ErrReaderLost if
// reading was interrupted, ErrDenied if the broker's user lacks a permission, ErrStreamReplaced if the stream was
// recreated, and jetstream's own error if it was deleted.
func (s *Streams) Read(ctx context.Context, stream string, after uint64, subjects []string) (events.Reader, error) {
	return s.read(ctx, stream, after, subjects, pullBytes)
}

// read is Read with a size of pulls.
func (s *Streams) read(ctx context.Context, stream string, after uint64, subjects []string, limit int) (*reader, error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	r := &reader{consumer: newConsumer(s.conn, stream, broadest(subjects)), streams: s, last: after}
	r.pullBytes = limit
	info, err := s.leaderInfo(ctx, stream)
	if err != nil {
		return nil, err
	}
	r.created, r.takes, r.own = createdAt(info), info.Config.Subjects, ownsAll(info, r.subjects)
	if info.State.FirstSeq > after {
		r.skip(info.State.FirstSeq, firstAt(info))
		r.last = info.State.FirstSeq - 1
	}
	if err := r.openWith(ctx, func(cfg *jetstream.ConsumerConfig) {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, after+1
	}); err != nil {
		return nil, fmt.Errorf("read stream %s: %w", stream, err)
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r, nil
}

// Replay returns a stream's events on the subjects from a time up to a sequence. An error ends the sequence.
func (s *Streams) Replay(ctx context.Context, stream string, subjects []string, since time.Time, through uint64) iter.Seq2[futurejobs.Event, error] {
	return s.replayed(ctx, stream, subjects, func(cfg *jetstream.ConsumerConfig) {
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &since
	}, through)
}

// ReplayAfter returns a stream's events on the subjects after a sequence, up to another one. An error ends the sequence.
func (s *Streams) ReplayAfter(ctx context.Context, stream string, subjects []string, after, through uint64) iter.Seq2[futurejobs.Event, error] {
	return s.replayed(ctx, stream, subjects, func(cfg *jetstream.ConsumerConfig) {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, after+1
	}, through)
}

func (s *Streams) replayed(ctx context.Context, stream string, subjects []string, from func(*jetstream.ConsumerConfig), through uint64) iter.Seq2[futurejobs.Event, error] {
	return func(yield func(futurejobs.Event, error) bool) {
		if err := s.replay(ctx, stream, subjects, from, through, yield); err != nil {
			yield(futurejobs.Event{}, fmt.Errorf("read what stream %s still has: %w", stream, err))
		}
	}
}

// replay yields a stream's events on the subjects up to a sequence. setStart sets the first one.
func (s *Streams) replay(ctx context.Context, stream string, subjects []string, setStart func(*jetstream.ConsumerConfig), through uint64, yield func(futurejobs.Event, error) bool) error {
	r := newConsumer(s.conn, stream, broadest(subjects))
	r.ctx, r.cancel = context.WithCancel(ctx)
	defer r.cancel()
	opening, cancel := withTimeout(ctx)
	defer cancel()
	info, err := s.fetchInfo(opening, stream)
	if err != nil {
		return err
	}
	r.created = createdAt(info)
	if err := r.openWith(opening, setStart); err != nil {
		return err
	}
	defer r.Close()
	for {
		if done, err := r.exhausted(ctx); done || err != nil {
			return err
		}
		if done, err := r.yieldUntil(ctx, through, yield); done || err != nil {
			return err
		}
	}
}

// list lists all streams except the broker's buckets and the streams of alerts, also those of other namespaces.
func (s *Streams) list(ctx context.Context) ([]*jetstream.StreamInfo, error) {
	var all []*jetstream.StreamInfo
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	ctx, done := s.conn.withConnection(ctx, "$JS.API.STREAM.LIST")
	defer done()
	list := s.conn.js.ListStreams(ctx)
	for info := range list.Info() {
		if info.Config.Name != s.conn.opts.alertsStream() && !own.OfServers(first(info.Config.Subjects)) {
			all = append(all, info)
		}
	}
	if err := list.Err(); err != nil {
		return nil, unanswered(fmt.Errorf("list streams: %w", noAnswerError(ctx, err)))
	}
	return all, nil
}

// Info implements events.Streams. Without a leader any copy of a stream may answer, so Info waits for an answer that
// is certainly from the leader. It returns ErrNoLeader after a while.
func (s *Streams) Info(ctx context.Context, stream string) (events.Info, error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	info, err := s.leaderInfo(ctx, stream)
	if err != nil {
		return events.Info{}, err
	}
	return events.Info{
		CreatedAt: createdAt(info), FirstSeq: info.State.FirstSeq, FirstAt: firstAt(info),
		LastSeq: info.State.LastSeq, LastAt: lastAt(info), Deleted: uint64(info.State.NumDeleted), Risk: LossRisk(info.Config), //nolint:gosec // a count
	}, nil
}

// Lack describes the deleted events of a stream since a time, as events.Info.Lack. The text has the subjects in place of the
// name of the stream, which tenants do not see.
func (s *Streams) Lack(ctx context.Context, stream string, subjects []string, since time.Time) (string, error) {
	info, err := s.InfoSince(ctx, stream, since)
	if err != nil {
		return "", err
	}
	return info.Lack("The stream of "+strings.Join(subjects, ", "), since), nil
}

// InfoSince is Info with the number of messages that the stream deleted since a time. A stream that deleted very many counts
// all of them.
func (s *Streams) InfoSince(ctx context.Context, stream string, since time.Time) (events.Info, error) {
	info, err := s.Info(ctx, stream)
	if err != nil || info.Deleted == 0 || info.Deleted > maxDetails || !info.FirstAt.Before(since) {
		return info, err
	}
	before, err := s.Before(ctx, stream, since)
	if err != nil {
		return info, err
	}
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	details, err := s.details(ctx, stream)
	if err != nil {
		return info, err
	}
	info.Deleted = 0
	for _, seq := range details.State.Deleted {
		if seq > before {
			info.Deleted++
		}
	}
	return info, nil
}

// leaderInfo returns the leader's information about a stream.
func (s *Streams) leaderInfo(ctx context.Context, stream string) (*jetstream.StreamInfo, error) {
	for {
		info, err := s.fetchInfo(ctx, stream)
		if err != nil || leads(info.Cluster) {
			return info, err
		}
		select {
		case <-time.After(leaderRetry):
		case <-ctx.Done():
			return nil, fmt.Errorf("read stream %s: %w: %w", stream, ErrNoLeader, ctx.Err())
		}
	}
}

// fetchInfo returns a stream's information from any server that answers. A missing stream is events.ErrGone.
func (s *Streams) fetchInfo(ctx context.Context, stream string) (*jetstream.StreamInfo, error) {
	ctx, done := s.conn.withConnection(ctx, streamAPI("INFO", stream))
	defer done()
	found, err := s.conn.js.Stream(ctx, stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("stream %s: %w: %w", stream, events.ErrGone, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", stream, noAnswerError(ctx, err))
	}
	return found.CachedInfo(), nil
}

// details returns the leader's information about a stream, with the sequences deleted between its first and last
// message.
func (s *Streams) details(ctx context.Context, stream string) (*jetstream.StreamInfo, error) {
	begun, about := time.Now(), streamAPI("INFO", stream)
	answer, err := s.conn.nc.RequestWithContext(ctx, about, []byte(`{"deleted_details":true}`))
	if err != nil {
		return nil, s.conn.denied.explain(err, begun, about)
	}
	var got struct {
		Error *jetstream.APIError `json:"error"`
		jetstream.StreamInfo
	}
	if err := json.Unmarshal(answer.Data, &got); err != nil {
		return nil, err
	}
	if got.Error != nil {
		return nil, fmt.Errorf("read the deleted messages of stream %s: %w", stream, got.Error)
	}
	if !leads(got.Cluster) {
		return nil, fmt.Errorf("read the deleted messages of stream %s: %w", stream, ErrNoLeader)
	}
	return &got.StreamInfo, nil
}

// First implements events.Streams.
func (s *Streams) First(ctx context.Context, stream string, from uint64) (seq uint64, at time.Time, err error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	m, err := s.next(ctx, stream, ">", from)
	return m.Seq, m.Time.UTC().Truncate(time.Microsecond), err
}

// Before implements events.Streams. It relies on messages being in order of time.
func (s *Streams) Before(ctx context.Context, stream string, at time.Time) (uint64, error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	info, err := s.leaderInfo(ctx, stream)
	if err != nil {
		return 0, err
	}
	return s.before(ctx, info, at)
}

func (s *Streams) before(ctx context.Context, info *jetstream.StreamInfo, at time.Time) (_ uint64, err error) {
	seq := sort.Search(int(info.State.LastSeq), func(i int) bool {
		m, failed := s.next(ctx, info.Config.Name, ">", uint64(i)+1)
		err = errors.Join(err, failed)
		return failed != nil || m.Seq == 0 || m.Time.Truncate(time.Microsecond).After(at)
	})
	return uint64(seq), err
}

// next returns the first message on the subject at or after seq. Only the stream's leader answers this request,
// whereas JetStream's client would ask any copy.
func (s *Streams) next(ctx context.Context, stream, subject string, seq uint64) (storedMessage, error) {
	m, err := s.getMessage(ctx, stream, messageQuery{Seq: seq, Next: subject})
	switch {
	case isCode(err, jetstream.JSErrCodeMessageNotFound):
		return storedMessage{}, nil
	case err == nil && m.Seq < seq:
		err = fmt.Errorf("the answer is message %d", m.Seq)
	}
	if err != nil {
		return storedMessage{}, fmt.Errorf("read the next message of stream %s from %d: %w", stream, seq, err)
	}
	return m, nil
}

// last returns the last message on the subject, from the stream's leader.
func (s *Streams) last(ctx context.Context, stream, subject string) (storedMessage, error) {
	m, err := s.getMessage(ctx, stream, messageQuery{Last: subject})
	if isCode(err, jetstream.JSErrCodeMessageNotFound) {
		return storedMessage{}, nil
	}
	if err != nil {
		return storedMessage{}, fmt.Errorf("read the last message of stream %s on %s: %w", stream, subject, err)
	}
	return m, nil
}

func (s *Streams) getMessage(ctx context.Context, stream string, q messageQuery) (storedMessage, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return storedMessage{}, err
	}
	var got struct {
		Error   *jetstream.APIError `json:"error"`
		Message storedMessage       `json:"message"`
	}
	if err := s.call(ctx, streamAPI("MSG.GET", stream), body, &got); err != nil {
		return storedMessage{}, err
	}
	if got.Error != nil {
		return storedMessage{}, got.Error
	}
	return got.Message, nil
}

// call sends a request to the API of JetStream and decodes the answer.
func (s *Streams) call(ctx context.Context, about string, body []byte, answer any) error {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	begun := time.Now()
	got, err := s.conn.nc.RequestWithContext(ctx, about, body)
	if err != nil {
		return s.conn.denied.explain(err, begun, about)
	}
	return json.Unmarshal(got.Data, answer)
}
