package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/calendars"
	"deadman/internal/configfile"
	"deadman/rules/document"
)

// The errors of changes of calendars.
var (
	// ErrCalendarFile means that a file of the node defines the calendar.
	ErrCalendarFile = errors.New("the calendar is defined in the node's file of calendars (--calendars); change it there, or remove it from the file and restart the node")
	// ErrCalendarOwner means that the calendar belongs to the operator or to another prefix.
	ErrCalendarOwner = errors.New("the calendar was created without your prefix; take another name, or have the operator change it")
	// ErrCalendarUsed means that rules use the calendar.
	ErrCalendarUsed = errors.New("rules use the calendar")
)

// CalendarRegistry reads and changes calendars. Its changes are in force once the nodes' catalogs are refreshed, within
// about a second; the checks of pending jobs follow once a Rescheduler has run. It is safe for concurrent use.
type CalendarRegistry struct {
	Store   CalendarStore
	Catalog *Catalog
}

// ListedCalendar is a calendar as users see it, at its newest version.
type ListedCalendar struct {
	CalendarVersion                     // without a version if it is of the node's file
	Calendar        *calendars.Calendar // nil: this program cannot read it
	Rules           []string            // the rules whose newest version uses it, by name
}

// IsOfFile reports whether a file of the node defines the calendar.
func (c ListedCalendar) IsOfFile() bool { return c.Version == 0 }

// List returns the calendars that are in force on this node, by name. Of a token with a prefix, it returns those that its
// rules may use.
func (r *CalendarRegistry) List(ctx context.Context) ([]ListedCalendar, error) {
	if err := r.Catalog.Refresh(ctx); err != nil {
		return nil, err
	}
	e := r.Catalog.current.Load()
	known, prefix := e.calendarsOr(r.Catalog.Calendars), access.PrefixOf(ctx)
	var all []ListedCalendar
	for name, c := range known.usableBy(prefix) {
		all = append(all, r.listing(e, name, c))
	}
	for name, c := range known.saved { // those that this program cannot read
		if c.calendar == nil && c.DeletedAt.IsZero() && known.usable[name] == nil && c.IsUsableBy(prefix) {
			all = append(all, r.listing(e, name, nil))
		}
	}
	slices.SortFunc(all, func(a, b ListedCalendar) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func (r *CalendarRegistry) listing(e *snapshot, name string, c *calendars.Calendar) ListedCalendar {
	l := ListedCalendar{Calendar: c, Rules: e.calendarUsers(name, false)}
	if r.Catalog.Calendars[name] != nil {
		l.Name, l.Document = name, c.Document()
		return l
	}
	l.CalendarVersion = e.calendarsOr(r.Catalog.Calendars).saved[name].CalendarVersion
	return l
}

// Get returns a calendar that is in force, or futurejobs.ErrNotFound.
func (r *CalendarRegistry) Get(ctx context.Context, name string) (ListedCalendar, error) {
	all, err := r.List(ctx)
	if err != nil {
		return ListedCalendar{}, err
	}
	for _, c := range all {
		if c.Name == name {
			return c, nil
		}
	}
	return ListedCalendar{}, fmt.Errorf("calendar %s: %w", name, futurejobs.ErrNotFound)
}

// Versions returns the versions that are kept of a calendar of the database, also a deleted one, newest first. The error is
// futurejobs.ErrNotFound if there are none.
func (r *CalendarRegistry) Versions(ctx context.Context, name string) ([]CalendarVersion, error) {
	if err := r.Catalog.Refresh(ctx); err != nil {
		return nil, err
	}
	if saved := r.Catalog.current.Load().calendarsOr(nil).saved[name]; !saved.IsUsableBy(access.PrefixOf(ctx)) {
		return nil, fmt.Errorf("calendar %s: %w", name, futurejobs.ErrNotFound)
	}
	all, err := r.Store.CalendarVersions(ctx, name)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("calendar %s has no versions in the database: %w", name, futurejobs.ErrNotFound)
	}
	return all, err
}

// Save saves the text of a calendar as its next version. version is its current one, 0 for a new one, AnyVersion or AnyExisting. A text
// that is the same as the current one is not saved again. A dry run only checks the text. The error is document.Problems,
// ErrCalendarFile, ErrConflict, access.ErrQuota or of the store.
func (r *CalendarRegistry) Save(ctx context.Context, name, text string, version int32, dryRun bool) (c ListedCalendar, changed bool, err error) {
	if wrong := configfile.CheckName(name); wrong != "" {
		return c, false, document.Problems{{Pointer: "/name", Message: wrong}}
	}
	parsed, err := calendars.ParseOne([]byte(text), name)
	if err != nil {
		return c, false, calendarProblems(err)
	}
	err = r.change(ctx, name, version, func(e *snapshot, o CalendarChange) error {
		before := e.calendarsOr(nil).saved[name]
		exists := before.Version > 0 && before.DeletedAt.IsZero()
		if !exists && version == AnyExisting {
			return fmt.Errorf("calendar %s does not exist: %w", name, ErrConflict)
		}
		if exists && before.Document == text && (version < 0 || version == before.Version) {
			c, changed = ListedCalendar{CalendarVersion: before.CalendarVersion}, false
			return nil
		}
		c, changed = ListedCalendar{CalendarVersion: CalendarVersion{Name: name, Document: text}}, true
		if exists {
			c.Version = before.Version
		}
		if dryRun {
			return nil
		}
		c.CalendarVersion, err = r.Store.SaveCalendar(ctx, CalendarVersion{Name: name, Document: text}, o)
		return err
	})
	if err == nil && changed && !dryRun {
		err = r.Catalog.Refresh(ctx)
	}
	c.Calendar, c.Rules = parsed, r.Catalog.current.Load().calendarUsers(name, false)
	return c, changed, err
}

// Delete deletes a calendar that no rule uses in its newest version. Pending jobs of older versions keep it. The error is
// ErrCalendarUsed with the names of rules, ErrCalendarFile, ErrConflict, futurejobs.ErrNotFound or of the store.
func (r *CalendarRegistry) Delete(ctx context.Context, name string, version int32) error {
	err := r.change(ctx, name, version, func(e *snapshot, o CalendarChange) error {
		if users := e.calendarUsers(name, false); len(users) > 0 {
			return fmt.Errorf("%w %s: %s; remove it from them first", ErrCalendarUsed, name, namesOfUsers(ctx, users))
		}
		return r.Store.DeleteCalendar(ctx, name, o)
	})
	if err != nil {
		return err
	}
	return r.Catalog.Refresh(ctx)
}

// namesOfUsers returns the names of rules for a message. A token with a prefix gets only the number of other rules.
func namesOfUsers(ctx context.Context, users []string) string {
	prefix := access.PrefixOf(ctx)
	if prefix == "" {
		return clip(strings.Join(users, ", "), 300)
	}
	own := slices.DeleteFunc(slices.Clone(users), func(rule string) bool { return !strings.HasPrefix(rule, prefix) })
	text := strings.Join(own, ", ")
	if others := len(users) - len(own); others > 0 {
		text = strings.TrimPrefix(fmt.Sprintf("%s and %d outside of the prefix", text, others), " and ")
	}
	return clip(text, 300)
}

// change runs do with the rules as they are, again if they changed meanwhile.
func (r *CalendarRegistry) change(ctx context.Context, name string, version int32, do func(*snapshot, CalendarChange) error) error {
	if r.Catalog.Calendars[name] != nil {
		return fmt.Errorf("calendar %s: %w", name, ErrCalendarFile)
	}
	for tries := 1; ; tries++ {
		if err := r.Catalog.Refresh(ctx); err != nil {
			return err
		}
		e := r.Catalog.current.Load()
		if !e.calendarsOr(nil).saved[name].IsOf(access.PrefixOf(ctx)) {
			return fmt.Errorf("calendar %s: %w", name, ErrCalendarOwner)
		}
		err := do(e, CalendarChange{Version: version, Revision: e.revision, Rules: e.calendarUsers(name, true)})
		if !errors.Is(err, futurejobs.ErrRulesChanged) || tries >= saveTries {
			return err
		}
	}
}

// calendarProblems returns the problems of a calendar's text as those of a document.
func calendarProblems(err error) error {
	var wrong configfile.Problems
	if !errors.As(err, &wrong) {
		return err
	}
	ps := make(document.Problems, len(wrong))
	for i, p := range wrong {
		ps[i] = document.Problem{Line: p.Line, Column: p.Column, Pointer: pointerOf(p.Field), Message: p.Message}
	}
	return ps.Listed()
}

var fieldPointers = strings.NewReplacer(".", "/", "[", "/", "]", "")

// pointerOf returns the JSON pointer of a field such as "hours[1]".
func pointerOf(field string) string {
	if field == "" {
		return ""
	}
	return "/" + fieldPointers.Replace(field)
}
