package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"deadman/alerts"
	"deadman/web"
)

const (
	maxSSELine = 1 << 20 // in bytes; an alert carries its event, limited separately
	catchUp    = 500     // backlog requested after a reconnect
	patience   = 10      // attempts to reconnect, one per second

	silence = 50 * time.Second // longest silence of a live connection; nodes send a comment every 15 s
)

// streamedAlert is an alert with its raw JSON.
type streamedAlert struct {
	alerts.Alert
	raw []byte
}

// follow yields the last backlog alerts, then each new one until ctx is done. It reconnects after a lost connection
// and yields the alerts of the gap. The first error of an outage is passed to trouble. A node that was never reached,
// or stays unreachable, is an error.
func (c *client) follow(ctx context.Context, backlog int, trouble func(error)) iter.Seq2[streamedAlert, error] {
	return func(yield func(streamedAlert, error) bool) {
		f := &streamState{client: c, backlog: backlog, trouble: trouble}
		for ctx.Err() == nil {
			enough, err := f.listen(ctx, yield)
			switch {
			case enough || ctx.Err() != nil:
				return
			case f.giveUp(err):
				yield(streamedAlert{}, err)
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

// streamState is the state kept across connections.
type streamState struct {
	*client
	backlog  int
	trouble  func(error)
	known    map[alerts.ID]bool // ids yielded recently
	before   map[alerts.ID]bool // the previous generation of known
	reached  bool
	failures int // since the last successful connection
}

// giveUp counts a failed connection and reports whether retrying is pointless.
func (f *streamState) giveUp(err error) bool {
	var no refusal
	if f.failures++; !f.reached || errors.As(err, &no) || f.failures > patience {
		return true
	}
	if f.failures == 1 {
		f.trouble(err)
	}
	return false
}

// listen yields alerts until yield stops it or the connection ends. The end of a connection is an error.
func (f *streamState) listen(ctx context.Context, yield func(streamedAlert, error) bool) (enough bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answer, err := f.send(ctx, http.MethodGet, "/alerts",
		url.Values{"backlog": {strconv.Itoa(f.backlog)}}, nil, http.Header{"Accept": {"text/event-stream"}})
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	f.reached, f.failures, f.backlog = true, 0, catchUp

	alarm := time.AfterFunc(silence, func() { cancel(fmt.Errorf("it was silent for %s", silence)) })
	defer alarm.Stop()
	for m, err := range messages(&idleTimeoutReader{answer.Body, alarm}) {
		if err != nil {
			return false, fmt.Errorf("the connection to %s was cut: %w", f.node, cmp.Or(context.Cause(ctx), err))
		}
		h, err := f.accept(m)
		if err != nil {
			return false, err
		}
		if h != nil && !yield(*h, nil) {
			return true, nil
		}
	}
	return false, fmt.Errorf("%s closed the connection", f.node)
}

// accept decodes the alert of a message. It returns nil for other messages and for repeated alerts.
func (f *streamState) accept(m message) (*streamedAlert, error) {
	switch m.kind {
	case "alert":
		h := &streamedAlert{raw: m.data}
		if err := json.Unmarshal(m.data, &h.Alert); err != nil {
			return nil, fmt.Errorf("an alert from %s cannot be read: %w", f.node, err)
		}
		if f.repeats(h.ID) {
			return nil, nil
		}
		return h, nil
	case "problem":
		p := new(web.Problem)
		if err := json.Unmarshal(m.data, p); err != nil {
			return nil, fmt.Errorf("what %s says cannot be read: %w", f.node, err)
		}
		f.trouble(p)
	}
	return nil, nil
}

// repeats reports whether an alert was yielded before. It remembers at least the last catchUp alerts.
func (f *streamState) repeats(id alerts.ID) bool {
	if f.known[id] || f.before[id] {
		return true
	}
	if len(f.known) >= catchUp {
		f.before, f.known = f.known, nil
	}
	if f.known == nil {
		f.known = make(map[alerts.ID]bool)
	}
	f.known[id] = true
	return false
}

// idleTimeoutReader resets an alarm on every read.
type idleTimeoutReader struct {
	io.Reader
	alarm *time.Timer
}

// Read implements io.Reader.
func (w *idleTimeoutReader) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	w.alarm.Reset(silence)
	return n, err
}

// message is one server-sent event (HTML standard, section 9.2).
type message struct {
	kind string
	data []byte
}

// messages parses server-sent events. It ignores ids and comments.
func messages(r io.Reader) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(make([]byte, 0, 64<<10), maxSSELine)
		var m message
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ":")
			value = strings.TrimPrefix(value, " ")
			switch name {
			case "event":
				m.kind = value
			case "data":
				if m.data != nil {
					m.data = append(m.data, '\n')
				}
				m.data = append(m.data, value...)
			case "":
				if lines.Text() == "" && m.data != nil {
					if !yield(m, nil) {
						return
					}
				}
				if lines.Text() == "" {
					m = message{}
				}
			}
		}
		if err := lines.Err(); err != nil {
			yield(message{}, err)
		}
	}
}
