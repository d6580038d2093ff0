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
	heldMost   = 16 << 20 // bytes of entries that wait to be written; what comes beyond is left out
	entryBytes = 256      // of an entry, beside what it says
	lastWrite  = 2 * time.Second
)

// LogWriter writes the log of pings, in groups: a crash loses the entries of the last second, and no
// beat. It is safe for concurrent use.
type LogWriter struct {
	Store Store
	Log   *slog.Logger

	mu    sync.Mutex
	held  map[Target][]Entry // at most Logged of each key
	bytes int
	left  int // entries that were left out since the last write
}

// Add has an entry written soon. Of more than Logged of a key at once, the last are.
func (w *LogWriter) Add(of Target, e Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
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

// Run writes until ctx ends, and then what waits still.
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

// finish writes what waits. Where the node stops meanwhile, or has stopped, there is a while left for
// it: what was taken to be written would be lost.
func (w *LogWriter) finish(ctx context.Context) {
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lastWrite, cancel) })
	defer stop()
	w.Write(whole)
}

// Write writes what waits. What cannot be written is left out, and that is logged: what the pings
// said is committed, and this is for people.
func (w *LogWriter) Write(ctx context.Context) {
	entries, left := w.take()
	if left > 0 {
		w.Log.Warn("the log of pings leaves some out: more came than is held for it", "left_out", left)
	}
	if len(entries) == 0 {
		return
	}
	if err := w.Store.LogPings(ctx, entries); err != nil {
		w.Log.Warn("the log of pings could not be written; the pings themselves are taken in", "left_out", len(entries), "err", err)
	}
}

// take is what waits, in the order of its time.
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
