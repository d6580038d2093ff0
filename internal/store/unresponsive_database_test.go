package store_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// arrayEncoder proxies the connections between a store and its database, until it goes silent: it then refuses and
// closes no connection, as if the remote machine were gone.
type arrayEncoder struct {
	net.Listener
	to     string
	silent chan struct{}

	mu    sync.Mutex
	conns []net.Conn
}

func newWire(t *testing.T, to string) *arrayEncoder {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &arrayEncoder{Listener: l, to: to, silent: make(chan struct{})}
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

// hangUp closes all connections of the proxy.
func (w *arrayEncoder) hangUp() {
	_ = w.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_ = c.Close()
	}
}

func (w *arrayEncoder) pass(to io.Writer, from io.Reader) {
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

// TestUnresponsiveDatabaseTimesOut checks that the calls of a sweep, a lease, the clock and the relay
// end by themselves if the database stops answering.
func TestUnresponsiveDatabaseTimesOut(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(storetest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(t, u.Host)
	u.Host = w.Addr().String()
	s := open(t, store.Options{DatabaseURL: u.String(), Shards: 1})
	close(w.silent)

	const patient = 2 * time.Minute // it only bounds a hang: each call has a limit of its own
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	var all sync.WaitGroup
	for what, send := range map[string]func() error{
		"the time": func() error { _, err := s.Now(ctx); return err },
		"due jobs": func() error {
			_, err := s.Due(ctx, futurejobs.DueQuery{Cursors: []futurejobs.ShardCursor{{}}, Limit: 1})
			return err
		},
		"read through": func() error { _, err := s.ReadThrough(ctx); return err },
		"the cursor":   func() error { _, _, err := s.Cursor(ctx, "S"); return err },
		"mark read":    func() error { return s.MarkRead(ctx, "S", 0, time.Now()) },
		"the leases":   func() error { _, err := s.Leases(ctx); return err },
		"a beat":       func() error { _, err := s.Heartbeat(ctx, futurejobs.Node{ID: "n"}, time.Minute); return err },
		"the revision": func() error { _, err := s.Revision(ctx); return err },
		"the outbox":   func() error { _, _, err := s.Unpublished(ctx, []int16{0}, 1, nil); return err },
	} {
		all.Go(func() {
			if err := send(); err == nil || ctx.Err() != nil {
				t.Errorf("%s: still waited for after %s, or %v", what, patient, err)
			}
		})
	}
	all.Wait()
	w.hangUp() // or closing the store would wait, too
}

// TestUnreachableDatabaseIsUnavailable checks that every call returns a one-line error if the database is gone.
func TestUnreachableDatabaseIsUnavailable(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(storetest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(t, u.Host)
	u.Host = w.Addr().String()
	s := open(t, store.Options{DatabaseURL: u.String(), Shards: 1})
	w.hangUp()

	ctx := t.Context()
	now := time.Now()
	rule := &futurejobs.Rule{ID: 1, Version: 1, Name: "r", Entity: "e", Grid: futurejobs.Grid(time.Second)}
	ref := futurejobs.Ref{RuleID: 1, Key: "k"}
	key := futurejobs.Filter{Rule: "r", Key: "k", Limit: 1}
	lease := futurejobs.Lease{}
	for what, send := range map[string]func() error{
		"now":  func() error { _, err := s.Now(ctx); return err },
		"beat": func() error { _, err := s.Heartbeat(ctx, futurejobs.Node{ID: "n"}, time.Minute); return err },
		"due": func() error {
			_, err := s.Due(ctx, futurejobs.DueQuery{Cursors: []futurejobs.ShardCursor{{}}, Limit: 1})
			return err
		},
		"settle": func() error {
			_, err := s.Settle(ctx, futurejobs.Settlement{
				Held:      []futurejobs.HeldShard{{}},
				Decisions: []*futurejobs.Decision{{Job: futurejobs.Job{Ref: ref}, Outcome: "exhausted"}},
			})
			return err
		},
		"apply": func() error {
			_, err := s.Apply(ctx, futurejobs.EffectBatch{Effects: []futurejobs.Effect{futurejobs.Cancel(rule, ref, "")}})
			return err
		},
		"mark published": func() error { return s.MarkPublished(ctx, []alerts.Alert{{}}) },
		"unpublished":    func() error { _, _, err := s.Unpublished(ctx, []int16{0}, 1, nil); return err },
		"read through":   func() error { _, err := s.ReadThrough(ctx); return err },
		"cursor":         func() error { _, _, err := s.Cursor(ctx, "S"); return err },
		"tick cursors":   func() error { _, err := s.TickCursors(ctx); return err },
		"open cursor":    func() error { return s.OpenCursor(ctx, futurejobs.Cursor{Stream: "S"}) },
		"reset cursor":   func() error { return s.ResetCursor(ctx, futurejobs.Cursor{}, futurejobs.Cursor{}) },
		"mark read":      func() error { return s.MarkRead(ctx, "S", 0, now) },
		"leases":         func() error { _, err := s.Leases(ctx); return err },
		"nodes":          func() error { _, err := s.Nodes(ctx); return err },
		"leave":          func() error { return s.Leave(ctx, "n") },
		"renew":          func() error { _, err := s.Renew(ctx, "n", []futurejobs.Lease{lease}, time.Minute); return err },
		"take":           func() error { _, _, err := s.Take(ctx, "n", lease.HeldShard, time.Minute); return err },
		"release":        func() error { return s.Release(ctx, "n", []futurejobs.Lease{lease}) },
		"reclaim":        func() error { return s.Reclaim(ctx) },
		"revision":       func() error { _, err := s.Revision(ctx); return err },
		"load":           func() error { _, _, err := s.Load(ctx); return err },
		"version":        func() error { _, err := s.Version(ctx, 1, 1); return err },
		"save": func() error {
			_, err := s.Save(ctx, rules.RuleVersion{Name: "r", Entity: "e", Document: []byte(`{}`)}, rules.AnyVersion)
			return err
		},
		"pause": func() error { return s.Pause(ctx, "r", true) },
		"delete": func() error {
			_, err := s.Delete(ctx, "r", rules.AnyVersion)
			return err
		},
		"deleted":        func() error { _, err := s.Deleted(ctx); return err },
		"jobs of a rule": func() error { _, err := s.JobsOf(ctx, 1, ref, 1); return err },
		"dead letter":    func() error { _, err := s.DeadLetter(ctx, 1); return err },
		"begin":          func() error { _, err := s.Begin(ctx, "k", [32]byte{}); return err },
		"finish":         func() error { return s.Finish(ctx, "k", access.StoredResponse{}) },
		"forget":         func() error { return s.Forget(ctx, "k") },
		"jobs":           func() error { _, err := s.Jobs(ctx, futurejobs.Filter{Limit: 1}); return err },
		"job":            func() error { _, err := s.Job(ctx, "r", "k"); return err },
		"history":        func() error { _, err := s.History(ctx, futurejobs.Filter{Limit: 1}); return err },
		"history of one": func() error { _, err := s.History(ctx, key); return err },
		"alerts":         func() error { _, err := s.Alerts(ctx, futurejobs.Filter{Limit: 1}); return err },
		"alert":          func() error { _, err := s.Alert(ctx, alerts.ID{1}); return err },
		"dead letters":   func() error { _, err := s.DeadLetters(ctx, futurejobs.Filter{Limit: 1}); return err },
		"prune": func() error {
			_, err := s.Prune(ctx, store.Retention{History: time.Hour, DeadLetters: time.Hour})
			return err
		},
		"progress": func() error { _, err := s.Progress(ctx); return err },
		"advance":  func() error { _, err := s.Advance(ctx, store.Progress{Topic: "t"}, now); return err },
		"record stall": func() error {
			_, _, err := s.MarkStalled(ctx, store.Progress{Topic: "t", Through: now}, 1)
			return err
		},
		"forget progress":      func() error { return s.ForgetProgress(ctx, "t") },
		"swept by other nodes": func() error { _, _, err := s.SweptByOthers(ctx, "n"); return err },
		"oldest due":           func() error { _, err := s.OldestDue(ctx); return err },
		"late jobs":            func() error { _, err := s.LateJobs(ctx, now, now, []int32{1}); return err },
		"gauges":               func() error { _, err := s.Gauges(ctx); return err },
		"balance":              func() error { _, err := s.Balance(ctx); return err },
	} {
		err := send()
		if !errors.Is(err, store.ErrUnavailable) || strings.ContainsAny(err.Error(), "\n\t") ||
			strings.Count(err.Error(), "dial") > 1 || strings.Contains(err.Error(), "failed to connect") {
			t.Errorf("%s: %v, want ErrUnavailable, once and on one line", what, err)
		}
	}
	called, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Now(called); !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnavailable) {
		t.Errorf("after a cancel: %v", err)
	}
}

func TestUnavailableErrors(t *testing.T) {
	code := func(c string) error {
		return fmt.Errorf("ask: %w", &pgconn.PgError{Severity: "FATAL", Code: c, Message: "m"})
	}
	for _, err := range []error{
		code("57P01"), code("57P02"), code("57P03"), code("3D000"), code("08006"), code("53300"), code("57014"),
		io.ErrUnexpectedEOF, driver.ErrBadConn, context.DeadlineExceeded,
		&net.OpError{Op: "read", Err: syscall.ECONNRESET},
	} {
		if got := store.Away(err); !errors.Is(got, store.ErrUnavailable) || !errors.Is(got, err) {
			t.Errorf("%v became %v, want ErrUnavailable and itself", err, got)
		}
	}
	for _, err := range []error{
		code("23505"), code("40001"), context.Canceled, sql.ErrNoRows, futurejobs.ErrCursorMoved, futurejobs.ErrNotFound,
		fmt.Errorf("%w: %w", context.Canceled, io.EOF),
	} {
		if got := store.Away(err); errors.Is(got, store.ErrUnavailable) {
			t.Errorf("%v became %v", err, got)
		}
	}
}
