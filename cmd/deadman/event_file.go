package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"deadman/web"
)

// eventLine is an event in a line of a file.
type eventLine struct {
	Subject string          `json:"subject"`
	Data    json.RawMessage `json:"data"`
	ID      string          `json:"id"`
}

// eventsSent counts the events of a file.
type eventsSent struct {
	Published    int           `json:"published"`
	Duplicates   int           `json:"duplicates"`
	Refused      int           `json:"would_dead_letter"` // events that a rule refuses
	NotEvaluated int           `json:"not_evaluated"`     // events that the busy node did not match against rules
	First        *refusedEvent `json:"first_refused,omitempty"`
}

// refusedEvent is an event that a rule refuses.
type refusedEvent struct {
	Line   int    `json:"line"`
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason"`
}

// eventFile publishes the events of a file.
type eventFile struct {
	io    *cli
	c     *client
	lines *bufio.Scanner
	line  int // number of the last line read, from 1
	sent  eventsSent
}

// maxEventLine is the length of a line with an event of the largest size.
const maxEventLine = web.MaxEventBytes + 16<<10

// sendEvents publishes the events of a file in order. A path of - means standard input.
func sendEvents(streams *cli, cmd *cobra.Command, path string) error {
	c, err := streams.client()
	if err != nil {
		return err
	}
	from := streams.input
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return usageError{err}
		}
		defer func() { _ = file.Close() }() // it was only read
		from = file
	}
	f := &eventFile{io: streams, c: c, lines: bufio.NewScanner(from)}
	f.lines.Buffer(make([]byte, 64<<10), maxEventLine)
	if err := f.sendAll(cmd.Context()); err != nil {
		if f.sent.Published > 0 {
			err = errors.Join(err, f.print())
		}
		return fmt.Errorf("%w\n%s of the lines before were published", err, number(f.sent.Published, "event"))
	}
	return f.show()
}

func (f *eventFile) sendAll(ctx context.Context) error {
	for f.lines.Scan() {
		f.line++
		text := bytes.TrimSpace(f.lines.Bytes())
		if len(text) == 0 {
			continue
		}
		if err := f.send(ctx, text); err != nil {
			return fmt.Errorf("line %d: %w", f.line, err)
		}
	}
	err := f.lines.Err()
	if errors.Is(err, context.Canceled) {
		return errInterrupted
	}
	if err != nil {
		return fmt.Errorf("line %d: %w; a line has at most %d KiB", f.line+1, err, maxEventLine>>10)
	}
	return nil
}

// send publishes the event of a line.
func (f *eventFile) send(ctx context.Context, text []byte) error {
	e, err := parseEventLine(text)
	if err != nil {
		return err
	}
	published, err := sendEvent(ctx, f.c, e.Subject, e.ID, e.Data)
	if err != nil {
		return err
	}
	f.sent.Published++
	if published.Duplicate {
		f.sent.Duplicates++
	}
	if published.NotEvaluated {
		f.sent.NotEvaluated++
	}
	if len(published.WouldDeadLetter) > 0 {
		f.sent.Refused++
		r := published.WouldDeadLetter[0]
		f.sent.First = cmp.Or(f.sent.First, &refusedEvent{f.line, r.Rule, r.Reason})
	}
	return nil
}

func parseEventLine(text []byte) (e eventLine, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err = d.Decode(&e); err == nil && d.More() {
		err = errors.New("there is text after the event")
	}
	if err == nil && e.Subject == "" {
		err = errors.New("the event has no subject")
	}
	if err != nil {
		err = fmt.Errorf(`%w; write {"subject": "orders.created", "data": {"id": "1"}, "id": "order-1-created"}`, err)
	}
	return e, err
}

// show prints the counts. A refused event ends the command with exit code 3.
func (f *eventFile) show() error {
	if err := f.print(); err != nil {
		return err
	}
	if f.sent.Refused > 0 {
		return unmetSend.err()
	}
	return nil
}

func (f *eventFile) print() error {
	s := f.sent
	if f.io.output == asJSON {
		return writeValue(f.io.out, s)
	}
	if r := s.First; r != nil {
		by := "the event would be refused"
		if r.Rule != "" {
			by = "rule " + sanitize(r.Rule) + " would refuse the event"
		}
		fmt.Fprintf(f.io.err, "warning: line %d: %s: %s; see deadman dead-letter list\n", r.Line, by, sanitize(r.Reason))
	}
	if s.NotEvaluated > 0 {
		fmt.Fprintf(f.io.err, "warning: the node was busy and did not match %s against rules\n", number(s.NotEvaluated, "event"))
	}
	text := "published: " + humanize.Comma(int64(s.Published))
	for _, part := range []struct {
		name string
		n    int
	}{{"duplicates", s.Duplicates}, {"refused by a rule", s.Refused}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %s: %s", part.name, humanize.Comma(int64(part.n)))
		}
	}
	_, err := fmt.Fprintln(f.io.out, text)
	return err
}
