package server_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/longtest"
	"deadman/internal/store/storetest"
	"deadman/server"
)

// ruleSavers simulates clients that save rules for a stream without a pause.
type ruleSavers struct {
	over  chan struct{}
	all   sync.WaitGroup
	saves int
	mu    sync.Mutex
}

// savesRefused is how many saves in a row a busy database may refuse.
const savesRefused = 2

func (n *node) saveRules(clients int) *ruleSavers {
	s := &ruleSavers{over: make(chan struct{})}
	for client := range clients {
		s.all.Go(func() {
			refused := 0 // saves in a row
			for i := 0; ; i++ {
				select {
				case <-s.over:
					return
				default:
				}
				name := fmt.Sprintf("other-%d-%d", client, i%100)
				text := fmt.Sprintf("name: %s\nentity: other\ntrigger: {event: other.created, key: event.id}\nescalate: [{after: %dm, step: primary}]\nslot: 1m\n", name, 1+i/100)
				status := n.call("PUT", "/api/v1/rules/"+name, text, nil)
				if refused++; status == http.StatusServiceUnavailable && refused <= savesRefused {
					continue // a busy database: the answer says to try again
				}
				refused = 0
				if status >= 300 {
					n.Errorf("save: %d", status)
					return
				}
				s.mu.Lock()
				s.saves++
				s.mu.Unlock()
			}
		})
	}
	return s
}

// stop ends the saving, and returns the number of saved rules.
func (s *ruleSavers) stop() int {
	close(s.over)
	s.all.Wait()
	return s.saves
}

// alertDelays returns, for each alert about a payment, the delay of its decision after its slot.
func (n *node) alertDelays() (late []time.Duration) {
	for next := ""; ; {
		var page struct {
			Items []struct {
				Since     time.Time `json:"since"`
				DecidedAt time.Time `json:"decided_at"`
			} `json:"items"`
			Next string `json:"next"`
		}
		n.get("/api/v1/alerts?limit=500&rule=payment-unconfirmed&cursor="+url.QueryEscape(next), &page)
		for _, a := range page.Items {
			late = append(late, a.DecidedAt.Sub(futurejobs.Grid(time.Second).Up(a.Since.Add(time.Second))))
		}
		if next = page.Next; next == "" {
			return late
		}
	}
}

// Alerts of a rule are decided while other rules are saved without a pause. The test prints their delays with and
// without the saves.
func TestAlertsAreDecidedWhileRulesAreSaved(t *testing.T) {
	t.Parallel()
	const events = 200
	for _, database := range []string{"sqlite", "postgres"} {
		for _, clients := range []int{0, 4} {
			t.Run(fmt.Sprintf("%s/%d clients", database, clients), func(t *testing.T) {
				if clients == 0 {
					longtest.Only(t, "it only measures the delays to compare with")
				}
				c := server.Config{Rules: ruleFolder(t, map[string]string{"payment.yaml": paymentRule})}
				if database == "postgres" {
					c.DatabaseURL, c.NATSURL = storetest.Postgres(t), startNATS(t)
				}
				n := startReadyNode(t, c)
				streams := n.natsURL(bus.UserAdmin)
				if c.NATSURL != "" {
					streams = c.NATSURL
				}
				js := bustest.JetStream(t, streams)
				s := n.saveRules(clients)
				pace := time.NewTicker(50 * time.Millisecond)
				defer pace.Stop()
				for i := range events {
					<-pace.C
					if _, err := js.Publish(t.Context(), "payments.started", fmt.Appendf(nil, `{"id":"k%d"}`, i)); err != nil {
						t.Fatal(err)
					}
				}
				var late []time.Duration
				n.eventually("all alerts come while rules are saved", func() bool { late = n.alertDelays(); return len(late) >= events })
				saves := s.stop()
				if saves < clients {
					t.Errorf("%d clients saved %d rules", clients, saves)
				}
				slices.Sort(late)
				t.Logf("%d saves, %d alerts; after the slot: p50 %s, p99 %s, max %s",
					saves, len(late), late[len(late)/2].Round(time.Millisecond), late[len(late)*99/100].Round(time.Millisecond), late[len(late)-1].Round(time.Millisecond))
			})
		}
	}
}
