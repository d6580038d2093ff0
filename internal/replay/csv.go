package replay

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"deadman/internal/configfile"
)

// TimeColumn maps a column with times to the subject of the events at these times.
type TimeColumn struct{ Subject, Column string }

// CSV reads events from a table with a header. A row becomes an event for each time column that is not empty. The body of the
// event has the columns of the row as texts, without the mapped times that are later than the event: it could not have known
// them. The whole table is read at once, and its events are in order of time; a body is made when its event is next.
type CSV struct {
	table  table
	events []csvEvent
	next   int
}

// csvEvent is an event of a row.
type csvEvent struct {
	row    *csvRow
	at     time.Time
	column int // index in table.times
}

// csvRow is a row with the times of its mapped columns, of which empty ones are zero.
type csvRow struct {
	line   int
	values []string
	times  []time.Time
}

// NewCSV reads a table. zone is that of times without an offset.
func NewCSV(from io.Reader, columns []TimeColumn, zone *time.Location) (*CSV, error) {
	buffered := withoutBOM(from)
	if err := checkTable(buffered); err != nil {
		return nil, err
	}
	bounded := &boundedReader{from: buffered, of: "the header", most: maxHeader}
	rows := csv.NewReader(bounded)
	rows.FieldsPerRecord = -1 // checked with a better error
	header, err := rows.Read()
	if errors.Is(err, io.EOF) {
		return nil, ErrEmpty
	}
	if err != nil {
		return nil, err
	}
	t, err := newTable(header, columns, zone)
	if err != nil {
		return nil, err
	}
	all := &CSV{table: t}
	bounded.most = maxRow
	for line := 1; ; {
		bounded.read, bounded.of = 0, fmt.Sprintf("the row after line %d", line)
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		line, _ = rows.FieldPos(0)
		if len(row) != len(header) {
			return nil, fmt.Errorf("line %d has %d columns, and the header has %d; quote values that contain commas", line, len(row), len(header))
		}
		found, err := t.events(line, row)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		all.events = append(all.events, found...)
	}
	slices.SortStableFunc(all.events, func(a, b csvEvent) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.row.line, b.row.line)) })
	return all, nil
}

const (
	// maxHeader bounds the names of the columns in bytes: each body has them.
	maxHeader = 64 << 10
	// maxRow bounds a row in bytes: it becomes a body.
	maxRow = 4 << 20
)

// ErrEmpty means that a table has no header.
var ErrEmpty = errors.New("the table is empty; write the names of the columns into its first line")

// checkTable refuses a file that is no text.
func checkTable(from *bufio.Reader) error {
	start, err := from.Peek(512)
	switch {
	case bytes.HasPrefix(start, []byte(gzipStart)):
		return errors.New("the table is compressed; " + useZcat)
	case bytes.HasPrefix(start, []byte("PK\x03\x04")):
		return errors.New("the input is a zip archive or a workbook, not a table of text; export the table as CSV in UTF-8")
	case bytes.ContainsFunc(start, isBinary):
		return errors.New("the input is not a table of text in UTF-8; export the table as CSV in UTF-8")
	case errors.Is(err, io.EOF):
		return nil // the table is short
	}
	return err
}

// isBinary reports whether a character is a control character that no text has.
func isBinary(r rune) bool { return r < '\t' || r > '\r' && r < ' ' }

// boundedReader bounds the bytes that are read for the header or a row. A quote that is not closed would be a row of all that follows.
type boundedReader struct {
	from io.Reader
	of   string // what is read
	most int    // in bytes
	read int    // since the row before
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.read > b.most {
		return 0, fmt.Errorf("%s has more than %d bytes; is a quote not closed?", b.of, b.most)
	}
	n, err := b.from.Read(p)
	b.read += n
	return n, err
}

// Next implements Reader.
func (c *CSV) Next() (Event, Place, error) {
	if c.next == len(c.events) {
		return Event{}, Place{}, io.EOF
	}
	e := c.events[c.next]
	c.next++
	data, err := c.table.body(e)
	return Event{Subject: c.table.times[e.column].subject, Time: e.at, Data: data}, Line(e.row.line), err
}

// table is the header of a table, and its mapped columns.
type table struct {
	header []string
	times  []timeColumn
	zone   *time.Location
}

// timeColumn is a mapped column.
type timeColumn struct {
	subject string
	column  int
}

// newTable finds the mapped columns in a header. It refuses a name that two columns have: a body would have one of them.
func newTable(header []string, columns []TimeColumn, zone *time.Location) (table, error) {
	t := table{header: header, zone: zone}
	first := make(map[string]int, len(header))
	for i, name := range header {
		if before, double := first[name]; double {
			return table{}, fmt.Errorf("the columns %d and %d of the table are both named %q; rename one of them", before+1, i+1, clip(name))
		}
		first[name] = i
	}
	for _, c := range columns {
		at, ok := first[c.Column]
		if !ok {
			return table{}, fmt.Errorf("the table has no column %q, only %s%s", c.Column, columnNames(header), separatorHint(header))
		}
		t.times = append(t.times, timeColumn{c.Subject, at})
	}
	return t, nil
}

// shownColumns is the number of columns that an error names.
const shownColumns = 30

// columnNames returns the first names of a header, for an error.
func columnNames(header []string) string {
	shown := make([]string, min(len(header), shownColumns))
	for i := range shown {
		shown[i] = strings.ReplaceAll(clip(header[i]), "\n", `\n`)
	}
	names := strings.Join(shown, ", ")
	if more := len(header) - len(shown); more > 0 {
		names += fmt.Sprintf(" and %d others", more)
	}
	return names
}

// clip shortens a text of the input for an error.
func clip(text string) string { return configfile.Truncate(text, 40) }

// separatorHint returns a hint if a header of one column has other separators than commas.
func separatorHint(header []string) string {
	switch {
	case len(header) > 1:
	case strings.ContainsAny(header[0], ";\t|"):
		return "; write the table with commas between the columns"
	}
	return ""
}

// events returns the events of a row.
func (t table) events(line int, values []string) ([]csvEvent, error) {
	row := &csvRow{line: line, values: values, times: make([]time.Time, len(t.times))}
	var found []csvEvent
	for i, c := range t.times {
		text := values[c.column]
		if text == "" {
			continue
		}
		moment, err := parseTime(text, t.zone)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", t.header[c.column], err)
		}
		row.times[i] = moment
		found = append(found, csvEvent{row, moment, i})
	}
	return found, nil
}

// body returns the body of an event.
func (t table) body(e csvEvent) ([]byte, error) {
	body := make(map[string]string, len(t.header))
	for i, value := range e.row.values {
		body[t.header[i]] = value
	}
	for i, c := range t.times {
		if e.row.times[i].After(e.at) {
			delete(body, t.header[c.column])
		}
	}
	return json.Marshal(body)
}

// timeLayouts are the layouts of times without an offset.
var timeLayouts = []string{"2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateOnly}

// parseTime parses a time in RFC 3339, or without an offset in a zone.
func parseTime(text string, zone *time.Location) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at.UTC().Truncate(time.Microsecond), nil
	}
	for _, layout := range timeLayouts {
		if at, err := time.ParseInLocation(layout, text, zone); err == nil {
			return at.UTC().Truncate(time.Microsecond), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time; write it as 2026-01-31T10:00:00Z or 2026-01-31 10:00:00", clip(text))
}
