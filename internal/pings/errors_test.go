package pings_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"deadman/rules/document"

	futurejobs "deadman/future_jobs"
	"deadman/internal/pings"
	"deadman/internal/store"
	"deadman/rules"
)

// An error that any client can cause counts as the client's: other errors trigger alarms.
func TestClientErrors(t *testing.T) {
	for _, c := range []struct {
		err     error
		status  int
		senders bool
	}{
		{pings.ErrUnknown, 404, true},
		{fmt.Errorf("rule backup: %w", futurejobs.ErrNotFound), 404, true},
		{document.Problems{{Message: "the key is empty"}}, 422, true},
		{fmt.Errorf("rule backup: %w", rules.ErrNoHeartbeat), 409, true},
		{fmt.Errorf("apply: %w", futurejobs.ErrRefused), 422, true},
		{pings.ErrMethodNotAllowed, 405, true},
		{pings.ErrBodyTruncated, 408, true},
		{fmt.Errorf("ping address: %w", context.Canceled), 499, true},
		{pings.ErrBusy, 503, false},
		{context.DeadlineExceeded, 500, false},
		{fmt.Errorf("apply: %w", store.ErrUnavailable), 500, false},
		{futurejobs.ErrRulesChanged, 500, false},
		{errors.New("anything else"), 500, false},
	} {
		if got := pings.ErrorInfoOf(c.err); got.Status != c.status || got.IsClientError() != c.senders {
			t.Errorf("%v: %+v, the sender's %t; want %d, %t", c.err, got, got.IsClientError(), c.status, c.senders)
		}
	}
}
