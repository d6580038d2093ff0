package web

import (
	"context"
	"net/http"
	"time"
)

// Bounds of the answers to read requests of the API and pages, in bytes: of a node, and of one token, or of all tokens
// of a prefix. On an open node without tokens, only the node's bound applies. An answer counts as a large one while it
// is made, and with its own size until its client has read it. While others wait, the visitor that holds most loses its
// oldest unread answers.
const (
	maxReads      = 256 << 20
	maxTokenReads = maxReads / 4
	keptReads     = maxReads / 4     // of a node, reserved for visitors without a prefix
	answerRoom    = 8 << 20          // for an answer being made
	answerCost    = 32 << 10         // of an answer, beyond its bytes
	readWait      = 10 * time.Second // for free capacity
	readPatience  = time.Second      // until a waiting request ends unread answers of visitors that hold more
)

func newReadSemaphore() *semaphore[tokenRef] {
	return &semaphore[tokenRef]{
		perNode: maxReads, perOwner: maxTokenReads, fair: true, reserved: keptReads, reclaimAfter: readPatience, guest: func(of tokenRef) bool { return of.guest },
		full: func(of tokenRef, node bool) *Problem {
			if node {
				return problem(http.StatusServiceUnavailable, "the responses of this node to all clients take %d MiB, which is the limit, "+
					"and none of them ended in %s; retry, or use another node",
					maxReads>>20, readWait)
			}
			return problem(http.StatusTooManyRequests, "the responses to %s have reached their limit on this node "+
				"(at most %d MiB, less while others need the space), "+
				"and none of them ended in %s; read the responses, and send fewer requests at a time", of.who, maxTokenReads>>20, readWait)
		},
	}
}

// readingKey is the context's key of a request with capacity for reading.
type readingKey struct{}

// readLimit limits the answers to read requests.
type readLimit struct {
	*responder
	permits *semaphore[tokenRef] // in bytes of answers
}

// reading bounds the answers to read requests until they are written. Requests that a page makes within the process
// count as part of the page's request. Streams have bounds of their own, but a live page's updates are bounded here.
func (a *readLimit) reading(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isRead(r) || r.Context().Value(readingKey{}) != nil {
			next.ServeHTTP(w, r)
			return
		}
		ctx, room, err := a.acquire(r.Context())
		if err != nil {
			a.failWith(w, r, a.problemOf(err)) // a full node is no error for the log
			return
		}
		defer room.shrink(0)
		next.ServeHTTP(&readWriter{ResponseWriter: w, room: room}, r.WithContext(ctx))
	})
}

// readWriter writes an answer that was made as a whole.
type readWriter struct {
	http.ResponseWriter
	room    *readRoom
	writing bool
}

// Unwrap implements the interface of http.ResponseController.
func (w *readWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements http.ResponseWriter. It returns after the client, or the system's buffer, has accepted the answer.
// The error is os.ErrDeadlineExceeded if the client was too slow for requests that waited for capacity.
func (w *readWriter) Write(b []byte) (int, error) {
	w.room.shrink(int64(len(b)) + answerCost)
	if !w.writing {
		w.writing = true
		w.room.lend(w.stop)
	}
	return w.ResponseWriter.Write(b)
}

// stop ends a running write.
func (w *readWriter) stop() {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Unix(1, 0)) // only a writer outside a server lacks deadlines
}

// readRoom is the capacity of one answer.
type readRoom struct {
	among *semaphore[tokenRef]
	loan  *loan[tokenRef]
}

// shrink returns the capacity beyond size.
func (r *readRoom) shrink(size int64) { r.among.shrink(r.loan, size) }

// lend lets a waiting request of a visitor that holds less take the capacity, which calls end.
func (r *readRoom) lend(end func()) {
	r.loan.since, r.loan.end = time.Now(), end
	r.among.lend(r.loan)
}

// isRead reports whether a request reads a token's data. Metrics, health and profiles are answered without a bound.
func isRead(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		!public(r.URL.Path) && r.URL.Path != "/metrics" && !isStream(r) && !isProfile(r)
}

// beginReadKey is the context's key of the function behind BeginRead.
type beginReadKey struct{}

// BeginRead waits for reading capacity to render a live page again. Requests with the returned context share it; leave
// returns it. The error is a *Problem, or that of ctx.
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

// acquire waits for the capacity of an answer.
func (a *readLimit) acquire(ctx context.Context) (context.Context, *readRoom, error) {
	of := principalOf(ctx).tenant()
	if err := a.permits.acquireWithin(ctx, of, answerRoom, readWait); err != nil {
		return nil, nil, err
	}
	return context.WithValue(ctx, readingKey{}, true), &readRoom{a.permits, &loan[tokenRef]{owner: of, permits: answerRoom}}, nil
}
