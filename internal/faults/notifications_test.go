package faults_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
)

// startNotifications configures a notification channel.
func startNotifications(a *testbed, _ *rand.Rand) {
	a.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var message struct {
			Data struct{ Alerts []struct{ ID string } }
		}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &message)
		}
		if err != nil {
			return // a node that was killed sends it again
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, raised := range message.Data.Alerts {
			a.notified[raised.ID] = true
		}
	}))
	a.Cleanup(receiver.Close)
	a.people = filepath.Join(a.TempDir(), "people.yaml")
	file := fmt.Appendf(nil, `
channels: {people: {kind: webhook, url: %s}}
routes: [{to: people, group_wait: 0s, max_per_hour: 3600}]`, receiver.URL)
	if err := os.WriteFile(a.people, file, 0o600); err != nil {
		a.Fatal(err)
	}
}

// missingNotifications returns an error with the number of alerts that were not notified.
func (a *testbed) missingNotifications() error {
	published, err := a.Stream(a.Context())
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	missing := 0
	for _, s := range published {
		if !a.notified[s.ID] {
			missing++
		}
	}
	if missing > 0 {
		return fmt.Errorf("%d of %d alerts were not notified", missing, len(published))
	}
	return nil
}
