package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// DeliveredAlertStore reads the alerts that channels receive, with their states.
type DeliveredAlertStore struct{ *database }

// deliveredColumns are the columns that readDelivered reads, of the alert a, its rule r and its delivery d.
const deliveredColumns = alertHeads + `, d.unclosed, `

// delivered is an alert of a channel, as it is stored.
type delivered struct {
	alerts.Alert
	unclosed bool // it fires, and no later alert has closed it
	pending  bool // its job is pending
}

func readDelivered(row scanner, d *delivered) error {
	r := alertRow{Alert: &d.Alert}
	if err := row.Scan(append(r.fields(), &d.unclosed, &d.pending)...); err != nil {
		return err
	}
	return r.read()
}

// MessagePage returns up to limit alerts of a notification, in the order of ids from after on. No alert is left if the page is
// empty.
func (s *DeliveredAlertStore) MessagePage(ctx context.Context, message int64, after alerts.ID, limit int) ([]alerts.DeliveredAlert, error) {
	found, err := query(ctx, s.read, readDelivered, `SELECT `+deliveredColumns+`f.id IS NOT NULL
FROM (SELECT o.shard, o.alert_id, o.unclosed FROM delivery o WHERE o.notice = $1 AND o.alert_id > $2 ORDER BY o.alert_id LIMIT $3) AS d
JOIN alert a ON a.shard = d.shard AND a.id = d.alert_id
JOIN rule r ON r.id = a.rule_id
LEFT JOIN future_job f ON f.shard = a.shard AND f.rule_id = a.rule_id AND f.key = a.key AND `+s.holds(`f.alert_ids`, `a.id`)+`
ORDER BY a.id`, message, after[:], limit)
	if err == nil {
		found, err = s.fill(ctx, found)
	}
	conditions := make(map[int16][]alerts.ID)
	if err == nil && slices.ContainsFunc(found, func(d delivered) bool { return !d.pending }) {
		conditions, err = conditionAlerts(ctx, s.database)
	}
	if err != nil {
		return nil, wrapErr("page of a message", err)
	}
	page := make([]alerts.DeliveredAlert, len(found))
	for i, d := range found {
		closed := d.Status == alerts.Firing && !d.unclosed
		page[i] = alerts.DeliveredAlert{
			Alert: d.Alert, Closed: closed, Open: !closed && (d.pending || slices.Contains(conditions[d.Shard], d.ID)),
		}
	}
	return page, nil
}

// IsTopicOpen reports whether an alert of the topic of a notification is open on the channel: not closed, and of a pending job or a
// lasting condition. An alert of a job that ended without a resolution is not open: no alert can close it.
func (s *DeliveredAlertStore) IsTopicOpen(ctx context.Context, n alerts.Notification) (isOpen bool, err error) {
	topic := []any{n.Channel, n.Route, escape(n.Topic)}
	err = s.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM notice n
JOIN delivery d ON d.notice = n.id
JOIN alert a ON a.shard = d.shard AND a.id = d.alert_id AND (d.unclosed OR a.status = $4)
JOIN future_job f ON f.shard = a.shard AND f.rule_id = a.rule_id AND f.key = a.key AND `+s.holds(`f.alert_ids`, `a.id`)+`
WHERE n.channel = $1 AND n.route = $2 AND n.topic = $3)`, append(topic, alerts.Undetermined.Number())...).Scan(&isOpen)
	if err == nil && !isOpen {
		isOpen, err = s.isConditionDelivered(ctx, topic)
	}
	if err != nil {
		return false, wrapErr("open alerts of a topic", err)
	}
	return isOpen, nil
}

// isConditionDelivered reports whether an alert of a lasting condition was delivered in a topic: a channel, a route and a topic.
func (s *DeliveredAlertStore) isConditionDelivered(ctx context.Context, topic []any) (is bool, err error) {
	conditions, err := conditionAlerts(ctx, s.database)
	for shard, ids := range conditions {
		for chunk := range slices.Chunk(ids, atOnce) {
			if err != nil || is {
				return is, err
			}
			err = s.read.QueryRowContext(ctx, rebindPlaceholders(`SELECT EXISTS (SELECT 1 FROM delivery d JOIN notice n ON n.id = d.notice
WHERE d.shard = ? AND d.alert_id IN (?`+strings.Repeat(`, ?`, len(chunk)-1)+`) AND n.channel = ? AND n.route = ? AND n.topic = ?)`),
				append(with(chunk, shard), topic...)...).Scan(&is)
		}
	}
	return is, err
}

// DeliveredClosed returns the alerts that the given ones close and that a channel received: of each the first and the newest.
func (s *DeliveredAlertStore) DeliveredClosed(ctx context.Context, channel string, closing []alerts.Alert) (all []alerts.Alert, err error) {
	closing = slices.Clone(closing)
	for i := range closing {
		closing[i].Closes = firstAndNewest(closing[i].Closes)
	}
	err = closed(closing, func(shard int16, ids []alerts.ID) error {
		found, err := s.deliveredOf(ctx, channel, shard, ids)
		for _, d := range found {
			all = append(all, d.Alert)
		}
		return err
	})
	if err != nil {
		return nil, wrapErr("delivered alerts that are closed", err)
	}
	return all, nil
}

// EachOpen passes all open alerts that a channel received to do, up to limit at a time: of each pending job those that no
// later alert has closed, and those of open conditions. It reads the pending jobs with alerts, of any channel.
func (s *DeliveredAlertStore) EachOpen(ctx context.Context, channel string, limit int, do func([]alerts.Alert) error) error {
	p := openPage{limit: limit, do: do}
	conditions, err := conditionAlerts(ctx, s.database)
	for shard := int16(0); err == nil && int(shard) < s.shards; shard++ {
		p.read = func(ids []alerts.ID) ([]delivered, error) { return s.deliveredOf(ctx, channel, shard, ids) }
		err = p.add(conditions[shard])
		after := alerts.ID{}
		for more := true; more && err == nil; {
			var ids []alerts.ID
			if ids, after, err = s.idsOfOpen(ctx, shard, after); err == nil {
				more, err = len(ids) > 0, p.add(ids)
			}
		}
	}
	if err == nil {
		err = p.flush()
	}
	if err != nil {
		return wrapErr("open alerts of a channel", err)
	}
	return nil
}

// openPage collects the open alerts of a channel until there are enough for a page.
type openPage struct {
	limit int
	read  func(ids []alerts.ID) ([]delivered, error) // of a shard
	do    func([]alerts.Alert) error
	page  []alerts.Alert
}

// add adds the open ones of the alerts of a shard.
func (p *openPage) add(ids []alerts.ID) error {
	for chunk := range slices.Chunk(ids, atOnce) {
		found, err := p.read(chunk)
		if err != nil {
			return err
		}
		for _, d := range found {
			if d.Status == alerts.Resolved || d.Status == alerts.Firing && !d.unclosed {
				continue
			}
			if p.page = append(p.page, d.Alert); len(p.page) < p.limit {
				continue
			}
			if err := p.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *openPage) flush() error {
	if len(p.page) == 0 {
		return nil
	}
	page := p.page
	p.page = nil
	return p.do(page)
}

// jobsOfPage is the number of jobs whose alerts are read at a time.
const jobsOfPage = 500

// endsOfJob is the number of the first and of the newest alerts of a job that are read. A job with more repeats a step, and
// the repetitions have the same labels.
const endsOfJob = 50

// firstAndNewest returns the first and the newest of the alerts of a job.
func firstAndNewest(ids []alerts.ID) []alerts.ID {
	if len(ids) <= 2*endsOfJob {
		return ids
	}
	return slices.Concat(ids[:endsOfJob], ids[len(ids)-endsOfJob:])
}

// idsOfOpen returns the alerts of pending jobs of a shard, in the order of their newest alerts from after on, and the newest
// alert of the last of these jobs.
func (s *DeliveredAlertStore) idsOfOpen(ctx context.Context, shard int16, after alerts.ID) ([]alerts.ID, alerts.ID, error) {
	lists, err := query(ctx, s.read, func(row scanner, l *idList) error { return row.Scan(l) }, `
SELECT f.alert_ids FROM future_job f WHERE f.shard = $1 AND f.alert_ids IS NOT NULL AND `+newestAlert+` > $2
ORDER BY `+newestAlert+` LIMIT $3`, shard, after[:], jobsOfPage)
	var ids []alerts.ID
	for _, l := range lists {
		after = l[len(l)-1]
		ids = append(ids, firstAndNewest(l)...)
	}
	return ids, after, err
}

// deliveredOf returns those of the alerts of a shard that a channel received, at most atOnce.
func (s *DeliveredAlertStore) deliveredOf(ctx context.Context, channel string, shard int16, ids []alerts.ID) ([]delivered, error) {
	found, err := query(ctx, s.read, readDelivered, rebindPlaceholders(`SELECT `+deliveredColumns+`FALSE FROM delivery d
JOIN alert a ON a.shard = d.shard AND a.id = d.alert_id
JOIN rule r ON r.id = a.rule_id
WHERE d.shard = ? AND d.alert_id IN (?`+strings.Repeat(`, ?`, len(ids)-1)+`) AND d.notice IS NOT NULL AND d.channel = ? ORDER BY a.id`),
		append(with(ids, shard), channel)...)
	if err != nil {
		return nil, err
	}
	return s.fill(ctx, found)
}

// fill reads the documents of alerts, as AlertStore.fill does.
func (s *DeliveredAlertStore) fill(ctx context.Context, found []delivered) ([]delivered, error) {
	page := make([]futurejobs.ListedAlert, len(found))
	for i, d := range found {
		page[i].Alert = d.Alert
	}
	filled, err := (&AlertStore{s.database}).fill(ctx, page)
	if err != nil {
		return nil, err
	}
	documents := make(map[alerts.ID]alerts.Alert, len(filled))
	for _, a := range filled {
		documents[a.ID] = a.Alert
	}
	found = slices.DeleteFunc(found, func(d delivered) bool { return documents[d.ID].ID != d.ID })
	for i, d := range found {
		found[i].Alert = documents[d.ID]
	}
	return found, nil
}

// conditionAlerts returns the open alerts that belong to no job, by shard: of ticks that cannot be applied, of outages, of
// conditions of nodes, of failing channels, of monitoring gaps, and last of lost data that no actor has closed.
func conditionAlerts(ctx context.Context, s *database) (map[int16][]alerts.ID, error) {
	open := make(map[int16][]alerts.ID)
	ticks, tickErr := unresolved(ctx, s)
	for _, u := range ticks {
		shard := futurejobs.ShardOf(alerts.SystemEntity, u.topic, s.shards)
		open[shard] = append(open[shard], u.id)
	}
	outages, err := query(ctx, s.read, readOpenOutage, `SELECT `+outageColumns+`, r.name, r.entity FROM outage o JOIN rule r ON r.id = o.rule_id WHERE o.closed_at IS NULL`)
	for _, o := range outages {
		a := o.OpeningAlert(o.rule, o.entity)
		shard := futurejobs.ShardOf(a.Entity, a.Key, s.shards)
		open[shard] = append(open[shard], a.ID)
	}
	firing, firingErr := (&SystemAlertStore{s}).FiringSystemAlerts(ctx)
	channels, channelErr := query(ctx, s.read, readFailingChannel, `SELECT name, failing_since FROM channel WHERE tries >= $1`, alerts.FailingAfter)
	gaps, gapErr := query(ctx, s.read, readGap, `SELECT topic, through_at FROM progress WHERE late IS NOT NULL`)
	for _, r := range slices.Concat(firing, channels, gaps) {
		a := r.Alert(time.Time{})
		shard := futurejobs.ShardOf(a.Entity, a.Key, s.shards)
		open[shard] = append(open[shard], a.ID)
	}
	losses, lossErr := s.unclosed(ctx)
	for _, u := range losses {
		open[u.shard] = append(open[u.shard], u.id)
	}
	return open, errors.Join(tickErr, err, firingErr, channelErr, gapErr, lossErr)
}

func readFailingChannel(row scanner, r *alerts.SystemAlert) error {
	var name string
	var since time.Time
	if err := row.Scan(&name, at(&since)); err != nil {
		return err
	}
	*r = alerts.ChannelAlert(name, alerts.Firing, since)
	return nil
}

func readGap(row scanner, r *alerts.SystemAlert) error {
	r.Step, r.Status = alerts.GapStep, alerts.Firing
	return row.Scan(&r.Topic, at(&r.Since))
}
