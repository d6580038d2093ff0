package pings

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	writeEvery = time.Second
	heldMost   = 16 << 20 // bytes of queued entries; further entries are dropped
	entryBytes = 256      // of an entry, in addition to its text
	lastWrite  = 2 * time.Second
)

// LogWriter writes the ping log in groups. A crash loses the entries of the last second, but no heartbeat. It is safe
// for concurrent use.
type LogWriter struct {
	Store Store
	Log   *slog.Logger
	Keep  func(rule string, bytes int) bool // whether a body is kept; nil: each

	writing sync.Mutex // held while entries are written

	mu    sync.Mutex
	held  map[Target][]Entry // at most Logged of each key
	bytes int
	left  int // entries dropped since the last write
}

// Add queues an entry, without its body if that is not kept. Of more than Logged entries of a key, only the last are kept.
func (w *LogWriter) Add(of Target, e Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Body != "" && w.Keep != nil && !w.Keep(of.Rule, len(e.Body)) {
		e.Body = ""
	}
	if w.held == nil {
		w.held = make(map[Target][]Entry)
	}
	lane := w.held[of]
	if len(lane) == Logged {
		w.bytes -= lane[0].bytes()
		lane = slices.Delete(lane, 0, 1)
	}
	if w.bytes+e.bytes() > heldMost {
		w.left++
		w.held[of] = lane
		return
	}
	w.bytes += e.bytes()
	w.held[of] = append(lane, e)
}

func (e Entry) bytes() int { return entryBytes + len(e.Key) + len(e.Agent) + len(e.Body) }

// Run writes until ctx ends, and then writes the queued entries.
func (w *LogWriter) Run(ctx context.Context) error {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.finish(ctx)
		case <-ctx.Done():
			w.finish(ctx)
			return nil
		}
	}
}

// finish writes the queued entries. If the node is stopping, the write has lastWrite to complete.
func (w *LogWriter) finish(ctx context.Context) {
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lastWrite, cancel) })
	defer stop()
	w.Write(whole)
}

// Write writes the queued entries: when it returns, all entries that were added before the call are written. Entries that cannot be written are dropped with a log message: the heartbeats are
// committed already, and the log is only for users.
func (w *LogWriter) Write(ctx context.Context) {
	w.writing.Lock()
	defer w.writing.Unlock()
	entries, left := w.take()
	if left > 0 {
		w.Log.Warn("ping log entries dropped: the queue is full", "left_out", left)
	}
	if len(entries) == 0 {
		return
	}
	if err := w.Store.LogPings(ctx, entries); err != nil {
		w.Log.Warn("writing the ping log failed; the pings themselves are applied", "left_out", len(entries), "err", err)
	}
}

// take removes and returns the queued entries, ordered by time.
func (w *LogWriter) take() (entries []Entry, left int) {
	w.mu.Lock()
	held := w.held
	left = w.left
	w.held, w.bytes, w.left = nil, 0, 0
	w.mu.Unlock()
	for _, lane := range held {
		entries = append(entries, lane...)
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return a.At.Compare(b.At) })
	return entries, left
}
