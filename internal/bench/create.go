package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/store"
	"deadman/rules"
	"deadman/web"
)

// CreatedMost is how many jobs a round of Create and Events makes at most: what each of them carries is
// held in memory before.
const CreatedMost = 2_000_000

// createClients are how many clients send at once, and write at once in the floor.
const createClients = 2

// createRun is a way to make jobs.
type createRun struct{ drainRun }

// measure clears the tables, has the jobs made, and checks that each is there.
func (c createRun) measure(ctx context.Context) (r Result, err error) {
	if err := errors.Join(c.ground.clear(ctx), c.ground.vacuumAndCheckpoint(ctx)); err != nil {
		return r, fmt.Errorf("clear: %w", err)
	}
	images, err := c.ground.fullPageImages(ctx)
	if err != nil {
		return r, err
	}
	if r, err = c.work(ctx); err != nil {
		return r, err
	}
	imaged, err := c.ground.fullPageImages(ctx)
	if err != nil {
		return r, err
	}
	r.Images = imaged - images
	r.text, err = c.ground.made(ctx, c.jobs)
	return r, err
}

// creatingWays are a floor and an engine.
func creatingWays(engine createRun, bare func(context.Context) error) []contender {
	floor := engine
	floor.name, floor.ready = Floor, func(context.Context) (do, rest func(context.Context) error, over func() error, err error) {
		return bare, nil, func() error { return nil }, nil
	}
	return []contender{{Floor, floor.measure}, {Engine, engine.measure}}
}

// createWays are the ways to make jobs that are asked for by HTTP.
func createWays(ctx context.Context, g database, o Options) ([]contender, error) {
	of, err := bareRuleOf(ctx, g, "bench-later", time.Hour)
	if err != nil {
		return nil, err
	}
	bodies := bulkBodies(o.Jobs)
	ready := func(ctx context.Context) (do, rest func(context.Context) error, over func() error, err error) {
		h, err := openHatch(ctx, g)
		if err != nil {
			return nil, nil, nil, err
		}
		return func(ctx context.Context) error { return h.send(ctx, bodies) }, nil, h.close, nil
	}
	return creatingWays(createRun{drainRun{name: Engine, ground: g, shape: Create, jobs: o.Jobs, ready: ready}},
		func(ctx context.Context) error { return bareCreate(ctx, g, of, bodies) }), nil
}

// bulkBodies are the bodies that begin so many waits.
func bulkBodies(jobs int) (bodies [][]byte) {
	for i := 0; i < jobs; {
		var body bytes.Buffer
		for end := min(i+web.MaxBulkLines, jobs); i < end; i++ {
			fmt.Fprintf(&body, `{"rule":"bench-later","key":"ord-%08d","event":`+eventBody+"}\n", i)
		}
		bodies = append(bodies, body.Bytes())
	}
	return bodies
}

// apiServer is a store behind a node's HTTP handler, and clients of it.
type apiServer struct {
	store   *store.Store
	client  *http.Client
	address string
	stop    func() error
}

func openHatch(ctx context.Context, g database) (*apiServer, error) {
	s, err := g.store(ctx)
	if err != nil {
		return nil, err
	}
	book := rules.NewCatalog(s, s.Shards())
	if err := book.Refresh(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	handler := web.New(web.Options{
		Desk: &jobCreator{book: book, store: s}, Book: book, Log: slog.New(slog.DiscardHandler),
		Open: func(context.Context) bool { return true },
	})
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	stopped := make(chan error, 1)
	go func() { stopped <- web.Serve(serving, listener, handler, time.Second) }()
	transport := &http.Transport{MaxIdleConnsPerHost: createClients}
	return &apiServer{
		store: s, client: &http.Client{Transport: transport}, address: "http://" + listener.Addr().String() + "/api/v1/jobs/bulk",
		stop: func() error {
			transport.CloseIdleConnections()
			stop()
			return <-stopped
		},
	}, nil
}

func (h *apiServer) close() error { return errors.Join(h.stop(), h.store.Close()) }

// send sends bodies from all clients, each the next when the one before is answered.
func (h *apiServer) send(ctx context.Context, bodies [][]byte) error {
	group, ctx := errgroup.WithContext(ctx)
	next := make(chan []byte)
	group.Go(func() error {
		defer close(next)
		for _, body := range bodies {
			select {
			case next <- body:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for range createClients {
		group.Go(func() error {
			for body := range next {
				if err := h.post(ctx, body); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func (h *apiServer) post(ctx context.Context, body []byte) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-ndjson")
	answer, err := h.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	var a web.BulkAnswer
	if err := json.NewDecoder(answer.Body).Decode(&a); err != nil || answer.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("it is answered %s", answer.Status), err)
	}
	if want := bytes.Count(body, []byte{'\n'}); a.Created != want {
		return fmt.Errorf("%d of %d waits began", a.Created, want)
	}
	return nil
}

// jobCreator begins waits as a node does.
type jobCreator struct {
	web.JobActions // what else a person may do, nobody asks here
	book           *rules.Catalog
	store          *store.Store
}

// CreateAll is of web.JobActions.
func (c *jobCreator) CreateAll(ctx context.Context, jobs []web.NewJob) (web.StartResult, error) {
	all := c.book.StartAll(jobs, time.Now().UTC())
	done, err := c.store.Apply(ctx, futurejobs.EffectBatch{RuleSet: c.book.Revision(), AuditAction: string(access.JobCreate), Bulk: true, Effects: all.Effects})
	return web.NewStartResult(all, done), err
}
