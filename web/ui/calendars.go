package ui

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"

	"deadman/web"
)

// calendarsAt is the path of the calendars.
const calendarsAt = "/calendars"

func calendarPath(name string) string { return calendarsAt + "/" + url.PathEscape(name) }

// calendarsView is the list of calendars.
type calendarsView struct {
	listing
	permissions
	Calendars []web.Calendar
	Did       string // result of the last action; empty: none
}

// calendarView is one calendar, or the form of one.
type calendarView struct {
	permissions
	web.Calendar
	Days     []calendarDay
	Versions []web.CalendarVersion
	Did      string // result of the last action; empty: none

	New      bool
	Text     string // of the form
	Errors   []web.ProblemDetail
	Refused  string        // why saving failed; empty: not tried, or Errors or Overtook has the reason
	Overtook *web.Calendar // version saved while this one was edited; nil: none
}

// OfFile reports whether the file of the node defines the calendar.
func (v calendarView) OfFile() bool { return v.Source == "file" }

// ReadOnly reports whether this visitor can't change the calendar here.
func (v calendarView) ReadOnly() bool { return v.OfFile() || !v.Change }

// Unsaved reports whether the text of the form was refused.
func (v calendarView) Unsaved() bool {
	return len(v.Errors) > 0 || v.Refused != "" || v.Overtook != nil
}

// calendarDay is a weekday in the drawing of a week.
type calendarDay struct {
	Name  string
	Hours []string
	Spans []daySpan
}

// daySpan is a part of a day in the drawing, in minutes.
type daySpan struct{ From, Minutes int }

// dayNames are the names of weekdays, by their names in a calendar.
var dayNames = map[string]string{
	"mon": "Monday", "tue": "Tuesday", "wed": "Wednesday", "thu": "Thursday", "fri": "Friday", "sat": "Saturday", "sun": "Sunday",
}

// drawnWeek returns the days of a week with the parts on which they are open. Hours over midnight continue on the next day.
func drawnWeek(week []web.CalendarDay) []calendarDay {
	days := make([]calendarDay, len(week))
	for i, d := range week {
		days[i].Name, days[i].Hours = dayNames[d.Day], d.Hours
		for _, hours := range d.Hours {
			var fromHour, fromMinute, toHour, toMinute int
			if _, err := fmt.Sscanf(hours, "%d:%d-%d:%d", &fromHour, &fromMinute, &toHour, &toMinute); err != nil {
				continue // the text is shown beside the drawing
			}
			from, to := fromHour*60+fromMinute, toHour*60+toMinute
			if to <= from {
				next := &days[(i+1)%len(days)]
				next.Spans = append(next.Spans, daySpan{0, to})
				to = 24 * 60
			}
			days[i].Spans = append(days[i].Spans, daySpan{from, to - from})
		}
	}
	return days
}

// calendarPages serves the pages of calendars.
type calendarPages struct{ *UI }

func (u calendarPages) calendars(c client, r *http.Request) (view, error) {
	v := calendarsView{listing: listingOf(r), Did: flashMessages{"deleted": "Calendar deleted."}.of(r)}
	var err error
	if v.permissions, err = c.may(); err != nil {
		return view{}, err
	}
	var page web.Page[web.Calendar]
	if err := c.get(calendarsAt, v.query(), &page); err != nil {
		return view{}, err
	}
	v.Calendars = page.Items
	v.goesOn(page.Next)
	return view{Title: "Calendars", Body: v}, nil
}

func (u calendarPages) calendar(c client, r *http.Request) (view, error) {
	v, err := calendarClient{c}.named(chi.URLParam(r, "name"))
	v.Did = flashMessages{"saved": "Calendar saved.", "kept": "No changes: no new version was created."}.of(r)
	return view{Title: "Calendar " + v.Name, Body: v}, err
}

// exampleCalendar is the text of a new calendar.
const exampleCalendar = "zone: Europe/Berlin\ndays: mon-fri\nhours: \"09:00-17:30\"\nholidays: [\"12-25\", \"12-26\", \"01-01\"]\n"

func (u calendarPages) newCalendar(c client, _ *http.Request) (view, error) {
	v := calendarView{New: true, Text: exampleCalendar}
	var err error
	v.permissions, err = c.may()
	return view{Title: "New calendar", Body: v, Still: true}, err
}

func (u calendarPages) edit(c client, r *http.Request) (view, error) {
	v, err := calendarClient{c}.named(chi.URLParam(r, "name"))
	v.Text = v.Document
	return view{Title: "Calendar " + v.Name, Body: v, Still: true}, err
}

// save saves the calendar of the form. A refused one returns to the form with its errors.
func (u calendarPages) save(w http.ResponseWriter, r *http.Request) {
	if !u.form(w, r) {
		return
	}
	c, name := calendarClient{client{u.api, r}}, chi.URLParam(r, "name")
	v := calendarView{New: name == "", Text: strings.ReplaceAll(r.PostForm.Get("text"), "\r\n", "\n")}
	v.Name, v.Version = cmp.Or(name, strings.TrimSpace(r.PostForm.Get("name"))), versionOf(r.PostForm.Get("version"), 0)
	var err error
	if v.permissions, err = c.may(); err != nil {
		u.fail(w, r, err)
		return
	}
	changed, err := c.save(v)
	if err == nil {
		http.Redirect(w, r, withFlash(calendarPath(v.Name), map[bool]string{true: "saved", false: "kept"}[changed]), http.StatusSeeOther)
		return
	}
	problem := asProblem(err)
	if problem == nil {
		u.fail(w, r, err)
		return
	}
	if v.Errors = problem.Errors; len(v.Errors) == 0 {
		v.Refused = problem.Detail
	}
	if problem.Status == http.StatusPreconditionFailed && !v.New {
		if err := c.overtaken(&v); err != nil {
			u.fail(w, r, err)
			return
		}
	}
	u.render(w, r, problem.Status, "calendar_editor", view{Title: "Not saved", Body: v, Still: true}, "")
}

// try answers with the errors of an unsaved calendar, or its week, as a fragment of the form.
func (u calendarPages) try(w http.ResponseWriter, r *http.Request) {
	if !u.form(w, r) {
		return
	}
	// A name that is still missing is an error of the save only. A token with a prefix may check its own names only.
	name := cmp.Or(strings.TrimSpace(r.PostForm.Get("name")), web.SelfOf(r.Context()).Prefix+"new")
	v, err := calendarClient{client{u.api, r}}.tried(name, r.PostForm.Get("text"))
	if err != nil {
		u.fail(w, r, err)
		return
	}
	u.fragment(w, r, "calendar_editor", "tried-calendar", v)
}

// remove deletes a calendar once the visitor has confirmed it, if its version is still the one on the visitor's page.
func (u calendarPages) remove(w http.ResponseWriter, r *http.Request) {
	if !u.form(w, r) {
		return
	}
	name, version := chi.URLParam(r, "name"), r.PostForm.Get("version")
	if r.PostForm.Get("sure") != "yes" {
		u.confirm(w, r, confirmation{
			Title: "Delete calendar " + name + "?", Text: "Pending jobs keep it. New rules cannot use it.",
			At: calendarPath(name), Form: []field{{"version", version}},
			Do: "Delete calendar", Dangerous: true, Keep: "Keep calendar", Back: calendarPath(name),
		})
		return
	}
	a, err := client{u.api, r}.send(http.MethodDelete, calendarPath(name), nil, http.Header{"If-Match": {`"` + version + `"`}}, nil)
	if err == nil {
		err = a.decode("DELETE "+calendarPath(name), nil)
	}
	if err != nil {
		if p := asProblem(err); p != nil {
			p.Title = "The calendar was not deleted"
		}
		u.fail(w, r, err)
		return
	}
	http.Redirect(w, r, withFlash(calendarsAt, "deleted"), http.StatusSeeOther)
}

// calendarClient reads and saves calendars.
type calendarClient struct{ client }

// named reads a calendar with its versions.
func (c calendarClient) named(name string) (v calendarView, err error) {
	if v.permissions, err = c.may(); err != nil {
		return v, err
	}
	if err := c.get(calendarPath(name), nil, &v.Calendar); err != nil {
		return v, err
	}
	v.Days = drawnWeek(v.Week)
	if v.OfFile() {
		return v, nil
	}
	var versions web.Page[web.CalendarVersion]
	err = c.get(calendarPath(name)+"/versions", nil, &versions)
	v.Versions = versions.Items
	return v, err
}

// save saves the text of the form. It reports whether that created a version.
func (c calendarClient) save(v calendarView) (changed bool, err error) {
	header := http.Header{"Content-Type": {yamlType}}
	if v.New {
		header.Set("If-None-Match", "*")
	} else {
		header.Set("If-Match", fmt.Sprintf(`"%d"`, v.Version))
	}
	var change web.CalendarChange
	a, err := c.send(http.MethodPut, calendarPath(v.Name), nil, header, []byte(v.Text))
	if err == nil {
		err = a.decode("PUT "+calendarPath(v.Name), &change)
	}
	return change.Changed, err
}

// tried checks the text of a form without saving it.
func (c calendarClient) tried(name, text string) (v calendarView, err error) {
	var change web.CalendarChange
	a, err := c.send(http.MethodPut, calendarPath(name), url.Values{"dry_run": {"true"}}, http.Header{"Content-Type": {yamlType}}, []byte(strings.ReplaceAll(text, "\r\n", "\n")))
	if err == nil {
		err = a.decode("PUT "+calendarPath(name), &change)
	}
	if problem := asProblem(err); problem != nil {
		if v.Errors = problem.Errors; len(v.Errors) == 0 {
			v.Refused = problem.Detail
		}
		return v, nil
	}
	v.Calendar, v.Days = change.Calendar, drawnWeek(change.Calendar.Week)
	return v, err
}

// overtaken adds the newer version to v, unless the calendar was deleted. Saving again replaces that version.
func (c calendarClient) overtaken(v *calendarView) error {
	var now web.Calendar
	is, err := exists(c.get(calendarPath(v.Name), nil, &now))
	if is {
		v.Version, v.Overtook, v.Refused = now.Version, &now, ""
	}
	return err
}
