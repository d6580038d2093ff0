package notify

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"deadman/alerts"
)

// overflowTopic is the topic of the message that gathers what is over a route's max_per_hour.
const overflowTopic = "*"

// planner makes one plan.
type planner struct {
	routes  []Route
	mutes   []alerts.Mute
	now     time.Time
	lane    func(l alerts.RouteChannel, most int) ([]alerts.Notification, error)
	lanes   map[alerts.RouteChannel]*queue
	heard   map[alerts.ID][]alerts.PriorDelivery
	made    alerts.Plan
	firedAt map[alerts.ID][]int // where in made.Placed an alert is
}

// queue is a lane as far as it is known, with what the plan adds to it.
type queue struct {
	open    map[string]int // by topic: among the plan's notices, or -1-i for the i-th of known
	known   []alerts.Notification
	planned []time.Time // newest first
}

// newPlan reads what a plan of news needs.
func (n *Notifier) newPlan(ctx context.Context, news []alerts.Alert) (*planner, error) {
	now := n.now()
	p := &planner{
		routes: n.file.Load().routes, now: now, lanes: make(map[alerts.RouteChannel]*queue),
		heard: make(map[alerts.ID][]alerts.PriorDelivery), firedAt: make(map[alerts.ID][]int),
		lane: func(l alerts.RouteChannel, most int) ([]alerts.Notification, error) {
			return n.store.Lane(ctx, l, most)
		},
	}
	var err error
	if p.mutes, err = n.store.LiveMutes(ctx, now); err != nil {
		return nil, err
	}
	heard, err := n.store.PriorDeliveries(ctx, news)
	if err != nil {
		return nil, err
	}
	for _, h := range heard {
		p.heard[h.Alert] = append(p.heard[h.Alert], h)
	}
	return p, nil
}

// plan says who is told what of the news.
//
//  1. What closes something goes where that was told, whatever the routes and mutes say now.
//  2. What is muted is told nobody, and where it would have been told is kept.
//  3. Everything else goes where the routes say, to each channel once.
func (p *planner) plan(news []alerts.Alert) (alerts.Plan, error) {
	slices.SortFunc(news, func(a, b alerts.Alert) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	p.made.News = news
	for _, a := range news {
		tell := p.route
		if a.Status == alerts.Resolved {
			tell = p.routeResolved
		}
		if err := tell(a); err != nil {
			return alerts.Plan{}, err
		}
	}
	return p.made, nil
}

// route tells an alert where the routes say.
func (p *planner) route(a alerts.Alert) error {
	var muted int64
	if i := slices.IndexFunc(p.mutes, func(m alerts.Mute) bool { return m.Match.Matches(a) }); i >= 0 {
		muted = p.mutes[i].ID
	}
	told := make(map[string]bool)
	for _, r := range p.routes {
		if !r.takes(a) {
			continue
		}
		for _, channel := range r.To {
			if told[channel] {
				continue
			}
			told[channel] = true
			if muted != 0 {
				p.made.Placed = append(p.made.Placed, alerts.Assignment{Alert: a, Channel: channel, Notice: -1, Mute: muted})
				continue
			}
			if err := p.assign(a, r, channel, r.topic(a)); err != nil {
				return err
			}
		}
		if !r.Continue {
			break
		}
	}
	return nil
}

// routeResolved tells an alert where those were told that it closes.
func (p *planner) routeResolved(a alerts.Alert) error {
	told := make(map[string]bool)
	for _, id := range a.Closes {
		for _, i := range p.firedAt[id] {
			p.made.Placed[i].Unclosed = false
		}
		for _, h := range p.heard[id] {
			if told[h.Channel] {
				continue
			}
			told[h.Channel] = true
			if err := p.assign(a, p.routeOf(h.Route), h.Channel, h.Topic); err != nil {
				return err
			}
		}
	}
	return nil
}

// routeOf is the route of a name; where it is gone, one with the usual bounds.
func (p *planner) routeOf(name string) Route {
	for _, r := range p.routes {
		if r.Name == name {
			return r
		}
	}
	return Route{Name: name, Wait: defaultWait, PerHour: defaultPerHour}
}

// assign puts an alert into a message.
func (p *planner) assign(a alerts.Alert, r Route, channel, topic string) error {
	l, err := p.laneOf(r, channel)
	if err != nil {
		return err
	}
	i, topic := p.notice(l, r, channel, topic)
	p.made.Notices[i].Alerts++
	fires := a.Status == alerts.Firing
	if fires {
		p.firedAt[a.ID] = append(p.firedAt[a.ID], len(p.made.Placed))
		p.heard[a.ID] = append(p.heard[a.ID], alerts.PriorDelivery{Alert: a.ID, Channel: channel, Route: r.Name, Topic: topic})
	}
	p.made.Placed = append(p.made.Placed, alerts.Assignment{Alert: a, Channel: channel, Notice: i, Unclosed: fires})
	return nil
}

// laneOf reads a lane when it is first needed.
func (p *planner) laneOf(r Route, channel string) (*queue, error) {
	key := alerts.RouteChannel{Channel: channel, Route: r.Name}
	if l, ok := p.lanes[key]; ok {
		return l, nil
	}
	known, err := p.lane(key, r.PerHour)
	if err != nil {
		return nil, fmt.Errorf("messages of %s to %s: %w", r.Name, channel, err)
	}
	l := &queue{open: make(map[string]int), known: known}
	for i, n := range known {
		at := n.PlannedAt
		if n.Tries > 0 && at.After(p.now) { // it was planned before the clock was set back
			at = p.now
		}
		l.planned = append(l.planned, at)
		if n.Tries == 0 {
			l.open[n.Topic] = -1 - i
		}
	}
	p.lanes[key] = l
	return l, nil
}

// gatheredPart is the part of max_per_hour that is kept for messages that gather: one in so many.
const gatheredPart = 5

// notice returns which of the plan's messages is for a topic: one that is open, or a new one.
//
//  1. A fifth of max_per_hour is for messages that gather. Where there were the others within an hour already, it is
//     the one that gathers the rest.
//  2. That one comes some minutes after the message before it, so that one rule cannot use up the
//     messages about the other rules. There are no more than max_per_hour in any hour.
//
// What is returned beside it is its topic.
func (p *planner) notice(l *queue, r Route, channel, topic string) (int, string) {
	if i, ok := p.join(l, topic); ok {
		return i, topic
	}
	at := p.now.Add(r.Wait)
	gathered := r.PerHour / gatheredPart
	if l.freeAt(r.PerHour - gathered).After(at) {
		topic = overflowTopic
		if i, ok := p.join(l, overflowTopic); ok {
			return i, overflowTopic
		}
		free := []time.Time{at, l.freeAt(r.PerHour)}
		if gathered > 0 {
			free = append(free, l.planned[0].Add(time.Hour/time.Duration(gathered+1)))
		}
		at = slices.MaxFunc(free, time.Time.Compare)
	}
	l.open[topic] = len(p.made.Notices)
	l.planned = append(l.planned, at)
	slices.SortFunc(l.planned, func(a, b time.Time) int { return b.Compare(a) })
	p.made.Notices = append(p.made.Notices, alerts.Notification{Channel: channel, Route: r.Name, Topic: topic, PlannedAt: at})
	return l.open[topic], topic
}

// freeAt is when there were fewer than so many messages within an hour; zero: there are fewer.
func (l *queue) freeAt(most int) time.Time {
	if len(l.planned) < most {
		return time.Time{}
	}
	return l.planned[most-1].Add(time.Hour)
}

// join returns the open message of a topic, as one of the plan's.
func (p *planner) join(l *queue, topic string) (int, bool) {
	i, ok := l.open[topic]
	if ok && i < 0 {
		gains := l.known[-1-i]
		gains.Alerts = 0
		i = len(p.made.Notices)
		l.open[topic] = i
		p.made.Notices = append(p.made.Notices, gains)
	}
	return i, ok
}
