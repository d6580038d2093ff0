package ui_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/store"
	"deadman/rules"
	"deadman/server"
)

// backlog writes pending jobs, most of them of one rule and due in the next hours, as a node does.
type backlog struct {
	*store.Store
	tb   testing.TB
	set  int64
	held []futurejobs.HeldShard
	from time.Time // start of their slots
}

// The rules of a backlog. Of 1,000 jobs they have 750, 99, 50, 1 and 100. Those of the third are due after all others, and those
// of the last are keys of a heartbeat.
const (
	commonRule = "order-unshipped"
	otherRule  = "payment-missing"
	lateRule   = "contract-unsigned"
	rareRule   = "refund-stuck"
	beatRule   = "device-silent"
)

// backlogRules are their documents.
var backlogRules = []string{
	"name: " + beatRule + "\nentity: device\ntrigger: {heartbeat: {every: 26h}}\nslot: 1m\n",
	orderRule(commonRule, "order"), orderRule(otherRule, "payment"), orderRule(lateRule, "contract"), orderRule(rareRule, "refund"),
}

func orderRule(name, entity string) string {
	return "name: " + name + "\nentity: " + entity + "\n" + `trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate:
  - {after: 2h, step: primary, severity: warning}
  - {after: 8h, step: escalated, severity: critical}
slot: 1m
`
}

// config returns the configuration of an embedded node with its data in a folder.
func config(dir string) server.Config {
	return server.Config{DataDir: dir, HTTPAddr: "127.0.0.1:0", NATSAddr: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}
}

// onPostgres returns the configuration of a node on a Postgres, with an embedded broker.
func onPostgres(tb testing.TB, url string) server.Config {
	tb.Helper()
	c := config(tb.TempDir())
	server, err := bus.StartServer(bus.ServerOptions{Dir: bustest.Dir(tb), Addr: "127.0.0.1:0", Log: c.Log})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(server.Close)
	c.DatabaseURL, c.NATSURL, c.NATSAddr = url, server.ClientURL(), ""
	return c
}

// fillDatabase writes n jobs, one in a hundred with an alert, to the database of a stopped node.
func fillDatabase(tb testing.TB, c server.Config, n int) {
	tb.Helper()
	s, err := store.Open(tb.Context(), store.Options{DataDir: c.DataDir, DatabaseURL: c.DatabaseURL, Log: c.Log})
	b := &backlog{Store: s, tb: tb, from: time.Now().UTC().Add(2 * time.Hour).Truncate(time.Minute)}
	b.check(err)
	defer func() { b.check(s.Close()) }()
	saved := b.rules()
	leases, err := s.Leases(tb.Context())
	b.check(err)
	for _, seen := range leases {
		got, _, err := s.Take(tb.Context(), "fill", seen.HeldShard, time.Hour)
		b.check(err)
		b.held = append(b.held, got.HeldShard)
	}
	const batch = 2000
	for first := 0; first < n; first += batch {
		b.create(saved, first, min(first+batch, n))
	}
	b.raiseAlerts()
	b.check(s.Leave(context.WithoutCancel(tb.Context()), "fill"))
}

func (b *backlog) check(err error) {
	b.tb.Helper()
	if err != nil {
		b.tb.Fatal(err)
	}
}

func (b *backlog) rules() map[string]rules.RuleVersion {
	b.tb.Helper()
	set, saved, err := b.Load(b.tb.Context())
	b.check(err)
	b.set = set
	byName := make(map[string]rules.RuleVersion)
	for _, r := range saved {
		byName[r.Name] = r
	}
	return byName
}

// create writes the jobs of a range of numbers.
func (b *backlog) create(saved map[string]rules.RuleVersion, first, end int) {
	b.tb.Helper()
	batch := futurejobs.EffectBatch{RuleSet: b.set}
	for i := first; i < end; i++ {
		name, due := commonRule, b.from.Add(time.Duration(i%(24*60))*time.Minute)
		since := due.Add(-26 * time.Hour) // within the last day
		switch {
		case i%1000 == 999:
			name = rareRule
		case i%1000 >= 949:
			name, due = lateRule, due.Add(3*futurejobs.Day)
		case i%1000 >= 850:
			name, due = otherRule, due.Add(time.Duration(i%3)*futurejobs.Day)
		case i%1000 >= 750:
			name = beatRule
		}
		r, key := saved[name], fmt.Sprintf("%07d", i*7919%10_000_000)
		rule := &futurejobs.Rule{ID: r.RuleID, Version: r.Version, Name: name, Entity: r.Entity, Grid: futurejobs.Grid(time.Minute)}
		job := futurejobs.Job{
			Version: r.Version, Since: since, FirstCheckAt: due,
			Event: []byte(`{"id":"` + key + `","status":"UNSHIPPED","total":123.5,"currency":"EUR","customer":{"id":"cus-00001234","tier":"gold"}}`),
		}
		if name == beatRule && i%10 == 0 {
			job.Event, job.State = nil, []byte(`{"heartbeat":{"kind":"expected"}}`)
		}
		batch.Effects = append(batch.Effects, futurejobs.Effect{
			Rule: rule, Ref: futurejobs.Ref{Shard: futurejobs.ShardOf(r.Entity, key, b.Shards()), RuleID: r.RuleID, Key: key},
			Action: futurejobs.Start{Job: job},
		})
	}
	_, err := b.Apply(b.tb.Context(), batch)
	b.check(err)
}

// raiseAlerts raises alerts for the first jobs of each seventieth slot, 10,500 of a million jobs.
func (b *backlog) raiseAlerts() {
	b.tb.Helper()
	for minute := 0; minute < 24*60; minute += 70 {
		at := b.from.Add(time.Duration(minute) * time.Minute)
		page, err := b.Jobs(b.tb.Context(), futurejobs.Filter{DueAfter: at, DueBefore: at.Add(time.Minute), Limit: futurejobs.MaxLimit})
		b.check(err)
		s := futurejobs.Settlement{Held: b.held, RuleSet: b.set}
		for i, l := range page.Items {
			severity := []alerts.Severity{alerts.Warning, alerts.Warning, alerts.Error, alerts.Critical}[min(i%100, 3)]
			s.Decisions = append(s.Decisions, new(alertDecision(l, b.from.Add(-2*time.Hour-time.Duration(minute)*time.Minute), severity)))
		}
		_, err = b.Settle(b.tb.Context(), s)
		b.check(err)
	}
}

// alertDecision returns the decision of a job's first step at a slot.
func alertDecision(l futurejobs.ListedJob, slot time.Time, severity alerts.Severity) futurejobs.Decision {
	j := l.Job
	a := alerts.Alert{
		ID:   alerts.Decision{JobID: j.ID, CreatedAt: j.CreatedAt, Check: 1, Status: alerts.Firing, At: slot}.ID(),
		Rule: l.Rule, RuleVersion: int(j.Version), Entity: l.Entity, Key: j.Key, DecidedAt: slot, Shard: j.Shard, RuleID: j.RuleID,
		Detail: alerts.Detail{
			Draft: alerts.Draft{Status: alerts.Firing, Severity: severity, Step: "primary", Text: l.Entity + " " + j.Key + " waits for something that has not happened"},
			Since: j.Since, Slot: slot, CheckCount: 1, Event: j.Event,
		},
	}
	j.CheckCount, j.Step, j.CheckAttempts, j.Alerts = 1, 1, 1, []alerts.ID{a.ID}
	j.Last = futurejobs.CheckTimes{PickedAt: slot, StartedAt: slot, CompletedAt: slot}
	return futurejobs.Decision{Job: j, Alerts: []alerts.Alert{a}}
}
