package rules

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"deadman/rules/bodies"
	"deadman/rules/document"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// tickEvent is the data of a job of a tick, or of an emitted event without data of its own.
type tickEvent struct {
	Tick   time.Time `json:"tick"`
	Missed int       `json:"missed"` // the ticks before it without a result
}

func (t tickEvent) json() (json.RawMessage, error) { return json.Marshal(t) }

// tickRun computes the result of one tick of a rule.
type tickRun struct {
	*Rule
	jobs   *futurejobs.Rule // the engine's view of the rule's jobs
	now    time.Time        // when the tick was found
	shards int
	due    *futurejobs.DueTicks
}

// compute fills in the result of the tick.
//
//  1. A tick that is found too late is skipped, or its jobs expire, if the rule is configured so. Either raises an
//     alert.
//  2. It emits an event, or creates a job for each of the rule's keys. Without keys the tick is the key.
//  3. A job that cannot be created raises an alert: otherwise no user would notice.
//  4. What the tick of a tenant's rule costs is drawn from the tenant's allowance for checks.
func (t *tickRun) compute() {
	d := t.due
	late, reason := t.expired()
	if late == document.Skip {
		d.Outcome = futurejobs.TickSkipped
		skipped := t.remark("tick", alerts.Expired, reason+"; it is skipped")
		skipped.Severity = alerts.Info // as the rule requests
		d.Alerts = append(d.Alerts, skipped)
		return
	}
	body, err := tickEvent{d.At, d.Missed}.json()
	if err != nil {
		d.Alerts = append(d.Alerts, t.remark("tick", alerts.Firing, err.Error()))
		return
	}
	d.Outcome = futurejobs.TickStarted
	if late == document.Expire {
		d.Outcome = futurejobs.TickExpired
		d.Alerts = append(d.Alerts, t.remark("tick", alerts.Expired, reason))
	}
	if emit := t.document.Trigger.Emit; emit != nil {
		if late != document.Expire {
			d.Outcome, d.Emit = futurejobs.TickEmitted, t.emission(emit, body)
		}
		return
	}
	var refused []error
	all := tickBudget(len(body))
	for _, key := range t.ticking.keysAt(d.At) {
		start, err := t.startAt(key, body, &all)
		if err != nil {
			refused = append(refused, fmt.Errorf("%s: %w", key, err))
			continue
		}
		start.Job.Origin = alerts.OriginOf(d.At, uint64(d.At.Unix())) //nolint:gosec // after 1970
		start.ExpiredAlert, start.Named = t.expiredAlert(t.now), len(t.document.Trigger.Keys) > 0
		var action futurejobs.Action = start
		if late == document.Expire {
			action = futurejobs.StartExpired{Start: start, Reason: reason}
		}
		d.Effects = append(d.Effects, futurejobs.Effect{Rule: t.jobs, Ref: t.ref(key, t.shards), Action: action})
	}
	if len(refused) > 0 {
		d.Alerts = append(d.Alerts, t.remark("refused", alerts.Firing,
			fmt.Sprintf("%d of its jobs could not be created; the first error is %s", len(refused), clip(refused[0].Error(), 500))))
	}
}

// tickBudget returns the budget of all keys of a tick of a tenant's rule together.
func tickBudget(bytes int) budget {
	all := budgetFor(bytes)
	all.left *= tenantShare
	return all
}

// startAt returns the start of the job of a key at a tick. A tenant's rule pays for it, within the budget of all keys.
func (t *tickRun) startAt(key string, body json.RawMessage, all *budget) (futurejobs.Start, error) {
	spend := budgetFor(len(body))
	if t.allowance == nil {
		return t.start(key, t.due.At, t.due.At, bodies.Stored(body), t.tenantBudget(&spend))
	}
	given := min(spend.left, all.left)
	spend.left = given
	start, err := t.start(key, t.due.At, t.due.At, bodies.Stored(body), &spend)
	cost := given - spend.left
	all.left -= cost
	t.allowance.pay(cost, len(body))
	return start, err
}

// expired returns the treatment of a tick that is found too late, and why; Run: it is processed normally.
func (t *tickRun) expired() (document.CatchUpAction, string) {
	d := t.due
	c, late := t.document.CatchUp, lateness(d.At, t.now)
	do := lateAction(c, d.At, t.now)
	if do == document.Run {
		return do, ""
	}
	reason := fmt.Sprintf("the tick was found %s late, more than catch_up.after, %s", late, c.After)
	switch d.Missed {
	case 0:
	case 1:
		reason += "; 1 tick before it was missed"
	default:
		reason += fmt.Sprintf("; %d ticks before it were missed", d.Missed)
	}
	return do, reason
}

// passes is the treatment of a tick without effect.
const passes document.CatchUpAction = ""

// judgeTicks returns the treatment of the last of n due ticks of a rule, at a time, and how many before it are missed. It decides
// for the schedule of a rule and for stored ones.
//
//  1. Ticks pass while the rule is paused or not enabled. None of them is missed.
//  2. A tick that is found later than catch_up.after is treated as catch_up.do requests, any other one normally: Run.
func judgeTicks(d document.Document, isPaused bool, n int, at, now time.Time) (do document.CatchUpAction, missed int) {
	if isPaused || !d.Enabled {
		return passes, 0
	}
	return lateAction(d.CatchUp, at, now), n - 1
}

// lateAction returns the treatment of a tick at a time; Run: it is not late.
func lateAction(c document.CatchUp, at, now time.Time) document.CatchUpAction {
	if c.After > 0 && lateness(at, now) > c.After {
		return c.Do
	}
	return document.Run
}

// lateness returns how late a tick is found, in whole seconds.
func lateness(at, now time.Time) document.Duration {
	return document.Duration(now.Sub(at).Truncate(time.Second))
}

// emission returns the event that a tick publishes. Its id is the same for the same rule and tick.
func (t *tickRun) emission(e *document.Emit, body json.RawMessage) *futurejobs.Emission {
	if len(e.Data) > 0 {
		body = e.Data
	}
	d := t.due
	return &futurejobs.Emission{
		Rule: t.engine.Name, Subject: e.Subject, ID: t.engine.Name + "-" + strconv.FormatInt(d.At.Unix(), 10),
		Data: body, At: d.At, Missed: d.Missed,
	}
}

// remark returns a system alert about a tick of the rule.
func (t *tickRun) remark(step string, status alerts.Status, text string) alerts.SystemAlert {
	return alerts.SystemAlert{
		Topic: "rule/" + t.engine.Name, Step: step, Status: status, Severity: t.engine.MaxSeverity, Since: t.due.At,
		Text:   fmt.Sprintf("rule %s, tick at %s: %s", t.engine.Name, t.due.At.UTC().Format(time.RFC3339), text),
		Labels: map[string]string{"rule": t.engine.Name},
	}
}
