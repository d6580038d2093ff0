// Package ui is what people see in a browser: pages over the API. It asks the API as any other
// program does, but within the process and as the visitor of the page; so it decides nothing, and
// shows and does what the visitor's token may.
//
// Each page is one function from a request to a view. The view is rendered into the layout, and
// again and again into the stream that the page listens to, while it is looked at.
package ui

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"deadman/internal/access"
	"deadman/web"
	"deadman/web/static"
)

//go:embed *.html
var pages embed.FS

// Options are what pages are made from.
type Options struct {
	Version string // of the program
	Log     *slog.Logger
	Now     func() time.Time // the database's time, or a little before it
}

// UI serves the pages.
type UI struct {
	Options
	api       http.Handler
	assets    *static.Assets
	templates map[string]*template.Template
	gallery   []sample
}

// New reads the templates and returns the pages. An error is a mistake of ours.
func New(o Options) (*UI, error) {
	assets, err := static.New()
	if err != nil {
		return nil, err
	}
	u := &UI{Options: o, assets: assets, templates: make(map[string]*template.Template)}
	if u.gallery, err = galleryOf(); err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	layout, err := template.New("layout").Funcs(u.functions()).ParseFS(pages, "layout.html", "parts.html", "drawing.html", "trial.html", "gallery.html")
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	names, err := pages.ReadDir(".")
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	for _, entry := range names {
		page, err := layout.Clone()
		if err == nil {
			_, err = page.ParseFS(pages, entry.Name())
		}
		if err != nil {
			return nil, fmt.Errorf("pages: %w", err)
		}
		u.templates[entry.Name()] = page
	}
	return u, nil
}

// Mount puts the pages on a router, whose middleware has found out who asks. api answers under
// /api/v1 and /readyz, to whoever asked for the page.
func (u *UI) Mount(r chi.Router, api http.Handler) {
	u.api = api
	r.Get("/", u.page("now", u.now))
	r.Get("/jobs", u.page("jobs", u.jobs))
	r.Post("/jobs", u.jobDeed)
	r.Get("/entities/{entity}", u.page("entity", u.entity))
	r.Get("/rules", u.page("rules", u.rules))
	r.Get("/rules/{name}", u.page("rule", u.rule))
	r.Post("/rules/{name}", u.ruleDeed)
	r.Get("/rules/{name}/versions", u.page("versions", u.versions))
	r.Get("/rules/{name}/send", u.page("send", u.sending))
	r.Post("/rules/{name}/send", u.send)
	r.Get("/rules/{name}/edit", u.page("editor", u.editRule))
	r.Post("/rules/{name}/edit", u.saveRule)
	r.Get("/new-rule", u.page("editor", u.newRule))
	r.Post("/new-rule", u.saveRule)
	r.Post("/try-rule", u.try)
	r.Get("/alerts", u.alerts())
	r.Post("/alerts", u.alertsDeed)
	r.Get("/alerts/said", u.page("said", u.said))
	r.Get("/alerts/{id}", u.page("alert", u.alert))
	r.Post("/alerts/{id}", u.alertDeed)
	r.Get("/mutes", u.page("mutes", u.mutes))
	r.Post("/mutes", u.muteDeed)
	r.Get("/history", u.page("history", u.history))
	r.Get("/dead-letters", u.page("letters", u.letters))
	r.Post("/dead-letters", u.lettersDeed)
	r.Get("/dead-letters/{id}", u.page("letter", u.letter))
	r.Post("/dead-letters/{id}", u.letterDeed)
	r.Get("/health", u.page("health", u.health))
	r.Get("/find", u.find)
	r.Get(sessionsAt, u.page("sessions", u.sessions))
	r.Post(sessionsAt, u.sessionsDeed)
}

// Frame answers with a page that is made elsewhere.
func (u *UI) Frame(w http.ResponseWriter, r *http.Request, f web.PageContent) {
	u.render(w, r, f.Status, f.Name, view{Title: f.Title, Body: f.Content, Alone: f.Alone}, "")
}

// Static serves what pages load, to everybody.
func (u *UI) Static() http.Handler { return u.assets }

// view is a page's content: what its template shows.
type view struct {
	Title string // of the window
	Body  any    // what the page's template is given
	Ill   bool   // something is wrong with the node
	Alone bool   // nobody is known yet, so it leads to no other page
	Still bool   // somebody writes on it; it is not made again while it is looked at
}

// layout is what the layout shows around a view.
type layout struct {
	view
	Page    string // its name, as in the navigation
	Version string
	Live    string // where the page's stream is; empty: it has none
	Self    web.Self
}

// LoggedIn reports whether the visitor came with a token.
func (l layout) LoggedIn() bool { return l.Self.Name != "" && !l.Self.Open }

// Reads reports whether any page is for the visitor.
func (l layout) Reads() bool { return slices.Contains(l.Self.Scopes, string(access.Read)) }

// place is a page of the navigation.
type place struct {
	Name, Path string
	Here       bool
}

// Places are the pages of the navigation that are open to the visitor, in their order.
func (l layout) Places() []place {
	all := []place{
		{Name: "Now", Path: "/"},
		{Name: "Jobs", Path: "/jobs"},
		{Name: "Alerts", Path: "/alerts"},
		{Name: "Rules", Path: "/rules"},
		{Name: "History", Path: "/history"},
		{Name: "Dead letters", Path: "/dead-letters"},
		{Name: "Health", Path: "/health"},
		{Name: "API", Path: "/docs"},
	}
	pages := map[string]int{"now": 0, "jobs": 1, "entity": 1, "confirm": 1, "alerts": 2, "said": 2, "alert": 2, "mutes": 2, "rules": 3, "rule": 3, "editor": 3, "versions": 3, "send": 3, "history": 4, "letters": 5, "letter": 5, "health": 6, "docs": 7}
	if at, is := pages[l.Page]; is {
		all[at].Here = true
	}
	if l.Self.Prefix != "" { // what could not be taken in may be of no rule
		all = slices.DeleteFunc(all, func(p place) bool { return p.Path == lettersAt })
	}
	return all
}

// pageContext is what a visitor sees who sends a request.
type pageContext func(c client, r *http.Request) (view, error)

// page is a handler that renders what is seen, or streams it for ?live.
func (u *UI) page(name string, see pageContext) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if web.IsLive(r) {
			u.stream(w, r, name, see)
			return
		}
		v, err := see(client{u.api, r}, r)
		if err != nil {
			u.fail(w, r, err)
			return
		}
		live := liveOf(r.URL)
		if v.Still {
			live = ""
		}
		u.render(w, r, http.StatusOK, name, v, live)
	}
}

// liveOf is the address of a page's stream.
func liveOf(at *url.URL) string {
	query := at.Query()
	query.Set(web.LiveParameter, "1")
	return at.EscapedPath() + "?" + query.Encode()
}

// policy lets in what comes from the node itself, and nothing that is written into a page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func (u *UI) render(w http.ResponseWriter, r *http.Request, status int, name string, v view, live string) {
	var out bytes.Buffer
	err := u.templates[name+".html"].ExecuteTemplate(&out, "layout", layout{view: v, Page: name, Version: u.Version, Live: live, Self: web.SelfOf(r.Context())})
	if err != nil {
		u.Log.ErrorContext(r.Context(), "a page can't be rendered", "page", name, "err", err)
		http.Error(w, "The page can't be rendered; the log says why.", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "same-origin")
	if v.Alone {
		h.Set("Referrer-Policy", "no-referrer") // its address may have a token in it
	}
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // a browser that left needs no page
}
