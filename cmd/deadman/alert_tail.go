package main

import (
	"bufio"
	"bytes"
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
	"unicode/utf8"

	"github.com/spf13/cobra"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/web"
)

func newAlertTailCmd(io *cli) *cobra.Command {
	var backlog int
	cmd := &cobra.Command{
		Use: "tail", Short: "Print alerts as they are raised, until Ctrl-C", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if backlog < 0 || backlog > futurejobs.MaxLimit {
				return usage("--backlog is %d; it must be a whole number from 0 to %d", backlog, futurejobs.MaxLimit)
			}
			c, err := io.client()
			if err != nil {
				return err
			}
			for h, err := range followAlerts(cmd.Context(), c, backlog, func(err error) { printReconnect(io, err) }) {
				if err != nil {
					return err
				}
				if err := printStreamedAlert(io, h); err != nil {
					return err
				}
			}
			return nil // Ctrl-C is the regular end
		},
	}
	cmd.Flags().IntVar(&backlog, "backlog", 10, "number of earlier alerts to print first, up to 500")
	return cmd
}

func printReconnect(io *cli, err error) {
	fmt.Fprintf(io.err, "%s\nreconnecting\n", plainLines(err.Error()))
}

// printStreamedAlert prints an alert on one line, as JSON or text.
func printStreamedAlert(io *cli, h streamedAlert) error {
	if io.output == asJSON {
		var b bytes.Buffer
		if err := json.Compact(&b, h.raw); err != nil {
			return err
		}
		_, err := fmt.Fprintf(io.out, "%s\n", plainJSON(b.Bytes()))
		return err
	}
	_, err := fmt.Fprintln(io.out, alertLine(io, h.Alert, terminalWidth(io.out)))
	return err
}

// alertIndent is the indent of further lines of an alert: they begin below the severity.
const alertIndent = len("15:04:05") + between + shownOfID + between

// alertLine formats an alert: time, id, severity, rule, entity and key, step, text. It breaks lines that are wider than a
// width in characters; 0 means no limit.
func alertLine(io *cli, a alerts.Alert, width int) string {
	cells := []cell{
		dimCell("%s", a.DecidedAt.In(io.zone).Format("15:04:05")), dimCell("%s", shortID(a.ID)),
		colouredCell(newAlertColour(a), fmt.Sprintf("%-8s", severityOrStatus(a))), cellOf(a.Rule), colouredCell(bold, a.Entity+" "+a.Key),
	}
	if a.Step != "" {
		cells = append(cells, cellOf(a.Step))
	}
	var b strings.Builder
	column := 0
	for _, c := range append(cells, cellOf(a.Text)) {
		lines := []string{sanitize(c.text)}
		size := utf8.RuneCountInString(lines[0])
		switch {
		case column == 0:
		case width > 0 && column+between+size > width:
			lines = wrapText(lines[0], max(width-alertIndent, least))
			size = utf8.RuneCountInString(lines[len(lines)-1])
			b.WriteByte('\n')
			b.WriteString(strings.Repeat(" ", alertIndent))
			column = alertIndent
		default:
			b.WriteString(strings.Repeat(" ", between))
			column += between
		}
		for i := range lines {
			if c.colour != normal {
				lines[i] = io.palette.paint(c.colour, lines[i])
			}
		}
		b.WriteString(strings.Join(lines, "\n"+strings.Repeat(" ", alertIndent)))
		column += size
	}
	return b.String()
}

const (
	maxSSELine       = 1 << 20 // in bytes; an alert carries its event, limited separately
	reconnectBacklog = 500     // backlog requested after a reconnect
	maxReconnects    = 10      // attempts to reconnect, one per second

	idleTimeout = 50 * time.Second // longest silence of a live connection; nodes send a comment every 15 s
)

// streamedAlert is an alert with its raw JSON.
type streamedAlert struct {
	alerts.Alert
	raw []byte
}

// followAlerts yields the last backlog alerts, then each new one until ctx is done. It reconnects after a lost connection
// and yields the alerts of the gap. The first error of an outage is passed to onError. A node that was never reached,
// or stays unreachable, is an error.
func followAlerts(ctx context.Context, c *client, backlog int, onError func(error)) iter.Seq2[streamedAlert, error] {
	return func(yield func(streamedAlert, error) bool) {
		f := &streamState{client: c, backlog: backlog, onError: onError}
		for ctx.Err() == nil {
			stopped, err := f.listen(ctx, yield)
			switch {
			case stopped || ctx.Err() != nil:
				return
			case f.recordFailure(err):
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
	backlog     int
	onError     func(error)
	ids         map[alerts.ID]bool // ids yielded recently
	previousIDs map[alerts.ID]bool // the previous generation of ids
	reached     bool
	failures    int // since the last successful connection
}

// recordFailure counts a failed connection and reports whether to stop reconnecting.
func (f *streamState) recordFailure(err error) (fatal bool) {
	var refused refusal
	if f.failures++; !f.reached || errors.As(err, &refused) || f.failures > maxReconnects {
		return true
	}
	if f.failures == 1 {
		f.onError(err)
	}
	return false
}

// listen yields alerts until yield stops it or the connection ends. The end of a connection is an error.
func (f *streamState) listen(ctx context.Context, yield func(streamedAlert, error) bool) (stopped bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := fmt.Errorf("no data for %s", idleTimeout)
	alarm := time.AfterFunc(idleTimeout, func() { cancel(silent) })
	defer alarm.Stop()
	response, err := f.send(ctx, http.MethodGet, "/alerts",
		url.Values{"backlog": {strconv.Itoa(f.backlog)}}, nil, http.Header{"Accept": {"text/event-stream"}})
	if errors.Is(context.Cause(ctx), silent) {
		return false, fmt.Errorf("%s (from %s) did not respond within %s\n%s", f.node, f.from, idleTimeout, checkNodeHint)
	}
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	f.reached, f.failures, f.backlog = true, 0, reconnectBacklog

	for m, err := range messages(&idleTimeoutReader{response.Body, alarm}) {
		if err != nil {
			return false, fmt.Errorf("connection to %s lost: %w", f.node, cmp.Or(context.Cause(ctx), err))
		}
		h, err := f.decode(m)
		if err != nil {
			return false, err
		}
		if h != nil && !yield(*h, nil) {
			return true, nil
		}
	}
	return false, fmt.Errorf("%s closed the connection", f.node)
}

// decode decodes the alert of a message. It returns nil for other messages and for repeated alerts.
func (f *streamState) decode(m message) (*streamedAlert, error) {
	switch m.kind {
	case "alert":
		h := &streamedAlert{raw: m.data}
		if err := json.Unmarshal(m.data, &h.Alert); err != nil {
			return nil, fmt.Errorf("invalid alert from %s: %w", f.node, err)
		}
		if f.repeats(h.ID) {
			return nil, nil
		}
		return h, nil
	case "problem":
		p := new(web.Problem)
		if err := json.Unmarshal(m.data, p); err != nil {
			return nil, fmt.Errorf("invalid error report from %s: %w", f.node, err)
		}
		f.onError(p)
	}
	return nil, nil
}

// repeats reports whether an alert was yielded before. It remembers at least the last reconnectBacklog alerts.
func (f *streamState) repeats(id alerts.ID) bool {
	if f.ids[id] || f.previousIDs[id] {
		return true
	}
	if len(f.ids) >= reconnectBacklog {
		f.previousIDs, f.ids = f.ids, nil
	}
	if f.ids == nil {
		f.ids = make(map[alerts.ID]bool)
	}
	f.ids[id] = true
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
	w.alarm.Reset(idleTimeout)
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
