package store

import (
	"bytes"
	"context"
	"errors"
	"strconv"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// newestAlert is the expression for the last alert id of a job f, in bytes, as in the index future_job_open.
const newestAlert = `substr(f.alert_ids, length(f.alert_ids) - 15)`

// openAlerts lists the newest alert of each pending job that raised one, and of each open outage, newest first. An
// alert beyond its retention is missing.
func (s *Store) openAlerts(ctx context.Context, f futurejobs.Filter) (page futurejobs.Page[futurejobs.ListedAlert], err error) {
	before := position{Alert: lastAlert}
	if err := before.read("open", f.Cursor); err != nil {
		return page, err
	}
	scopes, err := s.scopes(ctx, f)
	if err != nil {
		return page, err
	}
	open, err := s.openOutages(ctx, f, before.Alert)
	if err != nil {
		return page, err
	}
	portions := []*shardPage[futurejobs.ListedAlert]{{items: open, over: true}}
	for _, c := range scopes {
		portions = append(portions, saidBefore(before.Alert, func(before alerts.ID, limit int) ([]futurejobs.ListedAlert, error) {
			return s.openOfShard(ctx, c, f, before, limit)
		}))
	}
	if open, err = mergeShards(portions, limit(f)+1, newestFirst); err != nil {
		return page, err
	}
	page = paged("open", open, f, func(a futurejobs.ListedAlert) position { return position{Alert: a.ID} })
	page.Items, err = s.fill(ctx, page.Items)
	return page, err
}

// openOfShard scans the jobs that raised alerts, or reads those of a key.
func (s *Store) openOfShard(ctx context.Context, c scope, f futurejobs.Filter, before alerts.ID, limit int) ([]futurejobs.ListedAlert, error) {
	w := filter{`SELECT ` + alertHeads + `, ` + s.unpublished() + `, ` + ackColumns + `
FROM future_job f
JOIN alert a ON a.shard = f.shard AND a.id = ` + s.idOf(newestAlert) + `
JOIN rule r ON r.id = f.rule_id` + withAck + `
WHERE f.shard = ? AND f.alert_ids IS NOT NULL AND ` + newestAlert + ` < ?` + c.and("f"), []any{c.shard, before[:]}}
	if f.Key != "" {
		w.and(`f.key = ?`, escapedText(f.Key))
	}
	said := filter{text: `1 = 1`}
	said.said(f)
	w.andUnindexed(said)
	return query(ctx, s.read, readOpen, rebindPlaceholders(w.text+` ORDER BY `+newestAlert+` DESC LIMIT `+strconv.Itoa(limit)), w.args...)
}

// readOpen is readSaid plus the acknowledgement of the alert's job.
func readOpen(row scanner, s *futurejobs.ListedAlert) error {
	var k readAck
	err := readSaid(rowWithExtras{row, k.fields()}, s)
	s.Ack = k.ack()
	return err
}

// rowWithExtras is a row with more columns than its reader scans.
type rowWithExtras struct {
	scanner
	more []any
}

func (w rowWithExtras) Scan(dest ...any) error { return w.scanner.Scan(append(dest, w.more...)...) }

// openOutage is an open outage with its rule.
type openOutage struct {
	futurejobs.Outage
	rule, entity string
}

func readOpenOutage(row scanner, o *openOutage) error {
	return readOutage(rowWithExtras{row, []any{&o.rule, &o.entity}}, &o.Outage)
}

// openOutages returns the alerts of open outages.
func (s *Store) openOutages(ctx context.Context, f futurejobs.Filter, before alerts.ID) ([]futurejobs.ListedAlert, error) {
	w := filter{text: `SELECT ` + outageColumns + `, r.name, r.entity FROM outage o JOIN rule r ON r.id = o.rule_id WHERE o.closed_at IS NULL`}
	w.named(`r.name`, f)
	if f.Entity != "" {
		w.and(`r.entity = ?`, escape(f.Entity))
	}
	outages, err := query(ctx, s.read, readOpenOutage, rebindPlaceholders(w.text+` ORDER BY o.id DESC`), w.args...)
	if err != nil {
		return nil, err
	}
	var open []futurejobs.ListedAlert
	for _, o := range outages {
		a := o.OpeningAlert(o.rule, o.entity)
		if bytes.Compare(a.ID[:], before[:]) >= 0 || f.Key != "" && f.Key != a.Key {
			continue
		}
		said, err := s.said(ctx, alertHeads, a.ID, []int16{futurejobs.ShardOf(a.Entity, a.Key, s.shards)})
		switch {
		case errors.Is(err, futurejobs.ErrNotFound): // its retention is over
		case err != nil:
			return nil, err
		case wanted(f, said.Alert):
			open = append(open, said)
		}
	}
	return open, nil
}
