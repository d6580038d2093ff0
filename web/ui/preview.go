package ui

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"deadman/rules/document"

	"deadman/alerts"
	"deadman/rules"
	"deadman/web"
)

// previewForm is the form of a preview.
type previewForm struct {
	Event string // empty: no trigger event
	// Subject is the subject of the trigger event. If empty, it is the trigger's subject.
	Subject string
	At      string       // time of the event in UTC; empty: now
	Found   string       // result of the lookup; empty: the source is queried
	Later   string       // length of the preview; empty: to the end
	Then    []laterEvent // events after the trigger event

	Recent   []recent       // recent trigger events of the rule
	Subjects []string       // subjects of the rule
	Answer   *previewResult // nil: no preview yet
}

// laterEvent is an event during the job.
type laterEvent struct{ Subject, After, Data string }

// Laters returns the selectable lengths of a preview.
func (previewForm) Laters() []string { return []string{"0s", "1h", "3h", "1d", "7d"} }

// Blank returns the form with a blank row for one more later event.
func (t previewForm) Blank() previewForm {
	if n := len(t.Then); n == 0 || t.Then[n-1] != (laterEvent{}) {
		t.Then = append(t.Then[:n:n], laterEvent{})
	}
	return t
}

// maxThen is the largest number of later events of a preview, as of the API.
const maxThen = 100

// trialOf reads the form of a preview.
func trialOf(r *http.Request) previewForm {
	field := func(name string) string { return strings.TrimSpace(r.PostFormValue(name)) }
	t := previewForm{Event: r.PostFormValue("event"), Subject: field("subject"), At: field("at"), Found: field("found"), Later: field("later")}
	subjects, afters, datas := r.PostForm["event_subject"], r.PostForm["event_after"], r.PostForm["event_data"]
	for i := range min(len(subjects), len(afters), len(datas)) {
		n := laterEvent{strings.TrimSpace(subjects[i]), strings.TrimSpace(afters[i]), datas[i]}
		if n.Subject != "" || n.After != "" || strings.TrimSpace(n.Data) != "" {
			t.Then = append(t.Then, n)
		}
	}
	return t
}

// localTime is the layout of times in a form.
const localTime = "2006-01-02T15:04:05"

// errTrial is a form error. Its text tells the visitor how to correct the field.
type errTrial string

func (e errTrial) Error() string { return string(e) }

// request converts the form to the request body.
func (t previewForm) request(now time.Time) (request web.PreviewRequest, err error) {
	request.Event.At, request.Event.Subject = now.UTC().Truncate(time.Second), web.Identifier(t.Subject)
	if t.At != "" {
		if request.Event.At, err = instant(t.At); err != nil {
			return request, err
		}
	}
	if request.Event.Data, err = body("The trigger event", t.Event); err != nil {
		return request, err
	}
	if request.LookupResult, err = body("The lookup result", t.Found); err != nil {
		return request, err
	}
	if len(t.Then) > maxThen {
		return request, errTrial(fmt.Sprintf("A preview has at most %d further events, not %d.", maxThen, len(t.Then)))
	}
	last := request.Event.At
	for _, n := range t.Then {
		e, err := n.event(request.Event, last)
		if err != nil {
			return request, err
		}
		last = e.At
		request.LaterEvents = append(request.LaterEvents, e)
	}
	slices.SortStableFunc(request.LaterEvents, func(a, b web.PreviewEvent) int { return a.At.Compare(b.At) })
	return request, nil
}

// event converts a later event. Without data it repeats the first event's data, and without a time it comes an hour
// after the last one.
func (n laterEvent) event(first web.PreviewEvent, last time.Time) (e web.PreviewEvent, err error) {
	at := last.Add(time.Hour)
	if n.After != "" {
		after, err := document.ParseDuration(n.After)
		if err != nil {
			return e, errTrial(fmt.Sprintf("%q is not a duration: %v", n.After, err))
		}
		at = first.At.Add(time.Duration(after))
	}
	e = web.PreviewEvent{Subject: web.Identifier(n.Subject), At: at, Data: first.Data}
	if strings.TrimSpace(n.Data) != "" {
		e.Data, err = body("The event on "+n.Subject, n.Data)
	}
	return e, err
}

// until returns the length of the preview. end means that it runs to the end.
func (t previewForm) until() (later time.Duration, end bool, err error) {
	if t.Later == "" {
		return 0, true, nil
	}
	d, err := document.ParseDuration(t.Later)
	if err != nil {
		return 0, false, errTrial(fmt.Sprintf("%q is not a duration: %v", t.Later, err))
	}
	return time.Duration(d), false, nil
}

// body parses a JSON field of the form. An empty field gives nil.
func body(what, text string) (json.RawMessage, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return nil, nil
	case !json.Valid([]byte(text)):
		return nil, errTrial(what + ` is not JSON. Write an object, such as {"id": "1234"}.`)
	}
	return json.RawMessage(text), nil
}

func instant(text string) (time.Time, error) {
	for _, layout := range []string{localTime, "2006-01-02T15:04", time.RFC3339, "2006-01-02 15:04"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, errTrial(fmt.Sprintf("%q is not a time; use the form 2026-01-31 15:04 (UTC)", text))
}

// previewResult is the result of a preview.
type previewResult struct {
	Error  string              // the error; empty: none
	Places []web.ProblemDetail // errors in the rule with their places
	rules.Preview
	Lines   []previewLine // replace the preview's own lines
	Drawing []timeAxis
	Later   string // alerts raised by the requested time; empty: none requested
}

// previewLine is one line of a preview.
type previewLine struct {
	rules.PreviewLine
	After    string // time since the start of the job
	Until    string // time of the last repetition since the start of the job
	AfterCut bool   // after the requested time
}

// Reaches returns the channels of an alert as text; empty: unknown.
func (l previewLine) Reaches() string { return listChannels(l.Channels) }

// try requests a preview at a path. question builds the body for the path.
func (c client) try(path string, t previewForm, now time.Time, question func(web.PreviewRequest) any) *previewResult {
	out := new(previewResult)
	later, end, err := t.until()
	var request web.PreviewRequest
	if err == nil {
		request, err = t.request(now)
	}
	if err == nil {
		err = c.do(http.MethodPost, path, nil, question(request), &out.Preview)
	}
	if problem := new(web.Problem); errors.As(err, &problem) {
		for _, d := range problem.Errors {
			if d.Line > 0 || d.Pointer != "" {
				out.Places = append(out.Places, d)
			}
		}
	}
	if err != nil {
		out.Error = problemText(err)
		return out
	}
	out.lines(later, end)
	return out
}

// lines fills in the lines and the drawing, and marks the part after the requested time.
func (t *previewResult) lines(later time.Duration, end bool) {
	if len(t.Preview.Lines) == 0 {
		return
	}
	from := t.Preview.Lines[0].At
	var raised []string
	step, resolved := 0, 0
	dots := make([]axisEvent, 0, len(t.Preview.Lines))
	for i, l := range t.Preview.Lines {
		line := previewLine{PreviewLine: l, After: sinceStart(l.At.Sub(from)), AfterCut: !end && l.At.Sub(from) > later}
		if l.More > 0 {
			line.Until = length(l.Last.Sub(from))
		}
		t.Lines = append(t.Lines, line)
		switch {
		case l.Kind != rules.LineAlert || line.AfterCut:
		case l.Status == alerts.Resolved:
			resolved++
		default:
			raised = append(raised, cmp.Or(l.Step, string(l.Status)))
		}
		d := dotOf(l, from, line.AfterCut, i == 0)
		if l.Step != "" {
			if again := i > 0 && l.Step == t.Preview.Lines[i-1].Step; again {
				d.label = ""
			} else {
				step++
			}
			d.step = step
		}
		dots = append(dots, d)
	}
	cut := later
	if end {
		cut = 0
	}
	text := fmt.Sprintf("Preview from the start of the job to %s later; the list below has the same steps", length(dots[len(dots)-1].after))
	t.Drawing = timeAxes(dots, false, false, cut, text)
	if !end {
		t.Later = length(later) + " later: " + summarizeAlerts(raised, resolved)
	}
}

// summarizeAlerts summarizes raised alerts by their steps, with the number resolved.
func summarizeAlerts(raised []string, resolved int) string {
	var parts []string
	if len(raised) > 0 {
		parts = append(parts, count(len(raised), "alert")+" raised: "+strings.Join(raised, ", "))
	}
	if resolved > 0 {
		parts = append(parts, fmt.Sprintf("%d resolved", resolved))
	}
	if len(parts) == 0 {
		return "no alert so far."
	}
	return strings.Join(parts, "; ") + "."
}

// dotOf converts a preview line to an event of the drawing.
func dotOf(l rules.PreviewLine, from time.Time, late, first bool) axisEvent {
	m := axisEvent{after: l.At.Sub(from), kind: string(l.Kind), later: late}
	switch {
	case first:
		m.kind = "starts"
	case l.Kind == rules.LineAlert && l.Status == alerts.Firing:
		m.kind, m.label = string(l.Severity), l.Step+" "+sinceStart(m.after)
	case l.Kind == rules.LineAlert:
		m.kind, m.label = string(l.Status), string(l.Status)+" "+length(m.after)
	case l.Kind == rules.LineEvent, l.Kind == rules.LineStarts:
		m.kind = "event"
	}
	if l.More > 0 {
		m.label += " …"
	}
	return m
}

// example fills in the trigger event of a preview: the newest recent event, or a made-up one. A schedule has none.
func (t *previewForm) example(d document.Document) {
	t.Subject = sampleSubject(d.Trigger)
	switch {
	case len(t.Recent) > 0:
		newest := t.Recent[0]
		t.Subject, t.Event, t.At = newest.Subject, newest.Event, newest.At.UTC().Format(localTime)
	case d.Trigger.Subject() != "":
		t.Event = sampleEvent(d, d.Trigger.KeyExpression())
	case d.Trigger.Heartbeat != nil && len(d.Trigger.Heartbeat.Keys) == 0:
		t.Event = `{"key": "backup"}`
	}
}
