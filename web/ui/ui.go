// Package ui serves the web UI, which renders pages from the API. It calls the API within the process as the visitor
// of the page, so a page shows and does only actions that the visitor's token allows.
//
// A page is a function from a request to a view. The view is rendered into the layout, and then repeatedly into the
// page's event stream while the page is open.
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
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"deadman/internal/access"
	"deadman/internal/replay"
	"deadman/web"
	"deadman/web/static"
)

//go:embed *.html
var pages embed.FS

// Options configure the UI.
type Options struct {
	Version string // version of the program
	Log     *slog.Logger
	Now     func() time.Time // the database's time, or slightly earlier
}

// UI serves the pages.
type UI struct {
	Options
	api       http.Handler
	assets    *static.Assets
	templates map[string]*template.Template
	gallery   []sample
}

// New parses the templates and returns the UI. An error is a bug in a template or an example.
func New(o Options) (*UI, error) {
	assets, err := static.New()
	if err != nil {
		return nil, err
	}
	u := &UI{Options: o, assets: assets, templates: make(map[string]*template.Template)}
	if u.gallery, err = gallery(); err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	layout, err := template.New("layout").Funcs(u.functions()).ParseFS(pages, "layout.html", "parts.html", "drawing.html", "preview.html", "replay.html", "gallery.html")
	if err == nil {
		_, err = layout.Parse(replay.ChartTemplates)
	}
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

// Mount adds the pages to a router with authenticating middleware. api serves /api/v1 and /readyz for the pages, as
// their visitors.
func (u *UI) Mount(r chi.Router, api http.Handler) {
	u.api = api
	r.Get("/", u.page("overview", u.now))
	r.Get("/jobs", u.page("jobs", jobPages{u}.jobs))
	r.Post("/jobs", jobPages{u}.handleJobAction)
	r.Get("/entities/{entity}", u.page("entity", u.entity))
	r.Get("/rules", u.page("rules", u.rules))
	r.Get("/rules/{name}", u.page("rule", rulePage{u}.rule))
	r.Post("/rules/{name}", rulePage{u}.handleRuleAction)
	r.Get("/rules/{name}/versions", u.page("versions", u.versions))
	r.Get("/rules/{name}/schedules", u.page("schedules", u.schedules))
	r.Get("/rules/{name}/ticks", u.page("ticks", u.ticks))
	r.Get("/rules/{name}/send", u.page("publish", eventPages{u}.sending))
	r.Post("/rules/{name}/send", eventPages{u}.send)
	r.Get("/rules/{name}/edit", u.page("editor", editorPages{u}.editRule))
	r.Post("/rules/{name}/edit", editorPages{u}.saveRule)
	r.Get(calendarsAt, u.page("calendars", calendarPages{u}.calendars))
	r.Get(calendarsAt+"/{name}", u.page("calendar", calendarPages{u}.calendar))
	r.Post(calendarsAt+"/{name}", calendarPages{u}.remove)
	r.Get(calendarsAt+"/{name}/edit", u.page("calendar_editor", calendarPages{u}.edit))
	r.Post(calendarsAt+"/{name}/edit", calendarPages{u}.save)
	r.Get("/new-calendar", u.page("calendar_editor", calendarPages{u}.newCalendar))
	r.Post("/new-calendar", calendarPages{u}.save)
	r.Get("/new-rule", u.page("editor", editorPages{u}.newRule))
	r.Post("/new-rule", editorPages{u}.saveRule)
	r.Post("/try-rule", editorPages{u}.try)
	r.Post("/try-replay", replayPages{u}.start)
	r.Post("/try-replay/{id}", replayPages{u}.show)
	r.Post("/try-replay/{id}/cancel", replayPages{u}.cancel)
	r.Post("/try-calendar", calendarPages{u}.try)
	r.Get("/alerts", alertPages{u}.alerts())
	r.Post("/alerts", alertActions{u}.handleAlertsAction)
	r.Get("/alerts/all", u.page("alert_log", u.alertLog))
	r.Get("/alerts/{id}", u.page("alert", u.alert))
	r.Post("/alerts/{id}", alertActions{u}.handleAlertAction)
	r.Get("/mutes", u.page("mutes", mutePages{u}.mutes))
	r.Post("/mutes", mutePages{u}.handleMuteAction)
	r.Get(heartbeatsAt, u.page("heartbeats", u.heartbeats))
	r.Get("/history", u.page("history", u.history))
	r.Get("/dead-letters", u.page("dead_letters", letterPages{u}.letters))
	r.Post("/dead-letters", letterActions{u}.handleDeadLettersAction)
	r.Get("/dead-letters/{id}", u.page("dead_letter", letterPages{u}.letter))
	r.Post("/dead-letters/{id}", letterActions{u}.handleDeadLetterAction)
	r.Get("/health", u.page("health", u.health))
	r.Get("/find", u.find)
	r.Get("/suggestions", u.suggestions)
	r.Get(sessionsAt, u.page("sessions", sessionPages{u}.sessions))
	r.Post(sessionsAt, sessionPages{u}.handleSessionsAction)
}

// MountManual adds the documentation to a router that also admits anonymous visitors.
func (u *UI) MountManual(r chi.Router) {
	r.Get(docsAt, u.page("manual", manualPages{u}.page))
	r.Get(docsAt+"/*", u.page("manual", manualPages{u}.page))
	r.Get(docsAt+"/pictures/*", manualPages{u}.picture)
}

// Frame renders a page whose content comes from another package.
func (u *UI) Frame(w http.ResponseWriter, r *http.Request, f web.PageContent) {
	u.render(w, r, f.Status, f.Name, view{Title: f.Title, Body: f.Content, Alone: f.Alone}, "")
}

// Static serves the assets of pages without authentication.
func (u *UI) Static() http.Handler { return u.assets }

// view is the content of a page for its template.
type view struct {
	Title string // window title
	Tone  string // colour of the icon: fine, ill or a severity; empty: the page does not tell
	Body  any    // data of the page's template
	Alone bool   // without navigation and version; so is each page of an anonymous visitor
	Still bool   // not updated live, because the visitor may be typing

	// Health is the style of the logo: ok or ill. It is empty on pages that do not check the node, and the logo is neutral.
	Health string
}

// healthStyle returns the style of the logo for the health of the node.
func healthStyle(healthy bool) string {
	if healthy {
		return "ok"
	}
	return "ill"
}

// layout is the data of the layout around a view.
type layout struct {
	view
	Page    string // page name for the navigation
	Path    string // path of the request
	Version string
	Live    string // address of the page's stream; empty: none
	Self    web.TokenSelf
}

// LoggedIn reports whether the visitor has a token.
func (l layout) LoggedIn() bool { return l.Self.Name != "" && !l.Self.Open }

// Reads reports whether the visitor may read pages.
func (l layout) Reads() bool { return slices.Contains(l.Self.Scopes, string(access.Read)) }

// place is an entry of the navigation.
type place struct {
	Name, Path string
	Here       bool
}

// Places returns the navigation entries open to the visitor.
func (l layout) Places() []place {
	all := []place{
		{Name: "Overview", Path: "/"},
		{Name: "Pending checks", Path: "/jobs"},
		{Name: "Alerts", Path: "/alerts"},
		{Name: "Heartbeats", Path: heartbeatsAt},
		{Name: "Rules", Path: "/rules"},
		{Name: "History", Path: "/history"},
		{Name: "Dead letters", Path: "/dead-letters"},
		{Name: "Health", Path: "/health"},
		{Name: "Docs", Path: docsAt},
	}
	pages := map[string]int{"overview": 0, "jobs": 1, "entity": 1, "job_cancel": 1, "alerts": 2, "alert_log": 2, "alert": 2, "mutes": 2, "heartbeats": 3, "rules": 4, "rule": 4, "editor": 4, "versions": 4, "schedules": 4, "ticks": 4, "calendars": 4, "calendar": 4, "calendar_editor": 4, "publish": 4, "history": 5, "dead_letters": 6, "dead_letter": 6, "health": 7, "docs": 8, "manual": 8}
	at, is := pages[l.Page]
	if !is { // such as a confirmation, a result or an error: by the address that it is of
		at = slices.IndexFunc(all, func(p place) bool { return l.Path == p.Path || strings.HasPrefix(l.Path, p.Path+"/") })
	}
	if at >= 0 {
		all[at].Here = true
	}
	if l.Self.Prefix != "" { // dead letters may belong to no rule
		all = slices.DeleteFunc(all, func(p place) bool { return p.Path == lettersAt })
	}
	return all
}

// pageContext builds the view of a request.
type pageContext func(c client, r *http.Request) (view, error)

// page returns a handler that renders the view, or streams it for ?live.
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

// liveOf returns the address of a page's stream.
func liveOf(at *url.URL) string {
	query := at.Query()
	query.Set(web.LiveParameter, "1")
	return at.EscapedPath() + "?" + query.Encode()
}

// policy allows resources of the node only, and no inline code.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func (u *UI) render(w http.ResponseWriter, r *http.Request, status int, name string, v view, live string) {
	var out bytes.Buffer
	self := web.SelfOf(r.Context())
	v.Alone = v.Alone || self.Name == ""
	err := u.templates[name+".html"].ExecuteTemplate(&out, "layout", layout{view: v, Page: name, Path: r.URL.Path, Version: u.Version, Live: live, Self: self})
	if err != nil {
		u.Log.ErrorContext(r.Context(), "rendering a page failed", "page", name, "err", err)
		http.Error(w, "The page cannot be rendered; see the log for the reason.", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "same-origin")
	if v.Alone {
		h.Set("Referrer-Policy", "no-referrer") // its address may contain a token
	}
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // an error means the browser left
}

// fragment renders a part of a page without its layout.
func (u *UI) fragment(w http.ResponseWriter, r *http.Request, page, part string, data any) {
	var out bytes.Buffer
	if err := u.templates[page+".html"].ExecuteTemplate(&out, part, data); err != nil {
		u.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(out.Bytes()) // an error means the browser left
}
