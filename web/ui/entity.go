package ui

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"deadman/web"
)

// entityView is all that is known of one entity: what is waited for, and what happened.
type entityView struct {
	Entity, Key string
	Jobs        []job
	Line        []moment // what happened, newest first
	More        bool     // than is shown
}

// moment is something that happened.
type moment struct {
	At    time.Time
	Rule  string
	Kind  string // which pill it has
	Word  string // what the pill says
	Text  string
	Alert *web.Alert // nil: it is none
}

func (u *UI) entity(c client, r *http.Request) (view, error) {
	entity, key := chi.URLParam(r, "entity"), r.URL.Query().Get("key")
	var known web.Entity
	if err := c.get("/entities/"+url.PathEscape(entity), url.Values{"key": {key}}, &known); err != nil {
		return view{}, err
	}
	v := entityView{Entity: entity, Key: key, Jobs: jobsOf(known.Jobs.Items)}
	for _, j := range known.Jobs.Items {
		v.Line = append(v.Line, began(j))
	}
	for _, e := range known.History.Items {
		v.Line = append(v.Line, began(e.Job), moment{At: e.EndedAt, Rule: e.Rule, Kind: outcome(e.Outcome), Word: string(e.Outcome), Text: e.Reason})
	}
	for _, a := range known.Alerts.Items {
		v.Line = append(v.Line, said(a))
	}
	slices.SortStableFunc(v.Line, func(a, b moment) int { return cmp.Compare(b.At.UnixMicro(), a.At.UnixMicro()) })
	v.More = known.History.Next != "" || known.Alerts.Next != ""
	return view{Title: entity + " " + key, Body: v}, nil
}

func began(j web.Job) moment {
	return moment{At: j.Since, Rule: j.Rule, Kind: "waiting", Word: "began", Text: "the wait began"}
}

func said(a web.Alert) moment {
	return moment{At: a.DecidedAt, Rule: a.Rule, Kind: loudness(a), Word: loudness(a), Text: a.Text, Alert: &a}
}
