package server

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"deadman/alerts"
	"deadman/internal/bus"
)

// monitorInterval is how often it is asked whether there is something to say about the stream of
// alerts. It is memory that is asked.
const monitorInterval = time.Second

// alertsStreamMonitor says what becomes of the streams of alerts and of events, on the node that does the upkeep. It says it
// to people too: what it says waits for room in the stream, and not in what people are told.
type alertsStreamMonitor struct {
	*node
	last alertsStreamState // what was last said, or found to need no word
	fill fillLevel         // how full the stream of events was said to be last
}

// alertsStreamState is what the stream of alerts is like, as far as it is a reason to say something.
type alertsStreamState struct {
	madeAt time.Time
	level  fillLevel
}

// fillLevel is how full the stream of alerts is.
type fillLevel int

const (
	fillUnknown fillLevel = iota // it was not looked at yet
	fillOK                       // there is room
	fillWarning                  // from fillsUp on
	fillFull                     // from full on
)

// Run looks until ctx ends.
func (l *alertsStreamMonitor) Run(ctx context.Context) error {
	r := rounds{
		every: monitorInterval, atOnce: true, do: l.step, log: l.log, level: slog.LevelError,
		failed: "alerts about the streams of alerts and events cannot be written", works: "alerts about the streams of alerts and events are written again",
	}
	return r.Run(ctx)
}

// step says what is new. What was said stands in the database, so that a node that takes over
// says nothing a second time.
func (l *alertsStreamMonitor) step(ctx context.Context) error {
	if !l.owner.Holds(maintenanceShard) {
		l.last, l.fill = alertsStreamState{}, fillUnknown // somebody else may have said more meanwhile
		return nil
	}
	if err := l.stepEvents(ctx); err != nil {
		return err
	}
	now := l.read()
	if now.level == fillUnknown || now == l.last {
		return nil
	}
	if err := l.observeAlert(l.store.AlertOnChange(ctx, now.madeAt.Format(time.RFC3339Nano), streamRecreated(now.madeAt))); err != nil {
		return err
	}
	if err := l.reportFill(ctx, now.level, l.fillAlerts()); err != nil {
		return err
	}
	l.last = now
	return nil
}

// read is what the bus saw. What fills up has room again below roomAgain.
func (l *alertsStreamMonitor) read() alertsStreamState {
	share, err := l.bus.AlertsStreamUsage()
	now := alertsStreamState{madeAt: l.bus.AlertsStreamCreatedAt(), level: fillOK}
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

// stepEvents says what is new of the stream of events: that it fills up, or does no longer.
func (l *alertsStreamMonitor) stepEvents(ctx context.Context) error {
	share, known := l.bus.EventsFilled()
	now := fillOK
	if share >= fillWarnAt || share >= fillOKBelow && l.fill == fillWarning {
		now = fillWarning
	}
	if !known || now == l.fill {
		return nil
	}
	fills := alerts.SystemAlert{Topic: "stream/" + bus.EventsStream, Step: "filling", Status: alerts.Firing, Severity: alerts.Warning, Since: l.clock.Now()}
	fills.Text = fmt.Sprintf("the stream %s is over %.0f %% full; once it is full, its oldest events go before their time, also those that "+
		"were not read yet: raise its max_bytes, or lower its max_age to what you need", bus.EventsStream, 100*fillWarnAt)
	if err := l.reportFill(ctx, now, []fillAlert{{fills, fillWarning, fmt.Sprintf("the stream %s has room again", bus.EventsStream)}}); err != nil {
		return err
	}
	l.fill = now
	return nil
}

// reportFill has the remark of a level stand, and ends those of higher ones. A stream that is full
// at once is not said to fill up, too; one that filled up before does so still.
func (l *alertsStreamMonitor) reportFill(ctx context.Context, at fillLevel, all []fillAlert) error {
	for _, r := range all {
		say := l.store.OpenSystemAlert
		switch {
		case at > r.from:
			continue
		case at < r.from:
			r.Status, r.Text = alerts.Resolved, r.over
			say = l.store.CloseSystemAlert
		}
		if err := l.observeAlert(say(ctx, r.SystemAlert)); err != nil {
			return err
		}
	}
	return nil
}

// fillAlert is a level and what is said of it.
type fillAlert struct {
	alerts.SystemAlert
	from fillLevel
	over string
}

func (l *alertsStreamMonitor) fillAlerts() []fillAlert {
	about := alerts.SystemAlert{Topic: alertsTopic, Status: alerts.Firing, Since: l.clock.Now()}
	fills, is := about, about
	fills.Step, fills.Severity = "filling", alerts.Warning
	fills.Text = fmt.Sprintf("the stream %s is over %.0f %% full; once it is full, alerts wait in the database: raise its max_bytes, or purge what everybody has read",
		bus.AlertsStream, 100*fillWarnAt)
	is.Step, is.Severity = "full", alerts.Error
	is.Text = fmt.Sprintf("the stream %s is full; alerts wait in the database until its max_bytes is raised or old alerts go", bus.AlertsStream)
	return []fillAlert{
		{fills, fillWarning, fmt.Sprintf("the stream %s has room again", bus.AlertsStream)},
		{is, fillFull, fmt.Sprintf("the stream %s takes alerts again", bus.AlertsStream)},
	}
}

// alertsTopic is what remarks about the stream of alerts are about.
const alertsTopic = "stream/" + bus.AlertsStream

// streamRecreated is what is said of a stream that is not the one that it was.
func streamRecreated(at time.Time) alerts.SystemAlert {
	return alerts.SystemAlert{
		Topic: alertsTopic, Step: "blind", Status: alerts.Firing, Severity: alerts.Error, Since: at,
		Text: fmt.Sprintf("the stream %s was deleted and made again at %s; consumers do not get what was in it: deadman alert republish --since 24h, or as far back as they miss it, publishes it again",
			bus.AlertsStream, at.Format(time.RFC3339)),
	}
}
