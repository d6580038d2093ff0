package store_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/store"
	"deadman/store/storetest"
)

// wire stands between a store and its database, until it goes silent: nothing is refused or
// closed, as where the machine at the other end is gone.
type wire struct {
	net.Listener
	to     string
	silent chan struct{}

	mu    sync.Mutex
	conns []net.Conn
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Listener: l, to: to, silent: make(chan struct{})}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				t.Error(err)
				return
			}
			w.mu.Lock()
			w.conns = append(w.conns, near, far)
			w.mu.Unlock()
			all.Go(func() { w.pass(far, near) })
			all.Go(func() { w.pass(near, far) })
		}
	})
	t.Cleanup(func() { w.hangUp(); all.Wait() })
	return w
}

// hangUp ends what goes over the wire.
func (w *wire) hangUp() {
	_ = w.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_ = c.Close()
	}
}

func (w *wire) pass(to io.Writer, from io.Reader) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		select {
		case <-w.silent:
			continue
		default:
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

// What a sweep, a lease, the clock and the relay wait for ends by itself when the database
// does not answer any more.
func TestADatabaseThatGoesSilentIsNotWaitedForForever(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(storetest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(t, u.Host)
	u.Host = w.Addr().String()
	s := open(t, store.Options{DatabaseURL: u.String(), Shards: 1})
	close(w.silent)

	const patient = 25 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	var all sync.WaitGroup
	for what, ask := range map[string]func() error{
		"the time": func() error { _, err := s.Now(ctx); return err },
		"due jobs": func() error {
			_, err := s.Due(ctx, futurejobs.DueQuery{Walks: []futurejobs.Walk{{}}, Limit: 1})
			return err
		},
		"read through": func() error { _, err := s.ReadThrough(ctx); return err },
		"the cursor":   func() error { _, _, err := s.Cursor(ctx, "S"); return err },
		"mark read":    func() error { return s.MarkRead(ctx, "S", 0, time.Now()) },
		"the leases":   func() error { _, err := s.Leases(ctx); return err },
		"a beat":       func() error { _, err := s.Beat(ctx, futurejobs.Node{ID: "n"}, time.Minute); return err },
		"the revision": func() error { _, err := s.Revision(ctx); return err },
		"the outbox":   func() error { _, err := s.Unpublished(ctx, []int16{0}, 1); return err },
	} {
		all.Go(func() {
			if err := ask(); err == nil || ctx.Err() != nil {
				t.Errorf("%s: still waited for after %s, or %v", what, patient, err)
			}
		})
	}
	all.Wait()
	w.hangUp() // or closing the store would wait, too
}
