package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	futurejobs "deadman/future_jobs"
)

// pageRows is how much of each list the page shows.
const pageRows = 12

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// pageStyle is the look of all pages.
var pageStyle = template.CSS(pageCSS) //nolint:gosec // our own file

// policy lets a page's own style in, and nothing else but what more says.
func policy(css, more string) string {
	return fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; img-src data:; base-uri 'none'; %s; frame-ancestors 'none'",
		base64.StdEncoding.EncodeToString(sum(css)), more)
}

var pagePolicy = policy(pageCSS, "form-action 'none'")

func sum(s string) []byte {
	h := sha256.Sum256([]byte(s))
	return h[:]
}

// overview is what the page shows.
type overview struct {
	CSS      template.CSS
	Version  string
	Fine     bool
	Sentence string
	Broken   []Condition
	Blind    bool // the lists could not be read
	Jobs     []pageJob
	MoreJobs bool // than are shown
	Alerts   []pageAlert
	Sources  []Source
	Now      time.Time
}

type pageJob struct {
	Job
	In string
}

type pageAlert struct {
	Alert
	Ago string
}

func (a *api) page(w http.ResponseWriter, r *http.Request) {
	view := a.overview(r.Context())
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, view); err != nil {
		a.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Security-Policy", pagePolicy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	a.send(w, r, "text/html; charset=utf-8", http.StatusOK, out.Bytes())
}

// overview reads what the page shows. Lists that cannot be read are part of the news: this
// is the page that people look at when something is wrong.
func (a *api) overview(ctx context.Context) overview {
	view := overview{CSS: pageStyle, Version: a.Version, Now: a.Now().UTC()}
	state := a.readiness(ctx)
	first := futurejobs.Filter{Limit: pageRows}
	jobs, jobsErr := a.jobs(ctx, first)
	said, saidErr := a.alerts(ctx, first)
	if err := errors.Join(jobsErr, saidErr); err != nil {
		a.Log.ErrorContext(ctx, "the page is shown without its lists", "err", err)
		state.Fine = false
		state.Conditions = append(state.Conditions, Condition{Name: "lists", Detail: "jobs and alerts cannot be read; the log says why"})
		view.Blind = true
	}
	view.MoreJobs = jobs.Next != ""
	for _, j := range jobs.Items {
		view.Jobs = append(view.Jobs, pageJob{j, Relative(j.NextCheckAt, view.Now)})
	}
	for _, s := range said.Items {
		view.Alerts = append(view.Alerts, pageAlert{s, Relative(s.DecidedAt, view.Now)})
	}
	for _, s := range a.Sources.States() {
		view.Sources = append(view.Sources, newSource(s))
	}
	view.judge(state)
	return view
}

// judge finds the sentence that says whether deadman is fine.
func (o *overview) judge(state Readiness) {
	var names []string
	for _, c := range state.Conditions {
		if !c.OK {
			o.Broken = append(o.Broken, c)
			names = append(names, c.Name)
		}
	}
	o.Fine = state.Fine
	switch {
	case !o.Fine:
		o.Sentence = "deadman is not fine: " + strings.Join(names, ", ") + "."
	case len(o.Jobs) == 0:
		o.Sentence = "deadman is fine, and waits for nothing at the moment."
	default:
		o.Sentence = "deadman is fine. " + capital(o.open()+"the next look is "+o.Jobs[0].In) + "."
	}
}

// open says how many of the jobs were alerted and are watched on, or "" when none is known.
func (o *overview) open() string {
	n := 0
	for _, j := range o.Jobs {
		if len(j.Job.Alerts) > 0 {
			n++
		}
	}
	least := ""
	if o.MoreJobs {
		least = "at least "
	}
	switch n {
	case 0:
		return ""
	case 1:
		return least + "1 alert is open; "
	}
	return fmt.Sprintf("%s%d alerts are open; ", least, n)
}

// capital begins a sentence; s begins with a letter of ASCII or a digit.
func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
