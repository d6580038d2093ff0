package server_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"deadman/internal/bus"
	"deadman/internal/store"
	"deadman/server"
)

// floodLimits are limits of dead letters that 30,000 refused events exceed.
var floodLimits = store.LetterLimits{
	Letters: store.LetterShares{Total: 4000, Tenants: 2000, Tenant: 500, Reserve: 50, Rule: 1000, TenantRule: 20},
	Bytes:   store.DefaultLetterLimits.Bytes,
	Period:  time.Hour,
}

// storedLetter is the part of a dead letter that the test of a flood checks.
type storedLetter struct {
	Rule, Reason string
	Summarized   int
	Body         string
}

// allLetters returns all dead letters of a rule; an empty rule: of all rules.
func (w *tenants) allLetters(rule string) (all []storedLetter) {
	w.Helper()
	query := url.Values{"limit": {"500"}}
	if rule != "" {
		query.Set("rule", rule)
	}
	for {
		var page struct {
			Items []storedLetter
			Next  string
		}
		w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/dead-letters?"+query.Encode(), "", w.admin...).decode(w.T, &page)
		all = append(all, page.Items...)
		if page.Next == "" {
			return all
		}
		query.Set("cursor", page.Next)
	}
}

// sumLetters returns the numbers of whole letters, of summaries, and of the events that these stand for.
func sumLetters(letters []storedLetter) (whole, summaries, events int) {
	for _, l := range letters {
		if l.Summarized == 0 {
			whole++
			continue
		}
		summaries, events = summaries+1, events+l.Summarized
	}
	return whole, summaries, events
}

// A tenant at its quota of jobs with many rules on one subject writes a bounded number of rows. All refused events are
// counted, an alert names the rules, and other tenants and the operator keep whole dead letters.
func TestRefusedEventsOfTenantAreBounded(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, c server.Config) {
		const rules, sent = 100, 300
		w := newTenants(t, c.WithLetterLimits(floodLimits).WithMaintenanceEvery(5*time.Second))
		startedAt := time.Now()
		minutes := func() int { return 2 + int(time.Since(startedAt)/time.Minute) }
		name := func(i int) string { return fmt.Sprintf("acme-hold-%d", i) }
		w.eventually("acme's first event has a job", func() bool {
			return w.callRaw(http.MethodGet, "/api/v1/jobs/acme-late/a1", "", w.acme...).status == http.StatusOK
		})
		w.setQuota(`{"jobs": 0}`)
		for i := range rules {
			w.saveRule(http.StatusCreated, "", strings.Replace(holdRule, "acme-hold", name(i), 1), w.admin...)
		}
		w.saveRule(http.StatusCreated, "", strings.NewReplacer("acme-hold", "operators", "acme.", "ops.").Replace(holdRule), w.admin...)
		conn := w.natsConn(bus.UserAdmin)
		for i := range sent {
			if err := conn.Publish("acme.hold", fmt.Appendf(nil, `{"id": "f%d"}`, i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := conn.Flush(); err != nil {
			t.Fatal(err)
		}
		w.eventually("each rule has refused all events", func() bool {
			for _, i := range []int{0, rules / 2, rules - 1} {
				if whole, _, events := sumLetters(w.allLetters(name(i))); whole+events != sent {
					return false
				}
			}
			return true
		})
		whole, summaries, events := sumLetters(w.allLetters(""))
		if whole+events != rules*sent {
			t.Errorf("%d events have a letter and %d are summarized, want %d in all", whole, events, rules*sent)
		}
		if limit := rules * minutes(); whole != 500 || summaries > limit || summaries < rules {
			t.Errorf("%d letters and %d summaries, want 500 and at most %d", whole, summaries, limit)
		}
		metrics := string(w.callRaw(http.MethodGet, "/metrics", "", w.admin...).body)
		for _, want := range []string{fmt.Sprintf("deadman_dead_letters_total %d\n", rules*sent), fmt.Sprintf("deadman_dead_letters_summarized_total %d\n", events)} {
			if !strings.Contains(metrics, want) {
				t.Errorf("the metrics lack %s", want)
			}
		}
		if c.DatabaseURL != "" {
			w.checkBoundedLetters(t, c.DatabaseURL, whole)
		}

		// The others have whole letters.
		w.publish(http.StatusAccepted, "zenith.created", `{"number": "1"}`, w.zenith...)
		w.publish(http.StatusAccepted, "ops.hold", `{"number": "1"}`, w.admin...)
		for _, rule := range []string{"zenith-late", "operators"} {
			w.eventually(rule+" has a whole letter", func() bool {
				letters := w.allLetters(rule)
				return len(letters) == 1 && letters[0].Summarized == 0 && letters[0].Body == `{"number": "1"}`
			})
		}
		w.checkZenithWorks("after-the-flood")

		var raised list
		w.eventually("an alert names the rules", func() bool {
			w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/alerts?rule=deadman", "", w.admin...).decode(t, &raised)
			for _, a := range raised.Items {
				if a.Key == "dead-letters" && a.Status == "firing" {
					return true
				}
			}
			return false
		})
		retried := w.callExpecting(http.StatusOK, http.MethodPost, "/api/v1/dead-letters/retry?rule="+name(0), "", w.admin...)
		if !strings.Contains(string(retried.body), `"processed":0`) {
			t.Errorf("a retry without room: %s", retried.body)
		}
		w.setQuota(`{}`)
		w.callExpecting(http.StatusOK, http.MethodPost, "/api/v1/dead-letters/retry?rule="+name(0), "", w.admin...)
		if left, _, _ := sumLetters(w.allLetters(name(0))); left != 0 {
			t.Errorf("%d letters are left after a retry with room", left)
		}
		if _, _, events := sumLetters(w.allLetters(name(0))); events == 0 {
			t.Error("a retry took the summaries")
		}
	})
}

// checkBoundedLetters fails the test if more refused jobs are remembered than there are letters to retry.
func (w *tenants) checkBoundedLetters(t *testing.T, dsn string, letters int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var rows int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM early`).Scan(&rows); err != nil || rows > letters {
		t.Errorf("%d refused jobs are remembered for %d letters: %v", rows, letters, err)
	}
}
