package server

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/events"
	"deadman/internal/store"
	"deadman/rules"
	"deadman/web"
)

// streamReport reads the state of the streams that rules read, for the API.
type streamReport struct {
	store   *store.Store
	catalog *rules.Catalog
	readers func() []events.Status // of this node's intake
	streams *bus.Streams
	conn    *bus.Conn
	now     func() time.Time // the database's time
}

// Streams implements web.Streams.
func (r *streamReport) Streams(ctx context.Context) ([]web.Stream, error) {
	reads := r.catalog.SubjectsByStream()
	all := make([]streamStatus, 0, len(reads))
	for _, name := range slices.Sorted(maps.Keys(reads)) {
		all = append(all, streamStatus{name: name})
	}
	if err := r.loadStreamStatus(ctx, all); err != nil {
		return nil, err
	}
	r.fetchStreamEnds(ctx, all)
	out := make([]web.Stream, len(all))
	for i, s := range all {
		out[i] = s.toAPI(r.now())
		rules := r.catalog.RulesReading(s.name)
		out[i].Rules = append([]string{}, rules[:min(len(rules), maxListedRules)]...)
		out[i].RuleCount, out[i].Subjects = len(rules), len(reads[s.name])
	}
	return out, nil
}

// loadStreamStatus loads the state of the streams known to the database and this node's intake.
func (r *streamReport) loadStreamStatus(ctx context.Context, all []streamStatus) error {
	cursors, err := r.store.Cursors(ctx)
	if err != nil {
		return err
	}
	progress, err := r.store.Progress(ctx)
	if err != nil {
		return err
	}
	holders, err := r.shardHolders(ctx)
	if err != nil {
		return err
	}
	readers := r.readers()
	for i := range all {
		s := &all[i]
		s.cursor, s.readBy = cursors[s.name], holders[futurejobs.ShardOf("stream", s.name, r.store.Shards())]
		if at := slices.IndexFunc(progress, func(p store.Progress) bool { return p.Topic == ingestTopic+s.name }); at >= 0 {
			s.progress = progress[at]
		}
		if at := slices.IndexFunc(readers, func(t events.Status) bool { return t.Line == s.name }); at >= 0 {
			s.reader = &readers[at]
		}
	}
	return nil
}

// shardHolders returns the names of the nodes that hold shards, by shard.
func (r *streamReport) shardHolders(ctx context.Context) (map[int16]string, error) {
	nodes, err := r.store.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	leases, err := r.store.Leases(ctx)
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

// fetchStreamEnds queries the broker for the ends of the streams, concurrently.
func (r *streamReport) fetchStreamEnds(ctx context.Context, all []streamStatus) {
	if !r.conn.Connected() {
		return // reply at once without the ends
	}
	ctx, cancel := context.WithTimeout(ctx, streamInfoTimeout)
	defer cancel()
	var queries sync.WaitGroup
	for i := range all {
		queries.Go(func() {
			info, err := r.streams.Info(ctx, futurejobs.StreamOf(all[i].name))
			if err == nil {
				all[i].end = &info
			}
			all[i].gone = errors.Is(err, events.ErrGone)
		})
	}
	queries.Wait()
}
