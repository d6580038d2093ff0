package web

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"deadman/internal/pings"
)

// The limits for reading a request, answering it and writing the answer. For a stream of alerts writeTime bounds each
// write.
const (
	readTime   = 30 * time.Second
	answerTime = 30 * time.Second
	writeTime  = 45 * time.Second
)

// middlewares has the steps of a request that need nothing but an answer for a refusal.
type middlewares struct {
	*responder
	publicURL string
	metrics   *Metrics // nil: none
}

// seenKey is the context's key of a request that access has seen.
type seenKey struct{}

// access logs each request at level debug, and counts it. Requests that a page makes within the process count as part of
// the page's request.
func (a *middlewares) access(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		startedAt := time.Now()
		seen, isStream := middleware.NewWrapResponseWriter(w, r.ProtoMajor), isStream(r)
		isInner := r.Context().Value(seenKey{}) != nil
		if !isInner {
			r = r.WithContext(context.WithValue(r.Context(), seenKey{}, true))
		}
		defer func() {
			if !isInner {
				a.metrics.Answered(r.Method, chi.RouteContext(r.Context()).RoutePattern(), seen.Status(), time.Since(startedAt), isStream)
			}
			a.log.DebugContext(r.Context(), "request", "method", r.Method, "path", logged(r.URL.Path),
				"status", seen.Status(), "bytes", seen.BytesWritten(), "took", time.Since(startedAt), "from", clientAddr(r.Context()), "peer", r.RemoteAddr)
		}()
		next.ServeHTTP(seen, r)
	})
}

// logged shortens a path for logs and answers: a possible ping URL, acknowledge link or badge is a secret, even if an extra slash
// or a capital letter keeps it from matching.
func logged(path string) string {
	for end := range len(path) + 1 {
		for _, word := range []string{"ping/", "acknowledge/", "badge/"} {
			if end >= len(word) && strings.EqualFold(path[end-len(word):end], word) {
				return path[:end]
			}
		}
	}
	return path
}

// recoverPanics turns a panic into a problem, once, in the log and in the answer. It cuts the connection only if a part
// of the answer was sent.
func (a *middlewares) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		late := &deferredWriter{ResponseWriter: w}
		defer func() {
			p := recover()
			err, _ := p.(error)
			switch {
			case p == nil:
				late.startBody()
			case errors.Is(err, http.ErrAbortHandler):
				panic(p)
			case late.begun:
				a.log.ErrorContext(r.Context(), "an answer broke off", "method", r.Method, "path", logged(r.URL.Path), "err", p)
				panic(http.ErrAbortHandler) // a partial answer must not pass for a complete one
			default:
				clear(w.Header())
				commonHeaders(w.Header())
				a.fail(w, r, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			}
		}()
		next.ServeHTTP(late, r)
	})
}

// bounded sets deadlines, so that slow clients and slow answers do not pile up.
func bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		flow, now := http.NewResponseController(w), time.Now()
		if r.Body != http.NoBody {
			_ = flow.SetReadDeadline(now.Add(readTime)) // only a writer outside a server lacks deadlines
		}
		_ = flow.SetWriteDeadline(now.Add(writeTime))
		if !isStream(r) && !isProfile(r) {
			ctx, cancel := context.WithTimeout(r.Context(), answerTime)
			defer cancel()
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}

// isStream reports whether a request is for a stream of alerts or the updates of a page.
func isStream(r *http.Request) bool {
	return r.URL.Path == alertsPath && acceptsStream(r) || IsLive(r)
}

// IsLive reports whether a request is for the updates of a page.
func IsLive(r *http.Request) bool {
	return r.Method == http.MethodGet && !public(r.URL.Path) && !isMachine(r.URL.Path) && r.URL.Query().Has(LiveParameter)
}

// sameSite refuses requests that a browser sends from another site, except reads and pings: a page with a ping URL may
// send pings.
func (a *middlewares) sameSite() func(http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.AddInsecureBypassPattern(pings.Prefix)
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.fail(w, r, problem(http.StatusForbidden, "the request came from a page of another site; only pages of this node and programs may send it"))
	}))
	return protection.Handler
}

// loopback refuses requests for hosts other than this machine.
func (a *middlewares) loopback() func(http.Handler) http.Handler {
	public := hostOf(a.publicURL)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			host := hostname(r.Host)
			if isLoopback(host) || (public != "" && strings.EqualFold(host, public)) {
				next.ServeHTTP(w, r)
				return
			}
			a.fail(w, r, problem(http.StatusForbidden,
				"this node answers on loopback only, and %q is another host; use http://localhost, or name the host with --public-url", host))
		})
	}
}

// forwarded returns the name of a header that a proxy set on the request, or "".
func forwarded(r *http.Request) string {
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		if proxyHeaders.MatchString(name) {
			return name
		}
	}
	return ""
}

// proxyHeaders matches the headers set by proxies, load balancers, content delivery networks and authenticating proxies.
// Local programs send none of them by default; they do send headers of traces (Traceparent, X-B3-…).
var proxyHeaders = regexp.MustCompile(`(?i)^(` + strings.Join([]string{
	// the proxy and the original client
	`forwarded.*`, `via`, `x-forward.*`, `x-original-.*`, `x-rewrite-.*`, `x-real-.*`, `x-proxy.*`, `proxy-.*`, `x-remote-.*`, `remote-.*`, `x-request-start`,
	`.*-client-?ip`, `client-?ip`, `.*-connecting-ip.*`, `.*-client-(addr|address|cert|verify|port).*`, `.*-src-ip`, `x-cluster-.*`, `x-haproxy-.*`, `ssl-client.*`,
	// products and clouds
	`x-envoy-.*`, `x-traefik-.*`, `x-kong-.*`, `x-nginx-.*`, `x-scheme`, `x-via`, `l5d-.*`, `x-consumer-.*`, `x-varnish.*`, `x-arr-.*`, `front-end-https`,
	`x-amz.*`, `cloudfront-.*`, `x-azure-.*`, `x-ms-.*`, `x-fd-.*`, `x-appengine-.*`, `x-google-.*`, `x-goog-.*`,
	`cf-.*`, `cdn-.*`, `fastly-.*`, `fly-.*`, `x-akamai-.*`, `akamai-.*`, `true-client-.*`, `x-vercel-.*`, `x-nf-.*`, `x-heroku-.*`, `ngrok-.*`, `tailscale-.*`,
	// the authenticated user
	`x-auth-request-.*`, `x-auth-user.*`, `x-webauth-.*`, `x-pomerium-.*`, `x-authentik-.*`, `x-vouch-.*`, `x-authenticated-.*`,
	`oidc-.*`, `sm-.*`, `iv-.*`, `shib-.*`, `gap-.*`, `x-jwt-.*`, `x-endpoint-api-.*`, `x-apigateway-api-userinfo`,
}, `|`) + `)$`)

// hostOf returns the host of a URL, or "".
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// IsLoopbackURL reports whether a URL is reachable from this machine only.
func IsLoopbackURL(address string) bool { return isLoopback(hostOf(address)) }

// IsHTTPS reports whether a URL uses TLS.
func IsHTTPS(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "https"
}

// hostname returns the Host header without port and brackets.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

func isLoopback(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// limitConcurrency makes a request wait while all turns of its operation are taken.
func (a *middlewares) limitConcurrency(ctx huma.Context, next func(huma.Context)) {
	o, _ := operationOf(ctx)
	if o.Turns == nil {
		next(ctx)
		return
	}
	of := principalOf(ctx.Context()).ref()
	if err := o.Turns.acquireWithin(ctx.Context(), of, 1, turnWait); err != nil {
		r, w := humachi.Unwrap(ctx)
		a.failWith(w, r, a.problemOf(err)) // a full node is no error for the log
		return
	}
	defer o.Turns.release(of)
	next(ctx)
}

// query refuses a query that cannot be parsed or has parameters unknown to the operation, since an ignored parameter
// would give a wrong answer. It passes the query on in normalized form.
func (a *middlewares) query(ctx huma.Context, next func(huma.Context)) {
	r, w := humachi.Unwrap(ctx)
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		a.fail(w, r, refused("query", "the query cannot be parsed: %v; percent-encode its values", err))
		return
	}
	if wrong := wrongQuery(ctx.Operation(), query); len(wrong) > 0 {
		a.fail(w, r, problemOfDetails(BadRequest, 400, wrong))
		return
	}
	r.URL.RawQuery = query.Encode()
	next(ctx)
}
