package ui

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"deadman/web"
)

// Verbs of dead letter actions.
const (
	takenIn = "processed"
	dropped = "dropped"
)

// retryTime is the longest time a request retries dead letters before the page asks to continue. An answer is due
// within 30 seconds.
const retryTime = 10 * time.Second

// letterActions serves the actions on dead letters.
type letterActions struct{ *UI }

// handleDeadLetterAction retries or drops one dead letter.
func (u letterActions) handleDeadLetterAction(w http.ResponseWriter, r *http.Request) {
	if !u.form(w, r) {
		return
	}
	id := chi.URLParam(r, "id")
	r.PostForm.Set("letter", id)
	r.PostForm.Set("back", lettersAt)
	u.doToLetters(w, r, letterAt(id), "Keep dead letter")
}

// handleDeadLettersAction retries or drops the chosen dead letters, or all that match the form's filter.
func (u letterActions) handleDeadLettersAction(w http.ResponseWriter, r *http.Request) {
	if !u.form(w, r) {
		return
	}
	if r.PostForm.Get("meant") != "" {
		u.doToMeant(w, r)
		return
	}
	u.doToLetters(w, r, returnPath(r.PostForm.Get("back")).String(), "Keep dead letters")
}

// doToLetters applies an action to the dead letters named in a form. Dropping needs a confirmation.
func (u letterActions) doToLetters(w http.ResponseWriter, r *http.Request, keepAt, keep string) {
	c, chosen, what := client{u.api, r}, r.PostForm["letter"], r.PostForm.Get("do")
	d := bulkResult{Noun: "dead letter", Verb: takenIn, Back: returnPath(r.PostForm.Get("back")).String()}
	if what != "retry" && what != "drop" {
		u.fail(w, r, invalidAction("The form has no action: retry or drop."))
		return
	}
	if u.noneChosen(w, r, d, chosen) {
		return
	}
	if what == "drop" && r.PostForm.Get("sure") == "" {
		q := confirmation{
			Title: "Drop " + count(len(chosen), "dead letter") + "?", Text: "The event is deleted permanently.", Names: chosen,
			At: lettersAt, Form: []field{{"do", "drop"}}, Do: "Drop " + count(len(chosen), "dead letter"), Dangerous: true, Keep: keep, Back: keepAt, Then: d.Back,
		}
		for _, id := range chosen {
			q.Form = append(q.Form, field{"letter", id})
		}
		u.confirm(w, r, q)
		return
	}
	do := letterClient{c}.retryLetter
	if what == "drop" {
		d.Verb, do = dropped, func(id string) error { return c.do(http.MethodDelete, letterAt(id), nil, nil, nil) }
	}
	d.each(r, chosen, do)
	u.report(w, r, d)
}

// letterClient retries and counts dead letters.
type letterClient struct{ client }

// retryLetter retries a dead letter. A second refusal is an error.
func (c letterClient) retryLetter(id string) error {
	var did web.RetryResult
	if err := c.do(http.MethodPost, letterAt(id)+"/retry", nil, nil, &did); err != nil {
		return err
	}
	if did.Refused > 0 {
		return errors.New("failed again: " + did.Reason)
	}
	return nil
}

// doToMeant applies an action to all dead letters that match the form's filter, after a confirmation.
func (u letterActions) doToMeant(w http.ResponseWriter, r *http.Request) {
	if err := decodeForm(r.PostForm, letterFilter...); err != nil {
		u.fail(w, r, err)
		return
	}
	meant, c, back := meantBy(r.PostForm), client{u.api, r}, returnPath(r.PostForm.Get("back")).String()
	what, isSure := r.PostForm.Get("do"), r.PostForm.Get("sure") != ""
	q := confirmation{At: lettersAt, Form: []field{{"do", what}, {"meant", "yes"}}, Keep: "Keep dead letters", Back: back}
	for _, name := range letterFilter {
		q.Form = append(q.Form, field{name, encodeFormText(r.PostForm.Get(name))})
	}
	many := ""
	if !isSure {
		var err error
		if many, err = (letterClient{c}).countMeant(r.PostForm); err != nil {
			u.fail(w, r, err)
			return
		}
	}
	switch {
	case what == "drop" && !isSure:
		q.Title, q.Do, q.Dangerous = "Drop "+many+filterText(meant)+"?", "Drop all", true
		q.Text = "The events are deleted permanently, including those that arrived since the page was loaded."
		u.confirm(w, r, q)
	case what == "drop":
		var gone web.DropResult
		if err := c.do(http.MethodDelete, lettersAt, meant, nil, &gone); err != nil {
			u.fail(w, r, err)
			return
		}
		u.report(w, r, bulkResult{Noun: "dead letter", Verb: dropped, Done: int(gone.Dropped), Back: lettersAt})
	case what == "retry" && !isSure:
		q.Title, q.Do = "Retry "+many+filterText(meant)+"?", "Retry all"
		q.Text = "Their events are applied now, oldest first, with the current rules. Overdue steps fire at once."
		u.confirm(w, r, q)
	case what == "retry":
		u.retryMeant(w, r, meant, q)
	default:
		u.fail(w, r, invalidAction("The form has no action: retry or drop."))
	}
}

// countMeant returns the number of matching dead letters in words.
func (c letterClient) countMeant(form url.Values) (string, error) {
	meant := url.Values{}
	for _, name := range letterFilter {
		if value := form.Get(name); value != "" {
			meant.Set(name, value)
		}
	}
	var counted web.DeadLetterReasons
	if err := c.get(lettersAt+"/reasons", meant, &counted); err != nil {
		return "", err
	}
	switch {
	case counted.More:
		return fmt.Sprintf("all dead letters (at least %d)", counted.Count), nil
	case counted.Count == 1:
		return "1 dead letter", nil
	}
	return fmt.Sprintf("all %d dead letters", counted.Count), nil
}

// retryMeant retries matching dead letters for at most retryTime. If more remain, it asks whether to continue.
func (u letterActions) retryMeant(w http.ResponseWriter, r *http.Request, meant url.Values, more confirmation) {
	c := client{u.api, r}
	sum := retriedBefore(r.PostForm)
	if after := r.PostForm.Get("after"); after != "" {
		meant.Set("after", after)
	}
	for startedAt := time.Now(); ; {
		var did web.RetryResult
		if err := c.do(http.MethodPost, lettersAt+"/retry", meant, nil, &did); err != nil {
			u.fail(w, r, err)
			return
		}
		sum.Processed, sum.Refused = sum.Processed+did.Processed, sum.Refused+did.Refused
		if did.Next == 0 {
			break
		}
		meant.Set("after", strconv.FormatInt(did.Next, 10))
		if time.Since(startedAt) > retryTime {
			more.Title, more.Do, more.Keep = "More dead letters remain. Continue?", "Continue", "Stop here"
			more.Text = fmt.Sprintf("%s processed so far, %d failed again.", count(sum.Processed, "dead letter"), sum.Refused)
			more.Form = append(more.Form, field{"after", meant.Get("after")}, field{"taken_in", strconv.Itoa(sum.Processed)}, field{"refused", strconv.Itoa(sum.Refused)})
			u.confirm(w, r, more)
			return
		}
	}
	d := bulkResult{Noun: "dead letter", Verb: takenIn, Done: sum.Processed, Back: lettersAt}
	d.refused(sum.Refused)
	u.report(w, r, d)
}

// refused records the number of dead letters that were refused again. The list has their reasons.
func (d *bulkResult) refused(n int) {
	if n > 0 {
		d.Left = append(d.Left, skipped{Why: "failed again; the list has the new reasons", Number: n})
	}
}

// retriedBefore returns the counts of earlier rounds from the form.
func retriedBefore(form url.Values) (sum web.RetryResult) {
	sum.Processed, _ = strconv.Atoi(form.Get("taken_in")) // absent in the first round
	sum.Refused, _ = strconv.Atoi(form.Get("refused"))
	return sum
}

// meantBy returns the form's filter for the API.
func meantBy(form url.Values) url.Values {
	meant := url.Values{}
	for _, name := range letterFilter {
		if value := form.Get(name); value != "" {
			meant.Set(name, value)
		}
	}
	if len(meant) == 0 {
		meant.Set("all", "true")
	}
	return meant
}

// filterText describes the filter in words, to follow a count.
func filterText(meant url.Values) (text string) {
	if rule := meant.Get("rule"); rule != "" {
		text += " of rule " + escapeControls(rule)
	}
	if subject := meant.Get("subject"); subject != "" {
		text += " on " + escapeControls(subject)
	}
	if reason := meant.Get("reason"); reason != "" {
		text += " with the reason “" + escapeControls(reason) + "”"
	}
	return text
}
