package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	_ "time/tzdata" // zones of rules and calendars, for machines without a zone database

	"golang.org/x/sync/errgroup"

	"deadman/alerts"
	"deadman/checks/lookup"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/bus"
	"deadman/internal/events"
	"deadman/internal/notify"
	"deadman/internal/periodic"
	"deadman/internal/pings"
	"deadman/internal/remotehandlers"
	"deadman/internal/replaytasks"
	"deadman/internal/scheduler"
	"deadman/internal/store"
	"deadman/internal/tracing"
	"deadman/rules"
	"deadman/web"
	"deadman/web/ui"
)

// node holds all components of one process.
type node struct {
	Config
	log                *slog.Logger
	store              *store.Store
	server             *bus.Server // nil: external broker
	bus                *bus.Bus
	catalog            *rules.Catalog
	rules              *rules.Registry
	calendars          *rules.CalendarRegistry
	keeper             *access.Tokens
	gate               *accessGate
	clock              *futurejobs.Clock
	sync               *clockSync
	owner              *futurejobs.Owner
	sweeper            *futurejobs.Sweeper
	intake             *events.Intake
	letters            *events.DeadLetters
	hooks              *hookFile
	login              *loginFile
	gapDetector        *futurejobs.GapDetector
	relay              *alerts.Relay
	notifications      *notifications
	metrics            *web.Metrics
	gauges             *gauges
	pages              *ui.UI
	traces             traces
	sources            *sourceFile
	files              *reloader
	folder             *ruleFolder
	handlerDirectory   *handlerDirectory
	observer           *observer
	jobs               *manualJobs
	acks               *acks
	maintenance        *maintenance
	stallDetector      *stallDetector
	overdue            *overdue
	alarms             *alarms
	quotas             *quotas
	loads              *loadRecorder
	heartbeats         []*heartbeat // empty: no heartbeat is configured
	rebinder           *rebinder
	ticker             *scheduler.Scheduler
	stored             *scheduler.Stored
	streamMonitor      *alertsStreamMonitor
	permissionWarnings *permissionWarnings
	watch              *clockWatch
	shifter            *futurejobs.Shifter
	comparison         *comparison
	pings              *pingHandler
	replays            *replaytasks.Runner
	schema             *schemaWatch
	readiness          *readiness
	endpoints          *endpointPublisher

	allowances *access.Quotas // of quotas
	draining   atomic.Bool
}

// newNode connects to the database and the broker, retrying while they are unavailable, applies the rules, and
// creates the components. It starts none of them.
func newNode(ctx context.Context, c Config) (n *node, err error) {
	n = &node{Config: c.WithDefaults()}
	n.log = n.Log
	if err := n.Validate(); err != nil {
		return n, err
	}
	n.hooks = &hookFile{path: n.Config.Hooks}
	n.login = &loginFile{path: n.Login, env: n.Env, proxies: n.TrustedProxies, publicURL: n.PublicURL, log: n.part("access")}
	if err := errors.Join(n.hooks.read(ctx), n.login.read(ctx)); err != nil {
		return n, err
	}
	if err := checkChannels(n.Notify, n.hooks); err != nil {
		return n, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	if n.store, err = openStore(ctx, n.Config, n.part("store")); err != nil {
		return n, err
	}
	if n.server, err = openServer(n.Config, n.part("nats")); err != nil {
		return n, err
	}
	if n.bus, err = openBus(ctx, n.Config, n.server, n.store, n.part("nats")); err != nil {
		return n, err
	}
	n.gauges = new(gauges)
	n.metrics = web.NewMetrics(n.Version, n.gauges.cluster, n.gauges.node)
	if n.pages, err = ui.New(ui.Options{Version: n.Version, Log: n.part("pages"), Now: func() time.Time { return n.clock.Now() }}); err != nil {
		return n, err
	}
	if n.sources, err = openSources(n.Config, n.bus.Conn, n.metrics, n.part("sources")); err != nil {
		return n, err
	}
	openRules := func() error { return n.openRules(ctx) }
	if err := retryWhile(ctx, n.log, "the rules cannot be applied yet", openRules, bus.ErrUnreachable, store.ErrUnavailable); err != nil {
		return n, err
	}
	n.keeper = access.NewTokens(n.store, time.Now)
	n.traces, err = openTraces(ctx, tracing.Options{
		Endpoint: n.OTLPEndpoint, Node: NodeName(), Version: n.Version, Subject: n.bus.AlertReader.Subject, Jobs: n.store, Log: n.part("traces"), Count: n.metrics.CountSpans,
	}, n.Traces)
	if err != nil {
		return n, err
	}
	n.wire()
	err = retryWhile(ctx, n.log, msgDatabaseLost, func() error { return n.readStart(ctx) }, store.ErrUnavailable)
	return n, err
}

// readStart reads the parts of the database's state that the components need before they run.
func (n *node) readStart(ctx context.Context) error {
	o := notify.Options{PublicURL: n.PublicURL, Log: n.part("notifications"), Announce: n.observer.announce, Alerted: n.observer.Alerted, Count: n.metrics.CountNotifications, CountGivenUp: n.metrics.CountGivenUp, Sending: n.traces.sending()}
	if err := n.notifications.open(ctx, o); err != nil {
		return err
	}
	if err := n.sync.learn(ctx, n.owner.Interval()); err != nil {
		return err
	}
	if err := n.comparison.learn(ctx); err != nil {
		return err
	}
	return n.quotas.refresh(ctx)
}

// wire connects the components. Calls between them are only hints; the data is in the database.
func (n *node) wire() {
	self := newSelf(n.Version)
	n.wireEngine(self)
	n.wireAlerts()
	n.wireInputs()
	n.wireMonitors(self)
	n.wireAPI(self)
	n.wireHints()
	n.traces.connect(n.intake, n.sweeper)
}

// part returns the log of a component.
func (n *node) part(component string) *slog.Logger { return n.log.With("component", component) }

// maintains reports whether this node does the maintenance.
func (n *node) maintains() bool { return n.owner.Holds(maintenanceShard) }

// wireEngine creates the components that check jobs.
func (n *node) wireEngine(self futurejobs.Node) {
	now := time.Now
	n.clock = futurejobs.NewClock(n.store.Now, now)
	n.owner = futurejobs.NewOwner(n.store, self, n.Lease, now, n.part("leases"))
	n.sweeper = futurejobs.NewSweeper(queue(n.store), n.catalog, n.owner, n.clock, n.Workers, n.part("sweep"))
	n.shifter = futurejobs.NewShifter(n.store, n.catalog, n.owner, n.clock, n.part("clock"))
	n.gapDetector = futurejobs.NewGapDetector(corrected{n.store}, self.ID, now, n.part("gaps"))
	n.sync = &clockSync{store: n.store, clock: n.clock, shifter: n.shifter, gapDetector: n.gapDetector, sharesBroker: n.server != nil && n.store.SingleProcess()}
	n.clock.Follow, n.clock.Waiting = n.sync.follow, waitingLog(n.part("clock"))
	n.store.GoBy(n.clock.Correct)
	n.loads = &loadRecorder{store: n.store, loads: n.sweeper.Loads(), log: n.part("sweep")}
}

// wireAlerts creates the components that publish alerts and notify people.
func (n *node) wireAlerts() {
	n.notifications = &notifications{path: n.Notify, hooks: n.hooks, source: cmp.Or(n.PublicURL, n.Namespace.Root()), store: n.store, rules: n.catalog, now: n.clock.Now, holds: func() bool { return n.owner.Holds(notify.HolderShard) }}
	n.observer = &observer{Metrics: n.metrics, store: n.store, wake: n.notifications.wake, log: n.part("alerts")}
	n.comparison = &comparison{
		store: n.store, stream: n.bus.AlertReader, report: restoreReport{n.store, n.catalog, n.bus.Streams.Info}, catalog: n.catalog, owner: n.owner, now: n.clock.Now, keep: n.KeepAlerts, announce: n.observer.announce,
		raised: n.observer.Alerted, log: n.part("restore"), status: periodic.NewStatus(n.part("restore"), slog.LevelWarn, "alert stream comparison"),
	}
	n.quotas = &quotas{
		Quotas: n.allowances, store: n.store, alerts: n.bus.AlertsStream, events: n.bus.EventsStream, holds: n.maintains, grants: n.login.grants, now: n.clock.Now,
		every: n.quotasEvery, wake: make(chan struct{}, 1), count: n.metrics.OverQuota, log: n.part("quotas"),
		counts: quotaCounts{Quotas: n.allowances, store: n.store, alerts: n.bus.AlertsStream, now: n.clock.Now, keep: n.KeepAlerts},
	}
	to := n.traces.publisher(n.comparison.publisher(publisher(n.bus.AlertPublisher)))
	n.relay = alerts.NewRelay(outbox(n.store), to, n.owner.Holding, n.part("relay"))
	n.relay.Quotas, n.observer.relay = n.quotas, n.relay
}

// wireInputs creates the components that create and change jobs.
func (n *node) wireInputs() {
	n.intake = events.NewIntake(events.Options{
		Streams: n.bus.Streams, Catalog: n.catalog, Store: jobStoreOf(n.store), Shards: n.owner, Now: n.clock.Now,
		Announce: n.observer.announce, Observer: n.observer, Log: n.part("ingest"), BrokerUptime: brokerUptime(n), Place: n.sync.place,
	})
	n.ticker = scheduler.New(scheduler.Options{
		Catalog: n.catalog, Cursors: jobStoreOf(n.store), Shards: n.owner, Emitter: n.bus.TickPublisher, Now: n.clock.Now,
		Announce: n.observer.announce, Observer: n.observer, Loads: n.sweeper.Loads(), Log: n.part("ticks"), Allow: n.quotas.allow,
	})
	n.stored = &scheduler.Stored{
		Catalog: rules.StoredCatalog{Catalog: n.catalog}, Store: n.store, Emitter: n.bus.SchedulePublisher, Poster: n.notifications, Held: n.owner.HeldShards, Now: n.clock.Now,
		Announce: n.observer.announce, Observer: n.observer, Loads: n.sweeper.Loads(), Log: n.part("schedules"), Allow: n.quotas.allowanceOf,
	}
	n.letters = &events.DeadLetters{DeadLetterStore: n.store, Catalog: n.catalog, Now: n.clock.Now, Observer: n.observer}
	n.rules.Announce, n.rules.Now, n.rules.Webhooks = n.observer.announce, n.clock.Now, n.notifications.webhooks
	n.catalog.Tenant, n.catalog.Now = n.allowances.Tenant, time.Now
	n.handlerDirectory.now = n.clock.Now
	n.jobs = &manualJobs{store: n.store, catalog: n.catalog, quotas: n.allowances, sweeper: n.sweeper, alerted: n.observer.Alerted, now: n.clock.Now}
	n.acks = &acks{store: n.store, jobs: n.jobs, observe: n.observer.observe}
	writer := &pings.LogWriter{Store: n.store, Log: n.part("pings"), Keep: n.allowances.KeepPingBody}
	n.quotas.counts.flush = writer.Write
	n.pings = &pingHandler{
		Resolver: &pings.Resolver{Store: n.store, Catalog: n.catalog, Now: n.clock.Now},
		Receiver: pings.NewReceiver(pings.Receiver{
			Catalog: n.catalog, Effects: jobStoreOf(n.store), Shards: n.store.Shards(), Now: n.clock.Now, Observer: pingObserver{n.jobs}, Log: writer,
		}),
		writer: writer, missed: n.gapDetector.MarkMissed,
	}
}

// wireMonitors creates the components that observe the node, the database and the broker.
func (n *node) wireMonitors(self futurejobs.Node) {
	n.rebinder = newRebinder(n.rules, n.maintains, n.part("rules"))
	n.maintenance = &maintenance{store: n.store, every: n.maintainEvery, letters: int64(n.DeadLetterAlert), tenant: n.allowances.Tenant, crowded: n.allowances.Crowded, rules: n.rules, owner: n.owner, noteAlert: n.observer.observe, count: n.metrics.Capped, now: n.clock.Now, log: n.part("maintenance"), wake: make(chan struct{}, 1), followers: make(chan struct{}, 1), results: make(map[string]*periodic.Status), keep: n.retention()}
	n.maintenance.rescheduler = &rules.Rescheduler{
		Store: n.store, Catalog: n.catalog, Jobs: jobStoreOf(n.store), Log: n.part("calendars"), TenantOf: n.allowances.Tenant, Turn: beginCalendarTurn, Active: func() bool { return n.owner.Holds(maintenanceShard) },
	}
	n.schema = &schemaWatch{store: n.store, owner: n.owner, every: n.Lease / 3, now: n.clock.Now, noteAlert: n.observer.observe, log: n.part("schema")}
	n.overdue = &overdue{store: n.store, catalog: n.catalog, now: n.clock.Now, after: n.overdueAfter}
	n.stallDetector = &stallDetector{
		store: n.store, catalog: n.catalog, readers: n.intake.Status, now: n.clock.Now,
		after: n.overdueAfter + n.Lease/3, announce: n.observer.announce, log: n.part("gaps"),
	}
	n.watch = &clockWatch{clock: n.clock, shifts: n.shifter, shiftedJobs: n.store.Shifted, holds: n.maintains, openAlert: n.store.OpenSystemAlert, closeAlert: n.store.CloseSystemAlert, noteAlert: n.observer.observe, log: n.part("clock")}
	n.alarms = &alarms{overdue: n.overdue, quotas: n.allowances, store: n.store, after: n.stallDetector.after + 2*stallCheckInterval, record: n.observer.observe, log: n.part("alarms")}
	n.heartbeats = newHeartbeats(n.Config, n.bus.Messages, func(to string, send heartbeatSender) *heartbeat {
		return &heartbeat{
			to: to, send: send, every: n.HeartbeatEvery, count: n.metrics.CountHeartbeat,
			node: self, owner: n.owner, sweeper: n.sweeper, store: n.store, overdue: n.overdue, now: n.clock.Now,
			stale: futurejobs.MaxIdle + n.Lease/3 + heartbeatTimeout, status: periodic.NewStatus(n.part("heartbeat").With("to", to), slog.LevelWarn, "heartbeat"),
		}
	})
	n.streamMonitor = &alertsStreamMonitor{store: n.store, bus: n.bus, holds: n.maintains, now: n.clock.Now, noteAlert: n.observer.observe, log: n.part("alerts_stream")}
	n.permissionWarnings = &permissionWarnings{sources: n.sources.set, log: n.part("sources"), reached: make(map[string]*lookup.Source), cautions: make(map[string]string)}
}

// wireAPI creates the components behind the HTTP API.
func (n *node) wireAPI(self futurejobs.Node) {
	n.gate = &accessGate{tokens: n.keeper, insecure: n.Insecure, hasLogin: n.Login != "", publicURL: n.PublicURL, firstToken: n.FirstToken, log: n.part("access")}
	n.sources.changed = func(ctx context.Context) error {
		n.catalog.Stale.Store(true)
		return n.catalog.Refresh(ctx)
	}
	n.files = &reloader{signal: n.Reload, log: n.part("files"), files: []operatorFile{
		{path: n.Config.Hooks, read: n.hooks.read},
		{path: n.Notify, read: n.notifications.reload},
		{path: n.Login, read: n.login.read},
		{path: n.Config.Sources, read: n.sources.read},
		{path: n.Rules, read: n.folder.apply, isFolder: true},
	}}
	n.folder.every, n.folder.now, n.folder.noteAlert = n.Lease/3, n.clock.Now, n.observer.observe
	n.replays = replaytasks.New(replaytasks.Options{Streams: n.bus.Streams, Limits: replaytasks.DefaultLimits, Node: self.Name, Now: n.clock.Now, Log: n.part("replays")})
	n.endpoints = &endpointPublisher{Config: n.Config, server: n.server, open: n.gate.open.Load, log: n.part("http")}
	n.readiness = &readiness{
		store: n.store, bus: n.bus, clock: n.watch, schema: n.schema, owner: n.owner, sweeper: n.sweeper, catalog: n.catalog, intake: n.intake,
		ticker: n.ticker, stored: n.stored, relay: n.relay, overdue: n.overdue, alarms: n.alarms, rebinder: n.rebinder, comparison: n.comparison, sources: n.sources.set, files: n.files, folder: n.folder,
		notifications: n.notifications, heartbeats: n.heartbeats, draining: &n.draining, now: n.clock.Now,
	}
	n.metrics.WatchConditions(n.readiness.conditions)
	*n.gauges = gauges{
		store: n.store, server: n.server, bus: n.bus, owner: n.owner, sweeper: n.sweeper,
		intake: n.intake, overdue: n.overdue, sources: n.sources.set, notifications: n.notifications, now: n.clock.Now,
	}
}

// wireHints connects the components that wake each other.
func (n *node) wireHints() {
	unfit := unfitness{n.schema.Unfit, func() string { return n.sweeper.Unfit(n.Lease) }}
	if n.server == nil { // an embedded broker fails with its node and is not usable by others
		unfit = append(unfit, newBrokerless(n.bus, n.Lease).reason)
	}
	n.owner.Running, n.owner.Unfit = n.sweeper.RunningJSON, unfit.reason
	n.owner.Unreadable = func(ctx context.Context) string {
		return encodeClaims(ctx, n.sweeper.Unreadable(), n.sweeper.PutOff(), n.catalog)
	}
	n.owner.Changed = func() { n.sweeper.Wake(); n.intake.Wake(); n.ticker.Wake(); n.stored.Wake(); n.maintenance.Wake() }
	// A new rule may have a slot before the sweep's next one, and be the first one of a tenant; a deleted rule may leave
	// jobs.
	n.catalog.Changed = func() { n.sweeper.Wake(); n.maintenance.Wake(); n.ticker.Wake(); n.stored.Wake(); n.quotas.Wake() }
	n.sweeper.Observer, n.sweeper.BeforeResume, n.sweeper.BeforeSweep = n.observer, n.stallDetector.Resuming, n.sync.isListening
	n.sweeper.Quotas = n.allowances
	n.sweeper.Stepped = func(ctx context.Context) error { return n.store.PutBack(ctx, 0) }
	n.shifter.OnShifted = n.sweeper.Wake
	n.clock.Changed = func() { n.sweeper.Wake(); n.ticker.Wake(); n.stored.Wake() }
}

// openRules applies the rules of the folder and reads all rules.
func (n *node) openRules(ctx context.Context) error {
	known, err := readCalendars(n.Calendars)
	if err != nil {
		return err
	}
	// Names without a registered handler are served by services on the broker.
	n.handlerDirectory = newHandlerDirectory(n.Handlers, remotehandlers.NewServices(n.bus.Messages, n.Namespace))
	handlers := n.Handlers.With(n.handlerDirectory.services.Named)
	n.catalog = rules.NewCatalog(n.store, n.store.Shards())
	if n.MemoryLimit > 0 {
		n.catalog.LimitCompiled(n.MemoryLimit / 4)
	}
	n.metrics.ForgetDeleted(n.catalog.Exists)
	n.catalog.Calendars, n.catalog.Sources, n.catalog.Handlers = known, lookups(n.sources.set), handlers
	n.allowances = new(access.Quotas)
	n.store.BoundBy(n.allowances)
	n.bus.EventsStream.BoundBy(n.allowances)
	n.store.BoundLetters(n.letterLimits)
	n.rules = &rules.Registry{
		Quotas: n.allowances, KeepMost: rules.KeptMost{History: n.retention().History, Alerts: n.retention().Alerts},
		Store: n.store, Binder: n.bus.Binder, Catalog: n.catalog, Jobs: jobStoreOf(n.store), Sources: lookups(n.sources.set), Handlers: handlers, Log: n.part("rules"),
		As: func(ctx context.Context, bundle, file string) context.Context {
			return access.As(ctx, access.Actor{Name: bundle, Origin: "node " + NodeName() + ", file " + file})
		},
	}
	n.handlerDirectory.rules = n.rules
	n.calendars = &rules.CalendarRegistry{Store: n.store, Catalog: n.catalog}
	n.folder = &ruleFolder{path: n.Rules, registry: n.rules, store: n.store, log: n.part("rules")}
	if err := n.folder.apply(ctx); err != nil {
		return err
	}
	if err := n.catalog.Refresh(ctx); err != nil {
		return fmt.Errorf("read the rules: %w", err)
	}
	return nil
}

// run runs the components. They stop in two phases, so that leases are held while running checks are settled. Any
// other order would break no promise either.
func (n *node) run(ctx context.Context) error {
	listener, err := openHTTP(ctx, n)
	if err != nil {
		return err
	}
	drain, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()

	group, working := errgroup.WithContext(ctx)
	context.AfterFunc(working, func() {
		n.draining.Store(true)
		time.AfterFunc(n.Drain, cut)
	})
	group.Go(func() error { return n.sweeper.Run(working, drain) })
	for _, run := range n.parts() {
		group.Go(func() error { return run(working) })
	}
	group.Go(func() error {
		return web.Serve(working, bounded(listener, n.Config, n.log), n.handler(listener.Addr()), n.Drain)
	})

	holding, letGo := context.WithCancel(context.WithoutCancel(ctx))
	held := make(chan error, 1)
	go func() { held <- n.owner.Run(holding) }()

	group.Go(func() error { return n.endpoints.publish(listener.Addr()) })
	err = group.Wait()
	n.loads.flushLast(drain)
	letGo()
	err = errors.Join(err, <-held, n.endpoints.remove())
	n.log.Info("stopped")
	return err
}

// parts returns the Run methods of the components that stop in the first phase.
func (n *node) parts() []func(context.Context) error {
	service := bus.NewService(n.bus.Messages, NodeName(), n.Version, (&natsAcks{acks: n.acks, now: n.clock.Now, log: n.part("acks")}).answer)
	all := []func(context.Context) error{
		n.gapDetector.Run, n.clock.Run, n.watch.Run, n.shifter.Run, n.intake.Run, n.ticker.Run, n.stored.Run, n.relay.Run, service.Run,
		n.bus.AlertsStream.Maintain, n.streamMonitor.Run, n.permissionWarnings.Run, n.files.Run, n.notifications.Run, n.maintenance.Run, n.maintenance.FollowCalendars, n.stallDetector.Run, n.comparison.Run,
		n.schema.Run, n.folder.Run, n.alarms.Run, n.quotas.Run, n.loads.Run, n.rebinder.Run, n.pings.Run, n.pings.writer.Run, n.replays.Run,
	}
	for _, h := range n.heartbeats {
		all = append(all, h.Run)
	}
	return all
}

// close releases the resources of newNode.
func (n *node) close() error {
	var errs []error
	if n.sources != nil {
		n.sources.set.Close()
	}
	n.login.use(nil)
	n.traces.close()
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
