package web

import (
	"context"
	"strings"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// NextAlert is the alert that a pending job raises next if nothing changes, as the API returns it.
type NextAlert struct {
	Status   string    `json:"status" enum:"step,none,unknown" doc:"step: a step of the rule is raised. none: no further alert is raised. unknown: see reason."`
	Step     string    `json:"step,omitempty" doc:"Name of the step, with its repetition." example:"primary"`
	Severity string    `json:"severity,omitempty" doc:"Severity of the step." example:"warning"`
	At       time.Time `json:"at,omitzero" doc:"Slot of the check that raises the alert."`
	Unless   []string  `json:"unless,omitempty" doc:"Subjects of the events that can resolve the job before, by the newest version of the rule; ping for pings. Conditions and sets of the rule apply." example:"[\"orders.shipped\"]"`
	While    string    `json:"while,omitempty" doc:"Condition of the rule. The job ends once it no longer holds."`
	JobEnds  bool      `json:"job_ends,omitempty" doc:"true if no step is left and the next check ends the job. Events that resolve it late count until then."`
	Reason   string    `json:"reason,omitempty" doc:"Reason why the next alert is unknown, such as a handler that decides or a paused job."`
}

// The statuses of a next alert.
const (
	nextIsStep    = "step"
	nextIsNone    = "none"
	nextIsUnknown = "unknown"
)

// jobEndsText is the text of a next check that ends the job.
const jobEndsText = "none; the job ends then"

// nextAlertOf returns the next alert of a pending job.
func nextAlertOf(ctx context.Context, steps *rules.NextSteps, l futurejobs.ListedJob) *NextAlert {
	next := steps.Of(ctx, l)
	out := &NextAlert{
		Status: nextIsNone, Step: next.Name, Severity: string(next.Severity), At: next.At, Unless: next.Unless, While: next.While, JobEnds: next.Ends, Reason: next.Unknown,
	}
	switch {
	case next.Unknown != "":
		out.Status = nextIsUnknown
	case next.Name != "":
		out.Status = nextIsStep
	}
	return out
}

// Condition returns what prevents the alert, such as "unless orders.shipped"; empty: no event does.
func (n *NextAlert) Condition() string {
	switch {
	case n == nil || n.Status != nextIsStep:
		return ""
	case len(n.Unless) > 0:
		return strings.Replace("unless "+strings.Join(n.Unless, " or "), "unless "+rules.PingSignal, "unless a "+rules.PingSignal, 1)
	case n.While != "":
		return "while " + n.While
	}
	return ""
}

// Text returns the alert in one line, such as "warning primary, unless orders.shipped".
func (n *NextAlert) Text() string {
	switch {
	case n == nil:
		return ""
	case n.JobEnds:
		return jobEndsText
	case n.Status == nextIsNone:
		return nextIsNone
	case n.Status == nextIsUnknown:
		return "unknown: " + n.Reason
	}
	text := n.Severity + " " + n.Step
	if condition := n.Condition(); condition != "" {
		text += ", " + condition
	}
	return text
}
