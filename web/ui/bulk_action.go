package ui

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"deadman/web"
)

// bulkResult is the result of an action on several objects.
type bulkResult struct {
	Verb string // past participle, such as acknowledged
	Noun string // noun of the objects, such as alert
	Done int
	// Ended counts the checked jobs that ended.
	Ended int
	// Idle counts the snoozed jobs whose next check was later anyway.
	Idle int
	None bool      // nothing was chosen
	Left []skipped // objects the action skipped
	Back string    // the page of the form
}

// skipped are objects that an action skipped for the same reason.
type skipped struct {
	Why    string
	Number int
	Names  []string // empty: not named
}

// each calls do for every name. A failure does not stop the others. Once the browser has left, the rest is skipped.
func (d *bulkResult) each(r *http.Request, names []string, do func(name string) error) {
	for _, name := range names {
		if err := r.Context().Err(); err != nil {
			d.leave(name, fmt.Errorf("timed out: %w", err))
			continue
		}
		if err := do(name); err != nil {
			d.leave(name, err)
			continue
		}
		d.Done++
	}
}

// leave records a skipped object with the reason.
func (d *bulkResult) leave(name string, err error) {
	why := problemText(err)
	i := slices.IndexFunc(d.Left, func(l skipped) bool { return l.Why == why })
	if i < 0 {
		i, d.Left = len(d.Left), append(d.Left, skipped{Why: why})
	}
	d.Left[i].Names = append(d.Left[i].Names, name)
	d.Left[i].Number++
}

// Others counts the skipped objects beyond the named ones.
func (l skipped) Others() int { return max(0, len(l.Names)-leftNamed) }

// Named returns the first names of the skipped objects.
func (l skipped) Named() []string { return l.Names[:min(len(l.Names), leftNamed)] }

// leftNamed is the number of objects named per reason.
const leftNamed = 20

// asProblem returns the API's problem in err, or nil.
func asProblem(err error) *web.Problem {
	var p *web.Problem
	if !errors.As(err, &p) {
		return nil
	}
	return p
}

// report shows the result of an action. A complete one redirects to the page of the form, and an incomplete one gets
// a page with the reasons.
func (u *UI) report(w http.ResponseWriter, r *http.Request, d bulkResult) {
	if len(d.Left) > 0 {
		u.render(w, r, http.StatusOK, "bulk_result", view{Title: "Some actions failed", Body: d, Still: true}, "")
		return
	}
	http.Redirect(w, r, backWith(d), http.StatusSeeOther)
}

// noneChosen reports whether nothing was chosen. If so, it redirects to the page of the form with a message.
func (u *UI) noneChosen(w http.ResponseWriter, r *http.Request, d bulkResult, chosen []string) bool {
	if len(chosen) > 0 {
		return false
	}
	d.None = true
	http.Redirect(w, r, backWith(d), http.StatusSeeOther)
	return true
}

// didNothing is the value of did in an address if nothing was chosen.
const didNothing = "nothing"

// backWith returns the address of the form's page with the result in its query.
func backWith(d bulkResult) string {
	at := returnPath(d.Back)
	query := at.Query()
	query.Del("done")
	if d.None {
		query.Set("did", didNothing)
	} else {
		query.Set("did", d.Verb)
		query.Set("done", strconv.Itoa(d.Done))
	}
	for name, n := range map[string]int{"ended": d.Ended, "idle": d.Idle} {
		query.Del(name)
		if n > 0 {
			query.Set(name, strconv.Itoa(n))
		}
	}
	at.RawQuery = query.Encode()
	return at.String()
}

// Summary returns the result as a sentence without its full stop. It counts the snoozes that delayed a check, and the
// others.
func (d bulkResult) Summary() string {
	n, were, whose := d.Done-d.Idle, "were", "their next checks are"
	if n == 1 {
		were = "was"
	}
	if d.Idle == 1 {
		whose = "its next check is"
	}
	text := count(n, d.Noun) + " " + were + " " + d.Verb
	if d.Idle > 0 {
		return text + fmt.Sprintf("; %s unchanged, as %s later", number(d.Idle), whose)
	}
	if came := d.Came(); came != "" {
		text += ": " + came
	}
	return text
}

// Came summarizes the outcome of checks. It is empty for other actions.
func (d bulkResult) Came() string {
	switch {
	case d.Verb != jobVerbs["check"] || d.Done == 0:
		return ""
	case d.Ended == 0:
		return "still pending"
	case d.Ended == d.Done:
		return "ended"
	}
	return fmt.Sprintf("%d ended, %d still pending", d.Ended, d.Done-d.Ended)
}

// flashOf returns the result in a page's address. It is nil if the address has none, or a verb that does not fit the
// noun.
func flashOf(query url.Values, noun string, verbs ...string) *bulkResult {
	if query.Get("did") == didNothing {
		return &bulkResult{Noun: noun, None: true}
	}
	n, err := strconv.Atoi(query.Get("done"))
	if err != nil || n < 0 || !slices.Contains(verbs, query.Get("did")) {
		return nil
	}
	return &bulkResult{Verb: query.Get("did"), Noun: noun, Done: n}
}

// formMost is the largest form, in bytes.
const formMost = 1 << 20

// form parses the request's form and reports success.
func (u *UI) form(w http.ResponseWriter, r *http.Request) bool {
	r.Body = http.MaxBytesReader(w, r.Body, formMost)
	if err := r.ParseForm(); err != nil {
		u.fail(w, r, &web.Problem{Status: http.StatusBadRequest, Title: "Invalid form", Detail: "Select fewer items; a form has at most 1 MiB."})
		return false
	}
	return true
}

// invalidAction returns the problem of a form without an action.
func invalidAction(detail string) *web.Problem {
	return &web.Problem{Status: http.StatusBadRequest, Title: "No action was taken", Detail: detail}
}

// flashMessages maps the values of did in an address to sentences.
type flashMessages map[string]string

// withFlash returns the address at with the given action in its query.
func withFlash(at, action string) string {
	to, err := url.Parse(at)
	if err != nil {
		return at // the page lacks the message then
	}
	query := to.Query()
	query.Set("did", action)
	to.RawQuery = query.Encode()
	return to.String()
}

// of returns the message for a page of a GET request, or an empty text. A POST from the page is no longer about it.
func (all flashMessages) of(r *http.Request) string {
	if r.Method != http.MethodGet {
		return ""
	}
	return all[r.URL.Query().Get("did")]
}
