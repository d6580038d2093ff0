package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"deadman/internal/events"
)

// JSONLines reads an event from each line: {"subject": …, "time": …, "data": {…}}. A CloudEvent in JSON is an event on the
// subject of its type. Empty lines are ignored.
type JSONLines struct {
	lines *bufio.Scanner
	line  int
}

// maxLine bounds a line: a body of the maximum size in a CloudEvent.
const maxLine = events.MaxBody + 64<<10

// NewJSONLines returns a reader of JSON lines.
func NewJSONLines(from io.Reader) *JSONLines {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	return &JSONLines{lines: lines}
}

// Next implements Reader.
func (l *JSONLines) Next() (Event, string, error) {
	for l.lines.Scan() {
		l.line++
		text := bytes.TrimSpace(l.lines.Bytes())
		if len(text) == 0 {
			continue
		}
		place := fmt.Sprintf("line %d", l.line)
		e, err := parseLine(text)
		if err != nil {
			return e, place, fmt.Errorf(`%s: %w; write {"subject": "orders.created", "time": "2026-01-31T10:00:00Z", "data": {"id": "1"}}`, place, err)
		}
		return e, place, nil
	}
	if err := l.lines.Err(); err != nil {
		return Event{}, "", fmt.Errorf("line %d: %w; a line has at most %d bytes", l.line+1, err, maxLine)
	}
	return Event{}, "", io.EOF
}

// parseLine parses an event or a CloudEvent.
func parseLine(text []byte) (Event, error) {
	var read struct {
		Event
		SpecVersion string `json:"specversion"`
		Type        string `json:"type"`
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return Event{}, err
	}
	e := read.Event
	if read.SpecVersion != "" {
		e.Subject = read.Type
	}
	switch {
	case e.Subject == "" && read.SpecVersion != "":
		return e, fmt.Errorf("the CloudEvent has no type")
	case e.Subject == "":
		return e, fmt.Errorf("the event has no subject")
	case e.Time.IsZero():
		return e, fmt.Errorf("the event has no time")
	}
	e.Time = e.Time.UTC().Truncate(time.Microsecond)
	return e, nil
}
