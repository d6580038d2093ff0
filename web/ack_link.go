package web

import (
	"context"
	_ "embed"
	"errors"
	"html/template"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"deadman/internal/access"
	"deadman/internal/acklinks"
)

// AckLinks opens, uses and revokes the links that acknowledge alerts. acklinks.Links implements it; see there for the
// errors. Implementations are safe for concurrent use.
type AckLinks interface {
	// Check verifies the token of a link and reads no alerts.
	Check(ctx context.Context, token string) error
	// Open returns the state of a link's alerts, and changes nothing.
	Open(ctx context.Context, token string) (acklinks.State, error)
	// Use acknowledges the alerts of a link, or of a button whose press a webhook received. name is that of the person, if
	// known.
	Use(ctx context.Context, token, hook, name string) (acklinks.State, error)
	// Revoke makes all links invalid.
	Revoke(ctx context.Context) error
}

// maxLinkRequests is the maximum number of requests per second with one link; twice as many at once.
const maxLinkRequests = 5

//go:embed ack_link.html
var ackLinkHTML string

var ackLinkTemplate = template.Must(template.New("ack link").Parse(ackLinkHTML))

// ackLinkPages serves the links in messages that acknowledge alerts. The token in the address replaces a login.
type ackLinkPages struct {
	*responder
	links   AckLinks
	guesses *guesses // of links only, so that pages of other sites with invalid links lock no login out
	opened  spending
	now     func() time.Time
}

// ackLinkView is the data of the page of a link.
type ackLinkView struct {
	acklinks.State
	Error string // why the link cannot be used; empty: it can
	Path  string // of the link
}

// Until returns the end of the acknowledgement as text.
func (v ackLinkView) Until() string {
	if v.First.Ack.IsUntilResolved() {
		return "until it is resolved"
	}
	return "until " + v.TimeText(v.First.Ack.Until)
}

// Left returns the number of the alerts beside the first one that the link acknowledges.
func (v ackLinkView) Left() int { return v.Open - 1 }

// show serves the page of a link, with a button. It changes nothing: mail scanners and previews of chats open links, too.
func (a *ackLinkPages) show(w http.ResponseWriter, r *http.Request) { a.answer(w, r, a.links.Open) }

// use acknowledges the alerts of a link, and redirects to its page.
func (a *ackLinkPages) use(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	name := formOf(r).Get("name")
	ctx := access.As(r.Context(), access.Actor{Addr: clientAddr(r.Context())})
	a.answer(w, r.WithContext(ctx), func(ctx context.Context, token string) (acklinks.State, error) {
		return a.links.Use(ctx, token, "", name)
	})
}

// answer opens or uses a link. Invalid links of one address are bounded like wrong tokens. Requests with one link are
// bounded, too; only links that deadman signed are counted, as an address can send any number of others.
func (a *ackLinkPages) answer(w http.ResponseWriter, r *http.Request, open func(context.Context, string) (acklinks.State, error)) {
	token := chi.URLParam(r, "token")
	shown := credential{token, byLink}
	err := a.guesses.check(r, nil, shown)
	var s acklinks.State
	if err == nil {
		if s, err = a.open(r, token, open); errors.Is(err, acklinks.ErrInvalid) {
			a.guesses.refused(r, shown)
		}
	}
	status := http.StatusOK
	switch {
	case err == nil && r.Method == http.MethodPost:
		http.Redirect(w, r, r.URL.EscapedPath(), http.StatusSeeOther)
		return
	case err == nil:
	case errors.Is(err, acklinks.ErrInvalid):
		status = http.StatusNotFound
	case errors.Is(err, acklinks.ErrExpired):
		status = http.StatusGone
	case errors.Is(err, acklinks.ErrUsed):
		status = http.StatusConflict
	case acceptsPage(r):
		p := a.refuse(r.Context(), r.Method, logged(r.URL.Path), err)
		for name, values := range p.GetHeaders() {
			w.Header()[name] = values
		}
		status, err = p.Status, errors.New(p.Detail)
	default:
		a.fail(w, r, err)
		return
	}
	view := ackLinkView{State: s, Path: r.URL.EscapedPath()}
	if err != nil {
		view.Error = capital(err.Error()) + "."
	}
	a.frame(w, r, PageContent{Name: "acknowledge", Title: "Acknowledge", Status: status, Alone: true}, ackLinkTemplate, view)
}

// open verifies a link, and opens or uses it unless it had too many requests lately. An expired link counts, too.
func (a *ackLinkPages) open(r *http.Request, token string, open func(context.Context, string) (acklinks.State, error)) (acklinks.State, error) {
	err := a.links.Check(r.Context(), token)
	if err != nil && !errors.Is(err, acklinks.ErrExpired) {
		return acklinks.State{}, err
	}
	if ok, _ := a.opened.spend(token, maxLinkRequests, a.now()); !ok {
		return acklinks.State{}, problem(http.StatusTooManyRequests, "too many requests with this link; try again in a second")
	}
	if err != nil {
		return acklinks.State{}, err
	}
	return open(r.Context(), token)
}
