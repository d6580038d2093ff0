package ha_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	onTime    = 2 * time.Second        // promise P4
	tolerance = 100 * time.Millisecond // of the clocks of NATS and of the database
	repeats   = 5 * time.Second        // in which a repeated alert would come
)

// steps are the steps of the rule, in order, with the time after the order.
var steps = []struct {
	name  string
	after time.Duration
}{{"primary", 3 * time.Second}, {"escalated", 6 * time.Second}}

// order is an order as the stream of events has it.
type order struct{ created, shipped time.Time }

// due returns the slot of a step.
func (o order) due(after time.Duration) time.Time {
	at := o.created.Add(after)
	if slot := at.Truncate(time.Second); !slot.Equal(at) {
		return slot.Add(time.Second)
	}
	return at
}

// alert is an alert of the stream.
type alert struct {
	ID, Rule, Key, Entity, Status, Step, Text string
	SkippedSteps                              []string  `json:"skipped_steps"`
	DecidedAt                                 time.Time `json:"decided_at"`
}

// verdict compares the alerts of a load with its orders.
type verdict struct {
	lossy   bool
	orders  map[string]*order
	alerts  map[string][]alert // firing, of a key and a step
	skipped map[string]alert   // of a later step that was due at the same check, by key and step
	ids     map[string]bool
	own     []alert // about deadman itself
	other   []alert // of jobs that the load did not create

	lost, twice, wrong []string
	late               int
	worst              time.Duration
	resumed            time.Time // the last alert that was decided late
}

// judge reads all alerts of a load, until none is missing or the patience ends, and some time longer for repeated ones.
// lossy means that the database lost commits.
func (l *load) judge(lossy bool) *verdict {
	l.b.Helper()
	v := &verdict{lossy: lossy, orders: map[string]*order{}, alerts: map[string][]alert{}, skipped: map[string]alert{}, ids: map[string]bool{}}
	seen := map[string]bool{}
	within(l.b.T, "the orders are read", func(ctx context.Context) error {
		return l.orders.read(ctx, func(msg *jetstream.RawStreamMsg) error {
			seen[msg.Header.Get("Nats-Msg-Id")] = true
			return v.addEvent(msg, l.name)
		})
	})
	for id := range l.acked {
		if !seen[id] {
			l.b.Errorf("NATS acknowledged %s, and does not have it", id)
		}
	}
	for deadline, complete := time.Now().Add(patience), false; !complete; {
		v.readAlerts(l)
		v.compare()
		complete = len(v.lost) == 0 || time.Now().After(deadline)
		pause(l.b.T, time.Second)
	}
	pause(l.b.T, repeats)
	v.readAlerts(l)
	v.compare()
	return v
}

// addEvent adds an event of a load.
func (v *verdict) addEvent(msg *jetstream.RawStreamMsg, name string) error {
	var body struct{ ID string }
	if err := json.Unmarshal(msg.Data, &body); err != nil || !strings.HasPrefix(body.ID, name+"-") {
		return err
	}
	o := v.orders[body.ID]
	if o == nil {
		o = &order{}
		v.orders[body.ID] = o
	}
	if msg.Subject == "orders.created" {
		o.created = msg.Time
	} else {
		o.shipped = msg.Time
	}
	return nil
}

// readAlerts adds the new alerts.
func (v *verdict) readAlerts(l *load) {
	l.b.Helper()
	within(l.b.T, "the alerts are read", func(ctx context.Context) error {
		return l.alerts.read(ctx, func(msg *jetstream.RawStreamMsg) error {
			var a alert
			if err := json.Unmarshal(msg.Data, &a); err != nil {
				return err
			}
			if v.ids[a.ID] {
				l.b.Errorf("the id %s is in the stream twice", a.ID)
			}
			v.ids[a.ID] = true
			_, ordered := v.orders[a.Key]
			switch {
			case a.Rule == "deadman":
				v.own = append(v.own, a)
			case !ordered:
				v.other = append(v.other, a)
			case a.Status == "firing":
				v.alerts[a.Key+" "+a.Step] = append(v.alerts[a.Key+" "+a.Step], a)
				for _, step := range a.SkippedSteps {
					v.skipped[a.Key+" "+step] = a
				}
			}
			return nil
		})
	})
}

// compare finds lost, repeated, wrong and late alerts.
func (v *verdict) compare() {
	v.lost, v.twice, v.wrong, v.late, v.worst, v.resumed = nil, nil, nil, 0, 0, time.Time{}
	for id, o := range v.orders {
		for _, step := range steps {
			name, due := id+" "+step.name, o.due(step.after)
			all := v.alerts[name]
			// A database that lost the first step may be late for both, and names the step in the alert of the second.
			if a, skipped := v.skipped[name]; skipped && !(v.lossy && len(all) == 1) {
				all = append(slices.Clip(all), a)
			}
			shipped := !o.shipped.IsZero() // the event is sent in time, and may be stored late if NATS is down
			switch {
			case len(all) > 1:
				v.twice = append(v.twice, name)
			case len(all) == 1 && shipped && o.shipped.Before(due.Add(-tolerance)):
				v.wrong = append(v.wrong, name)
			case len(all) == 0 && !shipped: // an order that is shipped between the step and a late check has none
				v.lost = append(v.lost, name)
			}
			for _, a := range all {
				by := a.DecidedAt.Sub(due)
				v.worst = max(v.worst, by)
				if by > onTime {
					v.late++
				}
				if by > onTime && a.DecidedAt.After(v.resumed) {
					v.resumed = a.DecidedAt
				}
			}
		}
	}
}

// conditions returns what deadman raised about itself, once each.
func (v *verdict) conditions() string {
	var all []string
	for _, a := range v.own {
		if text := a.Key + "/" + a.Step; a.Status == "firing" && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

// report fails the test for a lost, repeated or wrong alert, and prints the figures of a fault at a time.
func (v *verdict) report(l *load, fault time.Time) {
	l.b.Helper()
	for what, all := range map[string][]string{"lost": v.lost, "raised twice": v.twice, "raised for a shipped order": v.wrong} {
		if len(all) > 0 {
			l.b.Errorf("%d alerts are %s: %v", len(all), what, all[:min(len(all), 5)])
		}
	}
	for id, o := range v.orders {
		if o.created.IsZero() {
			l.b.Errorf("order %s was shipped, and not created", id)
		}
	}
	resumed := time.Duration(0)
	if v.resumed.After(fault) {
		resumed = v.resumed.Sub(fault)
	}
	fmt.Printf("figure: %-48s %4d orders | no commit for %4.1f s | on time again after %4.1f s | late > 2 s: %4d, worst %4.1f s | lost %d, twice %d, wrong %d | publishers waited up to %4.1f s | raised about itself: %s\n",
		l.name, len(v.orders), l.silent.Seconds(), resumed.Seconds(), v.late, v.worst.Seconds(), len(v.lost), len(v.twice), len(v.wrong), l.slowest.Seconds(), v.conditions())
}
