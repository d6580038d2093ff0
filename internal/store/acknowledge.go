package store

import (
	futurejobs "deadman/future_jobs"
)

const (
	ackColumns = `k.alert_id, coalesce(k.by_whom, ''), k.at, k.until_at, coalesce(k.note, '')`

	// besideOpen are the columns that readOpen reads after those of an alert, of its job f and the acknowledgement k.
	besideOpen = ackColumns + `, f.next_check_at, f.snoozed_until`

	// withAck joins the optional acknowledgement k of a job f.
	withAck = ` LEFT JOIN acknowledgement k ON k.shard = f.shard AND k.job_id = f.id`

	keepAck = `
INSERT INTO acknowledgement (shard, job_id, alert_id, by_whom, at, until_at, note) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (shard, job_id) DO UPDATE
SET alert_id = excluded.alert_id, by_whom = excluded.by_whom, at = excluded.at, until_at = excluded.until_at, note = excluded.note`

	dropAck = `DELETE FROM acknowledgement WHERE shard = $1 AND job_id = $2`
)

// readAck reads the optional acknowledgement of a job.
type readAck struct{ futurejobs.Ack }

func (k *readAck) fields() []any {
	return []any{&k.Alert, (*escapedText)(&k.By), at(&k.At), at(&k.Until), (*escapedText)(&k.Note)}
}

func (k *readAck) ack() *futurejobs.Ack {
	if k.At.IsZero() {
		return nil
	}
	return &k.Ack
}

// ackWrites returns the statements that store or delete the acknowledgement of a job, and queue it for notification.
func ackWrites(a futurejobs.AckOf) []statement {
	if a.Ack == nil {
		of := []any{a.Shard, a.JobID}
		return []statement{{dropAck, of}, {dropUnroutedAcks, of}}
	}
	args := []any{a.Shard, a.JobID, a.Ack.Alert[:], escape(a.Ack.By), a.Ack.At, a.Ack.Until, escape(a.Ack.Note)}
	return []statement{{keepAck, args}, {keepUnroutedAcks, args}}
}
