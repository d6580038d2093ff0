package bench

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"deadman/rules/document"

	"golang.org/x/sync/errgroup"

	futurejobs "deadman/future_jobs"
	"deadman/internal/pings"
	"deadman/internal/store"
	"deadman/rules"
	"deadman/web"
)

// PingsOptions are the options of Pings.
type PingsOptions struct {
	Dir         string // an empty folder for SQLite
	Pings       int    // sent over HTTP in a round
	Keys        int    // number of keys, used in turn
	Connections int    // kept alive; each sends its next ping after the response
	Rounds      int    // number of measurements of each way, alternating
	Out         io.Writer
}

// pingsEvery and pingsSlot are the heartbeat of the rule: each key is written once per slot.
const (
	pingsEvery = time.Hour
	pingsSlot  = time.Second
)

// pingRun is a node from HTTP to SQLite, with counters of its writes.
type pingRun struct {
	PingsOptions
	*pings.Resolver
	*pings.Receiver
	store   *store.Store
	bare    *sql.DB // the same file
	catalog *rules.Catalog
	writer  *pings.LogWriter
	addr    string
	path    string // of the ping key
	acked   []atomic.Int64

	mu    sync.Mutex
	wrote []int // jobs of each transaction since the start of the round
}

// Pings measures the rate of HTTP pings answered after their commit on the embedded store, and the rate of a loop that
// only writes the same row updates in transactions of the same sizes. It prints a RESULT line for each, then the
// medians, and returns the rate of the pings and its ratio to the other.
func Pings(ctx context.Context, o PingsOptions) (rate, ratio float64, err error) {
	p := &pingRun{PingsOptions: o, acked: make([]atomic.Int64, o.Keys)}
	stop, err := p.open(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := p.send(ctx); err != nil { // creates the jobs
		return 0, 0, err
	}
	var sent, bare []float64
	for range o.Rounds {
		p.wrote = nil
		took, err := timed(ctx, p.send)
		if err != nil {
			return 0, 0, fmt.Errorf("pings: %w", err)
		}
		if err := p.check(ctx); err != nil {
			return 0, 0, err
		}
		sent = append(sent, float64(o.Pings)/took.Seconds())
		fmt.Fprintf(o.Out, "RESULT pings http n=%d keys=%d sec=%.3f rate=%.0f rows=%d transactions=%d\n",
			o.Pings, o.Keys, took.Seconds(), float64(o.Pings)/took.Seconds(), sum(p.wrote), len(p.wrote))
		if took, err = timed(ctx, p.write); err != nil {
			return 0, 0, fmt.Errorf("bare: %w", err)
		}
		bare = append(bare, float64(o.Pings)/took.Seconds())
		fmt.Fprintf(o.Out, "RESULT pings bare n=%d sec=%.3f rate=%.0f\n", o.Pings, took.Seconds(), float64(o.Pings)/took.Seconds())
	}
	rate, ratio = median(sent), median(sent)/median(bare)
	fmt.Fprintf(o.Out, "%d pings of %d keys over %d connections, median of %d rounds: %.0f/s answered after their commit, the same row updates bare %.0f/s, ratio %.2f\n",
		o.Pings, o.Keys, o.Connections, o.Rounds, rate, median(bare), ratio)
	return rate, ratio, nil
}

func timed(ctx context.Context, run func(context.Context) error) (time.Duration, error) {
	begun := time.Now()
	err := run(ctx)
	return time.Since(begun), err
}

func sum(numbers []int) (total int) {
	for _, n := range numbers {
		total += n
	}
	return total
}

// open assembles and serves the node until stop.
func (p *pingRun) open(ctx context.Context) (stop func() error, err error) {
	quiet := slog.New(slog.DiscardHandler)
	if p.store, err = store.Open(ctx, store.Options{DataDir: p.Dir, Log: quiet}); err != nil {
		return nil, err
	}
	file := "file:" + filepath.Join(p.Dir, store.DatabaseFile) + "?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)"
	if p.bare, err = sql.Open("sqlite", file); err != nil {
		return nil, err
	}
	p.bare.SetMaxOpenConns(1)
	if err := p.prepare(ctx); err != nil {
		return nil, err
	}
	p.writer = &pings.LogWriter{Store: p.store, Log: quiet}
	p.Receiver = pings.NewReceiver(pings.Receiver{
		Catalog: p.catalog, Effects: p.store, Shards: p.store.Shards(), Now: time.Now, Observer: p, Log: p.writer,
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p.addr = listener.Addr().String()
	working, cancel := context.WithCancel(ctx)
	group, working := errgroup.WithContext(working)
	handler := web.New(web.Options{Pings: p, Log: quiet})
	group.Go(func() error { return web.Serve(working, listener, handler, time.Second) })
	group.Go(func() error { return p.Run(working) })
	group.Go(func() error { return p.writer.Run(working) })
	return func() error {
		cancel()
		return errors.Join(group.Wait(), p.bare.Close(), p.store.Close())
	}, nil
}

// prepare saves the rule and creates its ping key.
func (p *pingRun) prepare(ctx context.Context) error {
	keys := make([]string, p.Keys)
	for i := range keys {
		keys[i] = key(i)
	}
	err := saveRule(ctx, p.store, fmt.Sprintf("name: bench\nentity: device\ntrigger: {heartbeat: {every: %s, keys: [%s]}}\nslot: %s\n",
		document.Duration(pingsEvery), strings.Join(keys, ", "), document.Duration(pingsSlot)))
	if err != nil {
		return err
	}
	p.catalog = rules.NewCatalog(p.store, p.store.Shards())
	if err := p.catalog.Refresh(ctx); err != nil {
		return err
	}
	rule, err := p.catalog.Newest("bench")
	if err != nil {
		return err
	}
	p.Resolver = &pings.Resolver{Store: p.store, Catalog: p.catalog, Now: time.Now}
	a, _, err := p.Create(ctx, pings.Address{RuleID: rule.Engine().ID, Rule: "bench"}, false)
	p.path = a.Path()
	return err
}

func key(i int) string { return fmt.Sprintf("device-%05d", i) }

// Pinged implements pings.Observer.
func (p *pingRun) Pinged(done futurejobs.ApplyResult) {
	if n := done.Created + done.Postponed; n > 0 {
		p.mu.Lock()
		p.wrote = append(p.wrote, min(n, p.Keys))
		p.mu.Unlock()
	}
}

// send sends all pings and returns when all are answered.
func (p *pingRun) send(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range p.Connections {
		group.Go(func() error { return p.sendAll(ctx, &next) })
	}
	return group.Wait()
}

// sendAll sends pings over one connection, each after the previous response.
func (p *pingRun) sendAll(ctx context.Context, next *atomic.Int64) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for i := next.Add(1) - 1; i < int64(p.Pings); i = next.Add(1) - 1 {
		of, begun := int(i)%p.Keys, time.Now()
		if _, err := fmt.Fprintf(conn, "GET %s/%s HTTP/1.1\r\nHost: localhost\r\n\r\n", p.path, key(of)); err != nil {
			return err
		}
		answer, err := http.ReadResponse(answers, nil)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			return errors.Join(err, answer.Body.Close())
		}
		if err := answer.Body.Close(); err != nil {
			return err
		}
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("ping %d: %s", i, answer.Status)
		}
		for at := begun.UnixMicro(); ; {
			if last := p.acked[of].Load(); last >= at || p.acked[of].CompareAndSwap(last, at) {
				break
			}
		}
	}
	return nil
}

// check checks that each answered ping is in its job: the next check is not before the time that the ping requires.
func (p *pingRun) check(ctx context.Context) error {
	for i := range p.Keys {
		l, err := p.store.Job(ctx, "bench", key(i))
		if err != nil {
			return err
		}
		want := futurejobs.Grid(pingsSlot).Up(time.UnixMicro(p.acked[i].Load()).Add(pingsEvery))
		if l.Job.NextCheckAt.Before(want) {
			return fmt.Errorf("%s has its next check at %s, and an answered ping postpones it to %s", key(i), l.Job.NextCheckAt, want)
		}
	}
	return nil
}

// bareUpdate writes the columns that a heartbeat changes.
const bareUpdate = `UPDATE future_job SET rev = rev + 1, next_check_at = ?, version = 1, pauses = NULL, paused_next_at = NULL, state = state, members = NULL,
	since_at = ?, event = ?, step = 0, check_count = 0, undecided = 0 WHERE id = ?`

// write writes as many rows as the pings did, in as many transactions.
func (p *pingRun) write(ctx context.Context) error {
	var ids []int64
	rows, err := p.bare.QueryContext(ctx, `SELECT id FROM future_job ORDER BY id`)
	if err != nil {
		return err
	}
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return err
		}
		ids = append(ids, id)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	at := 0
	for _, n := range p.wrote {
		tx, err := p.bare.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		update, err := tx.PrepareContext(ctx, bareUpdate)
		if err != nil {
			return err
		}
		now := time.Now()
		for range n {
			if _, err := update.ExecContext(ctx, now.Add(pingsEvery).UnixMicro(), now.UnixMicro(), `{"kind":"success","source":"ping"}`, ids[at%len(ids)]); err != nil {
				return err
			}
			at++
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	return nil
}
