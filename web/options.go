// Package web answers HTTP: the API under /api/v1 with its description, the page at /, health
// and metrics.
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

// Options are what the handler answers from. Lists, Loads, Desk, Acks, Letters, Outbox, Book, Rules, Wire
// and Health have to be there.
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
	// Hooks finds the hook of a name whose webhooks are taken in, nil where there is none; with
	// any, Memory has to be there. nil: there are none.
	Hooks   func(name string) *webhooks.Webhook
	Memory  IdempotencyStore // nil: a request with an Idempotency-Key is refused
	Metrics *Metrics         // nil: /metrics is not found

	Mutes    Mutes       // nil: there are none, and of no alert is known who was told
	Channels Channels    // nil: people are not told
	Pings    Pings       // nil: none are taken in
	Quotas   Quotas      // nil: there are none
	Streams  Streams     // nil: none are read
	Sources  *lookup.Set // nil: rules can look nothing up
	Handlers Handlers    // nil: there are none

	// Pages are what people see; nil: nothing.
	Pages Pages

	// Schemas spell JSON Schemas out, by what they describe.
	Schemas map[string]func() ([]byte, error)

	// Keeper knows the tokens. nil: there are none, and nobody gets in unless Open.
	Keeper *access.Tokens
	// Logins is how people log in that have no token, as it is now. nil, or a nil Config: they do not.
	Logins func() *logins.Config
	// Open reports whether everybody gets in without a token, to everything. nil: nobody.
	Open func(context.Context) bool
	// Proxied lets a node that is open answer requests that a proxy passed on, too.
	Proxied bool

	// Faults are the sentinels of other rooms and the statuses they come to. They are
	// looked at before web's own.
	Faults []ErrorStatus

	// LoopbackOnly answers only requests that name a loopback host, so that no page of
	// another site can reach a node without tokens by rebinding its own name to it.
	LoopbackOnly bool
	// PublicURL is where people reach the node; its host passes LoopbackOnly too.
	PublicURL string

	// TokenRate is how many requests a second a token may send; 0: any number.
	TokenRate int
	// TrustedProxies are those whose X-Forwarded-For and Forwarded are believed; nil: none.
	TrustedProxies []netip.Prefix

	Version string           // of the program, for people
	Log     *slog.Logger     // nil: slog.Default()
	Now     func() time.Time // nil: time.Now; what statuses are derived by
}

// Pages are what people see in a browser. ui.UI implements it.
type Pages interface {
	// Mount puts the pages on a router that lets those in who may read. api is asked on behalf
	// of whoever asks for a page.
	Mount(r chi.Router, api http.Handler)
	// Frame answers with a page that is made here, in the frame of all pages.
	Frame(w http.ResponseWriter, r *http.Request, f PageContent)
	// Refuse answers with a page that says why there is no other; alone, where nobody is known who
	// asks, so that it leads to no page but the login.
	Refuse(w http.ResponseWriter, r *http.Request, p *Problem, alone bool)
	// Static serves what pages load, under StaticPath, to everybody.
	Static() http.Handler
}

// PageContent is a page that is made here and not by Pages.
type PageContent struct {
	Name    string // by which Pages know its place among theirs
	Title   string // of the window
	Status  int    // of the answer
	Content template.HTML
	Alone   bool // nobody is known yet, so it leads to no other page
}

// StaticPath is under what pages load things from, and LiveParameter is in the address of a
// page's stream.
const (
	StaticPath    = "/static/"
	LiveParameter = "live"
)

// New returns the handler for everything that a node answers.
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

// withDefaults are the options with what may be left out.
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

// api is the handlers' common ground.
type api struct {
	Options
	troubles conditionLog
	verdict  verdict
	spending spending
	trials   *places[tokenRef]     // of lints and previews
	saves    *places[tokenRef]     // of rules
	unproven *places[netip.Prefix] // webhooks, by their client
	reads    *places[tokenRef]     // answers to requests that read, in bytes
	logins   *places[netip.Prefix] // logins with the provider
	// providerLog has each failure of the provider logged that is not too close to the one before.
	providerLog rate.Sometimes
	matching    chan struct{} // a place for each event that is matched for its sender
	ruleJobs    cachedCount[map[int32]futurejobs.RuleJobs]
	ended       cachedCount[outcomeCounts]
	// The places of streams.
	alertStreams, livePages *places[tokenRef]
	guesses                 *guesses

	huma    huma.API
	routes  []Route
	spelled func() ([]byte, error) // what huma knows of the API, as JSON
}
