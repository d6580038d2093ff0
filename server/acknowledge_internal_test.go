package server

import (
	"errors"
	"strings"
	"testing"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// An alert about lost data cannot be acknowledged. While it is open the error names the remedy, and later its end.
func TestLossIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	s := emptyStore(t)
	a := &acks{store: s}
	loss, _, err := s.WriteSystemAlert(t.Context(), alerts.StreamLoss("ORDERS", time.Now().Add(-time.Minute), time.Now(), "was deleted"))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.systemAlertError(t.Context(), loss); !errors.Is(err, futurejobs.ErrJobEnded) || !strings.Contains(err.Error(), "can be closed") {
		t.Errorf("while it is open: %v", err)
	}
	if _, err := s.CloseLoss(access.As(t.Context(), access.Actor{Name: "ada"}), loss, "checked by hand"); err != nil {
		t.Fatal(err)
	}
	if err := a.systemAlertError(t.Context(), loss); !errors.Is(err, futurejobs.ErrJobEnded) ||
		!strings.Contains(err.Error(), "is over since ") || !strings.Contains(err.Error(), ": closed by ada: checked by hand") {
		t.Errorf("once it is closed: %v", err)
	}
}
