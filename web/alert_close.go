package web

import (
	"context"
	"net/http"
	"strings"

	"deadman/internal/access"
)

// CloseRequest is the body of a request that closes an alert.
type CloseRequest struct {
	Reason string `json:"reason" minLength:"1" doc:"Reason, kept in the audit log; up to 500 bytes." example:"shipped by hand"`
}

func (a *acknowledgeAPI) registerClose(all *operations) {
	register(all, operation{
		ID: "close-alert", Tag: tagAlerts, Method: "POST", Path: "/alerts/{id}/close", Summary: "close an alert, with a reason",
		Description: "Cancels the alert's job and resolves the alert. The key of a heartbeat is watched on, by a new job. An alert about lost data is open until it is closed. Alerts of outages and of " +
			"conditions of the node close by themselves (409).",
		Scope: access.Rules, Reach: reachBody, Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, noContent(a.close))
}

func (a *acknowledgeAPI) close(ctx context.Context, in *struct {
	AlertPath
	Body CloseRequest
},
) error {
	reason := strings.TrimSpace(in.Body.Reason)
	switch {
	case reason == "":
		return refused("body.reason", "it is empty; write what was done")
	case len(reason) > ackNote:
		return refused("body.reason", "it has %d bytes; the maximum is %d", len(reason), ackNote)
	}
	if err := a.mayAcknowledge(ctx, in.ID); err != nil {
		return err
	}
	return a.acks.CloseAlert(ctx, in.ID, reason)
}
