package store

import (
	"context"
	"database/sql"
	"slices"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// keepUnroutedAcks queues an acknowledgement for the channels of its alerts.
const keepUnroutedAcks = `
INSERT INTO unrouted_ack (shard, job_id, alert_id, by_whom, at, until_at, note) SELECT $1, $2, $3, $4, $5, $6, $7 WHERE ` + notifying + `
ON CONFLICT (shard, job_id) DO UPDATE
SET alert_id = excluded.alert_id, by_whom = excluded.by_whom, at = excluded.at, until_at = excluded.until_at, note = excluded.note`

// dropUnroutedAcks removes an acknowledgement that ended before the channels were told.
const dropUnroutedAcks = `DELETE FROM unrouted_ack WHERE shard = $1 AND job_id = $2`

// UnroutedAcks returns up to limit acknowledgements that the channels of their alerts are not told yet.
func (s *NotificationStore) UnroutedAcks(ctx context.Context, limit int) ([]alerts.JobAck, error) {
	found, err := query(ctx, s.read, readJobAck, `SELECT k.shard, k.job_id, k.alert_id, k.by_whom, k.at, k.until_at, k.note, f.alert_ids
FROM unrouted_ack k LEFT JOIN future_job f ON f.shard = k.shard AND f.id = k.job_id
ORDER BY k.shard, k.job_id LIMIT $1`, limit)
	if err != nil {
		return nil, wrapErr("unrouted acknowledgements", err)
	}
	return found, nil
}

func readJobAck(row scanner, k *alerts.JobAck) error {
	return row.Scan(&k.Shard, &k.JobID, &k.Alert, (*escapedText)(&k.By), at(&k.At), at(&k.Until), (*escapedText)(&k.Note), (*idList)(&k.All))
}

// forgetUnroutedAcks deletes acknowledgements from the queue: all of them unchanged, or another node has taken or replaced
// some.
func forgetUnroutedAcks(ctx context.Context, tx *sql.Tx, acks []alerts.JobAck) error {
	for _, k := range acks {
		n, err := exec(ctx, tx, `DELETE FROM unrouted_ack WHERE shard = $1 AND job_id = $2 AND at = $3`, k.Shard, k.JobID, k.At)
		if err == nil && n == 0 {
			err = futurejobs.ErrCursorMoved
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// deliverAcks adds acknowledgements to notifications. A later acknowledgement of a job replaces its earlier one.
func deliverAcks(ctx context.Context, tx *sql.Tx, placed []alerts.AckAssignment, notices []int64) error {
	for _, p := range placed {
		k := p.Ack
		if _, err := exec(ctx, tx, `
INSERT INTO ack_notice (notice, shard, job_id, alert_id, by_whom, until_at, note) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (notice, shard, job_id) DO UPDATE
SET alert_id = excluded.alert_id, by_whom = excluded.by_whom, until_at = excluded.until_at, note = excluded.note`,
			notices[p.Notification], k.Shard, k.JobID, k.Alert[:], escape(k.By), k.Until, escape(k.Note)); err != nil {
			return err
		}
	}
	return nil
}

// NoticeAcks returns the acknowledgements of a notification, up to limit of each kind.
func (s *NotificationStore) NoticeAcks(ctx context.Context, n alerts.Notification, limit int) (m alerts.AckSummary, err error) {
	m.Counts, err = query(ctx, s.read, readAckCount, `SELECT by_whom, until_at, note, count(*) FROM ack_notice
WHERE notice = $1 GROUP BY by_whom, until_at, note ORDER BY count(*) DESC, by_whom, until_at, note`, n.ID)
	if err == nil && len(m.Counts) > 0 {
		m.First, err = query(ctx, s.read, readShownAck, `SELECT `+alertColumns+`, k.by_whom, k.until_at, k.note
FROM ack_notice k
JOIN alert a ON a.shard = k.shard AND a.id = k.alert_id
JOIN rule r ON r.id = a.rule_id
WHERE k.notice = $1 ORDER BY a.severity DESC, k.shard, k.job_id LIMIT $2`, n.ID, limit)
	}
	if err != nil {
		return alerts.AckSummary{}, wrapErr("acknowledgements of a notification", err)
	}
	return m, nil
}

func readAckCount(row scanner, c *alerts.AckCount) error {
	return row.Scan((*escapedText)(&c.By), at(&c.Until), (*escapedText)(&c.Note), &c.Count)
}

func readShownAck(row scanner, k *alerts.ShownAck) error {
	r := alertRow{Alert: &k.Alert}
	if err := row.Scan(append(r.fields(), (*escapedText)(&k.By), at(&k.Until), (*escapedText)(&k.Note))...); err != nil {
		return err
	}
	return r.read()
}

// AckDeliveries returns the newest delivery to each channel of an alert of acknowledged jobs, by job.
func (s *NotificationStore) AckDeliveries(ctx context.Context, acks []alerts.JobAck) (map[int64][]alerts.PriorDelivery, error) {
	byJob := make(map[int64][]alerts.PriorDelivery)
	for _, k := range acks {
		newest := slices.Clone(k.All[max(0, len(k.All)-atOnce):])
		prior, err := s.PriorDeliveries(ctx, []alerts.Alert{{Shard: k.Shard, Detail: alerts.Detail{Closes: newest}}})
		if err != nil {
			return nil, err
		}
		latest := make(map[string]alerts.PriorDelivery)
		for _, d := range prior {
			if slices.Index(newest, d.Alert) >= slices.Index(newest, latest[d.Channel].Alert) {
				latest[d.Channel] = d
			}
		}
		for _, d := range prior {
			if latest[d.Channel] == d {
				byJob[k.JobID] = append(byJob[k.JobID], d)
			}
		}
	}
	return byJob, nil
}
