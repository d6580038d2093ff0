package notify

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"deadman/alerts"
)

// overflowTopic is the topic of the message that collects alerts beyond a route's max_per_hour.
const overflowTopic = "*"

// planner makes one plan.
type planner struct {
	routes  []Route
	groups  func(channel string) bool // reports whether a channel groups and limits alerts itself
	mutes   []alerts.Mute
	now     time.Time
	lane    func(l alerts.RouteChannel, limit int) ([]alerts.Notification, error)
	queues  map[alerts.RouteChannel]*queue
	prior   map[alerts.ID][]alerts.PriorDelivery
	made    alerts.Plan
	firedAt map[alerts.ID][]int // indexes of an alert in made.Assignments
}

// queue holds the known messages of a lane, and the plan's additions.
type queue struct {
	open    map[string]int // by topic: index in the plan's notifications, or -1-i for the i-th known message
	known   []alerts.Notification
	planned []time.Time // newest first
}

// plan assigns new alerts to messages.
//
//  1. A resolution follows the alerts that it closes, regardless of the current routes and mutes.
//  2. A muted alert is not sent, but its channels are recorded.
//  3. All others follow the routes, to each channel once.
func (p *planner) plan(unrouted []alerts.Alert) (alerts.Plan, error) {
	slices.SortFunc(unrouted, func(a, b alerts.Alert) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	p.made.Alerts = unrouted
	for _, a := range unrouted {
		route := p.route
		if a.Status == alerts.Resolved {
			route = p.routeResolved
		}
		if err := route(a); err != nil {
			return alerts.Plan{}, err
		}
	}
	return p.made, nil
}

// route assigns an alert by the routes.
func (p *planner) route(a alerts.Alert) error {
	var muted int64
	if i := slices.IndexFunc(p.mutes, func(m alerts.Mute) bool { return m.Match.Matches(a) }); i >= 0 {
		muted = p.mutes[i].ID
	}
	assigned := make(map[string]bool)
	for _, r := range p.routes {
		if !r.takes(a) {
			continue
		}
		for _, channel := range r.To {
			if assigned[channel] {
				continue
			}
			assigned[channel] = true
			if muted != 0 {
				p.made.Assignments = append(p.made.Assignments, alerts.Assignment{Alert: a, Channel: channel, Notification: -1, Mute: muted})
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

// routeResolved assigns a resolution to the channels that received the alerts it closes.
func (p *planner) routeResolved(a alerts.Alert) error {
	assigned := make(map[string]bool)
	for _, id := range a.Closes {
		for _, i := range p.firedAt[id] {
			p.made.Assignments[i].Unclosed = false
		}
		for _, h := range p.prior[id] {
			if assigned[h.Channel] {
				continue
			}
			assigned[h.Channel] = true
			if err := p.assign(a, p.routeOf(h.Route), h.Channel, h.Topic); err != nil {
				return err
			}
		}
	}
	return nil
}

// planAcks assigns acknowledgements to the channels that received an alert of the job and accept acknowledgements. An
// ended job has no such channel.
func (p *planner) planAcks(acks []alerts.JobAck, prior map[int64][]alerts.PriorDelivery, receivesAcks func(channel string) bool) (alerts.Plan, error) {
	p.made.Acks = acks
	for _, k := range acks {
		for _, d := range prior[k.JobID] {
			if !receivesAcks(d.Channel) {
				continue
			}
			r := p.routeOf(d.Route)
			l, err := p.laneOf(r, d.Channel)
			if err != nil {
				return alerts.Plan{}, err
			}
			i, _ := p.notice(l, r, d.Channel, d.Topic)
			p.made.AckAssignments = append(p.made.AckAssignments, alerts.AckAssignment{Ack: k, Notification: i})
		}
	}
	return p.made, nil
}

// routeOf returns the route with the name, or one with default limits if it no longer exists.
func (p *planner) routeOf(name string) Route {
	for _, r := range p.routes {
		if r.Name == name {
			return r
		}
	}
	return Route{Name: name, Wait: defaultWait, PerHour: defaultPerHour}
}

// assign adds an alert to a message. A channel that groups alerts itself has one open message of a route at a time: an alert joins
// it, or follows at once.
func (p *planner) assign(a alerts.Alert, r Route, channel, topic string) error {
	if p.groups(channel) {
		r.Wait, r.PerHour, topic = 0, unlimited, ""
	}
	l, err := p.laneOf(r, channel)
	if err != nil {
		return err
	}
	i, topic := p.notice(l, r, channel, topic)
	p.made.Notifications[i].Alerts++
	fires := a.Status == alerts.Firing
	if fires {
		p.firedAt[a.ID] = append(p.firedAt[a.ID], len(p.made.Assignments))
		p.prior[a.ID] = append(p.prior[a.ID], alerts.PriorDelivery{Alert: a.ID, Channel: channel, Route: r.Name, Topic: topic})
	}
	p.made.Assignments = append(p.made.Assignments, alerts.Assignment{Alert: a, Channel: channel, Notification: i, Unclosed: fires})
	return nil
}

// laneOf loads a lane on first use.
func (p *planner) laneOf(r Route, channel string) (*queue, error) {
	key := alerts.RouteChannel{Channel: channel, Route: r.Name}
	if l, ok := p.queues[key]; ok {
		return l, nil
	}
	known, err := p.lane(key, max(r.PerHour, 1))
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
	p.queues[key] = l
	return l, nil
}

// unlimited is the PerHour of a route to a channel that limits alerts itself.
const unlimited = 0

// gatheredPart is the reserved share of max_per_hour for collecting messages: one in gatheredPart.
const gatheredPart = 5

// notice returns the index of the plan's message for a topic, and the topic of that message. The message is open or
// new.
//
//  1. A fifth of max_per_hour is reserved for messages that collect alerts of several topics. If the other
//     messages of the hour are used up, the alert joins the collecting message.
//  2. The collecting message follows minutes after the previous message, so that one rule can't use up the
//     messages of other rules. No hour has more than max_per_hour messages.
func (p *planner) notice(l *queue, r Route, channel, topic string) (int, string) {
	if i, ok := p.join(l, topic); ok {
		return i, topic
	}
	at := p.now.Add(r.Wait)
	gathered := r.PerHour / gatheredPart
	if r.PerHour != unlimited && l.freeAt(r.PerHour-gathered).After(at) {
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
	l.open[topic] = len(p.made.Notifications)
	l.planned = append(l.planned, at)
	slices.SortFunc(l.planned, func(a, b time.Time) int { return b.Compare(a) })
	p.made.Notifications = append(p.made.Notifications, alerts.Notification{Channel: channel, Route: r.Name, Topic: topic, PlannedAt: at})
	return l.open[topic], topic
}

// freeAt returns the time at which fewer than the given number of messages fall within an hour; zero: already.
func (l *queue) freeAt(limit int) time.Time {
	if len(l.planned) < limit {
		return time.Time{}
	}
	return l.planned[limit-1].Add(time.Hour)
}

// join returns the index of a topic's open message in the plan.
func (p *planner) join(l *queue, topic string) (int, bool) {
	i, ok := l.open[topic]
	if ok && i < 0 {
		gains := l.known[-1-i]
		gains.Alerts = 0
		i = len(p.made.Notifications)
		l.open[topic] = i
		p.made.Notifications = append(p.made.Notifications, gains)
	}
	return i, ok
}
