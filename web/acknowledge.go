package web

import (
	"context"
	"net/http"
	"time"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// AlertAcks acknowledges alerts and removes acknowledgements. An unknown alert is futurejobs.ErrNotFound, an alert of an
// ended job futurejobs.ErrJobEnded. Implementations are safe for concurrent use.
type AlertAcks interface {
	// Acknowledge suppresses the steps of the alert's job until a.Until, and returns the job.
	Acknowledge(ctx context.Context, id alerts.ID, a futurejobs.Ack) (futurejobs.ListedJob, error)
	// AcknowledgeAll acknowledges alerts in one transaction, and returns their number. It leaves out alerts whose jobs have
	// ended.
	AcknowledgeAll(ctx context.Context, all []futurejobs.ListedAlert, a futurejobs.Ack) (int, error)
	// UnacknowledgeAll removes acknowledgements in one transaction, and returns their number. It leaves out alerts whose
	// jobs have ended.
	UnacknowledgeAll(ctx context.Context, all []futurejobs.ListedAlert) (int, error)
	// Unacknowledge removes the acknowledgement, if any.
	Unacknowledge(ctx context.Context, id alerts.ID) (futurejobs.ListedJob, error)
	// CloseAlert cancels the alert's job, or closes an alert about lost data. The reason is kept in the audit log.
	CloseAlert(ctx context.Context, id alerts.ID, reason string) error
}

// Acknowledged is the acknowledgement of an alert's job, as the API returns it.
type Acknowledged struct {
	Alert alerts.ID `json:"alert" doc:"ID of the acknowledged alert."`
	By    string    `json:"by" doc:"Actor who acknowledged." example:"ada"`
	At    time.Time `json:"at" doc:"Time of the acknowledgement."`
	Until time.Time `json:"until,omitzero" doc:"End of the acknowledgement. Absent if it does not end."`
	Note  string    `json:"note,omitempty" doc:"Note of the actor."`
}

// AcknowledgedAs returns an acknowledgement for the API; nil if a is nil or expired at now.
func AcknowledgedAs(a *futurejobs.Ack, now time.Time) *Acknowledged {
	if a == nil || !a.Holds(now) {
		return nil
	}
	out := Acknowledged{Alert: a.Alert, By: a.By, At: a.At, Until: a.Until, Note: a.Note}
	if a.IsUntilResolved() {
		out.Until = time.Time{}
	}
	return &out
}

// AckRequest is the body of an acknowledgement. Without a time it has no end.
type AckRequest struct {
	Until time.Time `json:"until,omitzero" doc:"End of the acknowledgement. Alternative to for. Without either, the acknowledgement does not end." example:"2026-01-31T15:04:05Z"`
	For   string    `json:"for,omitempty" doc:"Duration of the acknowledgement from now, such as 2h. Alternative to until." example:"2h"`
	Note  string    `json:"note,omitempty" doc:"Note, shown with the acknowledgement; up to 500 bytes." example:"I am on it"`
}

// ackMost is the longest that an acknowledgement with an end lasts.
const ackMost = 366 * 24 * time.Hour

// ackNote is the largest size of a note, in bytes.
const ackNote = 500

// Ack converts the request to an acknowledgement at now. The error is for the client.
func (w AckRequest) Ack(now time.Time) (a futurejobs.Ack, err error) {
	if len(w.Note) > ackNote {
		return a, refused("body.note", "it has %d bytes; the maximum is %d", len(w.Note), ackNote)
	}
	until, err := untilOf(w.Until, w.For, now)
	if err != nil {
		return a, err
	}
	if until.IsZero() {
		return futurejobs.Ack{Until: checks.Forever, Note: w.Note}, nil
	}
	a = futurejobs.Ack{Until: until.UTC().Truncate(time.Microsecond), Note: w.Note}
	if !a.Until.After(now) {
		return a, refused("body.until", "%s is in the past; it is %s", a.Until.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	if a.Until.Sub(now) > ackMost {
		return a, refused("body.until", "%s is not within a year from now; omit until and for to acknowledge without an end", a.Until.Format(time.RFC3339))
	}
	return a, nil
}

// acknowledgeAPI has the operations on acknowledgements.
type acknowledgeAPI struct {
	lists AlertReader
	acks  AlertAcks
	view  *jobView
	now   func() time.Time
}

func (a *acknowledgeAPI) register(all *operations) {
	o := operation{
		Tag: tagAlerts, Path: "/alerts/{id}/ack", Scope: access.OnCall, Reach: reachBody, Status: http.StatusOK,
		Errors: []int{http.StatusNotFound, http.StatusConflict},
	}
	o.ID, o.Method, o.Summary, o.IdempotencyKey = "acknowledge-alert", "POST", "acknowledge an alert", true
	o.Description = "Suppresses further steps of the alert's job until the acknowledgement ends. Then the highest step that came due is raised. " +
		"Events still resolve the job. Only alerts of pending jobs can be acknowledged. A repeated call replaces the acknowledgement."
	register(all, o, withBody(a.acknowledge))
	o.ID, o.Method, o.Summary, o.IdempotencyKey = "unacknowledge-alert", "DELETE", "remove an acknowledgement", false
	o.Description = "The highest step that came due in the meantime is raised. Without an acknowledgement, the call has no effect."
	register(all, o, withBody(a.unacknowledge))
	a.registerAll(all)
	a.registerClose(all)
}

func (a *acknowledgeAPI) acknowledge(ctx context.Context, in *struct {
	AlertPath
	Body *AckRequest
},
) (Job, error) {
	if err := a.mayAcknowledge(ctx, in.ID); err != nil {
		return Job{}, err
	}
	var request AckRequest
	if in.Body != nil {
		request = *in.Body
	}
	ack, err := request.Ack(a.now())
	if err != nil {
		return Job{}, err
	}
	l, err := a.acks.Acknowledge(ctx, in.ID, ack)
	if err != nil {
		return Job{}, err
	}
	return a.view.whole(ctx)(l), nil
}

func (a *acknowledgeAPI) unacknowledge(ctx context.Context, in *AlertPath) (Job, error) {
	if err := a.mayAcknowledge(ctx, in.ID); err != nil {
		return Job{}, err
	}
	l, err := a.acks.Unacknowledge(ctx, in.ID)
	if err != nil {
		return Job{}, err
	}
	return a.view.whole(ctx)(l), nil
}

// mayAcknowledge returns not found if the alert's rule is hidden from the caller. The scope was checked before.
func (a *acknowledgeAPI) mayAcknowledge(ctx context.Context, id alerts.ID) error {
	s, err := a.lists.Alert(ctx, id)
	if err != nil {
		return err
	}
	if !principalOf(ctx).canSee(s.Rule) {
		return notFoundFor("alert " + id.String())
	}
	return nil
}
