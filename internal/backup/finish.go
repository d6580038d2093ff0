package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/events"
	"deadman/internal/store"
)

// finisher completes a restore once the archive is unpacked.
type finisher struct{ *unpacker }

// finish records the restore in the unpacked database.
func (u finisher) finish(ctx context.Context) error {
	if _, err := os.Stat(u.database()); err != nil { // opening it would create it
		return fmt.Errorf("%w: it has no %s: %w", ErrNotBackup, databaseEntry, err)
	}
	b, stop, err := u.serve()
	if err != nil {
		return err
	}
	defer stop()
	if u.only {
		if err := u.compare(ctx, b); err != nil {
			return err
		}
	}
	streams, err := u.infos(ctx, b)
	if err != nil {
		return err
	}
	if err := u.record(ctx, b, streams); err != nil {
		return err
	}
	if _, err := os.Stat(u.database() + logSuffixes[0]); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, fmt.Errorf("the write-ahead log of %s could not be emptied", u.database())) // its commits would be lost
	}
	return nil
}

// serve starts a NATS server on the streams; b is nil if the archive has none.
func (u finisher) serve() (b *bus.Bus, stop func(), err error) {
	if len(u.saved) == 0 {
		return nil, func() {}, nil
	}
	return serveStreams(u.dir, u.log)
}

// infos returns the state of the streams of the archive. The creation times are those that the next server has, too: JetStream
// keeps the original time of a restored stream only until the server that restored it stops.
func (u finisher) infos(ctx context.Context, b *bus.Bus) (map[string]events.Info, error) {
	all := make(map[string]events.Info, len(u.restored))
	for _, name := range u.restored {
		info, err := b.Streams.Info(ctx, name)
		if err != nil {
			return nil, err
		}
		all[name] = info
	}
	return all, nil
}

// record opens the restored database, which migrates it, and records the restore for the first node. The database is in a
// folder of its own by then: the lock of the data folder cannot be taken twice, and no node may take it meanwhile.
func (u finisher) record(ctx context.Context, b *bus.Bus, streams map[string]events.Info) (err error) {
	s, err := store.Open(ctx, store.Options{DataDir: u.databaseFolder(), Log: u.log})
	if err != nil {
		return err
	}
	defer func() {
		if closing := s.Close(); err == nil {
			err = closing
		}
	}()
	if !u.only {
		if err := adopt(ctx, s, streams); err != nil {
			return err
		}
	}
	cursors, err := s.Cursors(ctx)
	if err != nil {
		return err
	}
	var again []alerts.ReadAgain
	for _, line := range slices.Sorted(maps.Keys(cursors)) {
		if line == "" { // of pings and manual jobs, which no stream has
			continue
		}
		again = append(again, alerts.ReadAgain{Stream: futurejobs.LineText(line), After: cursors[line].LastSeq, Last: streams[futurejobs.StreamOf(line)].LastSeq})
	}
	r := alerts.Restore{Since: u.header.At, To: streams[bus.AlertsStream].LastSeq, Report: alerts.ReadAgainText(again) + report}
	if u.only {
		r.Report = alerts.ReadAgainText(again) + reportOnly
	}
	if b != nil {
		if r.Lost, err = unknownAlerts(ctx, s, b.AlertReader, r.To); err != nil {
			return err
		}
	}
	return s.RecordRestore(ctx, r)
}

// adopt makes the restored streams the ones that the database knows: another creation time means a recreated stream.
func adopt(ctx context.Context, s *store.Store, streams map[string]events.Info) error {
	cursors, err := s.Cursors(ctx)
	if err != nil {
		return err
	}
	for line, cursor := range cursors {
		info, restored := streams[futurejobs.StreamOf(line)]
		if !restored || cursor.StreamCreatedAt.IsZero() {
			continue
		}
		to := cursor
		to.StreamCreatedAt = info.CreatedAt
		if err := s.ResetCursor(ctx, cursor, to); err != nil {
			return err
		}
	}
	return s.ForgetKnown(ctx, bus.AlertsTopic)
}

// comparedAtOnce is how many alerts of the stream are looked up at once.
const comparedAtOnce = 1000

// unknownAlerts counts the alerts of the stream, up to a sequence, that the database does not have.
func unknownAlerts(ctx context.Context, s *store.Store, stream *bus.AlertReader, through uint64) (n int, err error) {
	mark, err := s.Mark(ctx)
	if err != nil {
		return 0, err
	}
	var batch []alerts.Alert
	count := func() error {
		unknown, err := s.Unknown(ctx, batch)
		n, batch = n+len(unknown), batch[:0]
		return err
	}
	for a, err := range stream.Between(ctx, mark.Seq, through) {
		if err != nil {
			return n, err
		}
		if batch = append(batch, a); len(batch) == comparedAtOnce {
			if err := count(); err != nil {
				return n, err
			}
		}
	}
	return n, count()
}

// The losses of a restore from a backup, and of one of the database alone.
const (
	report = alerts.RestoreCommand + " created it from a backup. Later events are lost unless a stream on another NATS server has them, " +
		"and so are later requests over HTTP: jobs, pings, acknowledgements, snoozes, mutes, cancellations, rules and tokens; send them again, then close this alert"
	reportOnly = alerts.RestoreCommand + " --only database replaced it by that of a backup. Later events are applied again as far as their streams have them; " +
		"later requests over HTTP are lost: jobs, pings, acknowledgements, snoozes, mutes, cancellations, rules and tokens; send them again, then close this alert"
)
