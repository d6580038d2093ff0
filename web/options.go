// Package web serves HTTP: the API under /api/v1 with its description, the pages at /, health and metrics.
package web

import (
	"context"
	"html/template"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"golang.org/x/time/rate"

	"deadman/checks/lookup"
	"deadman/internal/access"
	"deadman/internal/acklinks"
	"deadman/internal/badges"
	"deadman/internal/logins"
	"deadman/internal/pings"
	"deadman/internal/webhooks"
)

// Options configures the handler. Lists, Heartbeats, Loads, JobActions, Schedules, Acks, Letters, Outbox, Catalog, Rules, Calendars, Replays, Wire and Health are required.
type Options struct {
	Lists      Reader
	Heartbeats Heartbeats
	Loads      LoadReader
	JobActions JobActions
	Schedules  ScheduleActions
	Forgetter  Forgetter       // nil: keys cannot be forgotten
	Retention  RetentionReader // nil: deletions are not told before
	Acks       AlertAcks
	Letters    DeadLetterActions
	Outbox     AlertRepublisher
	Catalog    LoadedRules
	Rules      Rules
	Calendars  Calendars
	Replays    Replays
	Wire       EventPublisher
	Health     Health
	// Hooks returns the hook of a name, nil if unknown; it requires Memory. If nil, the node has no hooks.
	Hooks   func(name string) *webhooks.Webhook
	Memory  IdempotencyStore // nil: a request with an Idempotency-Key is refused
	Metrics *Metrics         // nil: /metrics is not found

	Mutes    Mutes       // nil: the node has no mutes and no deliveries
	Channels Channels    // nil: the node has no channels
	Pings    Pings       // nil: the node accepts no pings
	AckLinks AckLinks    // nil: no links acknowledge alerts
	Buttons  Buttons     // nil: no buttons of chats acknowledge alerts
	Quotas   Quotas      // nil: no quotas
	Streams  Streams     // nil: the node reads no streams
	Sources  *lookup.Set // nil: rules have no lookups
	Handlers Handlers    // nil: no handlers

	// Pages serves the pages of the UI; nil: no pages.
	Pages Pages

	// Schemas has functions that encode JSON Schemas, by name.
	Schemas map[string]func() ([]byte, error)

	// Keeper stores the tokens. If nil, the node has no tokens, and refuses all requests unless Open.
	Keeper *access.Tokens
	// Logins returns the current login configuration for persons without a token. If it or its Config is nil, they
	// cannot log in.
	Logins func() *logins.Config
	// Open reports whether every request is permitted without a token, or returns an error if that is unknown: no request is
	// then. If nil, none is.
	Open func(context.Context) (bool, error)
	// Proxied lets an open node also answer requests that came through a proxy.
	Proxied bool

	// Faults maps sentinel errors of other packages to statuses. They take precedence over web's own.
	Faults []ErrorStatus

	// LoopbackOnly accepts only requests that name a loopback host, so that no page of another site can reach a node
	// without tokens by DNS rebinding.
	LoopbackOnly bool
	// PublicURL is the node's URL for users; its host passes LoopbackOnly too.
	PublicURL string

	// AlertsKept is the retention of alerts; 0: for ever. Monitoring gaps before are unknown.
	AlertsKept time.Duration
	// TokenRate is the limit of requests per second and token; 0: no limit.
	TokenRate int
	// TrustedProxies are the networks of proxies with trusted X-Forwarded-For and Forwarded headers; nil: none.
	TrustedProxies []netip.Prefix

	Version string           // of the program, for users
	Log     *slog.Logger     // nil: slog.Default()
	Now     func() time.Time // nil: time.Now; the clock for statuses
}

// Pages serves the pages of the UI. ui.UI implements it.
type Pages interface {
	// Mount adds the pages to a router that admits visitors with the scope read. Pages call api on behalf of their
	// visitor.
	Mount(r chi.Router, api http.Handler)
	// MountManual adds the documentation. It calls no API, and also answers anonymous visitors, without navigation.
	MountManual(r chi.Router)
	// Frame answers with a page of this package, in the layout of all pages.
	Frame(w http.ResponseWriter, r *http.Request, f PageContent)
	// Refuse answers with a page about a problem; alone for an anonymous visitor, so that its only link is the login.
	Refuse(w http.ResponseWriter, r *http.Request, p *Problem, alone bool)
	// Static serves the assets of pages under StaticPath, without a token.
	Static() http.Handler
}

// PageContent is a page made by this package instead of Pages.
type PageContent struct {
	Name    string // selects its place in the navigation
	Title   string // of the window
	Status  int    // of the answer
	Content template.HTML
	Alone   bool // the visitor is anonymous, so the page links to no other
}

// StaticPath is the prefix of the assets of pages, and LiveParameter the query parameter of a page's stream.
const (
	StaticPath    = "/static/"
	LiveParameter = "live"
)

// New returns the handler for all requests of a node.
func New(o Options) http.Handler {
	o = o.withDefaults()
	by := &responder{log: o.Log, faults: o.Faults, pages: o.Pages}
	steps := &middlewares{by, o.PublicURL, o.Metrics}
	health := &readinessPages{responder: by, health: o.Health, now: o.Now, logged: conditionLog{known: make(map[string]loggedCondition)}}
	auth := newAuthenticator(o, by)
	auth.health, health.auth = health, auth
	repeats := &idempotency{by, o.Memory, &quotaAPI{o.Quotas, o.Now}}

	r := chi.NewRouter()
	useMiddlewares(r, o, steps, auth)
	r.NotFound(by.notFound)
	r.MethodNotAllowed(by.notAllowed(r))
	all := newOperations(r, by, o.Version)
	all.huma.UseMiddleware(auth.admit, steps.query, steps.limitConcurrency, repeats.idempotent)
	beats := newHeartbeatCounts(o)
	routePublic(r, o, auth, repeats, beats)
	routePages(r, o, auth, all)
	registerAll(all, o, beats)
	return r
}

// useMiddlewares adds the steps that each request takes, in order.
func useMiddlewares(r chi.Router, o Options, steps *middlewares, auth *authenticator) {
	r.Use(auth.persons.fromClient, steps.access, steps.recoverPanics, headers, steps.sameSite(), middleware.GetHead, bounded)
	if o.LoopbackOnly {
		r.Use(steps.loopback())
	}
	by := auth.responder
	rates := &tokenRates{responder: by, perSecond: o.TokenRate, now: o.Now}
	reads := &readLimit{by, newReadSemaphore()}
	streams := &streamLimit{
		responder: by, auth: auth, reads: reads,
		alertStreams: newStreamSemaphore("streams of alerts", maxAlertStreams, maxTokenAlertStreams),
		livePages:    newStreamSemaphore("live pages", maxLivePages, maxTokenLivePages),
	}
	r.Use(auth.identify, rates.limited, streams.streaming, reads.reading)
}

// routePublic adds the routes that need no token: health, logins, webhooks, pings, badges and assets.
func routePublic(r chi.Router, o Options, auth *authenticator, repeats *idempotency, beats *heartbeatCounts) {
	by := auth.responder
	r.Get("/healthz", alive)
	r.Get("/readyz", auth.health.ready)

	pages := &loginPages{responder: by, auth: auth, now: o.Now}
	provider := &providerLogin{
		loginPages: pages, memory: o.Memory, metrics: o.Metrics, publicURL: o.PublicURL,
		permits: newProviderLogins(), failures: rate.Sometimes{Interval: providerLogInterval},
	}
	r.Get("/login", pages.form)
	r.Post("/login", pages.login)
	r.Post(providerPath, provider.start)
	r.Get(callbackPath, provider.finish)
	r.Post("/logout", pages.logout)

	linkGuesses := newGuesses(o.Log, o.Metrics, time.Now)
	hooks := &hookReceiver{
		responder: by, hooks: o.Hooks, wire: o.Wire, repeats: repeats, buttons: o.Buttons, guesses: linkGuesses, unproven: newUnproven(), now: o.Now,
	}
	r.Post(hooksPath+"{name}", hooks.hook)
	if o.Pings != nil {
		r.HandleFunc(pings.Prefix+"*", (&pingReceiver{by, o.Pings, o.Metrics}).ping)
	}
	pictures := &badgePictures{responder: by, keys: o.Heartbeats, catalog: o.Catalog, counts: beats, guesses: newGuesses(o.Log, o.Metrics, time.Now), now: o.Now}
	r.Get(badges.Prefix+"{token}", pictures.show)
	if o.AckLinks != nil {
		links := &ackLinkPages{responder: by, links: o.AckLinks, guesses: linkGuesses, now: o.Now}
		r.Get(acklinks.Prefix+"{token}", links.show)
		r.Post(acklinks.Prefix+"{token}", links.use)
	}
	if o.Pages != nil {
		r.Method(http.MethodGet, StaticPath+"*", o.Pages.Static())
	}
}

// routePages adds the pages, the description of the API, the metrics and the profiles.
func routePages(r chi.Router, o Options, auth *authenticator, all *operations) {
	whole := http.Handler(r)
	r.Group(func(r chi.Router) {
		r.Use(auth.needsRead)
		if o.Pages != nil {
			o.Pages.Mount(r, whole)
		}
		r.Get(apiDocsPath, (&docsPage{all}).docs)
		r.Get(specPath, all.spec)
	})
	if o.Pages != nil {
		r.Group(func(r chi.Router) {
			r.Use(auth.needsManual)
			o.Pages.MountManual(r)
		})
	}
	if o.Metrics != nil {
		r.With(auth.needsAll).Method(http.MethodGet, "/metrics", o.Metrics)
	}
	r.With(auth.needsAdmin).Get(profilesPath+"{name}", (&profiles{responder: auth.responder}).serve)
}

// withDefaults returns the options with defaults filled in.
func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Open == nil {
		o.Open = func(context.Context) (bool, error) { return false, nil }
	}
	if o.Hooks == nil {
		o.Hooks = func(string) *webhooks.Webhook { return nil }
	}
	if o.Logins == nil {
		o.Logins = func() *logins.Config { return nil }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}
