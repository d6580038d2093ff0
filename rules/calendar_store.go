package rules

import (
	"context"
	"time"
)

// CalendarVersion is one version of a calendar as it is stored. Versions are immutable; the deletion of the calendar is the
// same for all of them.
type CalendarVersion struct {
	Name        string
	Version     int32
	Document    string // YAML, as its author wrote it
	SavedAt     time.Time
	SavedBy     string    // the actor of the save; empty: unknown
	DeletedAt   time.Time // zero: it is in force
	Rescheduled bool      // the checks of pending jobs follow it
	Prefix      string    // of the token that created the calendar; empty: no tenant owns it
}

// IsUsableBy reports whether the rules of a token with a prefix may use the calendar. The owner of a calendar is stored with it,
// so that neither a later tenant with a matching prefix nor the end of a tenant changes it.
func (c CalendarVersion) IsUsableBy(prefix string) bool {
	return prefix == "" || c.Prefix == "" || c.Prefix == prefix
}

// IsOf reports whether a token with a prefix may change the calendar, or create it if it does not exist.
func (c CalendarVersion) IsOf(prefix string) bool {
	return prefix == "" || c.Version == 0 || !c.DeletedAt.IsZero() || c.Prefix == prefix
}

// CalendarChange is what a change of a calendar was made for.
type CalendarChange struct {
	Version  int32    // of the calendar; 0: none exists; or AnyVersion or AnyExisting
	Revision int64    // of the rule set by which Rules were determined
	Rules    []string // the rules with a version that uses the calendar
}

// Limits of the calendars of a database.
const (
	MaxCalendars         = 1000 // without those of tenants
	MaxTenantCalendars   = 50   // of a prefix, for its tokens
	KeptCalendarVersions = 20   // the newest ones
	KeptCalendarDays     = 90   // until a deleted calendar is forgotten that no rule uses
)

// CalendarStore keeps calendars. A change increases the revision of the rule set, and fences the evaluations of the rules
// that use the calendar, as a change of these rules does. Implementations are safe for concurrent use.
type CalendarStore interface {
	// ChangedCalendars returns the calendars that the checks of pending jobs do not follow yet, and all deleted ones.
	ChangedCalendars(ctx context.Context) ([]CalendarVersion, error)
	// CalendarVersions returns the versions that are kept of a calendar, newest first; none if it never existed.
	CalendarVersions(ctx context.Context, name string) ([]CalendarVersion, error)
	// SaveCalendar writes the next version. It fills in Version, SavedAt and SavedBy, and Prefix if the calendar is new. The error is ErrConflict for another
	// version than the expected one, futurejobs.ErrRulesChanged for another revision, or access.ErrQuota.
	SaveCalendar(ctx context.Context, c CalendarVersion, o CalendarChange) (CalendarVersion, error)
	// DeleteCalendar deletes a calendar. Its last version stays for the rules that use it. Errors are those of SaveCalendar,
	// and futurejobs.ErrNotFound.
	DeleteCalendar(ctx context.Context, name string, o CalendarChange) error
	// MarkRescheduled records that the checks of pending jobs follow a version.
	MarkRescheduled(ctx context.Context, name string, version int32) error
	// ForgetCalendar removes a deleted calendar with its versions.
	ForgetCalendar(ctx context.Context, name string) error
}
