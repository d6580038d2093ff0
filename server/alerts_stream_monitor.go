package server

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"deadman/alerts"
	"deadman/internal/bus"
)

// lookEvery is how often it is asked whether there is something to say about the stream of
// alerts. It is memory that is asked.
const lookEvery = time.Second

// lookout says what becomes of the streams of alerts and of events, on the node that does the upkeep. It says it
// to people too: what it says waits for room in the stream, and not in what people are told.
type lookout struct {
	*node
	last sight // what was last said, or found to need no word
	fill level // how full the stream of events was said to be last
}

// sight is what the stream of alerts is like, as far as it is a reason to say something.
type sight struct {
	madeAt time.Time
	level  level
}

// level is how full the stream of alerts is.
type level int

const (
	unseen  level = iota // it was not looked at yet
	roomy                // there is room
	filling              // from fillsUp on
	filled               // from full on
)

// Run looks until ctx ends.
func (l *lookout) Run(ctx context.Context) error {
	r := rounds{
		every: lookEvery, atOnce: true, do: l.step, log: l.log, level: slog.LevelError,
		failed: "alerts about the streams of alerts and events cannot be written", works: "alerts about the streams of alerts and events are written again",
	}
	return r.Run(ctx)
}

// step says what is new. What was said stands in the database, so that a node that takes over
// says nothing a second time.
func (l *lookout) step(ctx context.Context) error {
	if !l.owner.Holds(upkeepShard) {
		l.last, l.fill = sight{}, unseen // somebody else may have said more meanwhile
		return nil
	}
	if err := l.stepEvents(ctx); err != nil {
		return err
	}
	now := l.look()
	if now.level == unseen || now == l.last {
		return nil
	}
	if err := l.said(l.store.RemarkChange(ctx, now.madeAt.Format(time.RFC3339Nano), remade(now.madeAt))); err != nil {
		return err
	}
	if err := l.sayLevel(ctx, now.level, l.levels()); err != nil {
		return err
	}
	l.last = now
	return nil
}

// look is what the bus saw. What fills up has room again below roomAgain.
func (l *lookout) look() sight {
	share, err := l.bus.Filled()
	now := sight{madeAt: l.bus.AlertsMadeAt(), level: roomy}
	switch {
	case err != nil || now.madeAt.IsZero():
		return l.last
	case share >= full:
		now.level = filled
	case share >= fillsUp, share >= roomAgain && l.last.level >= filling:
		now.level = filling
	}
	return now
}

// stepEvents says what is new of the stream of events: that it fills up, or does no longer.
func (l *lookout) stepEvents(ctx context.Context) error {
	share, known := l.bus.EventsFilled()
	now := roomy
	if share >= fillsUp || share >= roomAgain && l.fill == filling {
		now = filling
	}
	if !known || now == l.fill {
		return nil
	}
	fills := alerts.Remark{Topic: "stream/" + bus.EventsStream, Step: "filling", Status: alerts.Firing, Severity: alerts.Warning, Since: l.clock.Now()}
	fills.Text = fmt.Sprintf("the stream %s is over %.0f %% full; once it is full, its oldest events go before their time, also those that "+
		"were not read yet: raise its max_bytes, or lower its max_age to what you need", bus.EventsStream, 100*fillsUp)
	if err := l.sayLevel(ctx, now, []stage{{fills, filling, fmt.Sprintf("the stream %s has room again", bus.EventsStream)}}); err != nil {
		return err
	}
	l.fill = now
	return nil
}

// sayLevel has the remark of a level stand, and ends those of higher ones. A stream that is full
// at once is not said to fill up, too; one that filled up before does so still.
func (l *lookout) sayLevel(ctx context.Context, at level, all []stage) error {
	for _, r := range all {
		say := l.store.BeginRemark
		switch {
		case at > r.from:
			continue
		case at < r.from:
			r.Status, r.Text = alerts.Resolved, r.over
			say = l.store.EndRemark
		}
		if err := l.said(say(ctx, r.Remark)); err != nil {
			return err
		}
	}
	return nil
}

// stage is a level and what is said of it.
type stage struct {
	alerts.Remark
	from level
	over string
}

func (l *lookout) levels() []stage {
	about := alerts.Remark{Topic: alertsTopic, Status: alerts.Firing, Since: l.clock.Now()}
	fills, is := about, about
	fills.Step, fills.Severity = "filling", alerts.Warning
	fills.Text = fmt.Sprintf("the stream %s is over %.0f %% full; once it is full, alerts wait in the database: raise its max_bytes, or purge what everybody has read",
		bus.AlertsStream, 100*fillsUp)
	is.Step, is.Severity = "full", alerts.Error
	is.Text = fmt.Sprintf("the stream %s is full; alerts wait in the database until its max_bytes is raised or old alerts go", bus.AlertsStream)
	return []stage{
		{fills, filling, fmt.Sprintf("the stream %s has room again", bus.AlertsStream)},
		{is, filled, fmt.Sprintf("the stream %s takes alerts again", bus.AlertsStream)},
	}
}

// alertsTopic is what remarks about the stream of alerts are about.
const alertsTopic = "stream/" + bus.AlertsStream

// remade is what is said of a stream that is not the one that it was.
func remade(at time.Time) alerts.Remark {
	return alerts.Remark{
		Topic: alertsTopic, Step: "blind", Status: alerts.Firing, Severity: alerts.Error, Since: at,
		Text: fmt.Sprintf("the stream %s was deleted and made again at %s; consumers do not get what was in it: deadman alert republish --since 24h, or as far back as they miss it, publishes it again",
			bus.AlertsStream, at.Format(time.RFC3339)),
	}
}
