package web

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// The limits of concurrent streams of a kind, of a node and of one token. On an open node without tokens, only the
// node's limit applies.
const (
	maxAlertStreams      = 512
	maxTokenAlertStreams = 32
	maxLivePages         = 64
	maxTokenLivePages    = 16
)

const (
	// streamCheckInterval is the interval of checking a stream's permission. A node caches a token for 2 s, so that a
	// stream ends within 5 s after its token.
	streamCheckInterval = 2 * time.Second
	// streamCheckTimeout bounds one such check.
	streamCheckTimeout = 500 * time.Millisecond
	// lastWriteTimeout bounds a running write at the end of a stream.
	lastWriteTimeout = 500 * time.Millisecond
	// maxProxiedStream is the longest stream of a person named by a proxy, since the node cannot check the person's
	// permission itself.
	maxProxiedStream = time.Minute
	// streamRetry is the retry time for a client without a permit.
	streamRetry = 10 * time.Second
)

// errOtherVisitor ends a stream that would now have other permissions, such as one that began while the node was open.
var errOtherVisitor = errors.New("the permissions of the stream have changed")

// errStreamOver ends a stream of a person named by a proxy. The client reconnects, and the proxy has to name the person
// again.
var errStreamOver = errors.New("the proxy must authenticate the user again")

// newStreamSemaphore bounds the streams of one kind, described by the first argument in messages.
func newStreamSemaphore(what string, perNode, perToken int64) *semaphore[tokenRef] {
	return &semaphore[tokenRef]{perNode: perNode, perOwner: perToken, full: func(of tokenRef, node bool) (full *Problem) {
		defer func() { full.retry = streamRetry }()
		if node {
			return problem(http.StatusServiceUnavailable, "this node has %d %s, which is its limit; close one of them, or use another node", perNode, what)
		}
		return problem(http.StatusTooManyRequests, "%s has %d %s on this node, which is the limit; close one of them",
			of.who, perToken, what)
	}}
}

// streamLimit limits streams of alerts and live pages.
type streamLimit struct {
	*responder
	auth         *authenticator
	reads        *readLimit
	alertStreams *semaphore[tokenRef]
	livePages    *semaphore[tokenRef]
}

// streaming bounds every stream of a node: it begins if it gets a permit, and it ends within 5 s after its visitor loses
// the permission, even during a write.
func (a *streamLimit) streaming(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isStream(r) {
			next.ServeHTTP(w, r)
			return
		}
		permits, v := a.livePages, principalOf(r.Context())
		if r.URL.Path == alertsPath {
			permits = a.alertStreams
		} else {
			r = r.WithContext(context.WithValue(r.Context(), beginReadKey{}, a.reads.acquire))
		}
		if full := permits.acquire(v.ref()); full != nil {
			a.failWith(w, r, full) // a full node is no error for the log
			return
		}
		defer permits.release(v.ref())
		startedAt := time.Now()
		follow(w, r, next, func(ctx context.Context) error {
			if v.isProxied() && time.Since(startedAt) >= maxProxiedStream {
				return errStreamOver
			}
			return a.auth.remains(r.WithContext(ctx), v)
		})
	})
}

// follow lets next answer with a stream until remains returns an error.
func follow(w http.ResponseWriter, r *http.Request, next http.Handler, remains func(context.Context) error) {
	ctx, end := context.WithCancelCause(r.Context())
	s := &endingWriter{ResponseWriter: w, flow: http.NewResponseController(w)}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if err := watchStream(ctx, remains); err != nil {
			s.end(err)
			end(err)
		}
	}()
	defer func() {
		end(nil)
		<-watched
	}()
	next.ServeHTTP(s, r.WithContext(ctx))
}

// watchStream checks repeatedly whether a stream may continue, and returns the reason to end it; nil if ctx is done. A
// check without a result is tolerated once, but not twice in a row.
func watchStream(ctx context.Context, remains func(context.Context) error) error {
	tick := time.NewTicker(streamCheckInterval)
	defer tick.Stop()
	unknown := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		checkCtx, cancel := context.WithTimeout(ctx, streamCheckTimeout)
		err := remains(checkCtx)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && (unknown || isDenial(err)) {
			return err
		}
		unknown = err != nil
	}
}

// isDenial reports whether an error denies the visitor, rather than a failed check.
func isDenial(err error) bool {
	var p *Problem
	refused := errors.As(err, &p) && (p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden)
	return refused || errors.Is(err, errOtherVisitor) || errors.Is(err, errStreamOver)
}

// endingWriter writes a stream until it ends, and then refuses all writes.
type endingWriter struct {
	http.ResponseWriter
	flow *http.ResponseController // of the ResponseWriter

	mu    sync.Mutex
	ended error // why the stream ended; nil while it runs
}

// Unwrap implements the interface of http.ResponseController.
func (s *endingWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// end refuses further writes, and bounds a running write by lastWriteTimeout, even if the client does not read.
func (s *endingWriter) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = err
	_ = s.flow.SetWriteDeadline(time.Now().Add(lastWriteTimeout)) // only a writer outside a server lacks deadlines
}

func (s *endingWriter) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// SetWriteDeadline implements the interface of http.ResponseController. It does not move the deadline of an ended
// stream.
func (s *endingWriter) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return s.ended
	}
	return s.flow.SetWriteDeadline(t)
}

// Write implements http.ResponseWriter.
func (s *endingWriter) Write(b []byte) (int, error) {
	if err := s.err(); err != nil {
		return 0, err
	}
	return s.ResponseWriter.Write(b)
}

// FlushError implements the interface of http.ResponseController.
func (s *endingWriter) FlushError() error {
	if err := s.err(); err != nil {
		return err
	}
	return s.flow.Flush()
}
