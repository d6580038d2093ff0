package bus

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/events"
)

// electionTimeout is the shortest silence of a leader after which a NATS server starts an election.
const electionTimeout = 4 * time.Second

// askAgain is the pause before a stream without a certain leader is asked again.
const askAgain = 100 * time.Millisecond

// Info implements events.Streams. Without a leader any copy of a stream may answer, so Info waits for an answer that
// is certainly from the leader. It returns ErrNoLeader after a while.
func (b *Bus) Info(ctx context.Context, stream string) (events.Info, error) {
	ctx, cancel := b.withTimeout(ctx)
	defer cancel()
	info, err := b.leaderInfo(ctx, stream)
	if err != nil {
		return events.Info{}, err
	}
	return events.Info{
		CreatedAt: createdAt(info), FirstSeq: info.State.FirstSeq, FirstAt: firstAt(info),
		LastSeq: info.State.LastSeq, LastAt: lastAt(info), Risk: riskOf(info.Config),
	}, nil
}

// leaderInfo returns the leader's information about a stream.
func (b *Bus) leaderInfo(ctx context.Context, stream string) (*jetstream.StreamInfo, error) {
	for {
		info, err := b.ask(ctx, stream)
		if err != nil || leads(info.Cluster) {
			return info, err
		}
		select {
		case <-time.After(askAgain):
		case <-ctx.Done():
			return nil, fmt.Errorf("ask for stream %s: %w: %w", stream, ErrNoLeader, ctx.Err())
		}
	}
}

// ask returns a stream's information from any server that answers. A missing stream is events.ErrGone.
func (b *Bus) ask(ctx context.Context, stream string) (*jetstream.StreamInfo, error) {
	ctx, done := b.withConnection(ctx, streamAPI("INFO", stream))
	defer done()
	s, err := b.js.Stream(ctx, stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("stream %s: %w: %w", stream, events.ErrGone, err)
	}
	if err != nil {
		return nil, fmt.Errorf("ask for stream %s: %w", stream, noAnswerError(ctx, err))
	}
	return s.CachedInfo(), nil
}

func createdAt(info *jetstream.StreamInfo) time.Time {
	return info.Created.UTC().Truncate(time.Microsecond)
}

// lastAt returns the time of the stream's last message, even if it was deleted. It is zero if the stream never had
// one.
func lastAt(info *jetstream.StreamInfo) time.Time {
	if info.State.LastSeq == 0 {
		return time.Time{}
	}
	return info.State.LastTime.UTC().Truncate(time.Microsecond)
}

// firstAt returns the time of the stream's first remaining message. It is zero if the stream is empty.
func firstAt(info *jetstream.StreamInfo) time.Time {
	if info.State.Msgs == 0 {
		return time.Time{}
	}
	return info.State.FirstTime.UTC().Truncate(time.Microsecond)
}

// leads reports whether the server that answered is certainly still the stream's leader.
//
// 1. A stream with a single copy has no group and no doubt.
// 2. A server lists the other copies. A server that lists the leader is not the leader.
// 3. A leader cut off from the other copies keeps answering with stale data for a while. They elect a new leader no
// earlier than electionTimeout after its last message.
func leads(c *jetstream.ClusterInfo) bool {
	if c == nil || c.RaftGroup == "" {
		return true
	}
	heard := 1
	for _, p := range c.Replicas {
		if p.Name == c.Leader {
			return false
		}
		if !p.Offline && p.Active > 0 && p.Active < electionTimeout-time.Second {
			heard++
		}
	}
	return c.Leader != "" && heard > (len(c.Replicas)+1)/2
}

// First implements events.Streams.
func (b *Bus) First(ctx context.Context, stream string, from uint64) (seq uint64, at time.Time, err error) {
	ctx, cancel := b.withTimeout(ctx)
	defer cancel()
	m, err := b.next(ctx, stream, ">", from)
	return m.Seq, m.Time.UTC().Truncate(time.Microsecond), err
}

// Before implements events.Streams. It relies on messages being in order of time.
func (b *Bus) Before(ctx context.Context, stream string, at time.Time) (uint64, error) {
	ctx, cancel := b.withTimeout(ctx)
	defer cancel()
	info, err := b.leaderInfo(ctx, stream)
	if err != nil {
		return 0, err
	}
	return b.before(ctx, info, at)
}

func (b *Bus) before(ctx context.Context, info *jetstream.StreamInfo, at time.Time) (_ uint64, err error) {
	seq := sort.Search(int(info.State.LastSeq), func(i int) bool {
		m, failed := b.next(ctx, info.Config.Name, ">", uint64(i)+1)
		err = errors.Join(err, failed)
		return failed != nil || m.Seq == 0 || m.Time.Truncate(time.Microsecond).After(at)
	})
	return uint64(seq), err
}
