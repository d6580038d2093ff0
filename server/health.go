package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/events"
	"deadman/internal/scheduler"
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

// readiness reports the conditions of the node's components for /readyz.
type readiness struct {
	store         *store.Store
	bus           *bus.Bus
	clock         *clockWatch
	schema        *schemaWatch
	owner         *futurejobs.Owner
	sweeper       *futurejobs.Sweeper
	catalog       *rules.Catalog
	intake        *events.Intake
	ticker        *scheduler.Scheduler
	stored        *scheduler.Stored
	relay         *alerts.Relay
	overdue       *overdue
	alarms        *alarms
	rebinder      *rebinder
	comparison    *comparison
	sources       sourceSet
	files         *reloader
	folder        *ruleFolder
	notifications *notifications
	heartbeats    []*heartbeat
	draining      *atomic.Bool
	now           func() time.Time // the database's time
}

// conditions returns the conditions for /readyz.
func (h *readiness) conditions(ctx context.Context) []web.Condition {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	_, databaseErr := h.store.Now(ctx)
	conditions := []web.Condition{
		critical(condition("database", databaseErr, "connected", "the database does not answer; the node waits for it")),
		h.clock.condition(),
		critical(condition("schema", h.schema.Err(), "supported by this program", "newer than this program supports; the node releases its shards. Upgrade the program")),
		condition("nats", natsErr(h.bus.Conn), "connected", "not connected; alerts wait in the database, events in their streams"),
		condition("leases", h.owner.Err(), fmt.Sprintf("%d of %d shards held", len(h.owner.Holding()), h.owner.Count()),
			"leases cannot be renewed; other nodes take the shards over"),
		condition("ingest", h.intakeErr(), fmt.Sprintf("all streams of this node are read, with rules at revision %d", h.catalog.Revision()),
			"a stream or the rules cannot be read; jobs that depend on it are not checked"),
		h.streams(),
		h.ticks(),
		condition("sweep", h.sweepErr(), "no due job is waiting on this node", "due jobs of this node are not checked"),
		h.due(ctx),
		h.readable(ctx),
		h.fit(),
		condition("relay", h.relay.Err(), "no alerts are waiting", "alerts cannot be published; they wait in the database"),
		h.alertsStream(),
		h.comparison.condition(),
	}
	conditions = append(conditions, h.sources.condition(ctx, h.store.Outages)...)
	conditions = append(conditions, h.notifications.conditions(ctx)...)
	conditions = append(conditions, h.files.conditions()...)
	conditions = append(conditions, h.folder.conditions()...)
	for _, b := range h.heartbeats {
		conditions = append(conditions, b.condition())
	}
	if h.draining.Load() {
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

// alertsStream returns the condition of the stream of alerts, by its fill level.
func (h *readiness) alertsStream() web.Condition {
	share, err := h.bus.AlertsStream.Usage()
	c := condition("alerts_stream", err, fmt.Sprintf("%.0f %% full", 100*share), "the state of the alerts stream is unknown")
	switch {
	case err != nil || share < fillWarnAt:
	case share < fillFullAt:
		c.Detail += "; raise max_bytes before it is full"
	default:
		c.OK, c.Detail = false, "full; new alerts wait in the database. Raise max_bytes, or delete old alerts"
	}
	return c
}

// ticks returns the condition of the scheduler, with the rules that have failing ticks.
func (h *readiness) ticks() web.Condition {
	c := condition("ticks", errors.Join(h.ticker.Err(), h.stored.Err()), "no tick is waiting", "schedule ticks cannot be applied or emitted; they are retried")
	failing := slices.Concat(h.ticker.Failing(), h.stored.Failing())
	if slices.Sort(failing); len(failing) > 0 {
		const limit = 5
		c.OK = false
		c.Detail = "ticks of rule " + strings.Join(failing[:min(len(failing), limit)], ", ")
		if len(failing) > limit {
			c.Detail += fmt.Sprintf(" and of %d others", len(failing)-limit)
		}
		c.Detail += " cannot be applied or emitted and are retried; the log has the error"
	}
	return c
}

// streams returns the condition of the streams with events of rules, with the missing ones.
func (h *readiness) streams() web.Condition {
	var gone []string
	for _, s := range h.intake.Status() {
		if errors.Is(s.Err, events.ErrGone) {
			gone = append(gone, futurejobs.StreamOf(s.Line))
		}
	}
	c := condition("streams", h.rebinder.Err(), "all subscribed subjects are read",
		"a subscribed subject cannot be read; jobs that depend on it are not checked")
	for _, s := range h.intake.Status() {
		if risk := fmt.Sprintf("; stream %s %s, and may lose unread events", futurejobs.StreamOf(s.Line), s.Risk); s.Risk != "" && !strings.Contains(c.Detail, risk) {
			c.Detail += risk
		}
	}
	if share, _ := h.bus.EventsStream.Usage(); share >= fillWarnAt {
		c.Detail += fmt.Sprintf("; stream %s is %.0f %% full; when it is full, its oldest events are deleted. Raise max_bytes", h.bus.EventsStream.Name(), 100*share)
	}
	if len(gone) > 0 {
		c.OK = false
		c.Detail = fmt.Sprintf("stream %s does not exist; jobs that depend on it are not checked until another stream has its subjects", strings.Join(slices.Compact(gone), ", "))
	}
	return c
}

// due returns the condition of overdue jobs, in all shards of all nodes. It relies on the database, not on the local
// state of this node.
func (h *readiness) due(ctx context.Context) web.Condition {
	overdueJobs, err := h.overdue.find(ctx)
	c := condition("due", err, "no overdue jobs on any node", "overdue jobs cannot be counted")
	if slot := overdueJobs.oldest(); !slot.IsZero() {
		c.OK = false
		c.Detail = fmt.Sprintf("%s overdue, the oldest for %s, in %s", overdueJobs.count(), h.now().Sub(slot).Round(time.Second), numbered(overdueJobs.shards()))
	}
	return c
}

// readable returns the condition of rule versions with due jobs, with those that a live node cannot read.
func (h *readiness) readable(ctx context.Context) web.Condition {
	nodes, err := h.alarms.overdue.liveNodes(ctx)
	c := condition("rules", err, "all rules of due jobs can be read", "the state of the nodes cannot be read")
	if unread := names(unreadableOf(claimsOf(nodes))); len(unread) > 0 {
		const limit = 5
		c.OK = false
		c.Detail = strings.Join(unread[:min(len(unread), limit)], ", ")
		if len(unread) > limit {
			c.Detail += fmt.Sprintf(" and %d more", len(unread)-limit)
		}
		c.Detail += " cannot be read by a node; their jobs wait. See the log and the alerts of rule deadman"
	}
	return c
}

// fit returns the condition of this node's fitness to hold shards.
func (h *readiness) fit() web.Condition {
	c := web.Condition{Name: "node", OK: true, Detail: "this node can hold shards"}
	if reason := h.owner.UnfitFor(); reason != "" {
		c.OK, c.Detail = false, "unfit to hold shards; other nodes take them over: "+reason
	}
	return c
}

// intakeErr returns the errors of the rules and of existing streams.
func (h *readiness) intakeErr() error {
	all := []error{h.intake.Err()}
	for _, s := range h.intake.Status() {
		if s.Err != nil && !errors.Is(s.Err, events.ErrGone) { // reported by streams
			all = append(all, fmt.Errorf("stream %s: %w", s.Line, s.Err))
		}
	}
	return errors.Join(all...)
}

// sweepErr returns the error of the sweep, or its lag beyond maxSweepLag.
func (h *readiness) sweepErr() error {
	if err := h.sweeper.Err(); err != nil {
		return err
	}
	if lag := h.sweeper.OwnLag(); lag > maxSweepLag {
		return fmt.Errorf("the oldest due job is %s behind its slot", lag.Round(time.Second))
	}
	return nil
}

func natsErr(c *bus.Conn) error {
	if !c.Connected() {
		return errors.New("not connected")
	}
	return nil
}
