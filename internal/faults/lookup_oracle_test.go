package faults

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Lookup describes a rule of the campaign that queries a source, in lookups/orders.yaml. Its steps are first and
// second.
type Lookup struct {
	Rule     string
	Source   string
	Attempts int  // undetermined checks before an alert
	Ends     bool // a job ends after that many attempts
}

// Lookups are those rules.
var Lookups = []Lookup{
	{"status-in-shop", "shop", 2, false},
	{"cart-in-shop", "shop", 1, true},
	{"status-in-bank", "bank", 1, false},
	{"cart-in-bank", "bank", 2, true},
}

// ShipmentTime is the time of an order's shipment in the sources, between two instants. Zero: never shipped.
type ShipmentTime struct{ From, Until time.Time }

func (s ShipmentTime) String() string {
	if s.From.IsZero() {
		return "it was never shipped"
	}
	return fmt.Sprintf("it was shipped between %s and %s", s.From.UTC().Format(clock), s.Until.UTC().Format(clock))
}

const clock = "15:04:05.000"

// maybeShipped reports whether the order may have been shipped by an instant.
func (s ShipmentTime) maybeShipped(at time.Time) bool { return !s.From.IsZero() && !at.Before(s.From) }

// surelyShipped reports whether the order was shipped before an instant.
func (s ShipmentTime) surelyShipped(before time.Time) bool {
	return !s.From.IsZero() && s.Until.Before(before)
}

// lookupOracle has the data that CheckLookups compares.
type lookupOracle struct {
	shipped   map[string]ShipmentTime
	crashes   bool
	ends      map[string][]ending         // by rule and key
	pending   map[string]bool             // by rule and key
	published map[string][]PublishedAlert // by rule and key
	unknown   map[string][]Unknown        // by rule
	outages   map[string][]outage         // by rule
	breaches  []string
}

type ending struct {
	outcome string
	at      time.Time
}

// outage is an outage in the database.
type outage struct {
	source           string
	opened, closed   time.Time
	isOpen           bool
	jobs             int
	begunBy, endedBy []PublishedAlert
}

func (t *lookupOracle) breach(format string, args ...any) {
	t.breaches = append(t.breaches, fmt.Sprintf(format, args...))
}

// CheckLookups checks P9 on a system at rest, and P1 of its jobs: decisions about the created orders match the sources,
// and undetermined checks are alerted. crashes means that nodes were killed.
func (c *Checker) CheckLookups(ctx context.Context, created []string, shipped map[string]ShipmentTime, crashes bool) error {
	t := &lookupOracle{shipped: shipped, crashes: crashes}
	if err := c.readResults(ctx, t); err != nil {
		return err
	}
	for _, l := range Lookups {
		for _, key := range created {
			t.job(l, key)
		}
		t.outagesOf(l)
		t.unknownOf(l)
	}
	if known := len(created) * len(Lookups); len(t.ends)+len(t.pending) > known {
		t.breach("P1: jobs exist for %d orders and rules, and the events require %d", len(t.ends)+len(t.pending), known)
	}
	return join(t.breaches)
}

// job checks how the job of one order ended.
func (t *lookupOracle) job(l Lookup, key string) {
	name := l.Rule + "/" + key
	ends, shipment := t.ends[name], t.shipped[key]
	switch {
	case t.pending[name]:
		t.breach("P12: %s is pending", name)
		return
	case len(ends) != 1:
		t.breach("P1: of %s there are %d jobs", name, len(ends))
		return
	}
	var words, closed []string
	for _, s := range t.published[name] {
		switch s.Status {
		case "firing":
			words = append(words, append(slices.Clone(s.SkippedSteps), s.Step)...)
			if shipment.surelyShipped(s.Slot) {
				t.breach("P9: a false alarm: %s, step %s of slot %s, and %s", name, s.Step, s.Slot.Format(clock), shipment)
			}
		case "resolved", "gave_up":
			closed = append(closed, s.Status)
		}
	}
	steps, last := strings.Join(words, " "), strings.Join(closed, " ")
	end := ends[0]
	switch end.outcome {
	case "cleared":
		if !shipment.maybeShipped(end.at) {
			t.breach("P9: %s was cleared at %s, and %s", name, end.at.UTC().Format(clock), shipment)
		}
		if want := map[bool]string{true: "resolved"}[len(t.published[name]) > len(closed)]; last != want || steps != "" && steps != "first" {
			t.breach("P6: %s was cleared, and the alerts are %q and %q", name, steps, last)
		}
	case "exhausted":
		if steps != "first second" || last != "" {
			t.breach("P6: %s was escalated to its end, and the alerts are %q and %q", name, steps, last)
		}
	case "undetermined":
		if !l.Ends {
			t.breach("P9: %s ended, although its rule continues", name)
		}
		if last != "gave_up" && !t.isOutageReported(l, end.at) {
			t.breach("P9: %s ended undetermined at %s without an alert", name, end.at.UTC().Format(clock))
		}
	default:
		t.breach("P9: %s ended as %s", name, end.outcome)
	}
}

// slack is the maximum time between a job's outage and its settlement.
const slack = 5 * time.Second

// isOutageReported reports whether an outage of the rule covers a settlement at an instant.
func (t *lookupOracle) isOutageReported(l Lookup, at time.Time) bool {
	return slices.ContainsFunc(t.outages[l.Rule], func(o outage) bool {
		return !o.opened.After(at) && (o.isOpen || o.closed.After(at.Add(-slack)))
	})
}

// outagesOf checks that each outage of a rule has one alert at its beginning and one at its end, that at most one is
// open at a time, and that none is left open.
func (t *lookupOracle) outagesOf(l Lookup) {
	all := t.outages[l.Rule]
	for i, o := range all {
		at := fmt.Sprintf("the outage of %s for %s, opened at %s", o.source, l.Rule, o.opened.UTC().Format(clock))
		if o.source != l.Source {
			t.breach("P9: %s: the rule queries %s", at, l.Source)
		}
		if i > 0 && all[i-1].closed.After(o.opened) {
			t.breach("P9: %s: the one before it is open", at)
		}
		if len(o.begunBy) != 1 {
			t.breach("P9: %s, was alerted %d times", at, len(o.begunBy))
		} else if n := o.begunBy[0].Count; n < 1 || n > len(t.ends)/len(Lookups) {
			t.breach("P9: %s, was alerted for %d jobs", at, n)
		}
		switch {
		case o.isOpen:
			t.breach("P12: %s, is open", at)
		case len(o.endedBy) != 1:
			t.breach("P9: %s, has %d alerts of its end", at, len(o.endedBy))
		case o.endedBy[0].Count != o.jobs:
			t.breach("P9: %s, affected %d jobs, and its last alert counts %d", at, o.jobs, o.endedBy[0].Count)
		}
	}
	for _, s := range t.published[l.Rule+"/"] {
		t.breach("P9: alert %s (%s) of %s belongs to no outage", s.ID, s.Status, l.Rule)
	}
}

// unknownOf checks that jobs undetermined for too long were alerted, and that outages count the jobs they cover.
func (t *lookupOracle) unknownOf(l Lookup) {
	var met, counted int
	before := map[string]time.Time{} // time of the key's last undetermined check: an earlier alert belongs to an earlier one
	for _, u := range slices.SortedFunc(slices.Values(t.unknown[l.Rule]), func(a, b Unknown) int { return a.At.Compare(b.At) }) {
		if u.Attempts != l.Attempts {
			continue
		}
		after := u.At.Add(-slack)
		if last := before[u.Key]; last.After(after) {
			after = last
		}
		before[u.Key] = u.At
		own := slices.ContainsFunc(t.published[l.Rule+"/"+u.Key], func(s PublishedAlert) bool {
			return (s.Status == "undetermined" || s.Status == "gave_up") && !s.DecidedAt.After(u.At) && s.DecidedAt.After(after)
		})
		switch {
		case own:
		case t.isOutageReported(l, u.At):
			met++
		default:
			t.breach("P9: %s/%s was undetermined at %s, %d times in a row, without an alert", l.Rule, u.Key, u.At.UTC().Format(clock), u.Attempts)
		}
	}
	for _, o := range t.outages[l.Rule] {
		counted += o.jobs
	}
	// A node that dies between the outage and the settlement leaves jobs that are counted again.
	if counted < met || counted > met && !t.crashes {
		t.breach("P9: outages of %s count %d jobs, and %d were affected", l.Rule, counted, met)
	}
}

// readResults reads the data from the database and the stream.
func (c *Checker) readResults(ctx context.Context, t *lookupOracle) error {
	var err error
	if t.unknown, err = c.Unknown(ctx); err != nil {
		return err
	}
	if t.ends, t.pending, err = c.endings(ctx); err != nil {
		return err
	}
	if t.outages, err = c.outages(ctx); err != nil {
		return err
	}
	published, err := c.Stream(ctx)
	if err != nil {
		return err
	}
	t.published = map[string][]PublishedAlert{}
	for _, s := range published {
		if s.Source == "" || !t.isOf(s) {
			name := s.Rule + "/"
			if s.Source == "" {
				name += s.Key
			}
			t.published[name] = append(t.published[name], s)
		}
	}
	return nil
}

// isOf adds an alert about a source to its outage.
func (t *lookupOracle) isOf(s PublishedAlert) bool {
	all := t.outages[s.Rule]
	for i, o := range all {
		since, err := time.Parse(time.RFC3339Nano, s.Since)
		if err != nil || s.Source != o.source || !since.Equal(o.opened) {
			continue
		}
		if s.Status == "undetermined" {
			all[i].begunBy = append(all[i].begunBy, s)
			return true
		}
		closes := slices.Equal(s.Closes, slices.Collect(func(yield func(string) bool) {
			for _, begun := range o.begunBy {
				if !yield(begun.ID) {
					return
				}
			}
		}))
		if s.Status == "resolved" && closes {
			all[i].endedBy = append(all[i].endedBy, s)
			return true
		}
	}
	return false
}

// endings reads the outcomes of ended jobs, and the pending jobs.
func (c *Checker) endings(ctx context.Context) (ends map[string][]ending, pending map[string]bool, err error) {
	rows, err := c.DB.QueryContext(ctx, `SELECT r.name || '/' || j.key, j.outcome, j.ended_at FROM (
		SELECT rule_id, key, '' AS outcome, now() AS ended_at FROM future_job
		UNION ALL SELECT rule_id, key, outcome, ended_at FROM history) j JOIN rule r ON r.id = j.rule_id`)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	ends, pending = map[string][]ending{}, map[string]bool{}
	for rows.Next() {
		var name string
		var e ending
		if err := rows.Scan(&name, &e.outcome, &e.at); err != nil {
			return nil, nil, err
		}
		if e.outcome == "" {
			pending[name] = true
			continue
		}
		ends[name] = append(ends[name], e)
	}
	return ends, pending, rows.Err()
}

// outages reads the outages of each rule, oldest first.
func (c *Checker) outages(ctx context.Context) (map[string][]outage, error) {
	rows, err := c.DB.QueryContext(ctx, `SELECT r.name, o.source, o.opened_at, coalesce(o.closed_at, now()), o.closed_at IS NULL, o.jobs
		FROM outage o JOIN rule r ON r.id = o.rule_id ORDER BY o.opened_at`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string][]outage{}
	for rows.Next() {
		var rule string
		var o outage
		if err := rows.Scan(&rule, &o.source, &o.opened, &o.closed, &o.isOpen, &o.jobs); err != nil {
			return nil, err
		}
		all[rule] = append(all[rule], o)
	}
	return all, rows.Err()
}

// Outages returns the number of outages of each rule, for the log of a run.
func (c *Checker) Outages(ctx context.Context) (string, error) {
	all, err := c.outages(ctx)
	if err != nil {
		return "", err
	}
	var words []string
	for _, rule := range slices.Sorted(maps.Keys(all)) {
		var jobs int
		for _, o := range all[rule] {
			jobs += o.jobs
		}
		words = append(words, fmt.Sprintf("%s %d of %d jobs", rule, len(all[rule]), jobs))
	}
	return strings.Join(words, ", "), nil
}
