package server

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"deadman/alerts"
	"deadman/internal/bus"
	"deadman/internal/periodic"
	"deadman/internal/store"
)

// monitorInterval is the interval of the checks of the streams. They read memory only.
const monitorInterval = time.Second

// alertsStreamMonitor raises alerts about the state of the streams of alerts and events, on the maintenance node.
// Notifications carry these alerts too, as they work even while the stream is full.
type alertsStreamMonitor struct {
	store     *store.Store
	bus       *bus.Bus
	holds     func() bool      // this node does the maintenance
	now       func() time.Time // the database's time
	noteAlert func(alerts.Alert, bool, error) error
	log       *slog.Logger

	last alertsStreamState // the state that was last reported, or needed no report
	fill fillLevel         // the last reported fill level of the stream of events
}

// alertsStreamState is the part of the alerts stream's state that can raise an alert.
type alertsStreamState struct {
	madeAt time.Time
	level  fillLevel
}

// fillLevel is the fill level of a stream.
type fillLevel int

const (
	fillUnknown fillLevel = iota // not checked yet
	fillOK                       // below the warning level
	fillWarning                  // from fillWarnAt on
	fillFull                     // from fillFullAt on
)

// Run runs steps until ctx ends.
func (l *alertsStreamMonitor) Run(ctx context.Context) error {
	return periodic.Run(ctx, monitorInterval, l.log, "stream monitor", l.step)
}

// step reports changes. The database holds the open alerts, so a node that takes over raises none twice.
func (l *alertsStreamMonitor) step(ctx context.Context) error {
	if !l.holds() {
		l.last, l.fill = alertsStreamState{}, fillUnknown // another node may have raised alerts meanwhile
		return nil
	}
	if err := l.stepEvents(ctx); err != nil {
		return err
	}
	now := l.read()
	if now.level == fillUnknown || now == l.last {
		return nil
	}
	if err := l.noteAlert(l.store.AlertOnChange(ctx, now.madeAt.Format(time.RFC3339Nano), l.recreated(now.madeAt))); err != nil {
		return err
	}
	if err := l.reportFill(ctx, now.level, l.fillAlerts()); err != nil {
		return err
	}
	l.last = now
	return nil
}

// read returns the state known to the bus. The warning ends below fillOKBelow.
func (l *alertsStreamMonitor) read() alertsStreamState {
	share, err := l.bus.AlertsStream.Usage()
	now := alertsStreamState{madeAt: l.bus.AlertsStream.CreatedAt(), level: fillOK}
	switch {
	case err != nil || now.madeAt.IsZero():
		return l.last
	case share >= fillFullAt:
		now.level = fillFull
	case share >= fillWarnAt, share >= fillOKBelow && l.last.level >= fillWarning:
		now.level = fillWarning
	}
	return now
}

// stepEvents reports that the stream of events fills up, or that it no longer does.
func (l *alertsStreamMonitor) stepEvents(ctx context.Context) error {
	share, known := l.bus.EventsStream.Usage()
	now := fillOK
	if share >= fillWarnAt || share >= fillOKBelow && l.fill == fillWarning {
		now = fillWarning
	}
	if !known || now == l.fill {
		return nil
	}
	fills := alerts.SystemAlert{Topic: "stream/" + bus.EventsStream, Step: "filling", Status: alerts.Firing, Severity: alerts.Warning, Since: l.now()}
	fills.Text = fmt.Sprintf("the stream %s is over %.0f %% full; once it is full, its oldest events go before their time, also those that "+
		"were not read yet: raise its max_bytes, or lower its max_age to what you need", l.bus.EventsStream.Name(), 100*fillWarnAt)
	if err := l.reportFill(ctx, now, []fillAlert{{fills, fillWarning, fmt.Sprintf("the stream %s has room again", l.bus.EventsStream.Name())}}); err != nil {
		return err
	}
	l.fill = now
	return nil
}

// reportFill opens the alert of the level and closes those of higher levels. The open alert of a lower level stays
// open, so a stream that filled up gradually has both.
func (l *alertsStreamMonitor) reportFill(ctx context.Context, at fillLevel, all []fillAlert) error {
	for _, r := range all {
		switch {
		case at > r.from:
			continue
		case at < r.from:
			r.Status, r.Text = alerts.Resolved, r.over
		}
		if err := l.noteAlert(l.store.ReportState(ctx, r.SystemAlert)); err != nil {
			return err
		}
	}
	return nil
}

// fillAlert is the alert of a fill level, with the text of its resolution.
type fillAlert struct {
	alerts.SystemAlert
	from fillLevel
	over string
}

func (l *alertsStreamMonitor) fillAlerts() []fillAlert {
	about := alerts.SystemAlert{Topic: bus.AlertsTopic, Status: alerts.Firing, Since: l.now()}
	fills, is := about, about
	fills.Step, fills.Severity = "filling", alerts.Warning
	fills.Text = fmt.Sprintf("the stream %s is over %.0f %% full; once it is full, alerts wait in the database: raise its max_bytes, or purge the alerts that all consumers have read",
		l.bus.AlertsStream.Name(), 100*fillWarnAt)
	is.Step, is.Severity = "full", alerts.Error
	is.Text = fmt.Sprintf("the stream %s is full; alerts wait in the database until its max_bytes is raised or old alerts go", l.bus.AlertsStream.Name())
	return []fillAlert{
		{fills, fillWarning, fmt.Sprintf("the stream %s has room again", l.bus.AlertsStream.Name())},
		{is, fillFull, fmt.Sprintf("the stream %s takes alerts again", l.bus.AlertsStream.Name())},
	}
}

// recreated returns the alert for a stream that was deleted and recreated.
func (l *alertsStreamMonitor) recreated(at time.Time) alerts.SystemAlert {
	return alerts.SystemAlert{
		Topic: bus.AlertsTopic, Step: "recreated", Status: alerts.Firing, Severity: alerts.Error, Since: at, UntilClosed: true,
		Text: fmt.Sprintf("the stream %s was deleted and made again at %s; consumers do not get what was in it: deadman alert republish --since 24h, or as far back as they miss it, publishes it again",
			l.bus.AlertsStream.Name(), at.Format(time.RFC3339)),
	}
}
