package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
)

// CalendarStore keeps calendars and their versions.
type CalendarStore struct{ ruleChanger }

const calendarColumns = `v.name, v.version, v.document, v.saved_at, v.saved_by, c.deleted_at, c.rescheduled, c.prefix`

func readCalendarVersion(row scanner, c *rules.CalendarVersion) error {
	var rescheduled int32
	err := row.Scan(&c.Name, &c.Version, &c.Document, at(&c.SavedAt), (*escapedText)(&c.SavedBy), at(&c.DeletedAt), &rescheduled, &c.Prefix)
	c.Rescheduled = rescheduled >= c.Version
	return err
}

// Calendars implements rules.ChangeReader.
func (s *CalendarStore) Calendars(ctx context.Context, since int64) ([]rules.CalendarVersion, error) {
	all, err := query(ctx, s.read, readCalendarVersion, `SELECT `+calendarColumns+` FROM calendar c JOIN calendar_version v ON v.name = c.name AND v.version = c.version
WHERE c.revision > $1 ORDER BY c.name`, since)
	if err != nil {
		return nil, wrapErr("calendars", err)
	}
	return all, nil
}

// ChangedCalendars implements rules.CalendarStore.
func (s *CalendarStore) ChangedCalendars(ctx context.Context) ([]rules.CalendarVersion, error) {
	all, err := query(ctx, s.read, readCalendarVersion, `SELECT `+calendarColumns+` FROM calendar c JOIN calendar_version v ON v.name = c.name AND v.version = c.version
WHERE c.rescheduled < c.version OR c.deleted_at IS NOT NULL ORDER BY v.saved_at, c.name`)
	if err != nil {
		return nil, wrapErr("changed calendars", err)
	}
	return all, nil
}

// CalendarVersions implements rules.CalendarStore.
func (s *CalendarStore) CalendarVersions(ctx context.Context, name string) ([]rules.CalendarVersion, error) {
	all, err := query(ctx, s.read, readCalendarVersion, `SELECT `+calendarColumns+` FROM calendar c JOIN calendar_version v ON v.name = c.name
WHERE c.name = $1 ORDER BY v.version DESC`, name)
	if err != nil {
		return nil, wrapErr("versions of calendar "+name, err)
	}
	return all, nil
}

// SaveCalendar implements rules.CalendarStore.
func (s *CalendarStore) SaveCalendar(ctx context.Context, c rules.CalendarVersion, o rules.CalendarChange) (rules.CalendarVersion, error) {
	c.SavedBy = access.ActorOf(ctx).Name
	err := s.change(ctx, c.Name, o, func(now calendarChange) error {
		if now.isNew() {
			now.prefix = access.PrefixOf(ctx)
			if err := now.room(ctx); err != nil {
				return err
			}
		}
		c.Prefix = now.prefix
		c.Version, c.SavedAt, c.DeletedAt = now.newest+1, now.now, time.Time{}
		if _, err := exec(ctx, now.tx, `INSERT INTO calendar (name, version, revision, prefix) VALUES ($1, $2, $3, $4)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, revision = excluded.revision, deleted_at = NULL, prefix = excluded.prefix`, c.Name, c.Version, now.revision, c.Prefix); err != nil {
			return err
		}
		if _, err := exec(ctx, now.tx, `INSERT INTO calendar_version (name, version, document, saved_at, saved_by) VALUES ($1, $2, $3, $4, $5)`,
			c.Name, c.Version, sanitizeText(c.Document), c.SavedAt, escape(c.SavedBy)); err != nil {
			return err
		}
		if _, err := exec(ctx, now.tx, `DELETE FROM calendar_version WHERE name = $1 AND version <= $2`, c.Name, c.Version-rules.KeptCalendarVersions); err != nil {
			return err
		}
		return audit(ctx, now.tx, now.now, access.CalendarSave, "calendar/"+c.Name, fmt.Sprintf("version %d", c.Version))
	})
	if err != nil {
		return c, wrapErr("save calendar "+c.Name, err)
	}
	return c, nil
}

// DeleteCalendar implements rules.CalendarStore.
func (s *CalendarStore) DeleteCalendar(ctx context.Context, name string, o rules.CalendarChange) error {
	err := s.change(ctx, name, o, func(c calendarChange) error {
		if c.version == 0 {
			return futurejobs.ErrNotFound
		}
		if _, err := exec(ctx, c.tx, `UPDATE calendar SET deleted_at = $1, revision = $2 WHERE name = $3`, c.now, c.revision, name); err != nil {
			return err
		}
		return audit(ctx, c.tx, c.now, access.CalendarDelete, "calendar/"+name, fmt.Sprintf("version %d", c.version))
	})
	if err != nil {
		return wrapErr("delete calendar "+name, err)
	}
	return nil
}

// MarkRescheduled implements rules.CalendarStore.
func (s *CalendarStore) MarkRescheduled(ctx context.Context, name string, version int32) error {
	_, err := exec(ctx, s.db, `UPDATE calendar SET rescheduled = $1 WHERE name = $2 AND rescheduled < $1`, version, name)
	if err != nil {
		return wrapErr("mark calendar "+name+" as rescheduled", err)
	}
	return nil
}

// ForgetCalendar implements rules.CalendarStore.
func (s *CalendarStore) ForgetCalendar(ctx context.Context, name string) error {
	err := s.tx(ctx, func(tx *sql.Tx, _ time.Time) error {
		n, err := exec(ctx, tx, `DELETE FROM calendar WHERE name = $1 AND deleted_at IS NOT NULL`, name)
		if err == nil && n > 0 {
			_, err = exec(ctx, tx, `DELETE FROM calendar_version WHERE name = $1`, name)
		}
		return err
	})
	if err != nil {
		return wrapErr("forget calendar "+name, err)
	}
	return nil
}

// calendarChange is a change of a calendar in progress: no other transaction changes rules or calendars.
type calendarChange struct {
	ruleChange
	name    string
	version int32  // the newest; 0: the calendar does not exist or is deleted
	prefix  string // of the tenant that owns it; empty: none does
	newest  int32  // also of a deleted calendar
}

// change runs f on a calendar and fences the rules that use it, so that no decision by the calendar before is committed
// after the change:
//
//  1. The gates of the rules are closed while running transactions end, as in a change of a rule.
//  2. The rule set is locked. It is as it was when the rules were determined; otherwise the error is ErrRulesChanged.
//  3. The revision is written to the rules and to the streams that they read.
func (s *CalendarStore) change(ctx context.Context, name string, o rules.CalendarChange, f func(c calendarChange) error) (err error) {
	var closed []string
	defer func() {
		if err != nil {
			for _, rule := range closed {
				err = errors.Join(err, s.openGate(ctx, rule))
			}
		}
	}()
	for _, rule := range o.Rules {
		isClosed, err := s.closeGate(ctx, rule, true)
		if err != nil {
			return err
		}
		if isClosed {
			closed = append(closed, rule)
		}
	}
	return untilOpen(ctx, s.database, func(tx *sql.Tx, now time.Time) error {
		c := calendarChange{ruleChange: ruleChange{tx: tx, now: now}, name: name}
		if err := tx.QueryRowContext(ctx, incrementRevision+` RETURNING revision`).Scan(&c.revision); err != nil {
			return err
		}
		if c.revision != o.Revision+1 {
			return futurejobs.ErrRulesChanged
		}
		if err := c.read(ctx); err != nil {
			return err
		}
		if err := checkVersion("calendar "+c.name, c.version, o.Version); err != nil {
			return err
		}
		if err := f(c); err != nil {
			return err
		}
		for _, rule := range o.Rules {
			if err := c.fence(ctx, rule); err != nil {
				return err
			}
		}
		return nil
	})
}

// isNew reports whether the name has no row yet, or one of a deleted calendar.
func (c *calendarChange) isNew() bool { return c.version == 0 }

func (c *calendarChange) read(ctx context.Context) error {
	var deletedAt time.Time
	err := c.tx.QueryRowContext(ctx, `SELECT version, deleted_at, prefix FROM calendar WHERE name = $1`, c.name).Scan(&c.newest, at(&deletedAt), &c.prefix)
	if deletedAt.IsZero() {
		c.version = c.newest
	}
	return ignoreErr(errors.Is(err, sql.ErrNoRows), err)
}

// room returns access.ErrQuota if the owner has no room for another calendar. Deleted ones count until they are forgotten.
func (c *calendarChange) room(ctx context.Context) error {
	most := rules.MaxCalendars
	if c.prefix != "" {
		most = rules.MaxTenantCalendars
	}
	var n int
	if err := c.tx.QueryRowContext(ctx, `SELECT count(*) FROM calendar WHERE prefix = $1 AND name <> $2`, c.prefix, c.name).Scan(&n); err != nil {
		return err
	}
	if n >= most {
		return fmt.Errorf("%w: there are %d calendars %s*, deleted ones of the last %d days included, and the limit is %d; use one of their names again", access.ErrQuota, n, c.prefix, rules.KeptCalendarDays, most)
	}
	return nil
}

// fence makes the decisions on pending jobs of a rule, and the batches of events that it reads, wait for the change and be
// evaluated again.
func (c *calendarChange) fence(ctx context.Context, name string) error {
	r := c.ruleChange
	var err error
	if r.rule, err = findRule(ctx, c.tx, name); err != nil || r.rule.id == 0 {
		return err
	}
	reads, err := r.readsSoFar(ctx)
	if err != nil {
		return err
	}
	if err := r.invalidateBatches(ctx, reads); err != nil {
		return err
	}
	return r.mark(ctx, true)
}
