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

	"deadman/alerts"
	"deadman/rules"
	"deadman/web"
)

// previewForm is a preview as its form asks for it.
type previewForm struct {
	Event string // empty: none begins the wait
	// Subject is what it comes on; empty: what the trigger listens to.
	Subject string
	At      string       // when it comes, in UTC; empty: now
	Found   string       // what the lookup finds; empty: its source is asked
	Later   string       // how far on one wants to see; empty: to the end
	Then    []laterEvent // what comes after it

	Recent   []recent       // events that began waits of the rule
	Subjects []string       // what the rule listens to
	Answer   *previewResult // nil: nobody asked yet
}

// laterEvent is an event that comes while the wait goes on.
type laterEvent struct{ Subject, After, Data string }

// Laters are how far on one may want to see.
func (previewForm) Laters() []string { return []string{"0s", "1h", "3h", "1d", "7d"} }

// Blank is a trial with room for one more event that comes later.
func (t previewForm) Blank() previewForm {
	if n := len(t.Then); n == 0 || t.Then[n-1] != (laterEvent{}) {
		t.Then = append(t.Then[:n:n], laterEvent{})
	}
	return t
}

// maxThen bounds the events of a form that come later.
const maxThen = 20

// trialOf reads what a form asks for.
func trialOf(r *http.Request) previewForm {
	field := func(name string) string { return strings.TrimSpace(r.PostFormValue(name)) }
	t := previewForm{Event: r.PostFormValue("event"), Subject: field("subject"), At: field("at"), Found: field("found"), Later: field("later")}
	subjects, afters, datas := r.PostForm["then_subject"], r.PostForm["then_after"], r.PostForm["then_data"]
	for i := range min(len(subjects), len(afters), len(datas), maxThen) {
		n := laterEvent{strings.TrimSpace(subjects[i]), strings.TrimSpace(afters[i]), datas[i]}
		if n.Subject != "" || n.After != "" || strings.TrimSpace(n.Data) != "" {
			t.Then = append(t.Then, n)
		}
	}
	return t
}

// localTime is how a form writes an instant.
const localTime = "2006-01-02T15:04:05"

// errTrial is a trial that is not written as it should be; its text says what to write.
type errTrial string

func (e errTrial) Error() string { return string(e) }

// previewAsk is what happens in a preview, as the API takes it.
type previewAsk struct {
	Event rules.PreviewEvent   `json:"event"`
	Then  []rules.PreviewEvent `json:"then,omitempty"`
	Found json.RawMessage      `json:"found,omitempty"`
}

// ask is the trial as the API takes it.
func (t previewForm) ask(now time.Time) (ask previewAsk, err error) {
	ask.Event.At, ask.Event.Subject = now.UTC().Truncate(time.Second), t.Subject
	if t.At != "" {
		if ask.Event.At, err = instant(t.At); err != nil {
			return ask, err
		}
	}
	if ask.Event.Data, err = body("The event", t.Event); err != nil {
		return ask, err
	}
	if ask.Found, err = body("What the lookup finds", t.Found); err != nil {
		return ask, err
	}
	for _, n := range t.Then {
		e, err := n.event(ask.Event)
		if err != nil {
			return ask, err
		}
		ask.Then = append(ask.Then, e)
	}
	slices.SortStableFunc(ask.Then, func(a, b rules.PreviewEvent) int { return a.At.Compare(b.At) })
	return ask, nil
}

// event is what comes later than the first event. It is the same body again where none is given,
// and an hour later where no time is.
func (n laterEvent) event(first rules.PreviewEvent) (e rules.PreviewEvent, err error) {
	after, err := rules.ParseDuration(cmp.Or(n.After, "1h"))
	if err != nil {
		return e, errTrial(fmt.Sprintf("%q is not how long after it: %v", n.After, err))
	}
	e = rules.PreviewEvent{Subject: n.Subject, At: first.At.Add(time.Duration(after)), Data: first.Data}
	if strings.TrimSpace(n.Data) != "" {
		e.Data, err = body("The event on "+n.Subject, n.Data)
	}
	return e, err
}

// until is how far on one wants to see; end: to the end.
func (t previewForm) until() (later time.Duration, end bool, err error) {
	if t.Later == "" {
		return 0, true, nil
	}
	d, err := rules.ParseDuration(t.Later)
	if err != nil {
		return 0, false, errTrial(fmt.Sprintf("%q is not how much later: %v", t.Later, err))
	}
	return time.Duration(d), false, nil
}

// body is a JSON text of a form; nothing is none.
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
	return time.Time{}, errTrial(fmt.Sprintf("%q is no instant; write it as 2026-01-31 15:04, in UTC", text))
}

// previewResult is what a preview came to.
type previewResult struct {
	Wrong  string       // why there is none; empty: there is
	Places []web.Detail // what is wrong with the rule, and where
	rules.Preview
	Lines   []previewLine // in the place of the preview's
	Drawing []timeAxis
	Later   string // what will have been said by the instant that was asked for; empty: nobody asked
}

// previewLine is one thing that would happen.
type previewLine struct {
	rules.PreviewLine
	After string // since the wait began
	Until string // when it is said for the last time, after the wait began
	Late  bool   // it is after the instant that was asked for
}

// try asks what a rule would do. question is what the path is asked.
func (c client) try(path string, t previewForm, now time.Time, question func(previewAsk) any) *previewResult {
	out := new(previewResult)
	later, end, err := t.until()
	var ask previewAsk
	if err == nil {
		ask, err = t.ask(now)
	}
	if err == nil {
		err = c.do(http.MethodPost, path, nil, question(ask), &out.Preview)
	}
	if problem := new(web.Problem); errors.As(err, &problem) {
		for _, d := range problem.Errors {
			if d.Line > 0 || d.Pointer != "" {
				out.Places = append(out.Places, d)
			}
		}
	}
	if err != nil {
		out.Wrong = problemText(err)
		return out
	}
	out.lines(later, end)
	return out
}

// lines puts what happens in words and on a time line, and tells apart what is later than asked for.
func (t *previewResult) lines(later time.Duration, end bool) {
	if len(t.Preview.Lines) == 0 {
		return
	}
	from := t.Preview.Lines[0].At
	var said []string
	step, resolved := 0, 0
	dots := make([]axisEvent, 0, len(t.Preview.Lines))
	for i, l := range t.Preview.Lines {
		line := previewLine{PreviewLine: l, After: sinceStart(l.At.Sub(from)), Late: !end && l.At.Sub(from) > later}
		if l.More > 0 {
			line.Until = length(l.Last.Sub(from))
		}
		t.Lines = append(t.Lines, line)
		switch {
		case l.Kind != rules.Says || line.Late:
		case l.Status == alerts.Resolved:
			resolved++
		default:
			said = append(said, cmp.Or(l.Step, string(l.Status)))
		}
		d := dotOf(l, from, line.Late, i == 0)
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
	says := fmt.Sprintf("What would happen, from the wait's begin to %s later; the list below says it in words", length(dots[len(dots)-1].after))
	t.Drawing = drawn(dots, false, false, cut, says)
	if !end {
		t.Later = length(later) + " later: " + saidSoFar(said, resolved)
	}
}

// saidSoFar is a sentence of what was said, by its steps, and of how much of it was closed.
func saidSoFar(said []string, resolved int) string {
	var parts []string
	if len(said) > 0 {
		parts = append(parts, count(len(said), "alert")+" said: "+strings.Join(said, ", "))
	}
	if resolved > 0 {
		parts = append(parts, fmt.Sprintf("%d resolved", resolved))
	}
	if len(parts) == 0 {
		return "nothing was said yet."
	}
	return strings.Join(parts, "; ") + "."
}

// dotOf is a line of a preview as it is drawn.
func dotOf(l rules.PreviewLine, from time.Time, late, first bool) axisEvent {
	m := axisEvent{after: l.At.Sub(from), kind: string(l.Kind), later: late}
	switch {
	case first:
		m.kind = "starts"
	case l.Kind == rules.Says && l.Status == alerts.Firing:
		m.kind, m.label = string(l.Severity), l.Step+" "+sinceStart(m.after)
	case l.Kind == rules.Says:
		m.kind, m.label = string(l.Status), string(l.Status)+" "+length(m.after)
	case l.Kind == rules.Event, l.Kind == rules.Starts:
		m.kind = "event"
	}
	if l.More > 0 {
		m.label += " …"
	}
	return m
}

// example is the event that a trial of a rule begins with: the newest that is known, or one that is
// made up; none, where a schedule begins the wait.
func (t *previewForm) example(d rules.Document) {
	t.Subject = sampleSubject(d.Trigger)
	switch {
	case len(t.Recent) > 0:
		newest := t.Recent[0]
		t.Subject, t.Event, t.At = newest.Subject, newest.Event, newest.At.UTC().Format(localTime)
	case d.Trigger.Event != "":
		t.Event = sampleEvent(d.Trigger.Key)
	case d.Trigger.Heartbeat != nil && d.Trigger.Heartbeat.Event != "":
		t.Event = sampleEvent(d.Trigger.Heartbeat.Key)
	case d.Trigger.Heartbeat != nil && len(d.Trigger.Heartbeat.Keys) == 0:
		t.Event = `{"key": "backup"}`
	}
}
