package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// unclosedPrefix is the prefix of the settings that record the system alerts that are open until an actor closes them,
// before the id of the alert. The value is the alert's shard.
const unclosedPrefix = "unclosed "

// unclosedAlert identifies a system alert that no actor has closed.
type unclosedAlert struct {
	id    alerts.ID
	shard int16
}

func unclosedSetting(id alerts.ID) string { return unclosedPrefix + id.String() }

// keepOpen records that an alert is open until an actor closes it.
func keepOpen(ctx context.Context, tx *sql.Tx, a alerts.Alert) error {
	_, err := exec(ctx, tx, `INSERT INTO setting (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING`, unclosedSetting(a.ID), strconv.Itoa(int(a.Shard)))
	return err
}

func readUnclosed(row scanner, u *unclosedAlert) error {
	var name, shard string
	if err := row.Scan(&name, &shard); err != nil {
		return err
	}
	number, err := strconv.ParseInt(shard, 10, 16)
	if err == nil {
		u.shard = int16(number)
		u.id, err = uuid.Parse(strings.TrimPrefix(name, unclosedPrefix))
	}
	if err != nil {
		return fmt.Errorf("the setting %s: %w", name, err)
	}
	return nil
}

// unclosed returns the system alerts that no actor has closed, newest first.
func (s *database) unclosed(ctx context.Context) ([]unclosedAlert, error) {
	return query(ctx, s.read, readUnclosed, `SELECT name, value FROM setting WHERE name LIKE 'unclosed %' ORDER BY name DESC`)
}

// forgetUnclosed deletes the records of alerts whose retention is over.
func (s *AlertStore) forgetUnclosed(ctx context.Context) error {
	all, err := s.unclosed(ctx)
	if err != nil {
		return err
	}
	for _, u := range all {
		_, err := s.alertByID(ctx, alertHeads, u.id, []int16{u.shard})
		if errors.Is(err, futurejobs.ErrNotFound) {
			_, err = exec(ctx, s.db, `DELETE FROM setting WHERE name = $1`, unclosedSetting(u.id))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// openLosses returns the system alerts that no actor has closed and that match a filter, newest first. They cannot be
// acknowledged.
func (s *AlertStore) openLosses(ctx context.Context, f futurejobs.Filter, before alerts.ID) ([]futurejobs.ListedAlert, error) {
	if f.Acknowledged != nil && *f.Acknowledged || f.Rule != "" && f.Rule != alerts.SystemRule || !strings.HasPrefix(alerts.SystemRule, f.RulePrefix) || //nolint:gocritic // the rule has the prefix

		f.Entity != "" && f.Entity != alerts.SystemEntity {
		return nil, nil
	}
	all, err := s.unclosed(ctx)
	if err != nil {
		return nil, err
	}
	var open []futurejobs.ListedAlert
	for _, u := range all {
		if alertOrder(u.id, before) >= 0 || f.Through != (alerts.ID{}) && alertOrder(u.id, f.Through) > 0 {
			continue
		}
		listed, err := s.alertByID(ctx, alertColumns, u.id, []int16{u.shard})
		switch {
		case errors.Is(err, futurejobs.ErrNotFound): // its retention is over
		case err != nil:
			return nil, err
		case wanted(f, listed.Alert) && hasLabel(f, listed.Alert) && (f.Key == "" || f.Key == listed.Key):
			open = append(open, listed)
		}
	}
	slices.SortFunc(open, newestFirst)
	return open, nil
}

// CloseLoss closes a system alert that is open until an actor closes it, with the alerts of alerts.ClosedWith, and returns the
// resolving alert. The audit log gets the reason. It returns futurejobs.ErrNotFound if the alert is not open.
func (s *SystemAlertStore) CloseLoss(ctx context.Context, open alerts.Alert, reason string) (a alerts.Alert, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		n, err := exec(ctx, tx, `DELETE FROM setting WHERE name = $1`, unclosedSetting(open.ID))
		if err == nil && n == 0 {
			err = futurejobs.ErrNotFound
		}
		if err != nil {
			return err
		}
		a = alerts.SystemAlert{
			Topic: open.Key, Step: open.Step, Status: alerts.Resolved, Severity: open.Severity, Since: open.Since, Source: open.Source, Labels: open.Labels,
			Text: fmt.Sprintf("closed by %s: %s", access.ActorOf(ctx).Name, reason),
		}.Alert(now)
		a.Shard, a.Closes = open.Shard, alerts.ClosedWith(open)
		if _, err := insertSystemAlert(ctx, tx, a); err != nil {
			return err
		}
		return audit(ctx, tx, now, access.AlertClose, "alert/"+open.ID.String(), reason)
	})
	if err != nil {
		return a, wrapErr("close alert", err)
	}
	return a, nil
}

// lettersBase is the setting with the number of dead letters from which further ones are counted for an alert. It is
// empty while such an alert is open.
const lettersBase = "dead-letters base"

// AlertDeadLetters writes the alert about dead letters if there are at least threshold more than at the last time that
// such an alert was closed, or than ever since. alertOf returns the alert for a number of dead letters.
func (s *SystemAlertStore) AlertDeadLetters(ctx context.Context, letters, threshold int64, alertOf func() alerts.SystemAlert) (a alerts.Alert, raised bool, err error) {
	open, err := s.hasUnclosed(ctx, alertOf().Topic)
	if err != nil || open {
		return a, false, err
	}
	return s.writeSystemAlert(ctx, alertOf(), func(tx *sql.Tx, _ *alerts.SystemAlert) (bool, error) {
		var base int64
		var value string
		err := tx.QueryRowContext(ctx, `SELECT value FROM setting WHERE name = $1`, lettersBase).Scan(&value)
		switch {
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			return false, err
		case value == "": // an alert was closed since
			base = letters
		default:
			if base, err = strconv.ParseInt(value, 10, 64); err != nil {
				return false, fmt.Errorf("the setting %s: %w", lettersBase, err)
			}
			base = min(base, letters)
		}
		over, next := letters >= base+threshold, strconv.FormatInt(base, 10)
		if over {
			next = ""
		}
		if over || next != value {
			_, err = exec(ctx, tx, putSetting, lettersBase, next)
		}
		return over, err
	})
}

// hasUnclosed reports whether an alert of a topic is open until an actor closes it.
func (s *SystemAlertStore) hasUnclosed(ctx context.Context, topic string) (bool, error) {
	all, err := s.unclosed(ctx)
	for _, u := range all {
		var key escapedText
		err := s.read.QueryRowContext(ctx, `SELECT a.key FROM alert a WHERE a.shard = $1 AND a.id = $2`, u.shard, u.id[:]).Scan(&key)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return false, wrapErr("unclosed alerts", err)
		}
		if string(key) == topic {
			return true, nil
		}
	}
	if err != nil {
		return false, wrapErr("unclosed alerts", err)
	}
	return false, nil
}
