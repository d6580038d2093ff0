package server

import (
	"errors"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/events"
	"deadman/internal/store"
	"deadman/web"
)

// The state of a stream follows from the available information of the database, the broker and the reader.
func TestStreamStatus(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) time.Time { return now.Add(-ago) }
	cursor := futurejobs.Cursor{LastSeq: 100, LastAt: at(time.Hour), ReadThrough: at(3 * time.Minute)}
	end := func(seq uint64) *events.Info { return &events.Info{LastSeq: seq} }
	for _, c := range []struct {
		name   string
		s      streamStatus
		state  string
		behind int // -1: unknown
		lag    time.Duration
	}{
		{"read to its end", streamStatus{cursor: cursor, readBy: "a", end: end(100)}, web.StreamUpToDate, 0, 0},
		{"read elsewhere", streamStatus{cursor: cursor, readBy: "a", end: end(130), progress: store.Progress{Through: at(2 * time.Second)}}, web.StreamUpToDate, 30, 2 * time.Second},
		{
			"read here, no rule matches the rest",
			streamStatus{cursor: cursor, readBy: "a", end: end(130), reader: &events.Status{CaughtUp: at(time.Second)}},
			web.StreamUpToDate, 0, time.Second,
		},
		{
			"a backlog",
			streamStatus{cursor: cursor, readBy: "a", end: end(9000), reader: &events.Status{CaughtUp: at(time.Minute), Left: 8000}},
			web.StreamBehind, 8000, time.Minute,
		},
		{"a backlog elsewhere", streamStatus{cursor: cursor, readBy: "a", end: end(9000)}, web.StreamBehind, 8900, 3 * time.Minute},
		{"without the broker", streamStatus{cursor: cursor, readBy: "a"}, web.StreamBehind, -1, 3 * time.Minute},
		{"its reader fails", streamStatus{cursor: cursor, readBy: "a", end: end(101), reader: &events.Status{CaughtUp: now, Err: errors.New("x")}}, web.StreamFailing, 1, 0},
		{
			"it stands still",
			streamStatus{cursor: cursor, readBy: "a", end: end(101), progress: store.Progress{Through: at(2 * time.Minute), Still: true, LateJobs: 7}},
			web.StreamFailing, 1, 2 * time.Minute,
		},
		{"no node reads it", streamStatus{cursor: cursor, end: end(100)}, web.StreamUnassigned, 0, 0},
		{"it is gone", streamStatus{cursor: cursor, readBy: "a", gone: true}, web.StreamMissing, -1, 3 * time.Minute},
	} {
		got, behind := c.s.toAPI(now), -1
		if got.LagMessages != nil {
			behind = int(*got.LagMessages)
		}
		if got.State != c.state || behind != c.behind || got.Lag == nil || *got.Lag != c.lag.Seconds() || (got.Problem == "") != (c.state == web.StreamUpToDate) {
			t.Errorf("%s: %s, %d behind, lag %v: %q", c.name, got.State, behind, got.Lag, got.Problem)
		}
		if got.OverdueJobs != c.s.progress.LateJobs || got.StalledSince.IsZero() == c.s.progress.Still {
			t.Errorf("%s: blind since %v, %d late jobs", c.name, got.StalledSince, got.OverdueJobs)
		}
	}
	if never := (streamStatus{readBy: "a"}).toAPI(now); never.Lag != nil || never.State != web.StreamBehind {
		t.Errorf("a stream that was never read: %+v", never)
	}
}
