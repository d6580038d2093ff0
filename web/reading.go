package web

import (
	"context"
	"net/http"
	"time"
)

// Bounds of the answers to requests that read, of the API and for pages, in bytes: of a node, and of one token, or of all tokens of a prefix. On an
// open node nobody shows a token, and only the node's bound holds. While an answer is made it counts as a large one. From when it is made until
// its client has read it, it counts as what it has.
const (
	maxReads      = 256 << 20
	maxTokenReads = maxReads / 4
	keptReads     = maxReads / 4     // of a node's, for visitors without a prefix
	answerRoom    = 8 << 20          // for an answer that is made
	answerCost    = 32 << 10         // of an answer, beside its bytes
	readWait      = 10 * time.Second // for room
)

// tokenRef is whose places are counted; zero: nobody shows a token.
type tokenRef struct {
	id, who string
	guest   bool // it is bound to a prefix
}

// ref is the visitor as the owner of places.
func (v principal) ref() tokenRef {
	if v.open {
		return tokenRef{}
	}
	return tokenRef{id: v.token.ID, who: v.token.Who(), guest: v.token.Prefix != ""}
}

// tenant is the visitor as the owner of places that all with its prefix share.
func (v principal) tenant() tokenRef {
	if v.token.Prefix == "" {
		return v.ref()
	}
	return tokenRef{id: v.token.Prefix + "*", who: "the rules " + v.token.Prefix + "*", guest: true}
}

func newReads() *places[tokenRef] {
	return &places[tokenRef]{
		perNode: maxReads, perOwner: maxTokenReads, fair: true, kept: keptReads, guest: func(of tokenRef) bool { return of.guest },
		full: func(of tokenRef, node bool) *Problem {
			if node {
				return problem(http.StatusServiceUnavailable, "the answers that clients of this node read take %d MiB, which is all that they may, "+
					"and none of them ended in %s; try again, or ask another node",
					maxReads>>20, readWait)
			}
			return problem(http.StatusTooManyRequests, "the answers to requests for %s take as much of this node as they may "+
				"(at most %d MiB, and no more than they leave to others), "+
				"and none of them ended in %s; read the answers, and send fewer requests at a time", of.who, maxTokenReads>>20, readWait)
		},
	}
}

// readingKey is the context's key of a request that has room among those that read.
type readingKey struct{}

// reading bounds the answers to requests that read, until they are written. What a page asks the API within the process is
// part of the page's request. Streams have bounds of their own, and what a live page asks for has one here.
func (a *api) reading(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isRead(r) || r.Context().Value(readingKey{}) != nil {
			next.ServeHTTP(w, r)
			return
		}
		ctx, room, err := a.read(r.Context())
		if err != nil {
			a.failWith(w, r, a.problemOf(err)) // it is no failure of the node, which the log has to say
			return
		}
		defer room.shrink(0)
		next.ServeHTTP(&readWriter{w, room}, r.WithContext(ctx))
	})
}

// readWriter writes an answer that was made as a whole.
type readWriter struct {
	http.ResponseWriter
	room *readRoom
}

// Unwrap is of http.ResponseController.
func (w *readWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements http.ResponseWriter. It returns when the client, or the system for it, has taken the answer.
func (w *readWriter) Write(b []byte) (int, error) {
	w.room.shrink(int64(len(b)) + answerCost)
	return w.ResponseWriter.Write(b)
}

// readRoom is what an answer takes of the room for those that read.
type readRoom struct {
	among *places[tokenRef]
	of    tokenRef
	size  int64
}

// shrink gives back what is beyond a size.
func (r *readRoom) shrink(size int64) {
	if size < r.size {
		r.among.give(r.of, r.size-size)
		r.size = size
	}
}

// isRead reports whether a request reads what a token may see. Metrics and the state of the node are answered at any time.
func isRead(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		!public(r.URL.Path) && r.URL.Path != "/metrics" && !isStream(r)
}

// beginReadKey is the context's key of what BeginRead does.
type beginReadKey struct{}

// BeginRead waits, for a live page that is made again, for room among the answers to requests that read. What is asked with the context
// that it returns is part of it; leave gives the room back. The error is a *Problem, or that of ctx.
func BeginRead(ctx context.Context) (within context.Context, leave func(), err error) {
	begin, is := ctx.Value(beginReadKey{}).(func(context.Context) (context.Context, *readRoom, error))
	if !is {
		return ctx, func() {}, nil
	}
	within, room, err := begin(ctx)
	if err != nil {
		return nil, nil, err
	}
	return within, func() { room.shrink(0) }, nil
}

// read waits for room for an answer.
func (a *api) read(ctx context.Context) (context.Context, *readRoom, error) {
	of := principalOf(ctx).tenant()
	if err := a.reads.wait(ctx, of, answerRoom, readWait); err != nil {
		return nil, nil, err
	}
	return context.WithValue(ctx, readingKey{}, true), &readRoom{a.reads, of, answerRoom}, nil
}
