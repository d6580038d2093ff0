package store

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// notifying is the condition that alerts are queued for routing. It is evaluated in the transaction that decides them,
// so nodes need not know the settings of other nodes.
const notifying = `EXISTS (SELECT 1 FROM setting WHERE name = 'notify')`

// atOnce is the largest number of rows that a statement names.
const atOnce = 100

// NotificationStore keeps the notifications of alerts and their deliveries.
type NotificationStore struct{ *database }

// Notify makes alerts queue for routing from now on, or stops that and empties the queue.
func (s *NotificationStore) Notify(ctx context.Context, on bool) error {
	err := s.tx(ctx, func(tx *sql.Tx, _ time.Time) error {
		if on {
			_, err := exec(ctx, tx, `INSERT INTO setting (name, value) VALUES ('notify', 'on') ON CONFLICT DO NOTHING`)
			return err
		}
		if _, err := exec(ctx, tx, `DELETE FROM setting WHERE name = 'notify'`); err != nil {
			return err
		}
		if _, err := exec(ctx, tx, `DELETE FROM unrouted_ack`); err != nil {
			return err
		}
		_, err := exec(ctx, tx, `DELETE FROM alert_news`)
		return err
	})
	if err != nil {
		return wrapErr("notify", err)
	}
	return nil
}

// Notifying reports whether alerts are queued for routing.
func (s *NotificationStore) Notifying(ctx context.Context) (on bool, err error) {
	if err := s.read.QueryRowContext(ctx, `SELECT `+notifying).Scan(&on); err != nil {
		return false, wrapErr("notifying", err)
	}
	return on, nil
}

// UnroutedAlerts returns up to limit alerts that are not routed yet, oldest first within a shard. more reports whether
// others may be left: a read ends at 16 MiB, too.
func (s *NotificationStore) UnroutedAlerts(ctx context.Context, limit int) (found []alerts.Alert, more bool, err error) {
	var through int64 // the bytes that were read
	found, err = query(ctx, s.read, func(row scanner, a *alerts.Alert) error {
		var bytes int64
		err := readAlert(rowWithExtras{row, []any{&bytes}}, a)
		through = max(through, bytes)
		return err
	}, `SELECT `+alertColumns+`, o.through
FROM (`+s.unrouted().next(s.allShards(), limit, "")+`) AS o
JOIN alert a ON a.shard = o.shard AND a.id = o.id
JOIN rule r ON r.id = a.rule_id
ORDER BY a.shard, a.id`)
	if err != nil {
		return nil, false, wrapErr("unrouted alerts", err)
	}
	return found, isFull(len(found), limit, through), nil
}

// PriorDeliveries returns the deliveries of the alerts that closing closes.
func (s *NotificationStore) PriorDeliveries(ctx context.Context, closing []alerts.Alert) (prior []alerts.PriorDelivery, err error) {
	err = closed(closing, func(shard int16, ids []alerts.ID) error {
		found, err := query(ctx, s.read, readPriorDelivery, `
SELECT d.alert_id, n.channel, n.route, n.topic FROM delivery d JOIN notice n ON n.id = d.notice
WHERE d.shard = $1 AND d.alert_id IN `+idParams(len(ids)), with(ids, shard)...)
		prior = append(prior, found...)
		return err
	})
	if err != nil {
		return nil, wrapErr("prior deliveries", err)
	}
	return prior, nil
}

func readPriorDelivery(row scanner, h *alerts.PriorDelivery) error {
	return row.Scan(&h.Alert, &h.Channel, &h.Route, (*escapedText)(&h.Topic))
}

// Closed returns the stored alerts that the given ones close.
func (s *NotificationStore) Closed(ctx context.Context, closing []alerts.Alert) (raised []alerts.Alert, err error) {
	err = closed(closing, func(shard int16, ids []alerts.ID) error {
		found, err := query(ctx, s.read, readAlert, `SELECT `+alertColumns+fromAlert+`
WHERE a.shard = $1 AND a.id IN `+idParams(len(ids)), with(ids, shard)...)
		raised = append(raised, found...)
		return err
	})
	if err != nil {
		return nil, wrapErr("closed", err)
	}
	return raised, nil
}

const noticeColumns = `id, channel, route, topic, alerts, planned_at, next_at, tries`

func readNotice(row scanner, n *alerts.Notification) error {
	return row.Scan(&n.ID, &n.Channel, &n.Route, (*escapedText)(&n.Topic), &n.Alerts, at(&n.PlannedAt), at(&n.NextAt), &n.Tries)
}

// unfinished is the condition that a notification is neither sent nor given up.
const unfinished = `sent_at IS NULL AND failed_at IS NULL`

// Lane returns up to limit of the newest notifications of a route and channel that were not given up, the latest planned
// first.
func (s *NotificationStore) Lane(ctx context.Context, l alerts.RouteChannel, limit int) ([]alerts.Notification, error) {
	found, err := query(ctx, s.read, readNotice, `SELECT `+noticeColumns+` FROM notice
WHERE channel = $1 AND route = $2 AND failed_at IS NULL ORDER BY planned_at DESC, id DESC LIMIT $3`, l.Channel, l.Route, limit)
	if err != nil {
		return nil, wrapErr("lane", err)
	}
	return found, nil
}

// Ready returns the next notification of each channel, if it is due.
func (s *NotificationStore) Ready(ctx context.Context, now time.Time) ([]alerts.Notification, error) {
	found, err := query(ctx, s.read, readNotice, `SELECT `+noticeColumns+` FROM (
	SELECT `+noticeColumns+`, row_number() OVER (PARTITION BY channel ORDER BY next_at, id) AS turn
	FROM notice WHERE `+unfinished+` AND next_at <= $1) AS q
WHERE turn = 1 ORDER BY channel`, now)
	if err != nil {
		return nil, wrapErr("ready", err)
	}
	return found, nil
}

// ApplyPlan writes a plan in one transaction. It returns futurejobs.ErrCursorMoved if another node was faster, or if an
// open notification is being sent: nothing is written then, and the caller must plan again. Other errors are
// futurejobs.ErrTooSlow and ErrRefused.
func (s *NotificationStore) ApplyPlan(ctx context.Context, p alerts.Plan) error {
	err := s.tx(ctx, func(tx *sql.Tx, _ time.Time) error {
		if err := deleteUnrouted(ctx, tx, p.Alerts); err != nil {
			return err
		}
		if err := forgetUnroutedAcks(ctx, tx, p.Acks); err != nil {
			return err
		}
		ids := make([]int64, len(p.Notifications))
		for i, n := range p.Notifications {
			var err error
			if ids[i], err = keepNotice(ctx, tx, n); err != nil {
				return err
			}
		}
		for placed := range slices.Chunk(p.Assignments, atOnce) {
			if err := deliver(ctx, tx, placed, ids); err != nil {
				return err
			}
		}
		if err := deliverAcks(ctx, tx, p.AckAssignments, ids); err != nil {
			return err
		}
		return closed(p.Alerts, func(shard int16, ids []alerts.ID) error {
			_, err := exec(ctx, tx, `UPDATE delivery SET unclosed = FALSE WHERE shard = $1 AND alert_id IN `+idParams(len(ids)), with(ids, shard)...)
			return err
		})
	})
	if err != nil {
		return wrapErr("apply notification plan", undone(err))
	}
	return nil
}

// deleteUnrouted deletes alerts from the queue: all of them, or another node has taken some.
func deleteUnrouted(ctx context.Context, tx *sql.Tx, unrouted []alerts.Alert) error {
	byShard := make(map[int16][]alerts.ID)
	for _, a := range unrouted {
		byShard[a.Shard] = append(byShard[a.Shard], a.ID)
	}
	for _, shard := range slices.Sorted(maps.Keys(byShard)) {
		for ids := range slices.Chunk(byShard[shard], atOnce) {
			n, err := exec(ctx, tx, `DELETE FROM alert_news WHERE shard = $1 AND id IN `+idParams(len(ids)), with(ids, shard)...)
			if err != nil {
				return err
			}
			if n != int64(len(ids)) {
				return futurejobs.ErrCursorMoved
			}
		}
	}
	return nil
}

// keepNotice writes a new notification, or adds to an open one.
func keepNotice(ctx context.Context, tx *sql.Tx, n alerts.Notification) (id int64, err error) {
	if n.ID != 0 {
		rows, err := exec(ctx, tx, `UPDATE notice SET alerts = alerts + $1 WHERE id = $2 AND tries = 0 AND `+unfinished, n.Alerts, n.ID)
		if err == nil && rows == 0 {
			err = futurejobs.ErrCursorMoved
		}
		return n.ID, err
	}
	err = tx.QueryRowContext(ctx, `INSERT INTO notice (channel, route, topic, alerts, planned_at, next_at)
VALUES ($1, $2, $3, $4, $5, $5) RETURNING id`, n.Channel, n.Route, escape(n.Topic), n.Alerts, n.PlannedAt).Scan(&id)
	return id, err
}

// deliver writes the deliveries of alerts.
func deliver(ctx context.Context, tx *sql.Tx, placed []alerts.Assignment, notices []int64) error {
	w := filter{text: `INSERT INTO delivery (shard, alert_id, channel, notice, mute, unclosed) VALUES `}
	for i, p := range placed {
		var notice, mute any
		if p.Notification >= 0 {
			notice = notices[p.Notification]
		} else {
			mute = p.Mute
		}
		if i > 0 {
			w.text += `, `
		}
		w.text += `(?, ?, ?, ?, ?, ?)`
		w.args = append(w.args, p.Alert.Shard, p.Alert.ID[:], p.Channel, notice, mute, p.Unclosed)
	}
	_, err := exec(ctx, tx, rebindPlaceholders(w.text), w.args...)
	return err
}

// ClaimNotification claims a notification so that no other node sends it before next. It returns the notification as of
// then: it no longer accepts further alerts. ok is false if another node has claimed it.
func (s *NotificationStore) ClaimNotification(ctx context.Context, n alerts.Notification, next time.Time) (claimed alerts.Notification, ok bool, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, _ time.Time) error {
		err := readNotice(tx.QueryRowContext(ctx, `UPDATE notice SET tries = tries + 1, next_at = $1
WHERE id = $2 AND tries = $3 AND `+unfinished+` RETURNING `+noticeColumns, next, n.ID, n.Tries), &claimed)
		ok = err == nil
		return ignoreErr(errors.Is(err, sql.ErrNoRows), err)
	})
	if err != nil {
		return alerts.Notification{}, false, wrapErr("claim", err)
	}
	return claimed, ok, nil
}

// contentBytes bounds the total size of a notification's alerts, except for the first one.
const contentBytes = 4 << 20

// ofMessage selects the alerts of a notification in its order: first the most severe of each rule, so that no rule is
// behind many alerts of another, then the next of each.
const ofMessage = ` FROM delivery d
JOIN alert a ON a.shard = d.shard AND a.id = d.alert_id
JOIN rule r ON r.id = a.rule_id
WHERE d.notice = $1 ORDER BY row_number() OVER (PARTITION BY a.rule_id ORDER BY a.severity DESC, a.id), a.severity DESC, a.id LIMIT $2`

// Content returns the first alerts of a notification, up to limit alerts and up to contentBytes.
func (s *NotificationStore) Content(ctx context.Context, n alerts.Notification, limit int) (raised []alerts.Alert, err error) {
	sizes, err := query(ctx, s.read, func(row scanner, size *int) error { return row.Scan(size) }, `SELECT octet_length(a.detail)`+ofMessage, n.ID, limit)
	if err == nil {
		raised, err = query(ctx, s.read, readAlert, `SELECT `+alertColumns+ofMessage, n.ID, fitting(sizes, contentBytes))
	}
	if err != nil {
		return nil, wrapErr("content", err)
	}
	return raised, nil
}

// fitting returns the number of leading sizes that fit into limit; the first one always fits.
func fitting(sizes []int, limit int) int {
	for i, size := range sizes {
		if limit -= size; limit < 0 && i > 0 {
			return i
		}
	}
	return len(sizes)
}

// Sent records that a channel accepted a notification and works. A warning names recipients that it was not accepted for.
func (s *NotificationStore) Sent(ctx context.Context, n alerts.Notification, now time.Time, warning string) error {
	warning = escape(warning)
	err := s.tx(ctx, func(tx *sql.Tx, _ time.Time) error {
		if _, err := exec(ctx, tx, `UPDATE notice SET sent_at = $1, error = nullif($2, '') WHERE id = $3 AND `+unfinished, now, warning, n.ID); err != nil {
			return err
		}
		_, err := exec(ctx, tx, `INSERT INTO channel (name, sent, sent_at, error) VALUES ($1, 1, $2, nullif($3, ''))
ON CONFLICT (name) DO UPDATE SET sent = channel.sent + 1, sent_at = excluded.sent_at, tries = 0, failing_since = NULL, error = excluded.error`,
			n.Channel, now, warning)
		return err
	})
	if err != nil {
		return wrapErr("sent", err)
	}
	return nil
}

// ChannelWorks records that a failing channel works, without a notification.
func (s *NotificationStore) ChannelWorks(ctx context.Context, name string) error {
	if _, err := exec(ctx, s.db, `UPDATE channel SET tries = 0, failing_since = NULL, error = NULL WHERE name = $1 AND tries > 0`, name); err != nil {
		return wrapErr("channel works", err)
	}
	return nil
}

// MarkFailed records that a channel did not accept a notification, to be retried at next; with the id 0, that it failed
// without one. It returns the state of the channel.
func (s *NotificationStore) MarkFailed(ctx context.Context, n alerts.Notification, reason string, now, next time.Time) (c alerts.ChannelState, err error) {
	reason = escape(reason)
	err = s.tx(ctx, func(tx *sql.Tx, _ time.Time) error {
		if _, err := exec(ctx, tx, `UPDATE notice SET next_at = $1, error = $2 WHERE id = $3 AND `+unfinished, next, reason, n.ID); err != nil {
			return err
		}
		if _, err := exec(ctx, tx, `INSERT INTO channel (name, tries, failing_since, error) VALUES ($1, 1, $2, $3)
ON CONFLICT (name) DO UPDATE SET tries = channel.tries + 1, error = excluded.error,
	failing_since = coalesce(channel.failing_since, excluded.failing_since)`, n.Channel, now, reason); err != nil {
			return err
		}
		return readChannel(tx.QueryRowContext(ctx, channels+` WHERE c.name = $1`, n.Channel), &c)
	})
	if err != nil {
		return c, wrapErr("mark notification failed", err)
	}
	return c, nil
}

// GiveUp gives up notifications that were planned before the given time, and writes the alert of lost for each of their
// channels in the same transaction. It returns their numbers by channel, and the alerts.
func (s *NotificationStore) GiveUp(
	ctx context.Context, before, now time.Time, lost func(channel string, messages int) alerts.SystemAlert,
) (given map[string]int, raised []alerts.Alert, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, raisedAt time.Time) error {
		given, raised = make(map[string]int), nil
		ofChannels, err := query(ctx, tx, func(row scanner, channel *string) error { return row.Scan(channel) },
			`UPDATE notice SET failed_at = $1, error = coalesce(error, 'the channel was not there')
WHERE `+unfinished+` AND planned_at < $2 AND next_at <= $1 RETURNING channel`, now, before)
		if err != nil {
			return err
		}
		for _, channel := range ofChannels {
			given[channel]++
		}
		for _, channel := range slices.Sorted(maps.Keys(given)) {
			a, isNew, err := s.raise(ctx, tx, lost(channel, given[channel]), raisedAt)
			if err != nil {
				return err
			}
			if isNew {
				raised = append(raised, a)
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, wrapErr("give up", err)
	}
	return given, raised, nil
}

const channels = `SELECT c.name, c.sent, c.sent_at,
	(SELECT count(*) FROM notice WHERE channel = c.name AND ` + unfinished + `), c.tries, c.failing_since, coalesce(c.error, '')
FROM channel c`

func readChannel(row scanner, c *alerts.ChannelState) error {
	return row.Scan(&c.Name, &c.Sent, at(&c.SentAt), &c.Waiting, &c.Tries, at(&c.FailingSince), (*escapedText)(&c.Error))
}

// Channels returns the state of all channels that were ever tried, by name.
func (s *NotificationStore) Channels(ctx context.Context) ([]alerts.ChannelState, error) {
	found, err := query(ctx, s.read, readChannel, channels+` ORDER BY c.name`)
	if err != nil {
		return nil, wrapErr("channels", err)
	}
	return found, nil
}

// Deliveries returns the deliveries of an alert, by channel.
func (s *NotificationStore) Deliveries(ctx context.Context, a alerts.Alert) ([]alerts.Delivery, error) {
	found, err := query(ctx, s.read, readDelivery, `
SELECT d.channel, coalesce(d.mute, 0), coalesce(n.tries, 0), n.sent_at, n.failed_at, n.next_at, coalesce(n.error, '')
FROM delivery d LEFT JOIN notice n ON n.id = d.notice WHERE d.shard = $1 AND d.alert_id = $2 ORDER BY d.channel`, a.Shard, a.ID[:])
	if err != nil {
		return nil, wrapErr("deliveries", err)
	}
	return found, nil
}

func readDelivery(row scanner, d *alerts.Delivery) error {
	var sentAt, failedAt, nextAt time.Time
	if err := row.Scan(&d.Channel, &d.Mute, &d.Tries, at(&sentAt), at(&failedAt), at(&nextAt), (*escapedText)(&d.Error)); err != nil {
		return err
	}
	switch {
	case d.Mute != 0:
		d.State = alerts.Muted
	case !sentAt.IsZero():
		d.State, d.At = alerts.Sent, sentAt
	case !failedAt.IsZero():
		d.State, d.At = alerts.Failed, failedAt
	default:
		d.State, d.At = alerts.Waiting, nextAt
	}
	return nil
}
