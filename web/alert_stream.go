package web

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

const alertsPath = apiPath + "/alerts"

// keepAlive is the longest silence of an alert stream; proxies cut longer ones.
const keepAlive = 15 * time.Second

const streamType = "text/event-stream"

// alertStreamAPI answers with streams of alerts.
type alertStreamAPI struct {
	*responder
	wire EventPublisher
}

// streamed answers a request that accepts a stream of alerts with one, and passes all others to the list.
func (a *alertStreamAPI) streamed(ctx huma.Context, next func(huma.Context)) {
	r, w := humachi.Unwrap(ctx)
	if !acceptsStream(r) {
		next(ctx)
		return
	}
	backlog, err := readBacklog(r.URL.Query())
	if err != nil {
		a.fail(w, r, err)
		return
	}
	s := &alertStream{w: w, flow: http.NewResponseController(w), sees: principalOf(r.Context()).canSee}
	if err := s.run(r, a, backlog); err != nil && r.Context().Err() == nil {
		a.log.DebugContext(r.Context(), "a stream of alerts ended", "err", err)
	}
}

// readBacklog reads the only parameter of a stream.
func readBacklog(query url.Values) (int, error) {
	for name := range query {
		if name != "backlog" {
			return 0, refused("query."+name, "a stream of alerts accepts backlog only")
		}
	}
	given := query.Get("backlog")
	if given == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < 0 || n > futurejobs.MaxLimit {
		return 0, refused("query.backlog", "%q is not an integer from 0 to %d", given, futurejobs.MaxLimit)
	}
	return n, nil
}

func acceptsStream(r *http.Request) bool {
	if r.Method != http.MethodGet {
		return false
	}
	for part := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		if kind, _, err := mime.ParseMediaType(part); err == nil && kind == streamType {
			return true
		}
	}
	return false
}

// alertStream sends alerts to one client by server-sent events.
type alertStream struct {
	w    http.ResponseWriter
	flow *http.ResponseController
	sees func(rule string) bool // alerts of other rules are left out
}

// alertOrError is an item that Follow yields.
type alertOrError struct {
	alert alerts.Alert
	err   error
}

// run sends alerts until the client disconnects, the node drains or Follow ends.
func (s *alertStream) run(r *http.Request, of *alertStreamAPI, backlog int) error {
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	h := s.w.Header()
	h.Set("Content-Type", streamType)
	h.Set("Vary", "Accept")
	h.Set("X-Accel-Buffering", "no") // otherwise nginx buffers events
	if err := s.send("retry: 2000\n\n"); err != nil {
		return err
	}

	follow := make(chan alertOrError)
	go func() {
		defer close(follow)
		for alert, err := range of.wire.Follow(ctx, backlog) {
			select {
			case follow <- alertOrError{alert, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	err := s.pump(ctx, of, follow)
	stop()
	for range follow {
		continue // until the goroutine has ended
	}
	return err
}

func (s *alertStream) pump(ctx context.Context, of *alertStreamAPI, follow <-chan alertOrError) error {
	idle := time.NewTicker(keepAlive)
	defer idle.Stop()
	for {
		text := ": still here\n\n"
		select {
		case <-Leaving(ctx):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-idle.C:
		case n, more := <-follow:
			if !more {
				return nil
			}
			if n.err == nil && !s.sees(n.alert.Rule) {
				continue
			}
			var err error
			if text, err = n.event(of); err != nil {
				return err
			}
			idle.Reset(keepAlive)
		}
		if err := s.send(text); err != nil {
			return err
		}
	}
}

// event formats n as a server-sent event. An error becomes a problem event; more alerts may follow it.
func (n alertOrError) event(of *alertStreamAPI) (string, error) {
	if n.err != nil {
		data, err := json.Marshal(of.problemOf(n.err))
		return fmt.Sprintf("event: problem\ndata: %s\n\n", data), err
	}
	data, err := json.Marshal(n.alert)
	return fmt.Sprintf("id: %s\nevent: alert\ndata: %s\n\n", n.alert.ID, data), err
}

// send writes and flushes. The client must read within writeTime.
func (s *alertStream) send(text string) error {
	if err := s.flow.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return err
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.flow.Flush()
}
