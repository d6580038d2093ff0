package web

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"deadman/internal/access"
	"deadman/internal/calendars"
	"deadman/rules"
	"deadman/rules/document"
)

// Calendars reads and changes calendars. rules.CalendarRegistry implements it, and documents the errors. Implementations are
// safe for concurrent use.
type Calendars interface {
	List(ctx context.Context) ([]rules.ListedCalendar, error)
	Get(ctx context.Context, name string) (rules.ListedCalendar, error)
	Versions(ctx context.Context, name string) ([]rules.CalendarVersion, error)
	Save(ctx context.Context, name, text string, version int32, dryRun bool) (c rules.ListedCalendar, changed bool, err error)
	Delete(ctx context.Context, name string, version int32) error
}

var _ Calendars = (*rules.CalendarRegistry)(nil)

// Calendar is a calendar's newest version, as the API returns it.
type Calendar struct {
	Name     string        `json:"name" doc:"Name of the calendar." example:"office"`
	Source   string        `json:"source" enum:"database,file" doc:"database: changed by the API. file: defined in the calendars file of the answering node, and read-only."`
	Version  int32         `json:"version,omitempty" doc:"Newest version; also the ETag. Absent for a calendar of a file."`
	SavedAt  time.Time     `json:"saved_at,omitzero" doc:"Time at which the newest version was saved."`
	SavedBy  string        `json:"saved_by,omitempty" doc:"Actor who saved the newest version."`
	Zone     string        `json:"zone" doc:"Time zone of the hours and holidays." example:"Europe/Berlin"`
	Open     bool          `json:"open" doc:"Whether the calendar is open now."`
	OpensAt  time.Time     `json:"opens_at,omitzero" doc:"Next time of opening. Absent while the calendar is open."`
	Week     []CalendarDay `json:"week" nullable:"false" doc:"Open hours of each weekday, from Monday on."`
	Holidays []string      `json:"holidays" nullable:"false" doc:"The next 25 holidays within 2 years, as dates." example:"[\"2026-12-25\"]"`

	HolidayNames map[string]string `json:"holiday_names,omitempty" doc:"The names of public holidays among them, by date."`

	Rules    []string `json:"rules" nullable:"false" doc:"Names of the rules that use the calendar in their newest version."`
	Problem  string   `json:"problem,omitempty" doc:"Reason why this version of deadman cannot read the calendar."`
	Document string   `json:"document,omitempty" doc:"The calendar as YAML. Returned for single calendars only."`
}

// CalendarDay is the open hours of a weekday.
type CalendarDay struct {
	Day   string   `json:"day" enum:"mon,tue,wed,thu,fri,sat,sun" doc:"Weekday."`
	Hours []string `json:"hours" nullable:"false" doc:"Hours that begin on the day; empty if it is closed. Hours that end before they begin end on the next day." example:"[\"09:00-17:30\"]"`
}

// CalendarVersion is one version of a calendar.
type CalendarVersion struct {
	Version   int32     `json:"version" doc:"Version number."`
	SavedAt   time.Time `json:"saved_at" doc:"Time at which the version was saved."`
	SavedBy   string    `json:"saved_by,omitempty" doc:"Actor who saved the version."`
	DeletedAt time.Time `json:"deleted_at,omitzero" doc:"Time at which the calendar was deleted; the same for all versions."`
	Document  string    `json:"document" doc:"The calendar as YAML."`
}

// CalendarChange is the result of saving a calendar, or of a dry run.
type CalendarChange struct {
	Calendar Calendar `json:"calendar" doc:"Calendar after the change."`
	Changed  bool     `json:"changed" doc:"Whether a new version was saved. false if the text is unchanged."`
	DryRun   bool     `json:"dry_run,omitempty" doc:"Whether this is a dry run, which saves nothing."`
}

// shownHolidays and holidayYears bound the holidays of a calendar that are returned.
const (
	shownHolidays = 25
	holidayYears  = 2
)

func newCalendar(ctx context.Context, l rules.ListedCalendar, now time.Time) Calendar {
	c := Calendar{
		Name: l.Name, Source: "database", Version: l.Version, SavedAt: l.SavedAt, SavedBy: l.SavedBy,
		Week: []CalendarDay{}, Holidays: []string{}, Rules: slices.DeleteFunc(slices.Clone(l.Rules), func(rule string) bool { return !principalOf(ctx).canSee(rule) }),
	}
	if c.Rules == nil {
		c.Rules = []string{}
	}
	if l.IsOfFile() {
		c.Source = "file"
	}
	if l.Calendar == nil {
		_, err := calendars.ParseOne([]byte(l.Document), l.Name)
		c.Problem = "this version of deadman cannot read the calendar: " + err.Error()
		return c
	}
	c.Zone, c.Open = l.Calendar.Zone().String(), l.Calendar.Open(now)
	if !c.Open {
		c.OpensAt = l.Calendar.Next(now).UTC()
	}
	for i := range 7 {
		day := time.Weekday((i + 1) % 7)
		d := CalendarDay{Day: weekdays[day], Hours: []string{}}
		for _, h := range l.Calendar.Week()[day] {
			d.Hours = append(d.Hours, h.String())
		}
		c.Week = append(c.Week, d)
	}
	for _, day := range l.Calendar.Holidays(now, shownHolidays, holidayYears) {
		c.Holidays = append(c.Holidays, day.Format(time.DateOnly))
		if name := l.Calendar.HolidayName(day); name != "" {
			if c.HolidayNames == nil {
				c.HolidayNames = make(map[string]string)
			}
			c.HolidayNames[day.Format(time.DateOnly)] = name
		}
	}
	return c
}

// weekdays are the names of weekdays in a calendar, by time.Weekday.
var weekdays = [7]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// calendarAPI has the operations on calendars.
type calendarAPI struct {
	calendars Calendars
	saves     *semaphore[tokenRef]
	now       func() time.Time
}

func (a *calendarAPI) register(all *operations) {
	register(all, operation{
		ID: "list-calendars", Tag: tagRules, Method: "GET", Path: "/calendars", Summary: "list calendars, by name",
		Description: "A token with a prefix sees the calendars that its rules may use: those that tokens with its prefix created, and those that no tenant owns.",
		Scope:       access.Read, Reach: reachFiltered,
	}, withBody(a.list))
	register(all, operation{
		ID: "get-calendar", Tag: tagRules, Method: "GET", Path: "/calendars/{name}", Summary: "get a calendar",
		Scope: access.Read, Reach: reachBody, Errors: []int{http.StatusNotFound},
	}, a.get)
	register(all, operation{
		ID: "put-calendar", Tag: tagRules, Method: "PUT", Path: "/calendars/{name}", Summary: "create or replace a calendar",
		Description: "The change is in force on all nodes within about a second, also for the further steps of pending jobs. With If-Match, only that version " +
			"is replaced. With If-None-Match: *, the calendar is only created. Otherwise the response is 412. An unchanged text creates no new version.",
		Scope: access.Rules, Reach: reachRule, Limit: calendars.MaxDocument,
		Errors:      []int{http.StatusConflict, http.StatusPreconditionFailed, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests},
		RequestBody: calendarBody(),
	}, inTurn(a.saves, a.put))
	register(all, operation{
		ID: "delete-calendar", Tag: tagRules, Method: "DELETE", Path: "/calendars/{name}", Summary: "delete a calendar that no rule uses",
		Description: "If a rule uses the calendar, the response is 409 with the names of the rules. Pending jobs of older versions of rules keep it.",
		Scope:       access.Rules, Reach: reachRule, Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed},
	}, noContent(a.remove))
	register(all, operation{
		ID: "list-calendar-versions", Tag: tagRules, Method: "GET", Path: "/calendars/{name}/versions", Summary: "list the last 20 versions of a calendar, newest first, including deleted calendars",
		Scope: access.Read, Reach: reachBody, Errors: []int{http.StatusNotFound},
	}, withBody(a.versions))
}

// calendarYAML is an example of a calendar.
const calendarYAML = "zone: Europe/Berlin\ndays: mon-fri\nhours: \"09:00-17:30\"\nholidays: [2026-12-25, \"12-24\"]\n"

// calendarBody is the request body of a calendar.
func calendarBody() *huma.RequestBody {
	return &huma.RequestBody{Required: true, Description: "The calendar, as YAML.", Content: map[string]*huma.MediaType{
		yamlType: {Schema: &huma.Schema{Type: huma.TypeString}, Example: calendarYAML},
	}}
}

// calendarListIn has the filter of a calendar list.
type calendarListIn struct {
	Prefix identifier `query:"prefix" doc:"Filter by a prefix of the name." example:"acme-"`
	Limit  int        `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"Maximum number of items on the page."`
	Cursor identifier `query:"cursor" doc:"Value of next on the previous page. Omit it for the first page."`
}

func (a *calendarAPI) list(ctx context.Context, in *calendarListIn) (Page[Calendar], error) {
	known, err := a.calendars.List(ctx)
	if err != nil {
		return Page[Calendar]{}, err
	}
	now, all := a.now(), []Calendar{}
	for _, l := range known {
		if strings.HasPrefix(l.Name, string(in.Prefix)) {
			all = append(all, newCalendar(ctx, l, now))
		}
	}
	return pageOfNamed(&wholeListIn{in.Limit, in.Cursor}, all, func(c Calendar) string { return c.Name }), nil
}

// CalendarName is the calendar in the path.
type CalendarName struct {
	Name identifier `path:"name" doc:"Name of the calendar." example:"office"`
}

// calendarOut is the response with a calendar.
type calendarOut struct {
	ETag string `header:"ETag" doc:"Version of the calendar, in quotes. Absent for a calendar of a file."`
	Body Calendar
}

func (a *calendarAPI) get(ctx context.Context, in *CalendarName) (*calendarOut, error) {
	l, err := a.calendars.Get(ctx, string(in.Name))
	if err != nil {
		return nil, err
	}
	out := &calendarOut{Body: newCalendar(ctx, l, a.now())}
	out.Body.Document = l.Document
	if !l.IsOfFile() {
		out.ETag = etag(l.Version)
	}
	return out, nil
}

// calendarPutIn is a request that saves a calendar.
type calendarPutIn struct {
	CalendarName
	RulePrecondition
	DryRun  bool   `query:"dry_run" doc:"Check the calendar without saving it."`
	RawBody []byte `contentType:"application/yaml"`
}

// calendarChangeOut is the response to a saved calendar.
type calendarChangeOut struct {
	ETag string `header:"ETag" doc:"Version of the calendar, in quotes."`
	Body CalendarChange
}

func (a *calendarAPI) put(ctx context.Context, in *calendarPutIn) (*calendarChangeOut, error) {
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	l, changed, err := a.calendars.Save(ctx, string(in.Name), string(in.RawBody), version, in.DryRun)
	var wrong document.Problems
	if errors.As(err, &wrong) {
		return nil, problemOfDetails(Invalid, http.StatusUnprocessableEntity, details(wrong))
	}
	if err != nil {
		return nil, err
	}
	out := &calendarChangeOut{Body: CalendarChange{Calendar: newCalendar(ctx, l, a.now()), Changed: changed, DryRun: in.DryRun}}
	out.Body.Calendar.Source = "database"
	if l.Version > 0 {
		out.ETag = etag(l.Version)
	}
	return out, nil
}

// calendarDeleteIn is a request that deletes a calendar.
type calendarDeleteIn struct {
	CalendarName
	IfMatch string `header:"If-Match" doc:"ETag of the version to delete. Default: any." example:"\"3\""`
}

func (a *calendarAPI) remove(ctx context.Context, in *calendarDeleteIn) error {
	version, err := RulePrecondition{IfMatch: in.IfMatch}.version()
	if err != nil {
		return err
	}
	return a.calendars.Delete(ctx, string(in.Name), version)
}

func (a *calendarAPI) versions(ctx context.Context, in *CalendarName) (Page[CalendarVersion], error) {
	all, err := a.calendars.Versions(ctx, string(in.Name))
	if err != nil {
		return Page[CalendarVersion]{}, err
	}
	page := Page[CalendarVersion]{Items: make([]CalendarVersion, len(all))}
	for i, c := range all {
		page.Items[i] = CalendarVersion{Version: c.Version, SavedAt: c.SavedAt, SavedBy: c.SavedBy, DeletedAt: c.DeletedAt, Document: c.Document}
	}
	return page, nil
}
