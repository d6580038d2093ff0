package faults_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// faultyAnswer is a wrong response of a service. Reading it as a valid one would report a shipped order.
type faultyAnswer struct {
	name   string
	answer http.HandlerFunc
}

// respondWith answers every request with a status and a body.
func respondWith(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

var faultyAnswers = []faultyAnswer{
	{"hangs", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
	{"drips", respondSlowly},
	{"answers 500", respondWith(http.StatusInternalServerError, `{"status": "SHIPPED"}`)},
	{"answers 503", respondWith(http.StatusServiceUnavailable, "")},
	{"answers 410, which does not mean absent", respondWith(http.StatusGone, `{"status": "SHIPPED"}`)},
	{"answers half of a JSON", respondWith(http.StatusOK, `{"status": "SHIPPED"`)},
	{"answers a list", respondWith(http.StatusOK, `[{"status": "SHIPPED"}]`)},
	{"answers a page", respondWith(http.StatusOK, `<html>SHIPPED</html>`)},
	{"answers nothing", respondWith(http.StatusOK, "")},
	{"answers too much", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"status": "SHIPPED", "pad": "%s"}`, bytes.Repeat([]byte("x"), 1<<20))
	}},
	{"answers a wrong type", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/carts/") {
			fmt.Fprint(w, `null`)
			return
		}
		fmt.Fprint(w, `{"status": 7}`)
	}},
	{"redirects to metadata", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
	}},
	{"redirects to itself", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/shipped" {
			http.Redirect(w, r, "/shipped", http.StatusTemporaryRedirect)
			return
		}
		fmt.Fprint(w, `{"status": "SHIPPED"}`)
	}},
	{"hangs up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
}

// respondSlowly sends a byte from time to time.
func respondSlowly(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	for _, b := range []byte(`{"status": "SHIPPED"}`) {
		if _, err := w.Write([]byte{b}); err != nil || out.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// answerFaulty makes the bank answer wrongly for a while.
func (s *shop) answerFaulty(way faultyAnswer, span time.Duration) {
	s.record("the bank %s", way.name)
	s.way.Store(&way)
	pause(span)
	s.way.Store(nil)
	s.record("the bank is whole again")
}

// breakLinkFor injects a fault into a link for a while.
func (s *shop) breakLinkFor(l *link, name string, f fault, span time.Duration) {
	s.record("the way to the %s is %s", name, f.name)
	l.injectFor(f, span)
	s.record("the way to the %s is whole again", name)
}

// databaseFault is a fault of a database, with the statements that begin and end it.
type databaseFault struct{ name, begin, end string }

// The statements use the database and the role $shop.
var databaseFaults = []databaseFault{
	{"goes down", `ALTER DATABASE $shop ALLOW_CONNECTIONS false`, `ALTER DATABASE $shop ALLOW_CONNECTIONS true`},
	{"has no connection left", `ALTER ROLE $shop CONNECTION LIMIT 0`, `ALTER ROLE $shop CONNECTION LIMIT -1`},
	{"has another password", `ALTER ROLE $shop NOLOGIN`, `ALTER ROLE $shop LOGIN`},
	{"refuses reads", `REVOKE SELECT ON shipments, carts FROM $shop`, `GRANT SELECT ON shipments, carts TO $shop`},
	{
		"has other columns", `ALTER VIEW shipments RENAME COLUMN status TO state; ALTER VIEW carts RENAME COLUMN id TO cart`,
		`ALTER VIEW shipments RENAME COLUMN state TO status; ALTER VIEW carts RENAME COLUMN cart TO id`,
	},
	{
		"has other values", `CREATE OR REPLACE VIEW shipments AS SELECT id, null::text AS status FROM truth;
			CREATE OR REPLACE VIEW carts AS SELECT (1/0)::text AS id FROM truth`,
		`CREATE OR REPLACE VIEW shipments AS SELECT id, CASE WHEN shipped THEN 'SHIPPED' ELSE 'UNSHIPPED' END AS status FROM truth;
			CREATE OR REPLACE VIEW carts AS SELECT id FROM truth WHERE NOT shipped`,
	},
}

// injectFault injects a fault into the database for a while. It begins with ended connections.
func (s *shop) injectFault(t databaseFault, span time.Duration) {
	s.record("the shop %s", t.name)
	run := func(statements string) {
		for statement := range strings.SplitSeq(strings.ReplaceAll(statements, "$shop", s.name), ";") {
			if !strings.HasPrefix(statement, "ALTER DATABASE") {
				s.must(statement)
			} else if _, err := s.DB.ExecContext(context.Background(), statement); err != nil { // no session ends itself
				s.Errorf("%s: %v", statement, err)
			}
		}
	}
	run(t.begin)
	s.must(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1`, s.name)
	pause(span)
	run(t.end)
	s.record("the shop is whole again")
}

// lockTable locks the table of the orders for a while: all queries and shipments wait.
func (s *shop) lockTable(span time.Duration) {
	tx, err := s.db.BeginTx(s.Context(), nil)
	if err == nil {
		_, err = tx.ExecContext(s.Context(), `LOCK TABLE truth IN ACCESS EXCLUSIVE MODE`)
	}
	if err != nil {
		s.Error(err)
		return
	}
	s.record("the shop is locked")
	pause(span)
	if err := tx.Rollback(); err != nil {
		s.Error(err)
	}
	s.record("the shop is whole again")
}

// linkFaults are the faults of a link; "late" answers arrive long after the caller gave up.
var linkFaults = []string{"cut", "half-open", "slow", "narrow", "torn", "late"}

// disturbSources breaks the shop and the bank concurrently, each a few times.
func disturbSources(s *shop, random *rand.Rand) {
	const times = 3
	shop, bank := rand.New(rand.NewPCG(random.Uint64(), 0)), rand.New(rand.NewPCG(random.Uint64(), 0))
	var both sync.WaitGroup
	both.Go(func() {
		for range times {
			pause(span(shop, 100*time.Millisecond, 700*time.Millisecond))
			lasts := span(shop, 500*time.Millisecond, 2*time.Second)
			switch n := shop.IntN(len(linkFaults) + len(databaseFaults) + 2); {
			case n < len(linkFaults):
				s.breakLinkFor(s.database, "shop", faultOf(shop, linkFaults[n]), lasts)
			case n < len(linkFaults)+len(databaseFaults):
				s.injectFault(databaseFaults[n-len(linkFaults)], lasts)
			default:
				s.lockTable(lasts)
			}
		}
	})
	both.Go(func() {
		for range times {
			pause(span(bank, 100*time.Millisecond, 700*time.Millisecond))
			lasts := span(bank, 500*time.Millisecond, 2*time.Second)
			if n := bank.IntN(len(linkFaults) + len(faultyAnswers)); n < len(linkFaults) {
				s.breakLinkFor(s.bank, "bank", faultOf(bank, linkFaults[n]), lasts)
			} else {
				s.answerFaulty(faultyAnswers[n-len(linkFaults)], lasts)
			}
		}
	})
	both.Wait()
}

// stopSources cuts the shop off and makes the bank hang, from before the first check until after the last step.
func stopSources(s *shop, _ *rand.Rand) {
	var both sync.WaitGroup
	both.Go(func() { s.breakLinkFor(s.database, "shop", fault{name: "cut"}, 5*time.Second) })
	both.Go(func() { s.answerFaulty(faultyAnswers[0], 5*time.Second) })
	both.Wait()
}
