package store

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// newestAlert is the expression for the last alert id of a job f, in bytes, as in the index future_job_open.
const newestAlert = `substr(f.alert_ids, length(f.alert_ids) - 15)`

// openAlerts lists the newest alert of each pending job that raised one, of each open outage, and of each loss of data
// that no actor has closed, newest first. An alert beyond its retention is missing.
func (s *AlertStore) openAlerts(ctx context.Context, f futurejobs.Filter) (page futurejobs.Page[futurejobs.ListedAlert], err error) {
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
	losses, err := s.openLosses(ctx, f, before.Alert)
	if err != nil {
		return page, err
	}
	portions := []*shardPage[futurejobs.ListedAlert]{{items: open, over: true}, {items: losses, over: true}}
	for _, c := range scopes {
		portions = append(portions, alertsBefore(before.Alert, func(before alerts.ID, limit int) ([]futurejobs.ListedAlert, error) {
			return s.openMatching(ctx, c, f, before, limit)
		}))
	}
	if open, err = mergeShards(portions, limit(f)+1, newestFirst); err != nil {
		return page, err
	}
	page = paged("open", open, f, func(a futurejobs.ListedAlert) position { return position{Alert: a.ID} })
	page.Items, err = s.fill(ctx, page.Items)
	return page, err
}

// openMatching is openOfShard narrowed by the value of a label.
func (s *AlertStore) openMatching(ctx context.Context, c scope, f futurejobs.Filter, before alerts.ID, limit int) ([]futurejobs.ListedAlert, error) {
	if f.Label == "" {
		return s.openOfShard(ctx, c, f, before, limit)
	}
	var matching []futurejobs.ListedAlert
	for a, err := range s.openDocuments(ctx, c, f, before) {
		if err != nil {
			return nil, err
		}
		if matching = append(matching, a); len(matching) == limit {
			break
		}
	}
	return matching, nil
}

// openDocuments reads the open alerts of a shard that match a filter with their documents, which alone have the labels.
func (s *AlertStore) openDocuments(ctx context.Context, c scope, f futurejobs.Filter, before alerts.ID) iter.Seq2[futurejobs.ListedAlert, error] {
	return func(yield func(futurejobs.ListedAlert, error) bool) {
		for {
			page, err := s.openOfShard(ctx, c, f, before, futurejobs.MaxLimit)
			if err == nil && len(page) == 0 {
				return
			}
			if err == nil {
				before = page[len(page)-1].ID
				page, err = s.fill(ctx, page)
			}
			if err != nil {
				yield(futurejobs.ListedAlert{}, err)
				return
			}
			for _, a := range page {
				if hasLabel(f, a.Alert) && !yield(a, nil) {
					return
				}
			}
		}
	}
}

// hasLabel reports whether an alert has the label of a filter.
func hasLabel(f futurejobs.Filter, a alerts.Alert) bool {
	return f.Label == "" || a.Field(f.Label) == f.LabelValue
}

// openOfShard scans the jobs that raised alerts, or reads those of a key.
func (s *AlertStore) openOfShard(ctx context.Context, c scope, f futurejobs.Filter, before alerts.ID, limit int) ([]futurejobs.ListedAlert, error) {
	w := filter{`SELECT ` + alertHeads + `, ` + s.unpublished() + `, ` + besideOpen + `
FROM future_job f ` + s.eachNewest() + `
JOIN rule r ON r.id = f.rule_id` + withAck + `
WHERE f.shard = ? AND f.alert_ids IS NOT NULL AND ` + newestAlert + ` < ?` + c.and("f"), []any{c.shard, before[:]}}
	if f.Key != "" {
		w.and(`f.key = ?`, escapedText(f.Key))
	}
	w.andUnindexed(openConditions(f))
	return query(ctx, s.read, readOpen, rebindPlaceholders(w.text+` ORDER BY `+newestAlert+` DESC LIMIT `+strconv.Itoa(limit)), w.args...)
}

// eachNewest joins the newest alerts a of jobs f that are read in the order of their index, until a limit is reached.
// Postgres expects so many of them that it would join and sort all of a shard; LATERAL with OFFSET makes it look up each.
func (s *AlertStore) eachNewest() string {
	if s.alone {
		return s.newest()
	}
	return `JOIN LATERAL (SELECT a.* FROM alert a WHERE ` + s.isNewest() + ` OFFSET 0) a ON TRUE`
}

// newest joins the newest alerts a of jobs f.
func (s *AlertStore) newest() string { return `JOIN alert a ON ` + s.isNewest() }

// isNewest is the condition that an alert a is the newest of a job f.
func (s *AlertStore) isNewest() string { return `a.shard = f.shard AND a.id = ` + s.idOf(newestAlert) }

// openConditions narrows the open alerts a of the jobs f, except by labels.
func openConditions(f futurejobs.Filter) filter {
	w := filter{text: `1 = 1`}
	w.alerts(f)
	if f.Acknowledged != nil {
		w.and(acknowledged+` = ?`, f.Now, *f.Acknowledged)
	}
	if f.Through != (alerts.ID{}) {
		w.and(newestAlert+` <= ?`, f.Through[:])
	}
	return w
}

// acknowledged is the condition that an acknowledgement of a job f holds at a time.
const acknowledged = `(f.acked_until IS NOT NULL AND f.acked_until > ?)`

// CountOpenAlerts counts the open alerts that match a filter, in groups that agree in all fields of futurejobs.OpenAlerts
// but the last two. label names a label, the key or the step to group by; empty: none. The order is not defined. The
// database counts, except by these values: then all documents are read. f.Now decides which acknowledgements hold.
func (s *AlertStore) CountOpenAlerts(ctx context.Context, f futurejobs.Filter, label string) ([]futurejobs.OpenAlerts, error) {
	counts, err := s.countOpenAlerts(ctx, f, label)
	if err != nil {
		return nil, wrapErr("count open alerts", err)
	}
	return counts, nil
}

func (s *AlertStore) countOpenAlerts(ctx context.Context, f futurejobs.Filter, label string) ([]futurejobs.OpenAlerts, error) {
	scopes, err := s.scopes(ctx, f)
	if err != nil {
		return nil, err
	}
	outages, err := s.openOutages(ctx, f, lastAlert)
	if err != nil {
		return nil, err
	}
	losses, err := s.openLosses(ctx, f, lastAlert)
	if err != nil {
		return nil, err
	}
	counts := make([]futurejobs.OpenAlerts, 0, len(outages)+len(losses))
	for _, o := range slices.Concat(outages, losses) {
		counts = append(counts, countOf(o, label, false))
	}
	ofShards := make([][]futurejobs.OpenAlerts, len(scopes))
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(shardsAtOnce)
	for i, c := range scopes {
		all.Go(func() (err error) {
			ofShards[i], err = s.countOpenOfShard(ctx, c, f, label)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	return mergeCounts(append(counts, slices.Concat(ofShards...)...)), nil
}

// shardsAtOnce is the number of shards of which one count reads the open alerts at a time.
const shardsAtOnce = 4

// fieldOf returns the value of a field or label; empty for no name.
func fieldOf(a futurejobs.ListedAlert, name string) string {
	if name == "" {
		return ""
	}
	return a.Field(name)
}

// countOf counts one alert.
func countOf(a futurejobs.ListedAlert, label string, acknowledged bool) futurejobs.OpenAlerts {
	return futurejobs.OpenAlerts{
		Rule: a.Rule, Entity: a.Entity, Severity: a.Severity, Status: a.Status, LabelValue: fieldOf(a, label),
		Acknowledged: acknowledged, Outage: futurejobs.IsOutage(a.Alert), Loss: futurejobs.IsLoss(a.Alert), Count: 1, Oldest: a.DecidedAt,
	}
}

// mergeFrom is the number of counts from which those that agree are added up: a shard may have a million open alerts.
const mergeFrom = 1000

// mergeCounts adds up the counts that agree.
func mergeCounts(counts []futurejobs.OpenAlerts) []futurejobs.OpenAlerts {
	places := make(map[futurejobs.OpenAlerts]int)
	merged := counts[:0]
	for _, c := range counts {
		of := c
		of.Count, of.Oldest = 0, time.Time{}
		i, found := places[of]
		if !found {
			places[of], merged = len(merged), append(merged, c)
			continue
		}
		merged[i].Count += c.Count
		if c.Oldest.Before(merged[i].Oldest) {
			merged[i].Oldest = c.Oldest
		}
	}
	return merged
}

// countOpenOfShard hides the column of the rule from the planner of SQLite, which would scan all jobs by the index of their rule
// to group them.
func (s *AlertStore) countOpenOfShard(ctx context.Context, c scope, f futurejobs.Filter, label string) (counts []futurejobs.OpenAlerts, err error) {
	if label == "" && f.Label == "" {
		w := filter{`SELECT r.name, r.entity, g.severity, g.status, g.acked, g.alerts, g.oldest
FROM (SELECT +f.rule_id AS rule_id, a.severity, a.status, ` + acknowledged + ` AS acked, count(*) AS alerts, min(a.decided_at) AS oldest
	FROM future_job f ` + s.newest() + `
	WHERE f.shard = ? AND f.alert_ids IS NOT NULL` + c.and("f"), []any{f.Now, c.shard}}
		if f.Key != "" {
			w.and(`f.key = ?`, escapedText(f.Key))
		}
		conditions := openConditions(f)
		w.and(conditions.text, conditions.args...)
		return query(ctx, s.read, readOpenCount, rebindPlaceholders(w.text+`
	GROUP BY +f.rule_id, a.severity, a.status, acked) g
JOIN rule r ON r.id = g.rule_id`), w.args...)
	}
	full := mergeFrom
	for a, err := range s.openDocuments(ctx, c, f, lastAlert) {
		if err != nil {
			return nil, err
		}
		if counts = append(counts, countOf(a, label, a.Ack != nil && a.Ack.Holds(f.Now))); len(counts) >= full {
			counts = mergeCounts(counts)
			full = max(mergeFrom, 2*len(counts))
		}
	}
	return counts, nil
}

// readOpenCount reads a row of countOpenOfShard.
func readOpenCount(row scanner, c *futurejobs.OpenAlerts) error {
	var severity, status int16
	if err := row.Scan(&c.Rule, &c.Entity, &severity, &status, &c.Acknowledged, &c.Count, at(&c.Oldest)); err != nil {
		return err
	}
	c.Severity, c.Status = alerts.SeverityOf(severity), alerts.StatusOf(status)
	return nil
}

// readOpen is readListedAlert plus the acknowledgement and the next check of the alert's job.
func readOpen(row scanner, s *futurejobs.ListedAlert) error {
	var k readAck
	err := readListedAlert(rowWithExtras{row, append(k.fields(), at(&s.NextCheckAt), at(&s.SnoozedUntil))}, s)
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

// openOutages returns the alerts of open outages. They cannot be acknowledged.
func (s *AlertStore) openOutages(ctx context.Context, f futurejobs.Filter, before alerts.ID) ([]futurejobs.ListedAlert, error) {
	if f.Acknowledged != nil && *f.Acknowledged {
		return nil, nil
	}
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
		if alertOrder(a.ID, before) >= 0 || f.Through != (alerts.ID{}) && alertOrder(a.ID, f.Through) > 0 || f.Key != "" && f.Key != a.Key {
			continue
		}
		listed, err := s.alertByID(ctx, alertColumns, a.ID, []int16{futurejobs.ShardOf(a.Entity, a.Key, s.shards)})
		switch {
		case errors.Is(err, futurejobs.ErrNotFound): // its retention is over
		case err != nil:
			return nil, err
		case wanted(f, listed.Alert) && hasLabel(f, listed.Alert):
			open = append(open, listed)
		}
	}
	return open, nil
}
