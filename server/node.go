package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"
	_ "time/tzdata" // zones of rules and calendars, for machines without a zone database

	"github.com/google/uuid"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/bus"
	"deadman/internal/calendars"
	"deadman/internal/events"
	"deadman/internal/logins"
	"deadman/internal/notify"
	"deadman/internal/remotehandlers"
	"deadman/internal/scheduler"
	"deadman/internal/store"
	"deadman/internal/webhooks"
	"deadman/rules"
	"deadman/web"
	"deadman/web/ui"
)

// startRetryInterval is the interval at which a starting node retries an unavailable database or broker.
const startRetryInterval = 2 * time.Second

// msgDatabaseLost is logged while a starting node retries a lost database.
const msgDatabaseLost = "the database is not there any more"

// node holds all components of one process.
type node struct {
	Config
	log     *slog.Logger
	store   *store.Store
	server  *bus.Server // nil: external broker
	bus     *bus.Bus
	book    *rules.Catalog
	rules   *rules.Registry
	keeper  *access.Tokens
	clock   *futurejobs.Clock
	owner   *futurejobs.Owner
	sweeper *futurejobs.Sweeper
	intake  *events.Intake
	letters *events.DeadLetters
	hooks   atomic.Pointer[webhooks.Set]
	logins  atomic.Pointer[logins.Config] // nil: login with tokens only
	hearing *futurejobs.GapDetector
	relay   *alerts.Relay
	people  *notify.Notifier // nil: no channels file is configured
	metrics *web.Metrics
	pages   *ui.UI
	sources sourceSet
	answers *handlerDirectory
	witness observer
	upkeep  *maintenance
	blind   *stallDetector
	overdue *overdue
	alarms  *alarms
	quotas  *quotas
	slots   *loadRecorder
	beats   []*heartbeat // empty: no heartbeat is configured
	binding *rebinder
	ticker  *scheduler.Scheduler
	lookout *alertsStreamMonitor
	caution *cautions
	watch   *clockWatch
	shifter *futurejobs.Shifter
	compare *comparison
	pings   *pingHandler
	schema  *schemaWatch

	allowances *access.Quotas // of quotas

	open     atomic.Bool // requests without a token have full access
	draining atomic.Bool
}

// newNode connects to the database and the broker, retrying while they are unavailable, applies the rules, and
// creates the components. It starts none of them.
func newNode(ctx context.Context, c Config) (n *node, err error) {
	n = &node{Config: c.withDefaults()}
	n.log = n.Log
	if err := n.check(); err != nil {
		return n, err
	}
	if err := n.readHooks(ctx); err != nil {
		return n, err
	}
	if err := n.readLogin(ctx); err != nil {
		return n, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	if n.store, err = n.openStore(ctx); err != nil {
		return n, err
	}
	if err := n.openBus(ctx); err != nil {
		return n, err
	}
	n.metrics = web.NewMetrics(n.Version, n.gauges)
	if n.pages, err = ui.New(ui.Options{Version: n.Version, Log: n.log, Now: func() time.Time { return n.clock.Now() }}); err != nil {
		return n, err
	}
	if err := n.openSources(); err != nil {
		return n, err
	}
	openRules := func() error { return n.openRules(ctx) }
	if err := n.retryWhile(ctx, "the rules cannot be applied yet", openRules, bus.ErrUnreachable, store.ErrUnavailable); err != nil {
		return n, err
	}
	n.keeper = access.NewTokens(n.store, time.Now)
	n.wire()
	lastLooks := func() error {
		if err := n.openNotifier(ctx); err != nil {
			return err
		}
		if err := n.learnTime(ctx); err != nil {
			return err
		}
		return n.quotas.refresh(ctx)
	}
	err = n.retryWhile(ctx, msgDatabaseLost, lastLooks, store.ErrUnavailable)
	return n, err
}

// wire connects the components. Calls between them are only hints; the data is in the database.
func (n *node) wire() {
	now := time.Now
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	id := uuid.Must(uuid.NewV7()).String()
	self := futurejobs.Node{ID: id, Name: fmt.Sprintf("%s/%d", host, os.Getpid()), Version: n.Version, StartedAt: now().UTC()}

	n.clock = futurejobs.NewClock(n.store.Now, now)
	n.clock.Follow = n.follow
	n.store.GoBy(n.clock.Correct)
	n.owner = futurejobs.NewOwner(n.store, self, n.Lease, now, n.log)
	n.sweeper = futurejobs.NewSweeper(n.queue(), n.book, n.owner, n.clock, n.Workers, n.log)
	n.shifter = futurejobs.NewShifter(n.store, n.book, n.owner, n.clock, n.log)
	n.hearing = futurejobs.NewGapDetector(corrected{n.store}, id, now, n.log)
	n.compare = &comparison{
		store: n.store, stream: n.bus, book: n.book, owner: n.owner, now: n.clock.Now, keep: n.KeepAlerts, remark: n.announce,
		raised: func(a alerts.Alert) { n.witness.Alerted(a) }, log: n.log,
	}
	n.quotas = &quotas{Quotas: n.allowances, store: n.store, bus: n.bus, holds: func() bool { return n.owner.Holds(maintenanceShard) }, known: n.prefixesOfPeople, now: n.clock.Now, count: n.metrics.OverQuota, log: n.log}
	n.relay = alerts.NewRelay(n.outbox(), n.compare.publisher(n.publisher()), n.owner.Holding, n.log)
	n.relay.Quotas = n.quotas
	n.witness = observer{Metrics: n.metrics, relay: n.relay, news: n.wakeNotifier, log: n.log}
	n.intake = events.NewIntake(events.Options{
		Streams: n.bus, Book: n.book, Store: n.ledger(), Shards: n.owner, Now: n.clock.Now,
		Announce: n.announce, Observer: n.witness, Log: n.log, BrokerUptime: n.brokerUptime, Place: n.place,
	})
	n.rules.Announce, n.rules.Now, n.book.Tenant, n.book.Now = n.announce, n.clock.Now, n.allowances.Tenant, now
	n.answers.now = n.clock.Now
	n.ticker = scheduler.New(scheduler.Options{
		Book: n.book, Ledger: n.ledger(), Shards: n.owner, Emitter: n.bus, Now: n.clock.Now,
		Announce: n.announce, Observer: n.witness, Log: n.log, Allow: n.quotas.allow,
	})
	n.binding = &rebinder{rules: n.rules, owner: n.owner, log: n.log}
	n.letters = &events.DeadLetters{DeadLetterStore: n.store, Book: n.book, Now: n.clock.Now, Observer: n.witness}
	n.upkeep = &maintenance{store: n.store, tenant: n.allowances.Tenant, rules: n.rules, owner: n.owner, said: n.observeAlert, count: n.metrics.Capped, now: n.clock.Now, log: n.log, wake: make(chan struct{}, 1), keep: store.Retention{
		History: n.KeepHistory, Alerts: n.KeepAlerts, DeadLetters: n.KeepDeadLetters, Audit: n.KeepHistory, Pings: n.KeepHistory,
	}}

	n.schema = &schemaWatch{store: n.store, owner: n.owner, every: n.Lease / 3, now: n.clock.Now, said: n.observeAlert, log: n.log}
	n.overdue = &overdue{store: n.store, book: n.book, now: n.clock.Now}
	n.blind = &stallDetector{
		store: n.store, book: n.book, taps: n.intake.Status, now: n.clock.Now,
		after: stallAfter + n.Lease/3, remark: n.announce, log: n.log,
	}
	n.watch = &clockWatch{clock: n.clock, shifts: n.shifter, moved: n.store.Shifted, holds: func() bool { return n.owner.Holds(maintenanceShard) }, begin: n.store.OpenSystemAlert, end: n.store.CloseSystemAlert, said: n.observeAlert, log: n.log}
	n.alarms = &alarms{overdue: n.overdue, quotas: n.allowances, store: n.store, after: n.blind.after + 2*stallCheckInterval, remark: n.observeAlert, log: n.log}
	n.beats = n.heartbeats(self)
	n.lookout = &alertsStreamMonitor{node: n}
	n.caution = &cautions{sources: n.sources, log: n.log, reached: make(map[string]bool), said: make(map[string]string)}
	n.pings = n.openPings()

	n.owner.Doing, n.owner.Unfit, n.owner.Unreadable = n.sweeper.RunningJSON, n.unfitness().reason, n.unreadable
	n.owner.Changed = func() { n.sweeper.Wake(); n.intake.Wake(); n.ticker.Wake() }
	// A new rule may have a slot before the sweep's next one, and a deleted rule may leave jobs.
	n.book.Changed = func() { n.sweeper.Wake(); n.upkeep.Wake(); n.ticker.Wake() }
	n.sweeper.Observer, n.sweeper.BeforeResume, n.sweeper.BeforeSweep = n.witness, n.blind.Resuming, n.listening
	n.sweeper.Stepped = func(ctx context.Context) error { return n.store.PutBack(ctx, 0) }
	n.shifter.Moved = n.sweeper.Wake
	n.clock.Changed = func() { n.sweeper.Wake(); n.ticker.Wake() }
	n.slots = &loadRecorder{store: n.store, sweeper: n.sweeper, log: n.log}
}

// brokerUptime returns the time for which the broker has received messages without interruption. An embedded broker
// stops with its process.
func (n *node) brokerUptime() time.Duration {
	if n.server == nil {
		return n.bus.ConnectedFor()
	}
	return min(n.bus.ConnectedFor(), n.hearing.Uptime())
}

// openStore opens the database, retrying while it is unavailable.
func (n *node) openStore(ctx context.Context) (*store.Store, error) {
	options := store.Options{DatabaseURL: n.DatabaseURL, DataDir: n.DataDir, Shards: n.Shards, Log: n.log, Clock: n.databaseClock()}
	var s *store.Store
	open := func() (err error) {
		s, err = store.Open(ctx, options)
		return err
	}
	err := n.retryWhile(ctx, "the schema cannot be migrated yet", func() error {
		return n.retryWhile(ctx, "the database is not there yet", open, store.ErrUnavailable)
	}, store.ErrNodeBehind)
	if err != nil {
		return nil, err
	}
	if s.SingleProcess() && n.NATSURL != "" {
		n.log.Warn("this node keeps its jobs in its own folder; another one on the same broker would watch everything again (DEADMAN_DATABASE_URL lets them share)")
	}
	if s.SingleProcess() {
		if err := s.Reclaim(ctx); err != nil {
			return s, err
		}
	}
	return s, nil
}

// openBus starts the embedded broker, or connects to the configured one.
func (n *node) openBus(ctx context.Context) (err error) {
	options := bus.Options{URL: n.NATSURL, Identity: n.identity(), Name: "deadman", PublicURL: n.PublicURL, AlertsBytes: n.AlertsBytes, EventsBytes: n.EventsBytes, Log: n.log}
	if n.NATSURL == "" {
		n.server, err = bus.StartServer(bus.ServerOptions{
			Dir: n.natsDir(), Addr: cmp.Or(n.NATSAddr, DefaultNATSAddr), Move: n.NATSAddr == "",
			Users: n.natsUsersDir(), TokenFile: n.NATSToken, Insecure: n.Insecure, Log: n.log,
		})
		if err != nil {
			return err
		}
		options.InProcess = n.server
	}
	return n.retryWhile(ctx, "the broker is not there yet", func() (err error) {
		n.bus, err = bus.Connect(ctx, options)
		return err
	}, bus.ErrUnreachable)
}

// retryWhile retries until try succeeds, fails with an error other than the passing ones, or ctx ends.
func (n *node) retryWhile(ctx context.Context, waiting string, try func() error, passing ...error) error {
	for {
		err := try()
		if !slices.ContainsFunc(passing, func(reason error) bool { return errors.Is(err, reason) }) {
			return err
		}
		n.log.Warn(waiting, "again_in", startRetryInterval, "err", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(startRetryInterval):
		}
	}
}

// openRules applies the rules of the folder and reads all rules.
func (n *node) openRules(ctx context.Context) error {
	known, err := n.calendars()
	if err != nil {
		return err
	}
	// Names without a registered handler are served by services on the broker.
	n.answers = newHandlerDirectory(n.Handlers, remotehandlers.NewServices(n.bus))
	handlers := n.Handlers.With(n.answers.services.Named)
	n.book = rules.NewCatalog(n.store, n.store.Shards())
	if n.MemoryLimit > 0 {
		n.book.LimitCompiled(n.MemoryLimit / 4)
	}
	n.book.Calendars, n.book.Sources, n.book.Handlers = known, n.lookups(), handlers
	n.allowances = new(access.Quotas)
	n.store.BoundBy(n.allowances)
	n.rules = &rules.Registry{
		Quotas: n.allowances,
		Store:  n.store, Binder: n.bus, Book: n.book, Jobs: n.ledger(), Calendars: known, Sources: n.lookups(), Handlers: handlers, Log: n.log,
		As: func(ctx context.Context, bundle string) context.Context {
			return access.As(ctx, access.Actor{Name: bundle})
		},
	}
	n.answers.rules = n.rules
	if err := n.applyRules(ctx); err != nil {
		return err
	}
	if err := n.book.Refresh(ctx); err != nil {
		return fmt.Errorf("read the rules: %w", err)
	}
	return nil
}

// calendars reads the configured calendars file; without one it returns none.
func (n *node) calendars() (calendars.Set, error) {
	if n.Calendars == "" {
		return calendars.Set{}, nil
	}
	data, err := os.ReadFile(n.Calendars)
	if err != nil {
		return nil, fmt.Errorf("calendars: %w (--calendars names a file)", err)
	}
	known, err := calendars.Parse(data, n.Calendars)
	if err != nil {
		return nil, fmt.Errorf("calendars: %w", err)
	}
	return known, nil
}

// applyRules applies the rules folder. Rejected rules are logged, and the others apply.
func (n *node) applyRules(ctx context.Context) error {
	if n.Rules == "" {
		return nil
	}
	report, err := n.rules.ApplyDir(ctx, n.Rules)
	if err != nil {
		return fmt.Errorf("apply the rules in %s: %w", n.Rules, err)
	}
	n.log.Info("rules applied", "folder", n.Rules, "saved", len(report.Saved), "unchanged", len(report.Unchanged), "refused", report.Refused)
	if len(report.Others) > 0 {
		n.log.Warn("rules are in force that no file of the folder has; they came with an earlier start", "rules", report.Others)
	}
	return nil
}

// close releases the resources of newNode.
func (n *node) close() error {
	var errs []error
	n.sources.Close()
	n.useLogin(nil)
	if n.bus != nil {
		n.bus.Close()
	}
	if n.server != nil {
		n.server.Close()
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	return errors.Join(errs...)
}

// jobStore creates and changes jobs for events, heartbeats, schedule ticks and rule changes.
type jobStore interface {
	futurejobs.EffectStore
	scheduler.CursorStore
	rules.Jobs
}
