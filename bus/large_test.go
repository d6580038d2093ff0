package bus_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"deadman/alerts"
)

// A body that is taken in may be larger as part of an alert than the broker lets through.
func TestAnAlertThatIsTooLargeIsSaidWithoutItsBody(t *testing.T) {
	b := connect(t, serve(t, t.TempDir()))
	large := alert(0)
	large.Event = append(append([]byte{'"'}, bytes.Repeat([]byte("<"), 250<<10)...), '"')
	sent, err := b.Publish(t.Context(), []alerts.Alert{large, alert(1)})
	if err != nil || len(sent) != 2 {
		t.Fatalf("%d of 2 alerts sent, %v", len(sent), err)
	}
	got := follow(t, b, 2, 2)[0]
	if got.ID != large.ID || got.Text != large.Text || got.Event != nil {
		t.Errorf("said %s %q with a body of %d bytes", got.ID, got.Text, len(got.Event))
	}
}

func TestAnAlertThatIsTooLargeHoldsUpNoOther(t *testing.T) {
	b := connect(t, serve(t, t.TempDir()))
	large := alert(0)
	large.Text = strings.Repeat("x", 2<<20)
	sent, err := b.Publish(t.Context(), []alerts.Alert{large, alert(1)})
	if !errors.Is(err, nats.ErrMaxPayload) || len(sent) != 1 || sent[0].ID != alert(1).ID {
		t.Errorf("%d alerts sent beside one that is too large, %v", len(sent), err)
	}
}
