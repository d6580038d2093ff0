package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"deadman/alerts"
)

// OpenSystemAlert writes a firing system alert, unless one of its Topic and Step is open, from any time and any node.
func (s *Store) OpenSystemAlert(ctx context.Context, r alerts.SystemAlert) (a alerts.Alert, said bool, err error) {
	return s.writeSystemAlert(ctx, r, func(tx *sql.Tx, r *alerts.SystemAlert) (bool, error) {
		r.Since = r.Since.UTC().Truncate(time.Microsecond)
		n, err := exec(ctx, tx, `INSERT INTO setting (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING`,
			openAlertSetting(*r), r.Since.Format(time.RFC3339Nano))
		return n > 0, err
	})
}

// CloseSystemAlert writes the alert that closes the open system alert of r's Topic and Step, if any. It sets r.Since
// from the open one.
func (s *Store) CloseSystemAlert(ctx context.Context, r alerts.SystemAlert) (a alerts.Alert, said bool, err error) {
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

// Standing returns the open system alerts, each with its Topic, Step and Since.
func (s *Store) Standing(ctx context.Context) ([]alerts.SystemAlert, error) {
	all, err := query(ctx, s.read, readStanding, `SELECT name, value FROM setting WHERE name LIKE 'remark %' ORDER BY name`)
	if err != nil {
		return nil, wrapErr("standing", err)
	}
	return all, nil
}

func readStanding(row scanner, r *alerts.SystemAlert) error {
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
func (s *Store) AlertOnChange(ctx context.Context, known string, r alerts.SystemAlert) (a alerts.Alert, said bool, err error) {
	return s.writeSystemAlert(ctx, r, func(tx *sql.Tx, r *alerts.SystemAlert) (bool, error) {
		name := "known " + r.Topic
		n, err := exec(ctx, tx, `INSERT INTO setting (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING`, name, known)
		if err != nil || n > 0 {
			return false, err
		}
		n, err = exec(ctx, tx, `UPDATE setting SET value = $1 WHERE name = $2 AND value <> $1`, known, name)
		return n > 0, err
	})
}

// openAlertSetting returns the name of the setting with the start of an open system alert.
func openAlertSetting(r alerts.SystemAlert) string { return remarkPrefix + r.Topic + " " + r.Step }

const remarkPrefix = "remark "
