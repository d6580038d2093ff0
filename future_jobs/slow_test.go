package futurejobs_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/rs/zerolog"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// countingQueue records the sizes of reads and settlements.
type countingQueue struct {
	*store.Store
	mu      sync.Mutex
	page    int // bytes of the largest page
	slow    int // pages that took too long
	settled []settledBatch
}

// settledBatch is one settlement and its result.
type settledBatch struct {
	decisions, bytes int
	err              error
}

func (w *countingQueue) Due(ctx context.Context, q futurejobs.DueQuery) ([]futurejobs.Job, error) {
	jobs, err := w.Store.Due(ctx, q)
	bytes := 0
	for i := range jobs {
		bytes += jobs[i].Size()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.page = max(w.page, bytes)
	if errors.Is(err, futurejobs.ErrTooSlow) {
		w.slow++
	}
	return jobs, err
}

func (w *countingQueue) Settle(ctx context.Context, s futurejobs.Settlement) (futurejobs.Settled, error) {
	bytes := 0
	for _, d := range s.Decisions {
		for i := range d.Alerts {
			bytes += d.Alerts[i].Size()
		}
	}
	got, err := w.Store.Settle(ctx, s)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settled = append(w.settled, settledBatch{len(s.Decisions), bytes, err})
	return got, err
}

// delaySettles makes the insertion of each alert take some seconds on Postgres.
func delaySettles(t *testing.T, dsn string, seconds float64) {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err == nil {
		_, err = db.Exec(fmt.Sprintf(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(%g); RETURN new; END $$;
CREATE TRIGGER slow BEFORE INSERT ON alert FOR EACH ROW EXECUTE FUNCTION slow()`, seconds))
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// runSweeps creates jobs with bodies of a size due in one slot, and sweeps until all are decided. prepare prepares the
// database after its schema was created; it may be nil. handler decides; nil: the rule's own.
func runSweeps(t *testing.T, database store.Options, jobs, size int, prepare func(), handler checks.Handler) *countingQueue {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	database.Log = log
	s, err := store.Open(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	if prepare != nil {
		prepare()
	}
	saveIn(t, s, fmt.Sprintf(noResolve, "large", "large"))
	catalog := rules.NewCatalog(s, s.Shards())
	if err := catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	rule, err := catalog.Rule(t.Context(), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := rule.Grid.After(now)
	const together = 10 // of the largest bodies 2.5 MB: far from the deadline of a write on a busy machine
	for from := 0; from < jobs; from += together {
		batch := futurejobs.EffectBatch{RuleSet: catalog.Revision()}
		for i := from; i < min(from+together, jobs); i++ {
			key := fmt.Sprint(i)
			batch.Effects = append(batch.Effects, futurejobs.Effect{
				Rule: rule, Ref: futurejobs.Ref{Shard: futurejobs.ShardOf("thing", key, s.Shards()), RuleID: 1, Key: key},
				Action: futurejobs.Start{Job: futurejobs.Job{Version: 1, Since: first.Add(-10 * time.Second), FirstCheckAt: first, Event: []byte(noise(i, size))}},
			})
		}
		if _, err := s.Apply(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	for due := now; !due.After(first); { // all in one slot
		time.Sleep(50 * time.Millisecond)
		if due, err = s.Now(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	w := &countingQueue{Store: s}
	owner := futurejobs.NewOwner(s, futurejobs.Node{ID: "n", Name: "n"}, 15*time.Second, time.Now, log)
	sweeper := futurejobs.NewSweeper(w, &handlers{catalog, map[string]checks.Handler{"large": handler}}, owner, futurejobs.NewClock(s.Now, time.Now), 8, log)
	owner.Changed = sweeper.Wake
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- sweeper.Run(ctx, context.Background()) }()
	go func() { done <- owner.Run(ctx) }()
	defer func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		gauges, err := s.Gauges(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if gauges.Pending == 0 {
			break
		}
		if time.Since(begun) > 10*time.Minute {
			t.Fatalf("after ten minutes %d of %d jobs are not decided: %v", gauges.Pending, jobs, sweeper.Err())
		}
	}
	ended, err := s.History(t.Context(), futurejobs.Filter{Limit: futurejobs.MaxLimit})
	if err != nil || len(ended.Items) != min(jobs, futurejobs.MaxLimit) {
		t.Errorf("of %d jobs %d ended: %v", jobs, len(ended.Items), err)
	}
	page, err := s.Alerts(t.Context(), futurejobs.Filter{Limit: futurejobs.MaxLimit})
	if err != nil || len(page.Items) != min(jobs, futurejobs.MaxLimit) {
		t.Errorf("of %d jobs there are %d alerts: %v", jobs, len(page.Items), err)
	}
	for _, a := range page.Items {
		if a.Status != alerts.Firing {
			t.Errorf("job %s ended with %s", a.Key, a.Status)
		}
	}
	return w
}

// Decisions that take too long for one transaction are settled in several, down to one each.
func TestDecisionsThatTakeTooLongToSettleAreHalvedUntilTheyPass(t *testing.T) {
	for name, c := range map[string]struct {
		jobs    int
		seconds float64 // per alert; a transaction has 8
	}{"to a half": {28, 0.8}, "to one": {4, 5}} { // too much for one transaction even if a slot is split into two batches
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := storetest.Postgres(t)
			w := runSweeps(t, store.Options{DatabaseURL: dsn}, c.jobs, 100, func() { delaySettles(t, dsn, c.seconds) }, nil)
			isHalved := false
			for i, s := range w.settled {
				switch {
				case s.err == nil:
				case !errors.Is(s.err, futurejobs.ErrTooSlow):
					t.Errorf("%d decisions were not settled: %v", s.decisions, s.err)
				case !slices.ContainsFunc(w.settled[i+1:], func(later settledBatch) bool { return later.decisions <= s.decisions/2 }):
					t.Errorf("%d decisions took too long and were not halved: %+v", s.decisions, w.settled)
				default:
					isHalved = true
				}
			}
			if !isHalved {
				t.Error("nothing took too long: nothing is tested")
			}
		})
	}
}

// A job with a row locked by another transaction delays no other: it is settled alone, once the lock is released.
func TestSlowDecisionDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	const jobs, lock = 2, 7
	first := "0" // to be settled: of the first shard
	for i := range jobs {
		if key := fmt.Sprint(i); futurejobs.ShardOf("thing", key, 16) < futurejobs.ShardOf("thing", first, 16) {
			first = key
		}
	}
	dsn := storetest.Postgres(t)
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	holder, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	isReleased := make(chan error, 1)
	w := runSweeps(t, store.Options{DatabaseURL: dsn}, jobs, 100, func() {
		_, err := db.Exec(fmt.Sprintf(`CREATE SEQUENCE tries;
CREATE FUNCTION held() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF new.key = '%s' THEN PERFORM nextval('tries'), pg_advisory_xact_lock(%d); END IF; RETURN new; END $$;
CREATE TRIGGER held BEFORE INSERT ON alert FOR EACH ROW EXECUTE FUNCTION held()`, first, lock))
		if err == nil {
			_, err = holder.ExecContext(t.Context(), `SELECT pg_advisory_lock($1)`, lock)
		}
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			// The third try follows two that took too long: one of them alone.
			for settled, tries := 0, 0; err == nil && (settled < jobs-1 || tries < 3); time.Sleep(50 * time.Millisecond) {
				err = db.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM alert), last_value FROM tries`).Scan(&settled, &tries)
			}
			isReleased <- errors.Join(err, holder.Close(), db.Close())
		}()
	}, nil)
	if err := <-isReleased; err != nil {
		t.Error(err)
	}
	alone := 0
	for _, s := range w.settled {
		if s.err != nil && s.decisions == 1 {
			alone++
		} else if s.err != nil && alone > 0 {
			t.Errorf("%d decisions waited for the one that was too slow by itself: %+v", s.decisions, w.settled)
		}
	}
	if alone == 0 {
		t.Error("no decision took too long by itself: nothing is tested")
	}
}

// Pages of due jobs that are too large for the link to the database are read in halves.
func TestPagesThatTakeTooLongAreReadInHalves(t *testing.T) {
	t.Parallel()
	const jobs, size, rate = 60, 250_000, 800 // KB a second; a read has 16 seconds
	dsn, err := url.Parse(storetest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	link := toxiproxy.NewProxy(server, "database", "127.0.0.1:0", dsn.Host)
	if err := link.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(link.Stop)
	dsn.Host = link.Listen
	narrow := fmt.Sprintf(`{"name": "narrow", "type": "bandwidth", "stream": "downstream", "attributes": {"rate": %d}}`, rate)
	w := runSweeps(t, store.Options{DatabaseURL: dsn.String()}, jobs, size, func() {
		if _, err := link.Toxics.AddToxicJson(strings.NewReader(narrow)); err != nil {
			t.Fatal(err)
		}
	}, nil)
	if w.slow == 0 {
		t.Error("no page took too long: nothing is tested")
	}
}

// findingHandler is a handler with a source that finds much data for each entity.
type findingHandler struct {
	*source
	found string
}

func (f findingHandler) Check(context.Context, checks.Check) (checks.Answer, error) {
	draft := alerts.Draft{Status: alerts.Firing, Severity: alerts.Error, Step: "only", Text: "it waits"}
	return checks.Answer{Outcome: checks.Exhausted, State: []byte(f.found), Alerts: []alerts.Draft{draft}}, nil
}

// The bytes of a read, a lookup and a settlement are bounded, for jobs with large bodies that are due in one slot,
// and for large findings.
func TestReadsAndSettlementsOfLargeBodiesAreBounded(t *testing.T) {
	const page, question, settlement = 16 << 20, 8 << 20, 8 << 20
	for name, c := range map[string]struct {
		jobs, size int
		found      int // bytes that a source finds for each; 0: no source
	}{
		"bodies":           {200, 250_000, 0},
		"bodies and found": {200, 250_000, 100},
		"found":            {600, 100, 60_000},
	} {
		bounded := func(t *testing.T, database store.Options) {
			t.Parallel()
			var handler checks.Handler
			requested := &source{most: 1, find: func(string) (f checks.Finding) { return f }}
			if c.found > 0 {
				handler = findingHandler{requested, noise(1, c.found)}
			}
			w := runSweeps(t, database, c.jobs, c.size, nil, handler)
			if w.page > page+c.size {
				t.Errorf("a read returned %d bytes of bodies, want at most %d", w.page, page)
			}
			for _, jobs := range requested.batches {
				if (jobs-1)*c.size > question {
					t.Errorf("a source is queried about %d jobs with %d bytes of bodies, want about %d", jobs, jobs*c.size, question)
				}
			}
			if (len(requested.batches) == 0) != (c.found == 0) {
				t.Errorf("a source is queried %d times", len(requested.batches))
			}
			for _, s := range w.settled {
				isRefused := s.err != nil && !errors.Is(s.err, futurejobs.ErrTooSlow) // a busy machine may be too slow
				if s.bytes > settlement && s.decisions > 1 || isRefused {
					t.Errorf("a settlement of %d decisions has %d bytes, want at most %d: %v", s.decisions, s.bytes, settlement, s.err)
				}
			}
		}
		t.Run(name+"/sqlite", func(t *testing.T) { bounded(t, store.Options{DataDir: storetest.DataDir(t)}) })
		t.Run(name+"/postgres", func(t *testing.T) { bounded(t, store.Options{DatabaseURL: storetest.Postgres(t)}) })
	}
}
