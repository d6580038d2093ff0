// Package web serves HTTP: the API under /api/v1 with its description, the pages at /, health and metrics.
package web

import (
	"context"
	"html/template"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"golang.org/x/time/rate"

	"deadman/checks/lookup"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/logins"
	"deadman/internal/pings"
	"deadman/internal/webhooks"
)

// Options configures the handler. Lists, Loads, Desk, Acks, Letters, Outbox, Book, Rules, Wire and Health are required.
type Options struct {
	Lists   Reader
	Loads   LoadReader
	Desk    JobActions
	Acks    AlertAcks
	Letters DeadLetterActions
	Outbox  AlertRepublisher
	Book    Book
	Rules   Rules
	Wire    EventPublisher
	Health  Health
	// Hooks returns the hook of a name, nil if unknown; it requires Memory. If nil, the node has no hooks.
	Hooks   func(name string) *webhooks.Webhook
	Memory  IdempotencyStore // nil: a request with an Idempotency-Key is refused
	Metrics *Metrics         // nil: /metrics is not found

	Mutes    Mutes       // nil: the node has no mutes and no deliveries
	Channels Channels    // nil: the node has no channels
	Pings    Pings       // nil: the node accepts no pings
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
	// Open reports whether every request is permitted without a token. If nil, none is.
	Open func(context.Context) bool
	// Proxied lets an open node also answer requests that came through a proxy.
	Proxied bool

	// Faults maps sentinel errors of other packages to statuses. They take precedence over web's own.
	Faults []ErrorStatus

	// LoopbackOnly accepts only requests that name a loopback host, so that no page of another site can reach a node
	// without tokens by DNS rebinding.
	LoopbackOnly bool
	// PublicURL is the node's URL for users; its host passes LoopbackOnly too.
	PublicURL string

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
	a := &api{
		Options: o, troubles: conditionLog{known: make(map[string]loggedCondition)}, matching: make(chan struct{}, matchedAtOnce),
		trials: newTrials(), saves: newSaves(), unproven: newUnproven(), reads: newReads(), logins: newProviderLogins(), providerLog: rate.Sometimes{Interval: providerLogInterval},
		ruleJobs:     cachedCount[map[int32]futurejobs.RuleJobs]{what: "jobs by rule", count: func(ctx context.Context) (map[int32]futurejobs.RuleJobs, error) { return o.Lists.RuleJobs(ctx) }, now: o.Now, log: o.Log},
		alertStreams: newStreamPlaces("streams of alerts", maxAlertStreams, maxTokenAlertStreams),
		guesses:      newGuesses(o.Log, o.Metrics, time.Now),
		livePages:    newStreamPlaces("live pages", maxLivePages, maxTokenLivePages),
		ended:        cachedCount[outcomeCounts]{what: "how jobs ended", count: (&outcomeCounter{OutcomeReader: o.Lists, now: o.Now, past: make(map[time.Time][]futurejobs.OutcomeCount)}).count, now: o.Now, log: o.Log},
	}
	r := chi.NewRouter()
	var whole http.Handler = r
	r.Use(a.fromClient, a.access, a.recoverPanics, headers, a.sameSite(), middleware.GetHead, bounded)
	if o.LoopbackOnly {
		r.Use(a.loopback())
	}
	r.Use(a.identify, a.limited, a.streaming, a.reading)
	r.NotFound(a.notFound)
	r.MethodNotAllowed(a.notAllowed(r))

	r.Get("/healthz", alive)
	r.Get("/readyz", a.ready)
	r.Get("/login", a.loginForm)
	r.Post("/login", a.login)
	r.Post(providerPath, a.beginLogin)
	r.Get(callbackPath, a.finishLogin)
	r.Post("/logout", a.logout)
	r.Post(hooksPath+"{name}", a.hook)
	if o.Pings != nil {
		r.HandleFunc(pings.Prefix+"*", a.ping)
	}
	r.Group(func(r chi.Router) {
		r.Use(a.needsRead)
		if o.Pages != nil {
			o.Pages.Mount(r, whole)
		}
		r.Get("/docs", a.docs)
		r.Get(specPath, a.spec)
	})
	if o.Pages != nil {
		r.Method(http.MethodGet, StaticPath+"*", o.Pages.Static())
	}
	if o.Metrics != nil {
		r.With(a.needsAll).Method(http.MethodGet, "/metrics", o.Metrics)
	}
	a.mount(r)
	return r
}

// withDefaults returns the options with defaults filled in.
func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Open == nil {
		o.Open = func(context.Context) bool { return false }
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

// api is the shared state of the handlers.
type api struct {
	Options
	troubles conditionLog
	verdict  verdict
	spending spending
	trials   *places[tokenRef]     // of lints and previews
	saves    *places[tokenRef]     // of rules
	unproven *places[netip.Prefix] // webhooks, by their client
	reads    *places[tokenRef]     // answers to read requests, in bytes
	logins   *places[netip.Prefix] // logins with the provider
	// providerLog limits the log messages about failures of the provider.
	providerLog rate.Sometimes
	matching    chan struct{} // bounds the events that are matched for their senders
	ruleJobs    cachedCount[map[int32]futurejobs.RuleJobs]
	ended       cachedCount[outcomeCounts]
	// The places of streams.
	alertStreams, livePages *places[tokenRef]
	guesses                 *guesses

	huma    huma.API
	routes  []Route
	spelled func() ([]byte, error) // encodes the API's description as JSON
}
