package ui_test

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"deadman/internal/store/storetest"
	"deadman/server"
	"deadman/web"
)

// BenchmarkPagesOfMillion measures the server's cost of a page on a node with a million pending jobs, 100,000 of them keys of
// heartbeats, and 10,500 open alerts. ns/op is for one page; worst is the slowest.
func BenchmarkPagesOfMillion(b *testing.B) {
	const jobs = 1_000_000
	for name, on := range map[string]func(*testing.B) server.Config{
		"sqlite":   func(b *testing.B) server.Config { return config(b.TempDir()) },
		"postgres": func(b *testing.B) server.Config { return onPostgres(b, storetest.Postgres(b)) },
	} {
		b.Run(name, func(b *testing.B) {
			c := on(b)
			home, stop := run(b, c)
			for _, text := range backlogRules {
				callAPI(b, home, "POST", "/rules", "application/yaml", text, nil)
			}
			stop()
			fillDatabase(b, c, jobs)
			if c.DatabaseURL != "" {
				analyze(b, c.DatabaseURL)
			}
			home, stop = run(b, c)
			defer stop()
			timePages(b, home)
		})
	}
}

// analyze does the work of autovacuum, which runs within minutes of a table's growth. Until then the planner takes
// the table for small, and a page of a rule's jobs costs up to 0.6 s.
func analyze(b *testing.B, database string) {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), database)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close(b.Context()) }()
	if _, err := conn.Exec(b.Context(), "VACUUM ANALYZE"); err != nil {
		b.Fatal(err)
	}
}

// timePages times the pages of a node with a backlog.
func timePages(b *testing.B, home string) {
	b.Helper()
	deep := deepCursor(b, home, 1000)
	for _, p := range []struct{ name, path string }{
		{"now", "/"},
		{"jobs", "/jobs"},
		{"page 1000", "/jobs?cursor=" + deep},
		{"common rule", "/jobs?rule=" + commonRule},
		{"common rule, page 1000", "/jobs?rule=" + commonRule + "&cursor=" + deep},
		{"other rule", "/jobs?rule=" + otherRule},
		{"late rule", "/jobs?rule=" + lateRule},
		{"rare rule", "/jobs?rule=" + rareRule},
		{"entity", "/jobs?entity=payment"},
		{"key", "/jobs?key=0007919"},
		{"few keys", "/jobs?key=00079*"},
		{"many keys", "/jobs?key=0*"},
		{"many keys of a rule", "/jobs?rule=" + otherRule + "&key=0*"},
		{"due", "/jobs?due=now"},
		{"due in a window", "/jobs?from=" + time.Now().UTC().Add(9*time.Hour).Format("2006-01-02T15:04")},
		{"alerts", "/alerts"},
		{"open alerts", "/api/v1/alerts?open=true"},
		{"open alerts of a severity", "/api/v1/alerts?open=true&severity=critical"},
		{"open alerts of a severity that none has", "/api/v1/alerts?open=true&severity=info"},
		{"rules", "/rules"},
		{"heartbeats", "/heartbeats"},
		{"late heartbeats", "/heartbeats?state=late"},
		{"heartbeats never reported", "/heartbeats?state=never_reported"},
		{"heartbeat keys", "/heartbeats?key=00079*"},
		{"history", "/history"},
	} {
		b.Run(p.name, func(b *testing.B) { timePage(b, home+p.path) })
	}
}

// deepCursor returns the cursor of a page of the list of jobs, counted in pages of 50.
func deepCursor(b *testing.B, home string, page int) string {
	b.Helper()
	cursor := ""
	for range page / 10 {
		var got web.Page[web.Job]
		callAPI(b, home, "GET", "/jobs?limit=500&cursor="+url.QueryEscape(cursor), "", "", &got)
		cursor = got.Next
	}
	return url.QueryEscape(cursor)
}

// timePage requests a page repeatedly.
func timePage(b *testing.B, address string) {
	b.Helper()
	fetch := func() {
		answer, err := http.Get(address)
		if err != nil {
			b.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			b.Fatalf("%s: %d %v %s", address, answer.StatusCode, err, body)
		}
	}
	fetch()
	var took []time.Duration
	for b.Loop() {
		startedAt := time.Now()
		fetch()
		took = append(took, time.Since(startedAt))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "worst-ms")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "half-ms")
}
