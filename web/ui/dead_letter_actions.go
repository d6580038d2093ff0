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

// What is done to dead letters.
const (
	takenIn = "taken in"
	dropped = "dropped"
)

// retryTime is how long a page retries letters before it asks whether to go on: an answer has to
// come within 30 seconds.
const retryTime = 10 * time.Second

// letterDeed tries a dead letter again, or drops it.
func (u *UI) letterDeed(w http.ResponseWriter, r *http.Request) {
	if !u.form(w, r) {
		return
	}
	id := chi.URLParam(r, "id")
	r.PostForm.Set("letter", id)
	r.PostForm.Set("back", lettersAt)
	u.doToLetters(w, r, letterAt(id), "Keep it")
}

// lettersDeed tries the chosen dead letters again, or all that are as the form says, or drops them.
func (u *UI) lettersDeed(w http.ResponseWriter, r *http.Request) {
	if !u.form(w, r) {
		return
	}
	if r.PostForm.Get("meant") != "" {
		u.doToMeant(w, r)
		return
	}
	u.doToLetters(w, r, returnPath(r.PostForm.Get("back")).String(), "Keep them")
}

// doToLetters does something to the letters that a form names, one after the other.
func (u *UI) doToLetters(w http.ResponseWriter, r *http.Request, keepAt, keep string) {
	c, chosen, what := client{u.api, r}, r.PostForm["letter"], r.PostForm.Get("do")
	d := bulkResult{Noun: "dead letter", Verb: takenIn, Back: returnPath(r.PostForm.Get("back")).String()}
	if what != "retry" && what != "drop" {
		u.fail(w, r, nothingAsked("The form says not whether to retry or to drop."))
		return
	}
	if u.noneChosen(w, r, d, chosen) {
		return
	}
	if what == "drop" && r.PostForm.Get("sure") == "" {
		q := confirmation{
			Title: "Drop " + count(len(chosen), "dead letter") + "?", Says: "The event is lost: nothing of it is kept here.", Names: chosen,
			At: lettersAt, Form: []field{{"do", "drop"}}, Do: "Drop " + count(len(chosen), "dead letter"), Grave: true, Keep: keep, Back: keepAt, Then: d.Back,
		}
		for _, id := range chosen {
			q.Form = append(q.Form, field{"letter", id})
		}
		u.ask(w, r, q)
		return
	}
	do := c.retryLetter
	if what == "drop" {
		d.Verb, do = dropped, func(id string) error { return c.do(http.MethodDelete, letterAt(id), nil, nil, nil) }
	}
	d.each(r, chosen, do)
	u.report(w, r, d)
}

// retryLetter tries a letter again; that it is refused again is an error.
func (c client) retryLetter(id string) error {
	var did web.Retried
	if err := c.do(http.MethodPost, letterAt(id)+"/retry", nil, nil, &did); err != nil {
		return err
	}
	if did.Refused > 0 {
		return errors.New("refused again: " + did.Reason)
	}
	return nil
}

// doToMeant does something to all letters that are as a form says, after it was asked whether
// that is meant.
func (u *UI) doToMeant(w http.ResponseWriter, r *http.Request) {
	if err := decodeForm(r.PostForm, letterFilter...); err != nil {
		u.fail(w, r, err)
		return
	}
	meant, c, back := meantBy(r.PostForm), client{u.api, r}, returnPath(r.PostForm.Get("back")).String()
	what, isSure := r.PostForm.Get("do"), r.PostForm.Get("sure") != ""
	q := confirmation{At: lettersAt, Form: []field{{"do", what}, {"meant", "yes"}}, Keep: "Keep them", Back: back}
	for _, name := range letterFilter {
		q.Form = append(q.Form, field{name, encodeFormText(r.PostForm.Get(name))})
	}
	many := ""
	if !isSure {
		var err error
		if many, err = c.countMeant(r.PostForm); err != nil {
			u.fail(w, r, err)
			return
		}
	}
	switch {
	case what == "drop" && !isSure:
		q.Title, q.Do, q.Grave = "Drop "+many+whichOf(meant)+"?", "Drop them all", true
		q.Says = "The events are lost, also those that came since you looked: nothing of them is kept here."
		u.ask(w, r, q)
	case what == "drop":
		var gone web.Dropped
		if err := c.do(http.MethodDelete, lettersAt, meant, nil, &gone); err != nil {
			u.fail(w, r, err)
			return
		}
		u.report(w, r, bulkResult{Noun: "dead letter", Verb: dropped, Done: int(gone.Dropped), Back: lettersAt})
	case what == "retry" && !isSure:
		q.Title, q.Do = "Retry "+many+whichOf(meant)+"?", "Retry them all"
		q.Says = "Their events are taken in late, oldest first, by the rules as they are now. What is overdue by then speaks at once."
		u.ask(w, r, q)
	case what == "retry":
		u.retryMeant(w, r, meant, q)
	default:
		u.fail(w, r, nothingAsked("The form says not whether to retry or to drop."))
	}
}

// countMeant is how many letters are as a form says, in words.
func (c client) countMeant(form url.Values) (string, error) {
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
		return fmt.Sprintf("all dead letters, %d and more,", counted.Letters), nil
	case counted.Letters == 1:
		return "1 dead letter", nil
	}
	return fmt.Sprintf("all %d dead letters", counted.Letters), nil
}

// retryMeant retries for a while, and asks whether to go on where there are more.
func (u *UI) retryMeant(w http.ResponseWriter, r *http.Request, meant url.Values, more confirmation) {
	c := client{u.api, r}
	sum := retriedBefore(r.PostForm)
	if after := r.PostForm.Get("after"); after != "" {
		meant.Set("after", after)
	}
	for began := time.Now(); ; {
		var did web.Retried
		if err := c.do(http.MethodPost, lettersAt+"/retry", meant, nil, &did); err != nil {
			u.fail(w, r, err)
			return
		}
		sum.TakenIn, sum.Refused = sum.TakenIn+did.TakenIn, sum.Refused+did.Refused
		if did.Next == 0 {
			break
		}
		meant.Set("after", strconv.FormatInt(did.Next, 10))
		if time.Since(began) > retryTime {
			more.Title, more.Do, more.Keep = "There are more. Go on?", "Go on", "Leave the others"
			more.Says = fmt.Sprintf("%s taken in so far, and %d refused again.", count(sum.TakenIn, "dead letter"), sum.Refused)
			more.Form = append(more.Form, field{"after", meant.Get("after")}, field{"taken_in", strconv.Itoa(sum.TakenIn)}, field{"refused", strconv.Itoa(sum.Refused)})
			u.ask(w, r, more)
			return
		}
	}
	d := bulkResult{Noun: "dead letter", Verb: takenIn, Done: sum.TakenIn, Back: lettersAt}
	d.refused(sum.Refused)
	u.report(w, r, d)
}

// refused notes how many letters were refused again: their reasons are in the list.
func (d *bulkResult) refused(n int) {
	if n > 0 {
		d.Left = append(d.Left, skipped{Why: "refused again; the list has the new reasons", Number: n})
	}
}

// retriedBefore is what came of the letters before a page asked whether to go on.
func retriedBefore(form url.Values) (sum web.Retried) {
	sum.TakenIn, _ = strconv.Atoi(form.Get("taken_in")) // absent: this is the first time
	sum.Refused, _ = strconv.Atoi(form.Get("refused"))
	return sum
}

// meantBy is which letters a form means, as the API takes it.
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

// whichOf says which letters are meant, after how many there are.
func whichOf(meant url.Values) (said string) {
	if rule := meant.Get("rule"); rule != "" {
		said += " of rule " + escapeControls(rule)
	}
	if subject := meant.Get("subject"); subject != "" {
		said += " on " + escapeControls(subject)
	}
	if reason := meant.Get("reason"); reason != "" {
		said += " with the reason “" + escapeControls(reason) + "”"
	}
	return said
}
