package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// SystemAlertStore writes the alerts about the node and its surroundings.
type SystemAlertStore struct{ *database }

// WriteSystemAlert writes a system alert, once for any number of calls. raised is false if it was written before.
func (s *SystemAlertStore) WriteSystemAlert(ctx context.Context, r alerts.SystemAlert) (a alerts.Alert, raised bool, err error) {
	return s.writeSystemAlert(ctx, r, func(*sql.Tx, *alerts.SystemAlert) (bool, error) { return true, nil })
}

// ResolveSystemAlert is WriteSystemAlert for a resolved system alert, if the alert that it closes was raised.
func (s *SystemAlertStore) ResolveSystemAlert(ctx context.Context, r alerts.SystemAlert) (a alerts.Alert, raised bool, err error) {
	return s.writeSystemAlert(ctx, r, func(tx *sql.Tx, r *alerts.SystemAlert) (was bool, err error) {
		closing := r.Alert(time.Time{})
		shard := futurejobs.ShardOf(closing.Entity, closing.Key, s.shards)
		err = tx.QueryRowContext(ctx, `SELECT count(*) > 0 FROM alert WHERE shard = $1 AND id = $2`, shard, closing.Closes[0][:]).Scan(&was)
		return was, err
	})
}

// writeSystemAlert inserts the alert if when, run in the same transaction, reports true; when fills in missing fields.
func (s *SystemAlertStore) writeSystemAlert(ctx context.Context, r alerts.SystemAlert, when func(*sql.Tx, *alerts.SystemAlert) (bool, error)) (a alerts.Alert, raised bool, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) (err error) {
		r := r
		if raised, err = when(tx, &r); err != nil || !raised {
			return err
		}
		a, raised, err = s.raise(ctx, tx, r, now)
		return err
	})
	if err != nil {
		return a, false, wrapErr("announce", err)
	}
	return a, raised, nil
}

// insertAlert writes the row of an alert; fresh is false if it exists already.
func insertAlert(ctx context.Context, tx *sql.Tx, a alerts.Alert) (fresh bool, err error) {
	text, err := detail(&a, nil)
	if err != nil {
		return false, err
	}
	n, err := exec(ctx, tx, `INSERT INTO alert (shard, id, rule_id, version, status, severity, key, decided_at, since_at, check_count, detail)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING`,
		a.Shard, a.ID[:], a.RuleID, a.RuleVersion, a.Status.Number(), a.Severity.Number(), escape(a.Key), a.DecidedAt, a.Since, a.CheckCount, string(text))
	return n == 1, err
}

// raise writes a system alert that is raised now. raised is false if it was written before.
func (s *database) raise(ctx context.Context, tx *sql.Tx, r alerts.SystemAlert, now time.Time) (a alerts.Alert, raised bool, err error) {
	a = r.Alert(now)
	a.Shard = futurejobs.ShardOf(a.Entity, a.Key, s.shards)
	raised, err = insertSystemAlert(ctx, tx, a)
	if raised && err == nil && r.UntilResolved && r.Status == alerts.Firing {
		_, err = exec(ctx, tx, putSetting,
			unresolvedSetting(r.Topic, r.Step), a.ID.String())
	}
	return a, raised, err
}

// unresolvedSetting returns the name of the setting with the id of the newest alert of a topic and step that is open until
// ResolveSystemAlert closes it.
func unresolvedSetting(topic, step string) string { return unresolvedPrefix + topic + " " + step }

const unresolvedPrefix = "unresolved "

// unresolvedAlert identifies an alert that is open until ResolveSystemAlert closes it.
type unresolvedAlert struct {
	topic, step string
	id          alerts.ID
}

func readUnresolved(row scanner, u *unresolvedAlert) error {
	var name, id string
	if err := row.Scan(&name, &id); err != nil {
		return err
	}
	at := strings.LastIndexByte(name, ' ') // a step has no space
	u.topic, u.step = strings.TrimPrefix(name[:at], unresolvedPrefix), name[at+1:]
	var err error
	if u.id, err = uuid.Parse(id); err != nil {
		return fmt.Errorf("the setting %s: %w", name, err)
	}
	return nil
}

// unresolved returns the alerts that are open until ResolveSystemAlert closes them.
func unresolved(ctx context.Context, s *database) ([]unresolvedAlert, error) {
	return query(ctx, s.read, readUnresolved, `SELECT name, value FROM setting WHERE name LIKE 'unresolved %' ORDER BY name`)
}

// UnresolvedAlerts returns the alerts of a step that are open until ResolveSystemAlert closes them, each with its Topic,
// Step and Since.
func (s *SystemAlertStore) UnresolvedAlerts(ctx context.Context, step string) (open []alerts.SystemAlert, err error) {
	all, err := unresolved(ctx, s.database)
	for _, u := range all {
		if u.step != step {
			continue
		}
		r := alerts.SystemAlert{Topic: u.topic, Step: step, Status: alerts.Firing}
		err := s.read.QueryRowContext(ctx, `SELECT since_at FROM alert WHERE shard = $1 AND id = $2`, futurejobs.ShardOf(alerts.SystemEntity, u.topic, s.shards), u.id[:]).Scan(at(&r.Since))
		switch {
		case errors.Is(err, sql.ErrNoRows): // its retention is over
		case err != nil:
			return nil, wrapErr("unresolved alerts", err)
		default:
			open = append(open, r)
		}
	}
	if err != nil {
		return nil, wrapErr("unresolved alerts", err)
	}
	return open, nil
}

// forgetUnresolved deletes the records of the open alerts about rules that were deleted.
func (s *SystemAlertStore) forgetUnresolved(ctx context.Context) error {
	_, err := exec(ctx, s.db, `DELETE FROM setting WHERE name LIKE 'unresolved rule/%' AND NOT EXISTS (
	SELECT 1 FROM rule r WHERE r.deleted_at IS NULL AND substr(setting.name, 1, length('unresolved rule/' || r.name || ' ')) = 'unresolved rule/' || r.name || ' ')`)
	return err
}

// insertSystemAlert writes an alert that belongs to no job.
func insertSystemAlert(ctx context.Context, tx *sql.Tx, a alerts.Alert) (raised bool, err error) {
	if raised, err = insertAlert(ctx, tx, a); err != nil || !raised {
		return false, err
	}
	if a.UntilClosed {
		if err := keepOpen(ctx, tx, a); err != nil {
			return false, err
		}
	}
	if a.Status == alerts.Resolved {
		if _, err := exec(ctx, tx, `DELETE FROM setting WHERE name = $1`, unresolvedSetting(a.Key, a.Step)); err != nil {
			return false, err
		}
		for _, id := range a.Closes { // it may close one that is otherwise open until an actor closes it
			if _, err := exec(ctx, tx, `DELETE FROM setting WHERE name = $1`, unclosedSetting(id)); err != nil {
				return false, err
			}
		}
	}
	if _, err := exec(ctx, tx, postOne, a.Shard, a.ID[:], a.ID[:]); err != nil {
		return false, err
	}
	_, err = exec(ctx, tx, `INSERT INTO alert_news (shard, id) SELECT shard, id FROM alert WHERE shard = $1 AND id = $2 AND `+notifying,
		a.Shard, a.ID[:])
	return err == nil, err
}

// ReportState opens the system alert of r if it is Firing, and closes the open one if it is Resolved.
func (s *SystemAlertStore) ReportState(ctx context.Context, r alerts.SystemAlert) (a alerts.Alert, raised bool, err error) {
	if r.Status == alerts.Resolved {
		return s.CloseSystemAlert(ctx, r)
	}
	return s.OpenSystemAlert(ctx, r)
}

// OpenSystemAlert writes a firing system alert, unless one of its Topic and Step is open, from any time and any node.
func (s *SystemAlertStore) OpenSystemAlert(ctx context.Context, r alerts.SystemAlert) (a alerts.Alert, raised bool, err error) {
	return s.writeSystemAlert(ctx, r, func(tx *sql.Tx, r *alerts.SystemAlert) (bool, error) {
		r.Since = r.Since.UTC().Truncate(time.Microsecond)
		n, err := exec(ctx, tx, `INSERT INTO setting (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING`,
			openAlertSetting(*r), r.Since.Format(time.RFC3339Nano))
		return n > 0, err
	})
}

// CloseSystemAlert writes the alert that closes the open system alert of r's Topic and Step, if any. It sets r.Since
// from the open one.
func (s *SystemAlertStore) CloseSystemAlert(ctx context.Context, r alerts.SystemAlert) (a alerts.Alert, raised bool, err error) {
	return s.writeSystemAlert(ctx, r, func(tx *sql.Tx, r *alerts.SystemAlert) (bool, error) {
		var since string
		err := tx.QueryRowContext(ctx, `DELETE FROM setting WHERE name = $1 RETURNING value`, openAlertSetting(*r)).Scan(&since)
		if errors.Is(err, sql.ErrNoRows) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if r.Since, err = time.Parse(time.RFC3339Nano, since); err != nil {
			return false, fmt.Errorf("the setting %s: %w", openAlertSetting(*r), err)
		}
		return true, nil
	})
}

// FiringSystemAlerts returns the open system alerts, each with its Topic, Step and Since.
func (s *SystemAlertStore) FiringSystemAlerts(ctx context.Context) ([]alerts.SystemAlert, error) {
	all, err := query(ctx, s.read, readFiringSystemAlert, `SELECT name, value FROM setting WHERE name LIKE 'remark %' ORDER BY name`)
	if err != nil {
		return nil, wrapErr("standing", err)
	}
	return all, nil
}

func readFiringSystemAlert(row scanner, r *alerts.SystemAlert) error {
	var name, since string
	if err := row.Scan(&name, &since); err != nil {
		return err
	}
	at := strings.LastIndexByte(name, ' ') // a step has no space
	r.Topic, r.Step, r.Status = strings.TrimPrefix(name[:at], remarkPrefix), name[at+1:], alerts.Firing
	var err error
	if r.Since, err = time.Parse(time.RFC3339Nano, since); err != nil {
		return fmt.Errorf("the setting %s: %w", name, err)
	}
	return nil
}

// AlertOnChange stores the known value of r's Topic, and writes the alert of r if the stored value was another one. It
// does not alert the first time.
func (s *SystemAlertStore) AlertOnChange(ctx context.Context, known string, r alerts.SystemAlert) (a alerts.Alert, raised bool, err error) {
	return s.writeSystemAlert(ctx, r, func(tx *sql.Tx, r *alerts.SystemAlert) (bool, error) {
		name := knownPrefix + r.Topic
		n, err := exec(ctx, tx, `INSERT INTO setting (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING`, name, known)
		if err != nil || n > 0 {
			return false, err
		}
		n, err = exec(ctx, tx, `UPDATE setting SET value = $1 WHERE name = $2 AND value <> $1`, known, name)
		return n > 0, err
	})
}

// ForgetKnown removes the known value of a topic: the next one does not alert.
func (s *SystemAlertStore) ForgetKnown(ctx context.Context, topic string) error {
	return s.tx(ctx, func(tx *sql.Tx, _ time.Time) error {
		_, err := exec(ctx, tx, `DELETE FROM setting WHERE name = $1`, knownPrefix+topic)
		return err
	})
}

// knownPrefix precedes the topic of a known value in its setting.
const knownPrefix = "known "

// openAlertSetting returns the name of the setting with the start of an open system alert.
func openAlertSetting(r alerts.SystemAlert) string { return remarkPrefix + r.Topic + " " + r.Step }

const remarkPrefix = "remark "
