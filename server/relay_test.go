package server_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"deadman/alerts"
	"deadman/internal/bus"
	"deadman/internal/testwait"
	"deadman/server"
)

// fillStream connects and publishes alerts until the stream with the given capacity is full, or most alerts are published.
func fillStream(t *testing.T, url string, bytes int64, limit int) {
	t.Helper()
	wire, err := bus.Connect(t.Context(), bus.Options{URL: url, AlertsBytes: bytes, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer wire.Close()
	raised := make([]alerts.Alert, limit)
	for i := range raised {
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		raised[i] = alerts.Alert{
			ID:   alerts.Decision{JobID: int64(i), At: at}.ID(),
			Rule: "late", Key: fmt.Sprint(i), DecidedAt: at, Detail: alerts.Detail{Draft: alerts.Draft{Severity: alerts.Info}},
		}
	}
	testwait.Until(t, "the alerts are published, or the stream is full", func() bool { // repeats are recognized by their ids
		_, err := wire.AlertPublisher.Publish(t.Context(), raised)
		if err != nil && !strings.Contains(err.Error(), "max_bytes") && !errors.Is(err, bus.ErrUnreachable) {
			t.Fatal(err)
		}
		return !errors.Is(err, bus.ErrUnreachable)
	})
}

func TestReadyzReportsFillingAlertsStream(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		most   int
		status int
		detail string
	}{
		"nearly": {125, http.StatusOK, "% full; raise max_bytes"},
		"full":   {200, http.StatusServiceUnavailable, "full; new alerts wait"},
	} {
		t.Run(name, func(t *testing.T) {
			url := startNATS(t)
			fillStream(t, url, 100_000, c.most)
			n := startReadyNode(t, server.Config{NATSURL: url})
			var ready struct {
				Conditions []struct{ Name, Detail string }
			}
			n.eventually("an alert is raised", func() bool {
				status := n.get("/readyz?all", &ready)
				for _, got := range ready.Conditions {
					if got.Name == "alerts_stream" && strings.Contains(got.Detail, c.detail) {
						return status == c.status
					}
				}
				return false
			})
		})
	}
}
