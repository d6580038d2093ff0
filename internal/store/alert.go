package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

const fromAlert = ` FROM alert a JOIN rule r ON r.id = a.rule_id`

func readAlert(row scanner, a *alerts.Alert) error {
	r := alertRow{Alert: a}
	if err := row.Scan(r.fields()...); err != nil {
		return err
	}
	return r.read()
}

func readSaid(row scanner, s *futurejobs.ListedAlert) error {
	r, waits := alertRow{Alert: &s.Alert}, false
	if err := row.Scan(append(r.fields(), &waits, &s.Withheld)...); err != nil {
		return err
	}
	s.Published = !waits && !s.Withheld
	return r.read()
}

// lastAlert is greater than every alert's id.
var lastAlert = alerts.ID(bytes.Repeat([]byte{0xff}, len(alerts.ID{})))

// Alerts lists the alerts, newest first; with f.Open, the newest alert of each open condition.
func (s *Store) Alerts(ctx context.Context, f futurejobs.Filter) (futurejobs.Page[futurejobs.ListedAlert], error) {
	list := s.alerts
	if f.Open {
		list = s.openAlerts
	}
	page, err := list(ctx, f)
	if err != nil {
		return page, wrapErr("alerts", err)
	}
	return page, nil
}

func (s *Store) alerts(ctx context.Context, f futurejobs.Filter) (page futurejobs.Page[futurejobs.ListedAlert], err error) {
	before := position{Alert: lastAlert}
	if err := before.read("alert", f.Cursor); err != nil {
		return page, err
	}
	scopes, err := s.scopes(ctx, f)
	if err != nil {
		return page, err
	}
	look := s.alertsOfShard
	if f.Key != "" {
		look = s.alertsOfKey
	}
	portions := make([]*shardPage[futurejobs.ListedAlert], len(scopes))
	for i, c := range scopes {
		portions[i] = saidBefore(before.Alert, func(before alerts.ID, limit int) ([]futurejobs.ListedAlert, error) {
			return look(ctx, c, f, before, limit)
		})
	}
	said, err := mergeShards(portions, limit(f)+1, newestFirst)
	if err != nil {
		return page, err
	}
	page = paged("alert", said, f, func(a futurejobs.ListedAlert) position { return position{Alert: a.ID} })
	page.Items, err = s.fill(ctx, page.Items)
	return page, err
}

func newestFirst(a, b futurejobs.ListedAlert) int { return alertOrder(b.ID, a.ID) }

// saidBefore pages through the alerts of a shard that were raised before one.
func saidBefore(before alerts.ID, read func(before alerts.ID, limit int) ([]futurejobs.ListedAlert, error)) *shardPage[futurejobs.ListedAlert] {
	return &shardPage[futurejobs.ListedAlert]{next: func(after *futurejobs.ListedAlert, limit int) ([]futurejobs.ListedAlert, error) {
		if after != nil {
			before = after.ID
		}
		return read(before, limit)
	}}
}

func (s *Store) alertsOfShard(ctx context.Context, c scope, f futurejobs.Filter, before alerts.ID, limit int) ([]futurejobs.ListedAlert, error) {
	w := filter{`SELECT ` + alertHeads + `, ` + s.unpublished() + fromAlert + `
WHERE a.shard = ? AND a.id < ?` + c.and("a"), []any{c.shard, before[:]}}
	w.said(f)
	return query(ctx, s.read, readSaid, rebindPlaceholders(w.text+` ORDER BY a.id DESC LIMIT ?`), append(w.args, limit)...)
}

// wanted reports whether a filter accepts an alert, as filter.said does.
func wanted(f futurejobs.Filter, a alerts.Alert) bool {
	return (f.Status == "" || a.Status == f.Status) && (f.Severity == "" || a.Severity == f.Severity) &&
		!a.DecidedAt.Before(f.After) && (f.Before.IsZero() || a.DecidedAt.Before(f.Before))
}

// alertsOfKey finds the alerts of a key by the alert ids of its jobs, pending and ended.
func (s *Store) alertsOfKey(ctx context.Context, c scope, f futurejobs.Filter, before alerts.ID, limit int) ([]futurejobs.ListedAlert, error) {
	lists, err := query(ctx, s.read, func(row scanner, l *idList) error { return row.Scan(l) }, `
SELECT f.alert_ids FROM future_job f WHERE f.shard = $1 AND f.key = $2 AND f.alert_ids IS NOT NULL`+c.and("f")+`
UNION ALL
SELECT f.alert_ids FROM history f WHERE f.shard = $1 AND f.key = $2 AND f.alert_ids IS NOT NULL`+c.and("f"),
		c.shard, escapedText(f.Key))
	if err != nil {
		return nil, err
	}
	ids := slices.DeleteFunc(slices.Concat(lists...), func(id alerts.ID) bool { return alertOrder(id, before) >= 0 })
	slices.SortFunc(ids, func(a, b alerts.ID) int { return alertOrder(b, a) })
	var said []futurejobs.ListedAlert
	for _, id := range ids {
		if len(said) == limit {
			break
		}
		found, err := s.said(ctx, alertHeads, id, []int16{c.shard})
		if errors.Is(err, futurejobs.ErrNotFound) {
			continue // its retention is over
		}
		if err != nil {
			return nil, err
		}
		if wanted(f, found.Alert) {
			said = append(said, found)
		}
	}
	return said, nil
}

// Alert returns one alert, or futurejobs.ErrNotFound.
func (s *Store) Alert(ctx context.Context, id alerts.ID) (futurejobs.ListedAlert, error) {
	said, err := s.said(ctx, alertColumns, id, s.allShards())
	if err != nil {
		return said, fmt.Errorf("alert %s: %w", id, asUnavailable(err))
	}
	return said, nil
}

func (s *Store) allShards() []int16 {
	shards := make([]int16, s.shards)
	for i := range shards {
		shards[i] = int16(i)
	}
	return shards
}

// said returns one alert with alertColumns or alertHeads.
func (s *Store) said(ctx context.Context, columns string, id alerts.ID, shards []int16) (said futurejobs.ListedAlert, err error) {
	err = readSaid(s.read.QueryRowContext(ctx, `SELECT `+columns+`, `+s.unpublished()+fromAlert+`
WHERE a.id = $1 AND a.shard IN `+inList(shards), id[:]), &said)
	if errors.Is(err, sql.ErrNoRows) {
		err = futurejobs.ErrNotFound
	}
	return said, err
}
