package web

import (
	"context"
	"net/http"
	"time"
)

// How many requests that read, of the API and for pages, a node answers at a time, and how many of one token, or of all tokens of a prefix. On an open node
// nobody shows a token, and only the node's bound holds. An answer has up to some 10 MB, and a slow reader keeps it.
const (
	maxReads      = 32
	maxTokenReads = 8
	keptReads     = 8                // of a node's, for visitors without a prefix
	readWait      = 10 * time.Second // for a place
)

// tokenRef is whose places are counted; zero: nobody shows a token.
type tokenRef struct {
	id, who string
	guest   bool // it is bound to a prefix
}

// ref is the visitor as the owner of places.
func (v visitor) ref() tokenRef {
	if v.open {
		return tokenRef{}
	}
	return tokenRef{id: v.token.ID, who: v.token.Who(), guest: v.token.Prefix != ""}
}

// tenant is the visitor as the owner of places that all with its prefix share.
func (v visitor) tenant() tokenRef {
	if v.token.Prefix == "" {
		return v.ref()
	}
	return tokenRef{id: v.token.Prefix + "*", who: "the rules " + v.token.Prefix + "*", guest: true}
}

func newReads() *places[tokenRef] {
	return &places[tokenRef]{perNode: maxReads, perOwner: maxTokenReads, kept: keptReads, guest: func(of tokenRef) bool { return of.guest }, full: func(of tokenRef, node bool) *Problem {
		if node {
			return problem(http.StatusServiceUnavailable, "this node answers %d requests that read, and none of them ended in %s; try again, or ask another node", maxReads, readWait)
		}
		return problem(http.StatusTooManyRequests, "%d requests for %s that read are being answered, and none of them ended in %s; "+
			"read the answers, and send fewer at a time", maxTokenReads, of.who, readWait)
	}}
}

// readingKey is the context's key of a request that has a place among those that read.
type readingKey struct{}

// reading bounds the requests that read, until their answers are written. What a page asks the API within the process is
// part of the page's request. Streams have bounds of their own, and what a live page asks for has one here.
func (a *api) reading(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isRead(r) || r.Context().Value(readingKey{}) != nil {
			next.ServeHTTP(w, r)
			return
		}
		ctx, leave, err := a.read(r.Context())
		if err != nil {
			a.failWith(w, r, a.problemOf(err)) // it is no failure of the node, which the log has to say
			return
		}
		defer leave()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// isRead reports whether a request reads what a token may see. Metrics and the state of the node are answered at any time.
func isRead(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		!public(r.URL.Path) && r.URL.Path != "/metrics" && !isStream(r)
}

// beginReadKey is the context's key of what BeginRead does.
type beginReadKey struct{}

// BeginRead waits, for a live page that is made again, for a place among the requests that read. What is asked with the context
// that it returns is part of it; leave gives the place back. The error is a *Problem, or that of ctx.
func BeginRead(ctx context.Context) (within context.Context, leave func(), err error) {
	begin, is := ctx.Value(beginReadKey{}).(func(context.Context) (context.Context, func(), error))
	if !is {
		return ctx, func() {}, nil
	}
	return begin(ctx)
}

// read waits for a place among those that read.
func (a *api) read(ctx context.Context) (context.Context, func(), error) {
	v := visitorOf(ctx)
	if err := a.reads.wait(ctx, v.tenant(), readWait); err != nil {
		return nil, nil, err
	}
	return context.WithValue(ctx, readingKey{}, true), func() { a.reads.leave(v.tenant()) }, nil
}
