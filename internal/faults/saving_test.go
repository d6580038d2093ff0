package faults_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// drawSaving makes clients save rules while orders are played.
func drawSaving(s *scenario, random *rand.Rand) {
	s.nodes = [][]string{nodePlan(random)}
	if random.IntN(2) == 0 {
		s.nodes = [][]string{killPlans(random, 1+random.IntN(2), failpointsOf(random))}
	}
	s.addNode(random, 2)
	s.stage = func(a *testbed, _ *rand.Rand) {
		play := a.play
		a.play = func() {
			a.wait()
			var clients sync.WaitGroup
			over := make(chan struct{})
			for client := range 2 {
				clients.Go(func() { a.saveRules(client, over) })
			}
			play()
			pause(2 * time.Second) // until the last step
			close(over)
			clients.Wait()
		}
	}
}

// The saved rules: the rule of the orders with another text, and rules without events.
const (
	savedUnshipped = `
name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate:
  - {after: 1s, step: primary, severity: warning, text: "saved %d"}
  - {after: 2s, step: escalated, severity: critical}
slot: 1s
hold: 1h
`
	savedOther = `
name: other-%d
entity: order
trigger: {event: orders.other, key: event.id}
escalate: [{after: 1s, step: other}]
slot: 1s
`
)

// saveRules saves rules without a pause until over is closed, and logs their number.
func (a *testbed) saveRules(client int, over <-chan struct{}) {
	saved := 0
	for i := 0; ; i++ {
		select {
		case <-over:
			a.record("client %d saved %d rules", client, saved)
			if saved == 0 {
				a.Errorf("client %d saved no rule", client)
			}
			return
		default:
		}
		name, text := "order-unshipped", fmt.Sprintf(savedUnshipped, i)
		if i%4 > 0 {
			name, text = fmt.Sprintf("other-%d", client*10+i%10), fmt.Sprintf(savedOther, client*10+i%10)
		}
		if err := a.save(name, text); err != nil {
			a.record("client %d: %v", client, err) // the node may be dead
			pause(50 * time.Millisecond)
			continue
		}
		saved++
	}
}

// save saves a rule on a serving node.
func (a *testbed) save(name, text string) error {
	return a.call(http.MethodPut, "/api/v1/rules/"+name, "application/yaml", text, nil)
}

// call sends a request to a serving node and decodes a successful response into out, unless it is nil.
func (a *testbed) call(method, path, kind, body string, out any) error {
	a.mu.Lock()
	var url string
	for _, at := range a.at {
		url = at.HTTP
	}
	a.mu.Unlock()
	request, err := http.NewRequestWithContext(a.Context(), method, url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", kind)
	answer, err := (&http.Client{Timeout: 5 * time.Second}).Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, text)
	}
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(text, out)
}
