package server

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/events"
	"deadman/internal/store"
	"deadman/web"
)

// How streams are looked at.
const (
	streamInfoTimeout = time.Second // the broker says where they end
	maxStreamLag      = 10 * time.Second
	maxListedRules    = 50 // rules that are named of a stream
)

// streamStatus is what is known of a stream that rules are told by.
type streamStatus struct {
	name     string
	cursor   futurejobs.Cursor
	progress store.Progress // zero: none is written down
	readBy   string         // the node's name; empty: none is to read it
	tap      *events.Status // nil: it is not this node that reads it
	end      *events.Info   // nil: the broker did not say
	gone     bool           // the broker says that it is not there
}

// Streams implements web.Streams.
func (n *node) Streams(ctx context.Context) ([]web.Stream, error) {
	reads := n.book.SubjectsByStream()
	all := make([]streamStatus, 0, len(reads))
	for _, name := range slices.Sorted(maps.Keys(reads)) {
		all = append(all, streamStatus{name: name})
	}
	if err := n.loadStreamStatus(ctx, all); err != nil {
		return nil, err
	}
	n.fetchStreamEnds(ctx, all)
	out := make([]web.Stream, len(all))
	for i, s := range all {
		out[i] = s.toAPI(n.clock.Now())
		rules := n.book.RulesReading(s.name)
		out[i].Rules = append([]string{}, rules[:min(len(rules), maxListedRules)]...)
		out[i].RuleCount, out[i].Subjects = len(rules), len(reads[s.name])
	}
	return out, nil
}

// loadStreamStatus finds what the database and this node's intake know of the streams.
func (n *node) loadStreamStatus(ctx context.Context, all []streamStatus) error {
	cursors, err := n.store.Cursors(ctx)
	if err != nil {
		return err
	}
	progress, err := n.store.Progress(ctx)
	if err != nil {
		return err
	}
	holders, err := n.shardHolders(ctx)
	if err != nil {
		return err
	}
	taps := n.intake.Status()
	for i := range all {
		s := &all[i]
		s.cursor, s.readBy = cursors[s.name], holders[futurejobs.ShardOf("stream", s.name, n.store.Shards())]
		if at := slices.IndexFunc(progress, func(p store.Progress) bool { return p.Topic == intakeTopic+s.name }); at >= 0 {
			s.progress = progress[at]
		}
		if at := slices.IndexFunc(taps, func(t events.Status) bool { return t.Stream == s.name }); at >= 0 {
			s.tap = &taps[at]
		}
	}
	return nil
}

// shardHolders are the names of the nodes that hold shards, by shard.
func (n *node) shardHolders(ctx context.Context) (map[int16]string, error) {
	nodes, err := n.store.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	leases, err := n.store.Leases(ctx)
	if err != nil {
		return nil, err
	}
	names, holders := make(map[string]string), make(map[int16]string)
	for _, node := range nodes {
		names[node.ID] = node.Name
	}
	for _, l := range leases {
		if !l.Expired {
			holders[l.Shard] = names[l.Node]
		}
	}
	return holders, nil
}

// fetchStreamEnds asks the broker where the streams end, all at a time.
func (n *node) fetchStreamEnds(ctx context.Context, all []streamStatus) {
	if !n.bus.Connected() {
		return // whoever asked is told what is known without it, at once
	}
	ctx, cancel := context.WithTimeout(ctx, streamInfoTimeout)
	defer cancel()
	var asked sync.WaitGroup
	for i := range all {
		asked.Go(func() {
			info, err := n.bus.Info(ctx, all[i].name)
			if err == nil {
				all[i].end = &info
			}
			all[i].gone = errors.Is(err, events.ErrGone)
		})
	}
	asked.Wait()
}

// toAPI is the stream as people see it.
func (s streamStatus) toAPI(now time.Time) web.Stream {
	out := web.Stream{
		Name: s.name, ReadBy: s.readBy, LastSeq: s.cursor.LastSeq, LastAt: s.cursor.LastAt,
		ReadThrough: s.cursor.ReadThrough, HeardSince: s.cursor.HeardSince, Created: s.cursor.Created, Behind: s.behind(),
	}
	if s.end != nil {
		out.EndSeq, out.EndAt = s.end.LastSeq, s.end.LastAt
	}
	if s.progress.Still {
		out.BlindSince, out.LateJobs = s.progress.Through, s.progress.Late
	}
	through := s.readThrough(now)
	lag := max(now.Sub(through), 0)
	if !through.IsZero() {
		seconds := lag.Seconds()
		out.Lag = &seconds
	}
	out.State, out.Problem = s.state(lag)
	return out
}

// caughtUp reports whether nothing in the stream follows what was taken in.
func (s streamStatus) caughtUp() bool { return s.end != nil && s.cursor.LastSeq >= s.end.LastSeq }

// behind is how many messages are left, as far as that is known.
func (s streamStatus) behind() *uint64 {
	var left uint64
	switch {
	case s.caughtUp():
	case s.tap != nil && s.tap.Err == nil && !s.tap.CaughtUp.IsZero():
		left = s.tap.Left
	case s.end != nil:
		left = s.end.LastSeq - s.cursor.LastSeq
	default:
		return nil
	}
	return &left
}

// readThrough is until when the stream was read to its end; zero: it never was.
func (s streamStatus) readThrough(now time.Time) time.Time {
	through := s.cursor.ReadThrough
	if s.progress.Through.After(through) {
		through = s.progress.Through
	}
	if s.tap != nil && s.tap.CaughtUp.After(through) {
		through = s.tap.CaughtUp
	}
	if s.caughtUp() {
		through = now
	}
	return through
}

// state is how the stream does, and what is wrong. An error itself may name hosts; it is in the log.
func (s streamStatus) state(lag time.Duration) (state, problem string) {
	switch {
	case s.gone || s.tap != nil && errors.Is(s.tap.Err, events.ErrGone):
		return web.StreamGone, "the stream is not there; jobs that wait for it are not judged until its subjects are read from another"
	case s.readBy == "":
		return web.StreamUnread, "no live node is to read it; within a lease another takes over, if one is left"
	case s.tap != nil && s.tap.Err != nil:
		return web.StreamFailing, "it cannot be read at the moment and is tried again; the log of " + s.readBy + " says why"
	case s.progress.Still:
		return web.StreamFailing, "it stands still; the log of " + s.readBy + " says why"
	case lag > maxStreamLag:
		return web.StreamBehind, "more is in the stream than was taken in yet; jobs that wait for it are judged as far as it is read"
	}
	return web.StreamRead, ""
}
