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

// CreatedMost is the maximum number of jobs of a round of Create and Events: their bodies are prepared in memory.
const CreatedMost = 2_000_000

// createClients is the number of concurrent clients, and of concurrent writers of the floor.
const createClients = 2

// createRun measures one way to create jobs.
type createRun struct{ drainRun }

// measure clears the tables, creates the jobs, and checks that all exist.
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
	r.text, err = c.ground.createdBytes(ctx, c.jobs)
	return r, err
}

// creatingWays returns the floor and the engine.
func creatingWays(engine createRun, bare func(context.Context) error) []contender {
	floor := engine
	floor.name, floor.ready = Floor, func(context.Context) (do, rest func(context.Context) error, over func() error, err error) {
		return bare, nil, func() error { return nil }, nil
	}
	return []contender{{Floor, floor.measure}, {Engine, engine.measure}}
}

// createWays returns the ways to create jobs requested over HTTP.
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

// bulkBodies returns the request bodies that create the given number of jobs.
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

// apiServer is a store behind a node's HTTP handler, with clients.
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
	catalog := rules.NewCatalog(s, s.Shards())
	if err := catalog.Refresh(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	handler := web.New(web.Options{
		JobActions: &jobCreator{catalog: catalog, store: s}, Catalog: catalog, Log: slog.New(slog.DiscardHandler),
		Open: func(context.Context) (bool, error) { return true, nil },
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

// send sends bodies from all clients, each one after the response to its previous one.
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
	var a web.BulkResult
	if err := json.NewDecoder(answer.Body).Decode(&a); err != nil || answer.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("the response is %s", answer.Status), err)
	}
	if want := bytes.Count(body, []byte{'\n'}); a.Created != want {
		return fmt.Errorf("%d of %d jobs were created", a.Created, want)
	}
	return nil
}

// jobCreator creates jobs as a node does.
type jobCreator struct {
	web.JobActions // the other actions are not called
	catalog        *rules.Catalog
	store          *store.Store
}

// CreateAll implements web.JobActions.
func (c *jobCreator) CreateAll(ctx context.Context, jobs []web.NewJob) (web.StartResult, error) {
	all := c.catalog.StartAll(jobs, time.Now().UTC())
	done, err := c.store.Apply(ctx, futurejobs.EffectBatch{RuleSet: c.catalog.Revision(), AuditAction: string(access.JobCreate), Bulk: true, Effects: all.Effects})
	return web.NewStartResult(all, done), err
}
