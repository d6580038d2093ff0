package rules

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// tickEvent is the data of a job of a tick, or of an emitted event without data of its own.
type tickEvent struct {
	Tick   time.Time `json:"tick"`
	Missed int       `json:"missed"` // the ticks before it without a result
}

func (t tickEvent) json() (json.RawMessage, error) { return json.Marshal(t) }

// tick computes the result of a tick that is found at now. engine is the engine's view of the rule's jobs.
//
//  1. A tick that is found too late is skipped, or its jobs expire, if the rule is configured so. Either raises an
//     alert.
//  2. It emits an event, or creates a job for each of the rule's keys. Without keys the tick is the key.
//  3. A job that cannot be created raises an alert: otherwise no user would notice.
//  4. What the tick of a tenant's rule costs is drawn from the tenant's allowance for checks.
func (r *Rule) tick(engine *futurejobs.Rule, now time.Time, shards int, d *futurejobs.DueTicks) {
	late, reason := r.tickExpired(*d, now)
	if late == Skip {
		d.Outcome = futurejobs.TickSkipped
		skipped := r.remark("tick", alerts.Expired, d.At, reason+"; it is skipped")
		skipped.Severity = alerts.Info // as the rule requests
		d.Alerts = append(d.Alerts, skipped)
		return
	}
	body, err := tickEvent{d.At, d.Missed}.json()
	if err != nil {
		d.Alerts = append(d.Alerts, r.remark("tick", alerts.Firing, d.At, err.Error()))
		return
	}
	d.Outcome = futurejobs.TickStarted
	if late == Expire {
		d.Outcome = futurejobs.TickExpired
		d.Alerts = append(d.Alerts, r.remark("tick", alerts.Expired, d.At, reason))
	}
	if emit := r.document.Trigger.Emit; emit != nil {
		if late != Expire {
			d.Outcome, d.Emit = futurejobs.TickEmitted, r.emission(emit, body, *d)
		}
		return
	}
	var refused []error
	all := tickBudget(len(body))
	for _, key := range r.keysAt(d.At) {
		start, err := r.startAt(key, d.At, body, &all)
		if err != nil {
			refused = append(refused, fmt.Errorf("%s: %w", key, err))
			continue
		}
		start.Job.Origin = alerts.OriginOf(d.At, uint64(d.At.Unix())) //nolint:gosec // after 1970
		start.ExpiredAlert, start.Named = r.expiredAlert(now), len(r.document.Trigger.Keys) > 0
		var ask futurejobs.Action = start
		if late == Expire {
			ask = futurejobs.StartExpired{Start: start, Reason: reason}
		}
		d.Effects = append(d.Effects, futurejobs.Effect{Rule: engine, Ref: r.ref(key, shards), Action: ask})
	}
	if len(refused) > 0 {
		d.Alerts = append(d.Alerts, r.remark("refused", alerts.Firing, d.At,
			fmt.Sprintf("%d of its waits did not begin; the first of them is %s", len(refused), clip(refused[0].Error(), 500))))
	}
}

// tickBudget returns the budget of all keys of a tick of a tenant's rule together.
func tickBudget(bytes int) budget {
	all := budgetFor(bytes)
	all.left *= tenantShare
	return all
}

// startAt returns the start of the job of a key at a tick. A tenant's rule pays for it, within the budget of all keys.
func (r *Rule) startAt(key string, tick time.Time, body json.RawMessage, all *budget) (futurejobs.Start, error) {
	spend := budgetFor(len(body))
	if r.allowance == nil {
		return r.start(key, tick, tick, keptBody(body), r.purse(&spend))
	}
	given := min(spend.left, all.left)
	spend.left = given
	start, err := r.start(key, tick, tick, keptBody(body), &spend)
	cost := given - spend.left
	all.left -= cost
	r.allowance.pay(cost, len(body))
	return start, err
}

// expiredAlert returns the alert for an overdue job that a tick found at now restarts.
func (r *Rule) expiredAlert(now time.Time) futurejobs.CloseAlert {
	return func(j futurejobs.Job) alerts.Draft {
		w := waitOf(j)
		w.rule = r.engine.Name
		d := alerts.Draft{Status: alerts.Expired, Severity: r.engine.MaxSeverity, StepIndex: j.Step, Labels: r.label(w.scope)}
		d.Text = fmt.Sprintf("%s %s: checked too late: the next tick restarted the job", r.engine.Entity, j.Key)
		line, err := r.timeline(w)
		if n := r.due(line, now); err == nil && n > j.Step {
			m := line[n-1]
			d.Severity, d.Step, d.StepIndex = m.severity, m.name, n-1
			d.Text += fmt.Sprintf("; %s was due at %s", m.name, m.at.UTC().Format(time.RFC3339))
		}
		return d
	}
}

// tickExpired returns the treatment of a tick that is found too late, and why; Run: it is processed normally.
func (r *Rule) tickExpired(d futurejobs.DueTicks, now time.Time) (Late, string) {
	c, late := r.document.CatchUp, Duration(now.Sub(d.At).Truncate(time.Second))
	if c.After == 0 || late <= c.After || c.Do == Run {
		return Run, ""
	}
	reason := fmt.Sprintf("the tick was found %s late, more than catch_up.after, %s", late, c.After)
	switch d.Missed {
	case 0:
	case 1:
		reason += "; 1 tick before it was missed"
	default:
		reason += fmt.Sprintf("; %d ticks before it were missed", d.Missed)
	}
	return c.Do, reason
}

// keysAt returns the keys of the jobs that a tick creates.
func (r *Rule) keysAt(tick time.Time) []string {
	if keys := r.document.Trigger.Keys; len(keys) > 0 {
		return keys
	}
	return []string{tick.UTC().Format(time.RFC3339)}
}

// emission returns the event that a tick publishes. Its id is the same for the same rule and tick.
func (r *Rule) emission(e *Emit, body json.RawMessage, d futurejobs.DueTicks) *futurejobs.Emission {
	if len(e.Data) > 0 {
		body = e.Data
	}
	return &futurejobs.Emission{
		Rule: r.engine.Name, Subject: e.Subject, ID: r.engine.Name + "-" + strconv.FormatInt(d.At.Unix(), 10),
		Data: body, At: d.At, Missed: d.Missed,
	}
}

// remark returns a system alert about a tick of the rule.
func (r *Rule) remark(step string, status alerts.Status, tick time.Time, text string) alerts.SystemAlert {
	return alerts.SystemAlert{
		Topic: "rule/" + r.engine.Name, Step: step, Status: status, Severity: r.engine.MaxSeverity, Since: tick,
		Text:   fmt.Sprintf("rule %s, tick at %s: %s", r.engine.Name, tick.UTC().Format(time.RFC3339), text),
		Labels: map[string]string{"rule": r.engine.Name},
	}
}
