package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"deadman/rules/document"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/schedules"
	"deadman/internal/timezones"
)

// StoredRule is a rule with stored schedules, at one revision of the rules. It is safe for concurrent use.
type StoredRule struct {
	version *version
	paused  bool
	shards  int
}

var _ futurejobs.StoredRule = StoredRule{}

// StoredCatalog is a catalog for stored schedules.
type StoredCatalog struct{ *Catalog }

// StoredRule returns the rule of a name. An unknown rule is futurejobs.ErrNotFound, and one with another trigger
// document.Problems.
func (b StoredCatalog) StoredRule(name string) (StoredRule, error) {
	r := b.current.Load().names[name]
	if r == nil {
		return StoredRule{}, fmt.Errorf("rule %s: %w", name, futurejobs.ErrNotFound)
	}
	if !r.versions[0].document.Trigger.IsStored() {
		return StoredRule{}, document.Problems{{Pointer: "/rule", Rule: name, Message: `the rule has no stored schedules, so those that it had can be deleted only; write trigger: {schedule: "@stored", emit: {subject: reports.due}} in it`}}
	}
	return StoredRule{r.versions[0], r.paused, b.shards}, nil
}

// RuleID returns the id of the rule of a name, which may have another trigger now, or futurejobs.ErrNotFound.
func (b StoredCatalog) RuleID(name string) (int32, error) {
	r := b.current.Load().names[name]
	if r == nil {
		return 0, fmt.Errorf("rule %s: %w", name, futurejobs.ErrNotFound)
	}
	return r.versions[0].saved.RuleID, nil
}

// StoredRules returns the rules with stored schedules, and their revision.
func (b StoredCatalog) StoredRules() (revision int64, all []futurejobs.StoredRule) {
	e := b.current.Load()
	for _, r := range e.stored {
		all = append(all, StoredRule{r.versions[0], r.paused, b.shards})
	}
	return e.revision, all
}

// Name returns the name of the rule.
func (r StoredRule) Name() string { return r.version.saved.Name }

// RuleID returns the id of the rule.
func (r StoredRule) RuleID() int32 { return r.version.saved.RuleID }

// Prepare validates a schedule, and sets its rule, shard and next tick after now. It returns document.Problems with the
// fields /id, /schedule, /zone and /data.
func (r StoredRule) Prepare(s *futurejobs.Schedule, now time.Time) error {
	var problems document.Problems
	problem := func(pointer string, err error) {
		if err != nil {
			problems = append(problems, document.Problem{Pointer: pointer, Rule: r.Name(), Message: err.Error()})
		}
	}
	problem("/id", checkScheduleID(s.ID))
	_, err := timezones.ParseOrUTC(s.Zone)
	problem("/zone", err)
	problem("/data", checkScheduleData(s.Data))
	var ticks schedules.Schedule
	if err == nil {
		if ticks, err = r.ticksOf(*s); err == nil {
			err = r.checkAttempts(ticks)
		}
		problem("/schedule", err)
	}
	if len(problems) > 0 {
		return problems
	}
	s.RuleID, s.Rule, s.Shard, s.NextAt = r.RuleID(), r.Name(), futurejobs.ShardOf(r.Name(), s.ID, r.shards), time.Time{}
	if s.Enabled {
		s.NextAt, _ = ticks.Next(now)
	}
	return nil
}

// checkAttempts returns an error if the attempts to post an event may last until the next tick.
func (r StoredRule) checkAttempts(ticks schedules.Schedule) error {
	w := r.Webhook()
	if w == nil {
		return nil
	}
	gap := ticks.Shortest()
	if gap == 0 || w.Longest() < gap {
		return nil
	}
	return fmt.Errorf("%d attempts to post an event may take %s, but ticks are only %s apart; lower trigger.emit.attempts or interval of the rule, or write a schedule with fewer ticks",
		w.Attempts, w.Longest(), gap)
}

// Webhook returns the receiver of the events over HTTP; nil: they go to a stream.
func (r StoredRule) Webhook() *futurejobs.Webhook {
	emit := r.version.document.Trigger.Emit
	if emit.Webhook == "" {
		return nil
	}
	return webhookOf(*emit)
}

// IsInOrder reports whether a tick waits until the event of the one before it was emitted.
func (r StoredRule) IsInOrder() bool { return r.version.document.CatchUp.Do == document.All }

// checkScheduleID checks the id of a schedule: it is a part of the ids of its events, and ids are headers.
func checkScheduleID(id string) error {
	switch {
	case id == "":
		return errors.New("the id is empty")
	case len(id) > futurejobs.MaxScheduleID:
		return fmt.Errorf("the id has %d bytes, the most is %d", len(id), futurejobs.MaxScheduleID)
	case strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' }):
		return fmt.Errorf("%q has characters other than printable ASCII without spaces; write an id such as customer-17", clip(id, 80))
	}
	return nil
}

func checkScheduleData(data json.RawMessage) error {
	switch {
	case data == nil:
		return nil
	case len(data) > futurejobs.MaxScheduleData:
		return fmt.Errorf("the data has %d bytes, the most is %d; put large values where their readers find them by id", len(data), futurejobs.MaxScheduleData)
	case !utf8.Valid(data) || !json.Valid(data):
		return errors.New("the data is not JSON")
	}
	return nil
}

// Next returns the next ticks of a schedule, at most n, the first at its next tick.
func (r StoredRule) Next(s futurejobs.Schedule, n int) []time.Time {
	ticks, err := r.ticksOf(s)
	if err != nil || s.NextAt.IsZero() {
		return nil
	}
	var all []time.Time
	for at, ok := s.NextAt, true; ok && len(all) < n; at, ok = ticks.Next(at) {
		all = append(all, at)
	}
	return all
}

// ticksOf parses a schedule. @every counts from a time that the id determines, so that schedules spread.
func (r StoredRule) ticksOf(s futurejobs.Schedule) (schedules.Schedule, error) {
	zone, err := timezones.ParseOrUTC(s.Zone)
	if err != nil {
		return nil, err
	}
	seed := r.Name() + "/" + s.ID
	ticks, err := schedules.Parse(s.Text, zone, seed)
	if err != nil {
		return nil, err
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(seed)) // never fails
	return ticks.From(time.Unix(int64(h.Sum32()%everySpread), 0)), nil
}

// everySpread is the range of the times that @every counts from, in seconds since 1970.
const everySpread = 365 * 24 * 60 * 60

// Decide returns the outcome of the ticks of a schedule that are due by now.
func (r StoredRule) Decide(s futurejobs.Schedule, now time.Time) futurejobs.DecidedTick {
	d := futurejobs.DecidedTick{Schedule: s, At: s.NextAt, Outcome: futurejobs.TickFailed}
	ticks, err := r.ticksOf(s)
	if err != nil {
		d.Reason = err.Error()
		return d
	}
	at, before := dueTick(ticks, s.NextAt, now, r.version.document.CatchUp)
	d.At = at
	d.Next, _ = ticks.Next(at)
	do, missed := judgeTicks(r.version.document, r.paused, before+1, at, now)
	d.Missed = missed
	switch do {
	case passes:
		d.Outcome = futurejobs.TickPaused
	case document.Run:
		d.Outcome = futurejobs.TickPlanned
	default:
		d.Outcome = futurejobs.TickSkipped
	}
	return d
}

// dueTick returns the tick that counts, out of those from next to now, and the number of missed ones before it: the last
// one, or with document.All the first one that is not too late.
func dueTick(ticks schedules.Schedule, next, now time.Time, late document.CatchUp) (at time.Time, missed int) {
	oldest := now.Add(-time.Duration(late.After)).Truncate(time.Second) // as lateness
	if late.Do != document.All {
		return lastTick(ticks, next, now)
	}
	if !next.Before(oldest) {
		return next, 0
	}
	at, missed = lastTick(ticks, next, oldest.Add(-1))
	if first, ok := ticks.Next(at); ok && !first.After(now) {
		return first, missed + 1
	}
	return at, missed
}

// lastTick returns the last tick from next to through, which is not before next, and the number of those before it.
func lastTick(ticks schedules.Schedule, next, through time.Time) (at time.Time, before int) {
	if n, last := ticks.Between(next, through); n > 0 {
		return last, n
	}
	return next, 0
}

// storedTickEvent is the body of an event of a stored schedule without data.
type storedTickEvent struct {
	Schedule string `json:"schedule"`
	tickEvent
}

// Emission returns the event of a planned tick. Its id names the schedule and the nominal time.
func (r StoredRule) Emission(t futurejobs.PlannedTick) (futurejobs.Emission, error) {
	emit := r.version.document.Trigger.Emit
	body := t.Data
	if body == nil {
		body = emit.Data
	}
	if body == nil {
		var err error
		if body, err = json.Marshal(storedTickEvent{t.ID, tickEvent{t.At, t.Missed}}); err != nil {
			return futurejobs.Emission{}, err
		}
	}
	return futurejobs.Emission{
		Rule: r.Name(), Subject: emit.Subject, ID: r.Name() + "/" + t.ID + "/" + strconv.FormatInt(t.At.Unix(), 10),
		Data: body, At: t.At, Missed: t.Missed, Schedule: t.ID, MayBeStored: t.MayBeStored(),
	}, nil
}

// Remark returns an alert about ticks that emit no event though the rule is active: skipped ticks, and ticks of
// schedules that cannot be read. ok is false if none exists.
func (r StoredRule) Remark(decided []futurejobs.DecidedTick) (a alerts.SystemAlert, ok bool) {
	count := make(map[futurejobs.TickOutcome]int)
	var first futurejobs.DecidedTick
	for _, d := range decided {
		if d.Outcome != futurejobs.TickSkipped && d.Outcome != futurejobs.TickFailed {
			continue
		}
		if count[d.Outcome]++; first.At.IsZero() || d.At.Before(first.At) {
			first = d
		}
	}
	if first.At.IsZero() {
		return a, false
	}
	a = alerts.SystemAlert{
		Topic: "rule/" + r.Name(), Step: "tick", Status: alerts.Expired, Severity: alerts.Info, Since: first.At, Labels: map[string]string{"rule": r.Name()},
	}
	var parts []string
	if n := count[futurejobs.TickSkipped]; n > 0 {
		parts = append(parts, fmt.Sprintf("ticks found later than catch_up.after, %s, and skipped: %d", r.version.document.CatchUp.After, n))
	}
	if n := count[futurejobs.TickFailed]; n > 0 {
		a.Status, a.Severity = alerts.Firing, alerts.Error
		parts = append(parts, fmt.Sprintf("schedules that cannot be read any more and do not tick, so save them again: %d", n))
	}
	a.Text = fmt.Sprintf("rule %s, stored schedules, since the tick of %s at %s: %s", r.Name(), first.Schedule.ID, first.At.UTC().Format(time.RFC3339), strings.Join(parts, "; "))
	return a, true
}

// Undelivered returns an alert about ticks without a further attempt. The ticks of an hour have one alert, about the first of
// them.
func (r StoredRule) Undelivered(failed []futurejobs.PlannedTick) alerts.SystemAlert {
	first := slices.MinFunc(failed, func(a, b futurejobs.PlannedTick) int { return a.At.Compare(b.At) })
	return alerts.SystemAlert{
		Topic: "rule/" + r.Name(), Step: "post", Status: alerts.Expired, Severity: alerts.Error, Since: first.At.Truncate(time.Hour), Labels: map[string]string{"rule": r.Name()},
		Text: fmt.Sprintf("rule %s: the event of schedule %s at %s was not accepted in %d attempts: %s; later failures of this hour are in the ticks of the schedules",
			r.Name(), first.ID, first.At.UTC().Format(time.RFC3339), first.Attempts, first.Reason),
	}
}
