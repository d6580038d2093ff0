package server

import (
	"errors"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/events"
	"deadman/internal/store"
	"deadman/web"
)

// The limits of stream status queries.
const (
	streamInfoTimeout = time.Second // for the broker's reply about the ends of streams
	maxStreamLag      = 10 * time.Second
	maxListedRules    = 50 // rules listed per stream
)

// streamStatus holds the known state of a stream that rules read.
type streamStatus struct {
	name     string // of the line
	cursor   futurejobs.Cursor
	progress store.Progress // zero: none is stored
	readBy   string         // the node's name; empty: no node
	reader   *events.Status // nil: read by another node
	end      *events.Info   // nil: no reply from the broker
	gone     bool           // the broker reports that it does not exist
}

// toAPI returns the stream in its API form.
func (s streamStatus) toAPI(now time.Time) web.Stream {
	out := web.Stream{
		Name: futurejobs.StreamOf(s.name), Line: lineName(s.name), ReadBy: s.readBy, LastSeq: s.cursor.LastSeq, LastAt: s.cursor.LastAt,
		ReadUntil: s.cursor.ReadThrough, GapFreeSince: s.cursor.ReceivingSince, Created: s.cursor.Created, LagMessages: s.behind(),
	}
	if s.end != nil {
		out.EndSeq, out.EndAt = s.end.LastSeq, s.end.LastAt
	}
	if s.progress.Still {
		out.StalledSince, out.OverdueJobs = s.progress.Through, s.progress.LateJobs
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

// lineName returns the name of a line, as the API and metrics have it.
func lineName(line string) string {
	if futurejobs.IsTenantsLine(line) {
		return web.LineTenants
	}
	return web.LineOperator
}

// caughtUp reports whether all messages of the stream are ingested.
func (s streamStatus) caughtUp() bool { return s.end != nil && s.cursor.LastSeq >= s.end.LastSeq }

// behind returns the number of unread messages; nil if unknown.
func (s streamStatus) behind() *uint64 {
	var left uint64
	switch {
	case s.caughtUp():
	case s.reader != nil && s.reader.Err == nil && !s.reader.CaughtUp.IsZero():
		left = s.reader.Left
	case s.end != nil:
		left = s.end.LastSeq - s.cursor.LastSeq
	default:
		return nil
	}
	return &left
}

// readThrough returns the time up to which the stream was read to its end; zero: never.
func (s streamStatus) readThrough(now time.Time) time.Time {
	through := s.cursor.ReadThrough
	if s.progress.Through.After(through) {
		through = s.progress.Through
	}
	if s.reader != nil && s.reader.CaughtUp.After(through) {
		through = s.reader.CaughtUp
	}
	if s.caughtUp() {
		through = now
	}
	return through
}

// state returns the state of the stream and its problem. The error itself may contain hosts and is only logged.
func (s streamStatus) state(lag time.Duration) (state, problem string) {
	switch {
	case s.gone || s.reader != nil && errors.Is(s.reader.Err, events.ErrGone):
		return web.StreamMissing, "the stream does not exist; jobs that wait for it are not checked until its subjects are read from another"
	case s.readBy == "":
		return web.StreamUnassigned, "no live node is to read it; within a lease another takes over, if one is left"
	case s.reader != nil && s.reader.Err != nil:
		return web.StreamFailing, "it cannot be read at the moment and is tried again; the log of " + s.readBy + " says why"
	case s.progress.Still:
		return web.StreamFailing, "it stands still; the log of " + s.readBy + " says why"
	case lag > maxStreamLag:
		return web.StreamBehind, "ingest lags behind the stream; jobs that wait for it are checked as far as it is read"
	}
	return web.StreamUpToDate, ""
}
