package web

import (
	"context"
	"net/http"
	"net/http/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
)

// profilesPath is the prefix of the profiles of a node's process, where go tool pprof expects them.
const profilesPath = "/debug/pprof/"

// maxProfile is the longest profile, and defaultProfile the duration of a CPU profile or a trace without seconds, as in
// net/http/pprof.
const (
	maxProfile     = 60 * time.Second
	defaultProfile = 30 * time.Second
	defaultTrace   = time.Second
)

// profileNames are the profiles that a node serves. The command line is none of them, since it may have the password of
// a database; the profiles block and mutex would be empty, since their recording costs time.
var profileNames = []string{"allocs", "goroutine", "heap", "profile", "threadcreate", "trace"}

// isProfile reports whether a request is for a profile. It takes longer than other answers.
func isProfile(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, profilesPath) }

// profiles serves profiles of the process. A node records one over time at once, since the runtime has one recorder.
type profiles struct {
	*responder
	recording sync.Mutex
}

// serve answers with a profile in the format of pprof, or with a trace. A profile over time ends early if the node stops.
func (p *profiles) serve(w http.ResponseWriter, r *http.Request) {
	name := chi.URLParam(r, "name")
	handler, takes := profileOf(name)
	if handler == nil {
		p.fail(w, r, problem(http.StatusNotFound, "no profile is called %q; the profiles are %s", name, strings.Join(profileNames, ", ")))
		return
	}
	if text := r.URL.Query().Get("seconds"); text != "" {
		seconds, err := strconv.Atoi(text)
		if err != nil || seconds < 1 || seconds > int(maxProfile.Seconds()) {
			p.fail(w, r, refused("query.seconds", "%q is not a number of seconds from 1 to %d; profile for a shorter time, repeatedly", text, int(maxProfile.Seconds())))
			return
		}
		takes = time.Duration(seconds) * time.Second
	}
	if takes == 0 {
		handler.ServeHTTP(w, r)
		return
	}
	if !p.recording.TryLock() {
		p.fail(w, r, problem(http.StatusConflict, "the node records another profile, and records one at once; retry after at most %d s", int(maxProfile.Seconds())))
		return
	}
	defer p.recording.Unlock()
	record(w, r, handler, takes)
}

// record lets handler record for a time, beyond the deadlines of other answers.
func record(w http.ResponseWriter, r *http.Request, handler http.Handler, takes time.Duration) {
	ctx, cancel := context.WithTimeout(r.Context(), takes+answerTime)
	defer cancel()
	go func() {
		select {
		case <-Leaving(ctx):
			cancel()
		case <-ctx.Done():
		}
	}()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(takes + writeTime)) // only a writer outside a server lacks deadlines
	handler.ServeHTTP(w, r.WithContext(ctx))
}

// profileOf returns the handler of a profile, nil if none has the name, and the time that it records for by default.
func profileOf(name string) (handler http.Handler, takes time.Duration) {
	switch {
	case name == "profile":
		return http.HandlerFunc(pprof.Profile), defaultProfile
	case name == "trace":
		return http.HandlerFunc(pprof.Trace), defaultTrace
	case slices.Contains(profileNames, name):
		return pprof.Handler(name), 0
	}
	return nil, 0
}
