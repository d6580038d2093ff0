package faults_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"deadman/internal/faults"
)

// saves are the changes made by clients.
type saves struct {
	*testbed
	mu  sync.Mutex
	all []faults.Saved
}

// savedByHand is the rule of the jobs that clients create. Its jobs raise one alert and remain pending.
const savedByHand = `
name: ` + faults.ByHand + `
entity: thing
trigger: {event: orders.other, key: event.id}
resolve: {event: orders.none, key: event.id}
escalate: [{after: 1s, step: only, severity: info}]
slot: 1s
hold: 1h
`

// startClients makes clients save rules and jobs, cancel jobs and acknowledge alerts while orders are played. Every
// change with a successful response must be in the database at rest.
func startClients(a *testbed) *saves {
	s := &saves{testbed: a}
	play, model, lost := func() { a.publishOrders(100, 40*time.Millisecond) }, a.model, 0
	a.play = func() {
		a.wait()
		var clients sync.WaitGroup
		over := make(chan struct{})
		for client := range 2 {
			clients.Go(func() { s.client(client, over) })
		}
		play()
		pause(3 * time.Second)
		close(over)
		clients.Wait()
	}
	a.model = func(ctx context.Context) (err error) {
		lost, err = a.CheckSaves(ctx, s.all)
		return errors.Join(model(ctx), err)
	}
	a.Cleanup(func() {
		kinds := map[string]int{}
		for _, one := range s.all {
			kinds[one.Kind]++
		}
		a.Logf("clients saved %v; %d of this and of the alerts are lost", kinds, lost)
	})
	return s
}

// client makes changes without a pause until over is closed.
func (s *saves) client(client int, over <-chan struct{}) {
	acked := map[string]bool{}
	for i := 0; ; i++ {
		select {
		case <-over:
			return
		case <-time.After(10 * time.Millisecond):
		}
		var err error
		key := fmt.Sprintf("%d-%d", client, i)
		switch i % 4 {
		case 0:
			text := fmt.Sprintf("text %s of a client", key)
			rule := fmt.Sprint(faults.ByClients, client)
			err = s.save(rule, fmt.Sprintf("name: %s\nentity: thing\ntrigger: {event: orders.other, key: event.id}\n"+
				"escalate: [{after: 1s, step: only, text: %q}]\nslot: 1s\n", rule, text))
			s.saved(faults.SavedRule, text, err)
		case 1:
			err = s.begin(key)
		case 2:
			if err = s.begin(key); err == nil {
				err = s.call(http.MethodDelete, "/api/v1/jobs/"+faults.ByHand+"/"+key, "application/json", "", nil)
				s.saved(faults.Cancelled, key, err)
			}
		case 3:
			err = s.ack(client, acked)
		}
		if err != nil {
			s.record("client %d: %v", client, err) // the database may be unavailable
			pause(50 * time.Millisecond)
			_ = s.save(faults.ByHand, savedByHand) // the rule may be lost or not saved yet
		}
	}
}

// saved records a successful change.
func (s *saves) saved(kind, name string, err error) {
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, faults.Saved{Kind: kind, Name: name, At: time.Now()})
}

// begin creates a job.
func (s *saves) begin(key string) error {
	err := s.call(http.MethodPost, "/api/v1/jobs", "application/json", fmt.Sprintf(`{"rule": %q, "key": %q}`, faults.ByHand, key), nil)
	s.saved(faults.SavedJob, key, err)
	return err
}

// ack acknowledges an alert of the client's jobs.
func (s *saves) ack(client int, acked map[string]bool) error {
	var page struct {
		Items []struct{ ID, Key, Status string }
	}
	if err := s.call(http.MethodGet, "/api/v1/alerts?limit=100&rule="+faults.ByHand, "application/json", "", &page); err != nil {
		return err
	}
	for _, a := range page.Items {
		if a.Status != "firing" || a.Key[:1] != fmt.Sprint(client) || acked[a.ID] {
			continue
		}
		acked[a.ID] = true
		err := s.call(http.MethodPost, "/api/v1/alerts/"+a.ID+"/ack", "application/json", `{"note": "seen"}`, nil)
		s.saved(faults.Acked, a.ID, err)
		return err
	}
	return nil
}

// checkRaisedSince waits until the stream has the alert of a job that a client created after an instant.
func (s *saves) checkRaisedSince(instant time.Time) {
	s.Helper()
	for range 100 {
		published, err := s.Stream(s.Context())
		if err != nil {
			s.Error(err)
			return
		}
		for _, one := range published {
			since, err := time.Parse(time.RFC3339Nano, one.Since)
			if err == nil && one.Rule == faults.ByHand && since.After(instant) {
				return
			}
		}
		pause(100 * time.Millisecond)
	}
	s.Error("no job that a client creates is alerted")
}
