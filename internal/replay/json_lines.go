package replay

import (
	"bufio"
	"bytes"
	"encoding/base64"
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
			return e, place, fmt.Errorf("%s: %w", place, err)
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
func withoutBOM(from io.Reader) *bufio.Reader {
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
	if err := json.Unmarshal(text, &read); err != nil {
		return Event{}, explainLine(text, err)
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
		return e, fmt.Errorf("the CloudEvent has no type; %s", writeLine)
	case e.Subject == "":
		return e, fmt.Errorf("the event has no subject; %s", writeLine)
	case e.Time.IsZero():
		return e, fmt.Errorf("the event has no time; %s", writeLine)
	}
	e.Time = e.Time.UTC().Truncate(time.Microsecond)
	return e, nil
}

// exampleLine is a line of the input, writeLine the remedy for another one, and writeTime for another time.
const (
	exampleLine = `{"subject": "orders.created", "time": "2026-01-31T10:00:00Z", "data": {"id": "1"}}`
	writeLine   = "write " + exampleLine
	writeTime   = `write "time": "2026-01-31T10:00:00Z"`
)

// explainLine returns the error of a line that is no event, in the words of the format.
func explainLine(text []byte, err error) error {
	var notTime *time.ParseError
	var notText *json.UnmarshalTypeError
	var notJSON *json.SyntaxError
	var notBase64 base64.CorruptInputError
	switch kind := kindOfJSON(text); {
	case bytes.HasPrefix(text, []byte(gzipStart)):
		return errors.New("the input is compressed; " + useZcat)
	case kind == "a list":
		return errors.New("a list; write one event, an object, per line, such as " + exampleLine)
	case errors.As(err, &notJSON) && kind == "an object" && notJSON.Offset == int64(len(text)):
		return errors.New("the object does not end on the line; write one event per line, such as " + exampleLine)
	case errors.As(err, &notJSON):
		return fmt.Errorf("not JSON: %w; %s", err, writeLine)
	case kind != "an object":
		return fmt.Errorf("%s; write one event, an object, per line, such as %s", kind, exampleLine)
	case errors.As(err, &notTime):
		return fmt.Errorf("time: %s is not a time with the offset of its zone; %s", notTime.Value, writeTime)
	case errors.As(err, &notBase64):
		return fmt.Errorf("data_base64: %w", err)
	case errors.As(err, &notText):
		return fmt.Errorf("%s is %s, not a text; %s", notText.Field[strings.LastIndexByte(notText.Field, '.')+1:], kindNames[notText.Value], writeLine)
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) == nil {
		for name, value := range members {
			if kind := kindOfJSON(value); strings.EqualFold(name, "time") && kind != "a text" {
				return fmt.Errorf("%s is %s, not a text; %s", name, kind, writeTime)
			}
		}
	}
	return fmt.Errorf("%w; %s", err, writeLine)
}

// kindNames are the names of the kinds of JSON values, by those of encoding/json.
var kindNames = map[string]string{"array": "a list", "object": "an object", "number": "a number", "string": "a text", "bool": "true or false"}

// kindOfJSON returns the kind of a value by its first character, with its text if it is a short number.
func kindOfJSON(value []byte) string {
	switch c := value[0]; {
	case c == '[':
		return kindNames["array"]
	case c == '{':
		return kindNames["object"]
	case c == '"':
		return kindNames["string"]
	case (c == '-' || c >= '0' && c <= '9') && len(value) <= 30:
		return "the number " + string(value)
	case c == '-' || c >= '0' && c <= '9':
		return kindNames["number"]
	}
	return string(value[:min(len(value), 30)])
}
