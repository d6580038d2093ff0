package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"deadman/internal/bus"
	"deadman/internal/events"
	"deadman/internal/remotehandlers"
	"deadman/internal/store"
	"deadman/rules"
	"deadman/web"
)

// The limits of lag and fill levels for readiness and alerts.
const (
	maxSweepLag   = 10 * time.Second
	fillWarnAt    = 0.8  // of the capacity of the stream of alerts
	fillOKBelow   = 0.75 // below this level, the warning ends
	fillFullAt    = 0.99 // hardly another alert fits
	healthTimeout = 3 * time.Second
)

// conditions returns the conditions for /readyz.
func (n *node) conditions(ctx context.Context) []web.Condition {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	_, databaseErr := n.store.Now(ctx)
	conditions := []web.Condition{
		critical(condition("database", databaseErr, "answers", "the database does not answer; everything waits for it")),
		n.time(),
		critical(condition("schema", n.schema.Err(), "this program works with it", "too new for this program; the node gives its shards back, replace it")),
		condition("nats", n.natsErr(), "connected", "not connected; alerts wait in the database, and events in their streams"),
		condition("leases", n.owner.Err(), fmt.Sprintf("%d of %d shards held", len(n.owner.Holding()), n.owner.Count()),
			"leases cannot be kept; other nodes take over what this one held"),
		condition("intake", n.intakeErr(), fmt.Sprintf("reads every stream that is this node's, by rules at revision %d", n.book.Revision()),
			"a stream or the rules cannot be read; jobs that wait for it are not judged"),
		n.streams(),
		n.ticks(),
		condition("sweep", n.sweepErr(), "this node is behind with nothing", "due jobs of this node are not being checked"),
		n.due(ctx),
		n.readable(ctx),
		n.fit(),
		condition("relay", n.relay.Err(), "nothing held up", "alerts are decided and do not get out; they wait in the database"),
		n.alertsStream(),
		n.compare.condition(),
	}
	conditions = append(conditions, n.sources.condition()...)
	conditions = append(conditions, n.notifyConditions(ctx)...)
	for _, h := range n.beats {
		conditions = append(conditions, h.condition())
	}
	if n.draining.Load() {
		conditions = append(conditions, critical(web.Condition{Name: "serving", Detail: "the node is stopping"}))
	}
	return conditions
}

// condition returns a condition with a fixed text for clients. The error itself may contain hosts and users, and is
// only logged.
func condition(name string, err error, fine, broken string) web.Condition {
	if err != nil {
		return web.Condition{Name: name, Detail: broken, Err: err}
	}
	return web.Condition{Name: name, OK: true, Detail: fine}
}

// critical marks a condition as vital for serving requests.
func critical(c web.Condition) web.Condition {
	c.Vital = true
	return c
}

// time returns the condition of the database's clock.
func (n *node) time() web.Condition {
	err := n.clock.Err()
	c := condition("clock", err, "the database's clock runs evenly", "")
	open := n.shifter.Open()
	switch {
	case err != nil:
		c.Detail = err.Error()
	case len(open) > 0:
		c.OK, c.Detail = false, shifting(open)
	}
	return c
}

// alertsStream returns the condition of the stream of alerts, by its fill level.
func (n *node) alertsStream() web.Condition {
	share, err := n.bus.AlertsStreamUsage()
	c := condition("alerts_stream", err, fmt.Sprintf("%.0f %% full", 100*share), "the stream of alerts cannot be looked at")
	switch {
	case err != nil || share < fillWarnAt:
	case share < fillFullAt:
		c.Detail += "; raise its max_bytes before it is full"
	default:
		c.OK, c.Detail = false, "full; new alerts wait in the database until its max_bytes is raised or old alerts go"
	}
	return c
}

// ticks returns the condition of the scheduler, with the rules that have failing ticks.
func (n *node) ticks() web.Condition {
	c := condition("ticks", n.ticker.Err(), "nothing behind", "ticks of schedules cannot be applied; they are made up for once they can")
	if failing := n.ticker.Failing(); len(failing) > 0 {
		const most = 5
		c.OK = false
		c.Detail = "ticks of rule " + strings.Join(failing[:min(len(failing), most)], ", ")
		if len(failing) > most {
			c.Detail += fmt.Sprintf(" and of %d others", len(failing)-most)
		}
		c.Detail += " cannot be applied; the log says why, and after a minute an alert of rule deadman. They are made up for once they can"
	}
	return c
}

// streams returns the condition of the streams with events of rules, with the missing ones.
func (n *node) streams() web.Condition {
	var gone []string
	for _, s := range n.intake.Status() {
		if errors.Is(s.Err, events.ErrGone) {
			gone = append(gone, s.Stream)
		}
	}
	c := condition("streams", n.binding.Err(), "all subjects are read where they come by",
		"a subject of a rule cannot be read where it comes by; jobs that wait for it are not judged")
	for _, s := range n.intake.Status() {
		if s.Risk != "" {
			c.Detail += fmt.Sprintf("; stream %s %s, and may lose events before they are read", s.Stream, s.Risk)
		}
	}
	if share, _ := n.bus.EventsFilled(); share >= fillWarnAt {
		c.Detail += fmt.Sprintf("; stream %s is %.0f %% full, and then its oldest events go: raise its max_bytes", bus.EventsStream, 100*share)
	}
	if len(gone) > 0 {
		c.OK = false
		c.Detail = fmt.Sprintf("stream %s is not there; jobs that wait for it are not judged until its subjects are read from another", strings.Join(gone, ", "))
	}
	return c
}

// due returns the condition of overdue jobs, in all shards of all nodes. It relies on the database, not on the local
// state of this node.
func (n *node) due(ctx context.Context) web.Condition {
	late, err := n.overdue.look(ctx)
	c := condition("due", err, "no job of any node is overdue", "whether jobs are overdue cannot be looked at")
	if slot := late.oldest(); !slot.IsZero() {
		c.OK = false
		c.Detail = fmt.Sprintf("%s not decided, the oldest for %s, in %s", late.count(), n.clock.Now().Sub(slot).Round(time.Second), numbered(late.shards()))
	}
	return c
}

// readable returns the condition of rule versions with due jobs, with those that a live node cannot read.
func (n *node) readable(ctx context.Context) web.Condition {
	nodes, err := n.alarms.liveNodes(ctx)
	c := condition("rules", err, "each version that due jobs have can be read", "whether nodes can read their rules cannot be looked at")
	if unread := names(unreadableOf(claimsOf(nodes))); len(unread) > 0 {
		const most = 5
		c.OK = false
		c.Detail = strings.Join(unread[:min(len(unread), most)], ", ")
		if len(unread) > most {
			c.Detail += fmt.Sprintf(" and %d more", len(unread)-most)
		}
		c.Detail += " cannot be read; the jobs that have them wait. The log says why, and after a minute an alert of rule deadman"
	}
	return c
}

// fit returns the condition of this node's fitness to hold shards.
func (n *node) fit() web.Condition {
	c := web.Condition{Name: "fit", OK: true, Detail: "this node can hold shards"}
	if reason := n.owner.UnfitFor(); reason != "" {
		c.OK, c.Detail = false, "this node holds no shards while another node is fit: "+reason
	}
	return c
}

// intakeErr returns the errors of the rules and of existing streams.
func (n *node) intakeErr() error {
	all := []error{n.intake.Err()}
	for _, s := range n.intake.Status() {
		if s.Err != nil && !errors.Is(s.Err, events.ErrGone) { // reported by streams
			all = append(all, fmt.Errorf("stream %s: %w", s.Stream, s.Err))
		}
	}
	return errors.Join(all...)
}

// sweepErr returns the error of the sweep, or its lag beyond maxSweepLag.
func (n *node) sweepErr() error {
	if err := n.sweeper.Err(); err != nil {
		return err
	}
	if lag := n.sweeper.OwnLag(); lag > maxSweepLag {
		return fmt.Errorf("the oldest due job is %s behind its slot", lag.Round(time.Second))
	}
	return nil
}

func (n *node) natsErr() error {
	if !n.bus.Connected() {
		return errors.New("not connected")
	}
	return nil
}

// gauges reads the gauges for /metrics.
func (n *node) gauges(ctx context.Context) (web.Gauges, error) {
	rows, err := n.store.Gauges(ctx)
	if err != nil {
		return web.Gauges{}, err
	}
	late, err := n.overdue.look(ctx)
	if err != nil {
		return web.Gauges{}, err
	}
	now := n.clock.Now()
	filled, _ := n.bus.AlertsStreamUsage() // /readyz reports the error
	g := web.Gauges{
		Pending: rows.Pending, Due: rows.Due, Unpublished: rows.Unpublished,
		Overdue: late.jobs(), Unreadable: len(n.sweeper.Unreadable()), Fit: n.owner.UnfitFor() == "",
		ShardsHeld: len(n.owner.Holding()), AlertsFilled: filled, Channels: n.channelGauges(ctx), Sources: n.sources.States(),
		Abandoned: n.sweeper.Abandoned(), Foreign: n.bus.Foreign(),
		IntakeLag: map[string]time.Duration{}, OldestRow: map[string]time.Duration{},
	}
	if n.server != nil {
		logins, permissions := n.server.Refused()
		g.Refused = map[string]uint64{"login": logins, "permission": permissions}
	}
	if !rows.OldestDue.IsZero() {
		g.SweepLag = max(now.Sub(rows.OldestDue), 0)
	}
	for _, stream := range n.intake.Status() {
		if !stream.CaughtUp.IsZero() { // unknown until then
			g.IntakeLag[stream.Stream] = max(now.Sub(stream.CaughtUp), 0)
		}
	}
	for table, at := range map[string]time.Time{
		"history": rows.OldestHistory, "alert": rows.OldestAlert, "dead_letter": rows.OldestDeadLetter,
	} {
		g.OldestRow[table] = 0
		if !at.IsZero() {
			g.OldestRow[table] = max(now.Sub(at), 0)
		}
	}
	return g, nil
}

// errorStatuses maps errors to HTTP statuses.
var errorStatuses = []web.ErrorStatus{
	{Is: bus.ErrSubject, Status: http.StatusUnprocessableEntity},
	{Is: bus.ErrHeader, Status: http.StatusBadRequest},
	{Is: bus.ErrTooLarge, Status: http.StatusRequestEntityTooLarge},
	{Is: bus.ErrNoStream, Status: http.StatusConflict},
	{Is: bus.ErrDenied, Status: http.StatusServiceUnavailable, Remedy: "the broker does not let the node do that; its log names the permission that its NATS user lacks"},
	{Is: bus.ErrUnreachable, Status: http.StatusServiceUnavailable, Remedy: "the broker does not answer; try again, and look at /readyz"},
	{Is: store.ErrUnavailable, Status: http.StatusServiceUnavailable, Remedy: "the database does not answer; try again, and look at /readyz"},
}

// handler returns the node's HTTP handler.
func (n *node) handler(addr net.Addr) http.Handler {
	return web.New(web.Options{
		Lists: n.store, Loads: n.store, Desk: n, Acks: n, Letters: n.letters, Outbox: n.store, Book: n.book, Hooks: n.hookOf, Rules: n.rules, Wire: n.bus, Health: n.conditions, Metrics: n.metrics,
		Memory: n.store, Keeper: n.keeper, Logins: n.logins.Load, Open: n.allowsAnonymous, Proxied: n.Insecure, Mutes: n.store, Pings: n.pings, Quotas: n.quotas, Channels: n.channels(), Streams: n, Sources: n.sources.Set,
		Handlers: n.answers, Pages: n.pages, Schemas: map[string]func() ([]byte, error){"rule": rules.Schema, "handler": remotehandlers.Schema},
		Faults: errorStatuses, LoopbackOnly: isLoopback(addr), PublicURL: n.PublicURL, TrustedProxies: n.TrustedProxies, TokenRate: n.TokenRate, Version: n.Version, Log: n.log, Now: n.clock.Now,
	})
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
