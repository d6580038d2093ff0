package web

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// How many streams of a kind a node sends at a time, and how many of them to one token. On an open
// node nobody shows a token, and only the node's bound holds.
const (
	maxAlertStreams      = 512
	maxTokenAlertStreams = 32
	maxLivePages         = 64
	maxTokenLivePages    = 16
)

const (
	// streamCheckInterval is how often a node asks whether a stream may go on. A node believes what
	// it knows of a token for 2 s, so that a stream ends within 5 s after its token.
	streamCheckInterval = 2 * time.Second
	// streamCheckTimeout bounds one such question.
	streamCheckTimeout = 500 * time.Millisecond
	// lastWriteTimeout bounds the write that is under way when a stream ends.
	lastWriteTimeout = 500 * time.Millisecond
	// maxProxiedStream is how long a stream of a person may last whom a proxy names: the node asks nobody whether the
	// person may still come.
	maxProxiedStream = time.Minute
	// streamRetry is when a client that got no place may come again.
	streamRetry = 10 * time.Second
)

// errOtherVisitor ends a stream that would begin with other rights now, such as one that began while
// the node was open.
var errOtherVisitor = errors.New("the stream began with other rights than it would have now")

// errStreamOver ends a stream of a person whom a proxy named. The client begins another one, for which the proxy has to name
// the person again.
var errStreamOver = errors.New("the proxy has to name the person again")

// newStreamPlaces bounds the streams of one kind. what is those streams, in a sentence.
func newStreamPlaces(what string, perNode, perToken int64) *places[tokenRef] {
	return &places[tokenRef]{perNode: perNode, perOwner: perToken, full: func(of tokenRef, node bool) (full *Problem) {
		defer func() { full.retry = streamRetry }()
		if node {
			return problem(http.StatusServiceUnavailable, "this node sends %d %s, and no more at a time; close one of them, or ask another node", perNode, what)
		}
		return problem(http.StatusTooManyRequests, "%s has %d %s on this node, and may have no more; close one of them",
			of.who, perToken, what)
	}}
}

// streaming bounds every stream that a node sends: it begins while there is a place for it, and it
// ends within 5 s after its visitor may not follow any more, whatever is sent meanwhile.
func (a *api) streaming(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isStream(r) {
			next.ServeHTTP(w, r)
			return
		}
		places, v := a.livePages, principalOf(r.Context())
		if r.URL.Path == alertsPath {
			places = a.alertStreams
		} else {
			r = r.WithContext(context.WithValue(r.Context(), beginReadKey{}, a.read))
		}
		if full := places.take(v.ref()); full != nil {
			a.failWith(w, r, full) // it is no failure of the node, which the log has to say
			return
		}
		defer places.leave(v.ref())
		began := time.Now()
		follow(w, r, next, func(ctx context.Context) error {
			if v.isProxied() && time.Since(began) >= maxProxiedStream {
				return errStreamOver
			}
			return a.remains(r.WithContext(ctx), v)
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

// watchStream asks again and again whether a stream may go on, and returns why it may not; nil: ctx is
// done. An answer that the node could not get once ends nothing; one that it could not get twice does.
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
		asked, cancel := context.WithTimeout(ctx, streamCheckTimeout)
		err := remains(asked)
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

// isDenial reports whether an error says that the visitor may not go on, and not that the node could
// not find out.
func isDenial(err error) bool {
	var p *Problem
	refused := errors.As(err, &p) && (p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden)
	return refused || errors.Is(err, errOtherVisitor) || errors.Is(err, errStreamOver)
}

// remains refuses a request that is no longer the visitor's.
func (a *api) remains(r *http.Request, v principal) error {
	now, err := a.identity(r)
	switch {
	case err != nil && a.problemOf(err).Status < http.StatusInternalServerError:
		return a.problemOf(err)
	case err != nil:
		return err
	case now.open != v.open || now.token.ID != v.token.ID || !now.token.Alike(v.token):
		return errOtherVisitor
	}
	return nil
}

// endingWriter writes a stream until it ends; then every write is refused.
type endingWriter struct {
	http.ResponseWriter
	flow *http.ResponseController // of what it writes to

	mu    sync.Mutex
	ended error // why the stream ended; nil: it did not
}

// Unwrap is of http.ResponseController.
func (s *endingWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// end refuses what is written from now on, and lets a write that is under way take no longer than
// lastWriteTimeout, even where the client does not read.
func (s *endingWriter) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = err
	_ = s.flow.SetWriteDeadline(time.Now().Add(lastWriteTimeout)) // a writer without deadlines is no server's
}

func (s *endingWriter) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// SetWriteDeadline is of http.ResponseController. Nothing moves the deadline of a stream that ended.
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

// FlushError is of http.ResponseController.
func (s *endingWriter) FlushError() error {
	if err := s.err(); err != nil {
		return err
	}
	return s.flow.Flush()
}
