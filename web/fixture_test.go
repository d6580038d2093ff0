package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/events"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/internal/testdisk"
	"deadman/rules"
	"deadman/web"
	"deadman/web/ui"
)

// discardLog discards the log of intended errors.
var discardLog = slog.New(slog.DiscardHandler)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testdisk.InMemory(m)) }

// broker is the broker as the API uses it.
type broker struct {
	*bus.EventPublisher
	*bus.AlertReader
}

// fixture is the handler over a real store and a real broker. The test itself does the work of the sweeper and the intake.
type fixture struct {
	*httptest.Server
	t      *testing.T
	store  *store.Store
	bus    *bus.Bus
	rules  *rules.Registry
	keeper *access.Tokens // of a closed fixture
	rule   *futurejobs.Rule
	now    time.Time // creation time of the fixture

	metrics *web.Metrics
}

// unshippedRule is the rule of the fixture.
const unshippedRule = `name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
slot: 1s
escalate:
  - {after: 3h, step: primary, severity: warning, text: "order {{key}} waits"}
  - {after: 8h, step: escalated, severity: critical}
`

func newFixture(t *testing.T, changes ...func(*web.Options, *fixture)) *fixture {
	t.Helper()
	dir := bustest.Dir(t)
	storetest.SQLite(t, dir)
	db, err := store.Open(t.Context(), store.Options{DataDir: dir, Shards: 4})
	failOn(t, err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	server, err := bus.StartServer(bus.ServerOptions{Dir: filepath.Join(dir, "nats"), Addr: "127.0.0.1:0", Log: discardLog})
	failOn(t, err)
	t.Cleanup(server.Close)
	wire, err := bus.Connect(t.Context(), bus.Options{Name: "test", InProcess: server, Log: discardLog})
	failOn(t, err)
	t.Cleanup(wire.Close)
	catalog := rules.NewCatalog(db, db.Shards())
	registry := &rules.Registry{Store: db, Binder: wire.Binder, Catalog: catalog, Jobs: db, Log: discardLog, Now: time.Now}
	_, err = registry.Save(t.Context(), []byte(unshippedRule), "", rules.SaveOptions{})
	failOn(t, err)
	failOn(t, catalog.Refresh(t.Context()))
	newest, err := catalog.Newest("order-unshipped")
	failOn(t, err)

	s := &fixture{t: t, store: db, bus: wire, now: time.Now().UTC().Truncate(time.Second), rules: registry, rule: newest.Engine()}
	options := web.Options{
		Replays: s.newReplays(wire.Streams),
		Lists:   db, Heartbeats: db, Loads: db, JobActions: s, Schedules: s, Acks: s, Outbox: db, Rules: registry, Calendars: &rules.CalendarRegistry{Store: db, Catalog: catalog}, Catalog: catalog,
		Letters: &events.DeadLetters{DeadLetterStore: db, Catalog: catalog, Now: time.Now}, Wire: broker{wire.EventPublisher, wire.AlertReader}, Memory: db, Mutes: db, Open: allowAll,
		Metrics: emptyMetrics(),
		Health:  func(context.Context) []web.Condition { return []web.Condition{{Name: "database", OK: true}} },
		Log:     discardLog,
		Faults:  []web.ErrorStatus{{Is: bus.ErrNoStream, Status: 409}, {Is: bus.ErrSubject, Status: 422}},
	}
	pages, err := ui.New(ui.Options{Version: "test", Log: discardLog, Now: time.Now})
	failOn(t, err)
	options.Pages = pages
	for _, change := range changes {
		change(&options, s)
	}
	s.metrics, s.Server = options.Metrics, httptest.NewServer(web.New(options))
	t.Cleanup(s.Close)
	return s
}

func failOn(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *fixture) jobRef(key string) futurejobs.Ref {
	return futurejobs.Ref{Shard: futurejobs.ShardOf(s.rule.Entity, key, s.store.Shards()), RuleID: s.rule.ID, Key: key}
}

// createJob creates a job, due after d.
func (s *fixture) createJob(key string, d time.Duration, event string) {
	s.t.Helper()
	s.apply(futurejobs.Effect{Rule: s.rule, Ref: s.jobRef(key), Action: futurejobs.Start{Job: futurejobs.Job{
		Version: s.rule.Version, Since: s.now, FirstCheckAt: s.rule.Grid.Up(s.now.Add(d)), Event: json.RawMessage(event),
	}}})
}

func (s *fixture) apply(effects ...futurejobs.Effect) futurejobs.ApplyResult {
	s.t.Helper()
	revision, err := s.store.Revision(s.t.Context())
	failOn(s.t, err)
	applied, err := s.store.Apply(s.t.Context(), futurejobs.EffectBatch{RuleSet: revision, Effects: effects})
	failOn(s.t, err)
	return applied
}

// alert decides an alert about a job, schedules its next check after d, and publishes the alert.
func (s *fixture) alert(key, text string, d time.Duration) alerts.Alert {
	s.t.Helper()
	ctx := s.t.Context()
	listed, err := s.store.Job(ctx, s.rule.Name, key)
	failOn(s.t, err)
	job, slot := listed.Job, s.now
	a := alerts.Alert{
		ID:   alerts.Decision{JobID: job.ID, CreatedAt: job.CreatedAt, Check: job.CheckCount + 1, Status: alerts.Firing, At: slot}.ID(),
		Rule: s.rule.Name, RuleVersion: int(s.rule.Version), Entity: s.rule.Entity, Key: key, DecidedAt: s.now, Shard: job.Shard, RuleID: s.rule.ID,
		Detail: alerts.Detail{
			Draft: alerts.Draft{Status: alerts.Firing, Severity: alerts.Warning, Step: "primary", Text: text},
			Since: job.Since, Slot: slot, CheckCount: job.CheckCount + 1, Event: job.Event,
		},
	}
	job.CheckCount++
	job.Step++
	job.NextCheckAt = s.rule.Grid.Up(s.now.Add(d))
	job.Alerts = append(job.Alerts, a.ID)
	job.Last = futurejobs.CheckTimes{PickedAt: s.now, StartedAt: s.now, CompletedAt: s.now.Add(1500 * time.Microsecond)}
	job.CheckStats = futurejobs.CheckStats{CheckAttempts: 1, CheckTotal: 1500 * time.Microsecond, CheckSlowest: 1500 * time.Microsecond}
	s.settle(futurejobs.Decision{Job: job, Alerts: []alerts.Alert{a}})
	waiting, _, err := s.store.Unpublished(ctx, []int16{job.Shard}, 100, nil)
	failOn(s.t, err)
	sent, err := s.bus.AlertPublisher.Publish(ctx, waiting)
	failOn(s.t, err)
	failOn(s.t, s.store.MarkPublished(ctx, sent))
	return a
}

// settle writes a decision as the holder of its shard.
func (s *fixture) settle(d futurejobs.Decision) {
	s.t.Helper()
	ctx := s.t.Context()
	_, err := s.store.Heartbeat(ctx, futurejobs.Node{ID: "node-1", Name: "host/1", Version: "v1", StartedAt: s.now}, time.Minute)
	failOn(s.t, err)
	leases, err := s.store.Leases(ctx)
	failOn(s.t, err)
	held := leases[d.Job.Shard].HeldShard
	if leases[d.Job.Shard].Node == "" {
		took, ok, err := s.store.Take(ctx, "node-1", held, time.Minute)
		failOn(s.t, err)
		if !ok {
			s.t.Fatal("the shard is not to be had")
		}
		held = took.HeldShard
	}
	revision, err := s.store.Revision(ctx)
	failOn(s.t, err)
	settled, err := s.store.Settle(ctx, futurejobs.Settlement{Held: []futurejobs.HeldShard{held}, RuleSet: revision, Decisions: []*futurejobs.Decision{&d}})
	failOn(s.t, err)
	if !settled.Jobs[d.Job.ID] {
		s.t.Fatalf("the decision was not taken: %+v", settled)
	}
}

// resolve resolves a job.
func (s *fixture) resolve(key string) {
	s.t.Helper()
	if done := s.apply(futurejobs.Effect{Rule: s.rule, Ref: s.jobRef(key), Action: futurejobs.End{Outcome: checks.Resolved}}); done.Ended != 1 {
		s.t.Fatalf("nothing ended: %+v", done)
	}
}

// get decodes the answer of a path.
func get[T any](t *testing.T, s *httptest.Server, path string) T {
	t.Helper()
	a := requestPath(t, s, "GET", path, "")
	if a.StatusCode != 200 || a.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%s: %d %s", path, a.StatusCode, a.body)
	}
	var v T
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
	return v
}

func keys(jobs []web.Job) string {
	all := make([]string, len(jobs))
	for i, j := range jobs {
		all[i] = j.Key
	}
	return fmt.Sprint(all)
}

func allowAll(context.Context) (bool, error) { return true, nil }
