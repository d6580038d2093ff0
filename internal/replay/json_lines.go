package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"deadman/internal/events"
	"deadman/rules/bodies"
)

// JSONLines reads an event from each line: {"subject": …, "time": …, "data": {…}}. A CloudEvent in JSON is an event on the
// subject of its type. Empty lines are ignored.
type JSONLines struct {
	lines    *bufio.Scanner
	line     int
	subjects map[string]string // of the events so far: one text for all events of a subject
}

// mostSubjects bounds the subjects that are kept as one text.
const mostSubjects = 1000

// maxLine bounds a line: a body of the maximum size in a CloudEvent.
const maxLine = events.MaxBody + 64<<10

// NewJSONLines returns a reader of JSON lines.
func NewJSONLines(from io.Reader) *JSONLines {
	lines := bufio.NewScanner(withoutBOM(from))
	lines.Buffer(make([]byte, 64<<10), maxLine)
	return &JSONLines{lines: lines, subjects: make(map[string]string)}
}

// Next implements Reader.
func (l *JSONLines) Next() (Event, Place, error) {
	for l.lines.Scan() {
		l.line++
		text := bytes.TrimSpace(l.lines.Bytes())
		if len(text) == 0 {
			continue
		}
		place := Line(l.line)
		if e, ok := l.parsePlain(text); ok {
			return e, place, nil
		}
		e, err := parseLine(text)
		if err != nil {
			return e, place, fmt.Errorf(`%s: %w; write {"subject": "orders.created", "time": "2026-01-31T10:00:00Z", "data": {"id": "1"}}`, place, err)
		}
		return e, place, nil
	}
	switch err := l.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return Event{}, Place{}, fmt.Errorf("line %d has more than %s bytes; write each event on a line of its own", l.line+1, humanize.Comma(maxLine))
	case err != nil:
		return Event{}, Place{}, err
	}
	return Event{}, Place{}, io.EOF
}

// withoutBOM returns a reader without the byte order mark that some programs write at the start of a file.
func withoutBOM(from io.Reader) io.Reader {
	const mark = "\ufeff"
	buffered := bufio.NewReader(from)
	if start, err := buffered.Peek(len(mark)); err == nil && string(start) == mark {
		_, _ = buffered.Discard(len(mark)) // it is buffered
	}
	return buffered
}

// gzipStart are the first bytes of a file of gzip, and useZcat is the remedy.
const (
	gzipStart = "\x1f\x8b"
	useZcat   = "use zcat FILE | deadman replay --events -"
)

// parsePlain parses an event in the usual form: each member once, and no escape sequences in the subject. Most lines have this
// form, and take a quarter of the time of parseLine. ok is false for another line, for parseLine to parse or refuse.
func (l *JSONLines) parsePlain(text []byte) (e Event, ok bool) {
	ok = bodies.Fields(text, func(name, value []byte) bool {
		switch string(name) {
		case "subject":
			if e.Subject != "" || value[0] != '"' || !isPlain(value) {
				return false
			}
			e.Subject = l.subject(value[1 : len(value)-1])
		case "time":
			return e.Time.IsZero() && value[0] == '"' && e.Time.UnmarshalJSON(value) == nil
		case "data":
			if e.Data != nil {
				return false
			}
			e.Data = bytes.Clone(value)
		default:
			return isIgnored(name)
		}
		return true
	})
	e.Time = e.Time.UTC().Truncate(time.Microsecond)
	return e, ok && e.Subject != "" && !e.Time.IsZero()
}

// isPlain reports whether a text is ASCII without escape sequences.
func isPlain(text []byte) bool {
	for _, c := range text {
		if c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// isIgnored reports whether parseLine ignores a member. encoding/json ignores the case of names.
func isIgnored(name []byte) bool {
	if !isPlain(name) {
		return false
	}
	for _, known := range []string{"subject", "time", "data", "specversion", "type", "data_base64"} {
		if strings.EqualFold(string(name), known) {
			return false
		}
	}
	return true
}

// subject returns a subject as a text.
func (l *JSONLines) subject(raw []byte) string {
	if known, ok := l.subjects[string(raw)]; ok {
		return known
	}
	text := string(raw)
	if len(l.subjects) < mostSubjects {
		l.subjects[text] = text
	}
	return text
}

// parseLine parses an event or a CloudEvent.
func parseLine(text []byte) (Event, error) {
	var read struct {
		Event
		SpecVersion string `json:"specversion"`
		Type        string `json:"type"`
		DataBase64  []byte `json:"data_base64"`
	}
	var notTime *time.ParseError
	switch err := json.Unmarshal(text, &read); {
	case errors.As(err, &notTime):
		return Event{}, fmt.Errorf("%s is not a time with the offset of its zone", notTime.Value)
	case err != nil && bytes.HasPrefix(text, []byte(gzipStart)):
		return Event{}, errors.New("the input is compressed; " + useZcat)
	case err != nil:
		return Event{}, err
	}
	e := read.Event
	if read.SpecVersion != "" {
		e.Subject = read.Type
		if e.Data == nil {
			e.Data = read.DataBase64
		}
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
