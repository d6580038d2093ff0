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

// bulkResult is what came of doing something to several things, one after the other.
type bulkResult struct {
	Verb string // what was done to them, such as acknowledged
	Noun string // what one of them is, such as alert
	Done int
	// Ended is how many jobs ended of those that were looked at.
	Ended int
	None  bool      // nothing was chosen
	Left  []skipped // what could not be done
	Back  string    // the page it was asked for on
}

// skipped are things that were left as they are, for one reason.
type skipped struct {
	Why    string
	Number int
	Names  []string // empty: nobody named them
}

// each does something to each of names. What can't be done does not hold up the others; that
// nobody may do it at all, or that the browser left, does.
func (d *bulkResult) each(r *http.Request, names []string, do func(name string) error) {
	for _, name := range names {
		if err := r.Context().Err(); err != nil {
			d.leave(name, fmt.Errorf("there was no time left: %w", err))
			continue
		}
		if err := do(name); err != nil {
			d.leave(name, err)
			continue
		}
		d.Done++
	}
}

// leave notes what could not be done, and why.
func (d *bulkResult) leave(name string, err error) {
	why := problemText(err)
	i := slices.IndexFunc(d.Left, func(l skipped) bool { return l.Why == why })
	if i < 0 {
		i, d.Left = len(d.Left), append(d.Left, skipped{Why: why})
	}
	d.Left[i].Names = append(d.Left[i].Names, name)
	d.Left[i].Number++
}

// Others is how many of them are not named, where there are many.
func (l skipped) Others() int { return max(0, len(l.Names)-leftNamed) }

// Named are those that are named.
func (l skipped) Named() []string { return l.Names[:min(len(l.Names), leftNamed)] }

// leftNamed is how many things of one reason are named.
const leftNamed = 20

// asProblem is what the API answered; nil: it did not.
func asProblem(err error) *web.Problem {
	var p *web.Problem
	if !errors.As(err, &p) {
		return nil
	}
	return p
}

// report shows what was done: on the page it was asked for on where all of it was, and else on
// one of its own that says what was not, and why.
func (u *UI) report(w http.ResponseWriter, r *http.Request, d bulkResult) {
	if len(d.Left) > 0 {
		u.render(w, r, http.StatusOK, "doing", view{Title: "Not all was done", Body: d, Still: true}, "")
		return
	}
	http.Redirect(w, r, backWith(d), http.StatusSeeOther)
}

// noneChosen reports whether nothing was chosen to be done something to, and says so on the page that
// it was asked for on.
func (u *UI) noneChosen(w http.ResponseWriter, r *http.Request, d bulkResult, chosen []string) bool {
	if len(chosen) > 0 {
		return false
	}
	d.None = true
	http.Redirect(w, r, backWith(d), http.StatusSeeOther)
	return true
}

// didNothing is what the address of a page says was done where nothing was chosen.
const didNothing = "nothing"

// backWith is the address of the page that a deed was asked for on, with what was done.
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
	query.Del("ended")
	if d.Ended > 0 {
		query.Set("ended", strconv.Itoa(d.Ended))
	}
	at.RawQuery = query.Encode()
	return at.String()
}

// Came is what came of looks at jobs; empty: something else was done.
func (d bulkResult) Came() string {
	switch {
	case d.Verb != jobVerbs["check"] || d.Done == 0:
		return ""
	case d.Ended == 0:
		return "still waiting"
	case d.Ended == d.Done:
		return "ended"
	}
	return fmt.Sprintf("%d ended, %d still waiting", d.Ended, d.Done-d.Ended)
}

// flashOf is what the address of a page says was done: nil where it says nothing, or what can't be
// done to things of this kind.
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

// formMost is the most that a form may have, in bytes.
const formMost = 1 << 20

// form reads the form of a request, and reports whether it could be.
func (u *UI) form(w http.ResponseWriter, r *http.Request) bool {
	r.Body = http.MaxBytesReader(w, r.Body, formMost)
	if err := r.ParseForm(); err != nil {
		u.fail(w, r, &web.Problem{Status: http.StatusBadRequest, Title: "The form can't be read", Detail: "Choose fewer things; a form has at most 1 MiB."})
		return false
	}
	return true
}

// nothingAsked is what a form gets that does not say what to do.
func nothingAsked(detail string) *web.Problem {
	return &web.Problem{Status: http.StatusBadRequest, Title: "Nothing was done", Detail: detail}
}

// flashMessages are what can have been done before a page is shown, by how its address says so, in sentences.
type flashMessages map[string]string

// withFlash is where a page is that says that something was done; at is its address.
func withFlash(at, deed string) string {
	to, err := url.Parse(at)
	if err != nil {
		return at // the page comes without the line
	}
	query := to.Query()
	query.Set("did", deed)
	to.RawQuery = query.Encode()
	return to.String()
}

// of is the sentence of what was done before a page that is asked for; empty: nothing was. What a form
// on the page leads to is no longer about it.
func (all flashMessages) of(r *http.Request) string {
	if r.Method != http.MethodGet {
		return ""
	}
	return all[r.URL.Query().Get("did")]
}
