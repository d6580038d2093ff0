package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// AlertStore lists alerts.
type AlertStore struct{ *database }

// forgetAcks deletes the acknowledgements of jobs that have ended.
func (s *AlertStore) forgetAcks(ctx context.Context) error {
	for shard := range s.shards {
		if _, err := s.pruneAll(ctx, "", `DELETE FROM acknowledgement WHERE shard = $1 AND job_id IN
	(SELECT k.job_id FROM acknowledgement k WHERE k.shard = $1
	 AND NOT EXISTS (SELECT 1 FROM future_job f WHERE f.shard = k.shard AND f.id = k.job_id) LIMIT $2)`, shard, pruneBatch); err != nil {
			return err
		}
	}
	return nil
}

const fromAlert = ` FROM alert a JOIN rule r ON r.id = a.rule_id`

func readAlert(row scanner, a *alerts.Alert) error {
	r := alertRow{Alert: a}
	if err := row.Scan(r.fields()...); err != nil {
		return err
	}
	return r.read()
}

func readListedAlert(row scanner, s *futurejobs.ListedAlert) error {
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
func (s *AlertStore) Alerts(ctx context.Context, f futurejobs.Filter) (futurejobs.Page[futurejobs.ListedAlert], error) {
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

func (s *AlertStore) alerts(ctx context.Context, f futurejobs.Filter) (page futurejobs.Page[futurejobs.ListedAlert], err error) {
	before := position{Alert: lastAlert}
	if err := before.read("alert", f.Cursor); err != nil {
		return page, err
	}
	scopes, err := s.scopes(ctx, f)
	if err != nil {
		return page, err
	}
	read := s.alertsOfShard
	if f.Key != "" {
		read = s.alertsOfKey
	}
	portions := make([]*shardPage[futurejobs.ListedAlert], len(scopes))
	for i, c := range scopes {
		portions[i] = alertsBefore(before.Alert, func(before alerts.ID, limit int) ([]futurejobs.ListedAlert, error) {
			return read(ctx, c, f, before, limit)
		})
	}
	listed, err := mergeShards(portions, limit(f)+1, newestFirst)
	if err != nil {
		return page, err
	}
	page = paged("alert", listed, f, func(a futurejobs.ListedAlert) position { return position{Alert: a.ID} })
	page.Items, err = s.fill(ctx, page.Items)
	return page, err
}

func newestFirst(a, b futurejobs.ListedAlert) int { return alertOrder(b.ID, a.ID) }

// alertsBefore pages through the alerts of a shard that were raised before one.
func alertsBefore(before alerts.ID, read func(before alerts.ID, limit int) ([]futurejobs.ListedAlert, error)) *shardPage[futurejobs.ListedAlert] {
	return &shardPage[futurejobs.ListedAlert]{next: func(after *futurejobs.ListedAlert, limit int) ([]futurejobs.ListedAlert, error) {
		if after != nil {
			before = after.ID
		}
		return read(before, limit)
	}}
}

func (s *AlertStore) alertsOfShard(ctx context.Context, c scope, f futurejobs.Filter, before alerts.ID, limit int) ([]futurejobs.ListedAlert, error) {
	w := filter{`SELECT ` + alertHeads + `, ` + s.unpublished() + fromAlert + `
WHERE a.shard = ? AND a.id < ?` + c.and("a"), []any{c.shard, before[:]}}
	w.alerts(f)
	if f.PartID != "" {
		part := alerts.PlainID(f.PartID)
		w.and(`(`+s.idText(`a.id`)+` LIKE ? OR `+s.idText(`a.id`)+` LIKE ?)`, part+`%`, `%`+part)
	}
	return query(ctx, s.read, readListedAlert, rebindPlaceholders(w.text+` ORDER BY a.id DESC LIMIT ?`), append(w.args, limit)...)
}

// wanted reports whether a filter accepts an alert, as filter.alerts does.
func wanted(f futurejobs.Filter, a alerts.Alert) bool {
	return (f.PartID == "" || alerts.MatchesPartialID(a.ID, f.PartID)) && (f.Status == "" || a.Status == f.Status) && (f.Severity == "" || a.Severity == f.Severity) &&
		!a.DecidedAt.Before(f.After) && (f.Before.IsZero() || a.DecidedAt.Before(f.Before))
}

// alertsOfKey finds the alerts of a key by the alert ids of its jobs, pending and ended.
func (s *AlertStore) alertsOfKey(ctx context.Context, c scope, f futurejobs.Filter, before alerts.ID, limit int) ([]futurejobs.ListedAlert, error) {
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
	var listed []futurejobs.ListedAlert
	for part := range slices.Chunk(ids, knownAtOnce) { // some are gone, as their retention is over
		found, err := query(ctx, s.read, readListedAlert, `SELECT `+alertHeads+`, `+s.unpublished()+fromAlert+`
WHERE a.shard = $1 AND a.id IN `+idParams(len(part))+` ORDER BY a.id DESC`, with(part, c.shard)...)
		if err != nil {
			return nil, err
		}
		for _, l := range found {
			if wanted(f, l.Alert) {
				listed = append(listed, l)
			}
		}
		if len(listed) >= limit {
			return listed[:limit], nil
		}
	}
	return listed, nil
}

// Alert returns one alert, or futurejobs.ErrNotFound.
func (s *AlertStore) Alert(ctx context.Context, id alerts.ID) (futurejobs.ListedAlert, error) {
	listed, err := s.alertByID(ctx, alertColumns, id, s.allShards())
	if err != nil {
		return listed, fmt.Errorf("alert %s: %w", id, asUnavailable(err))
	}
	return listed, nil
}

// alertByID returns one alert with alertColumns or alertHeads.
func (s *AlertStore) alertByID(ctx context.Context, columns string, id alerts.ID, shards []int16) (listed futurejobs.ListedAlert, err error) {
	err = readListedAlert(s.read.QueryRowContext(ctx, `SELECT `+columns+`, `+s.unpublished()+fromAlert+`
WHERE a.id = $1 AND a.shard IN `+inList(shards), id[:]), &listed)
	if errors.Is(err, sql.ErrNoRows) {
		err = futurejobs.ErrNotFound
	}
	return listed, err
}

// listedMost is futurejobs.ListedMost as a literal in a statement.
var listedMost = strconv.Itoa(futurejobs.ListedMost)

// headOfAlert is the part of a large alert's document that a list reads first: its event and its state come last in it.
const headOfAlert = `substr(a.detail, 1, 8192)`

// fill reads the documents of the alerts of a page; of a large one, all but its event and its state. A page is selected
// without documents, since the shards together have many more alerts than a page. An alert that retention deletes
// meanwhile is left out.
func (s *AlertStore) fill(ctx context.Context, page []futurejobs.ListedAlert) ([]futurejobs.ListedAlert, error) {
	places := make(map[int16]map[alerts.ID]*futurejobs.ListedAlert)
	for i := range page {
		a := &page[i]
		if places[a.Shard] == nil {
			places[a.Shard] = make(map[alerts.ID]*futurejobs.ListedAlert)
		}
		places[a.Shard][a.ID] = a
	}
	for shard, wanted := range places {
		if err := s.fillOf(ctx, shard, wanted); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(page, func(a futurejobs.ListedAlert) bool { return places[a.Shard][a.ID] != nil }), nil
}

// fillOf fills the alerts of a shard and removes those that it finds from wanted.
func (s *AlertStore) fillOf(ctx context.Context, shard int16, wanted map[alerts.ID]*futurejobs.ListedAlert) error {
	w := filter{`SELECT a.id, CASE WHEN octet_length(a.detail) <= ` + listedMost + ` THEN a.detail ELSE ` + headOfAlert + ` END,
	octet_length(a.detail) > ` + listedMost + `
FROM alert a WHERE a.shard = ? AND a.id IN (?` + strings.Repeat(`, ?`, len(wanted)-1) + `)`, []any{shard}}
	for id := range wanted {
		w.args = append(w.args, id[:])
	}
	bodies, err := query(ctx, s.read, readAlertBody, rebindPlaceholders(w.text), w.args...)
	if err != nil {
		return err
	}
	for _, b := range bodies {
		a := wanted[b.id]
		switch {
		case !b.large:
			err = a.Read([]byte(b.text))
		case a.ReadHead([]byte(b.text)):
			a.Omitted = true
		default:
			err = s.readLarge(ctx, shard, a)
		}
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return err
		}
		delete(wanted, b.id)
	}
	return nil
}

// readLarge reads the whole document of an alert and drops its event and its state.
func (s *AlertStore) readLarge(ctx context.Context, shard int16, a *futurejobs.ListedAlert) error {
	var text string
	if err := s.read.QueryRowContext(ctx, `SELECT a.detail FROM alert a WHERE a.shard = $1 AND a.id = $2`, shard, a.ID[:]).Scan(&text); err != nil {
		return err
	}
	if err := a.Read([]byte(text)); err != nil {
		return err
	}
	a.Event, a.State, a.Omitted = nil, nil, true
	return nil
}

// alertBody is the document of an alert, or the beginning of a large one.
type alertBody struct {
	id    alerts.ID
	text  string
	large bool
}

func readAlertBody(row scanner, b *alertBody) error { return row.Scan(&b.id, &b.text, &b.large) }

// notOpen is the condition that an alert a is not among the first or the newest alerts of a pending job, which its end resolves
// on their channels, or closes one. A subquery that counts is not turned into a join, and looks up the job of each alert.
func (s *AlertStore) notOpen() string {
	size := strconv.Itoa(endsOfJob * len(alerts.ID{}))
	return ` AND (a.status = 2 OR (SELECT count(*) FROM future_job f
	WHERE f.shard = a.shard AND f.rule_id = a.rule_id AND f.key = a.key AND f.alert_ids IS NOT NULL AND (
	` + s.holds(`substr(f.alert_ids, 1, `+size+`)`, `a.id`) + ` OR ` + s.holds(`substr(f.alert_ids, length(f.alert_ids) + 1 - `+size+`)`, `a.id`) + `)) = 0)`
}

// firstAlert returns an id below those of all alerts raised at t or later.
func firstAlert(t time.Time) (id alerts.ID) {
	binary.BigEndian.PutUint64(id[:], uint64(t.UnixMilli())<<16)
	return id
}
