package replay

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// TimeColumn maps a column with times to the subject of the events at these times.
type TimeColumn struct{ Subject, Column string }

// CSV reads events from a table with a header. A row becomes an event for each time column that is not empty. The body of the
// event has the columns of the row as texts, without the mapped times that are later than the event: it could not have known
// them. The whole table is read at once, and its events are in order of time.
type CSV struct {
	events []csvEvent
	next   int
}

// csvEvent is an event of a row.
type csvEvent struct {
	Event
	line int
}

// NewCSV reads a table. zone is that of times without an offset.
func NewCSV(from io.Reader, columns []TimeColumn, zone *time.Location) (*CSV, error) {
	bounded := &boundedReader{from: from}
	rows := csv.NewReader(bounded)
	rows.ReuseRecord = true
	header, err := rows.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the table is empty; its first line has the names of the columns")
	}
	if err != nil {
		return nil, err
	}
	t := table{header: slices.Clone(header), zone: zone}
	for _, c := range columns {
		at := slices.Index(t.header, c.Column)
		if at < 0 {
			return nil, fmt.Errorf("the table has no column %q, only %s", c.Column, strings.Join(t.header, ", "))
		}
		t.times = append(t.times, timeColumn{c.Subject, at})
	}
	all := &CSV{}
	for {
		bounded.read = 0
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		line, _ := rows.FieldPos(0)
		found, err := t.events(row)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		for _, e := range found {
			all.events = append(all.events, csvEvent{e, line})
		}
	}
	slices.SortStableFunc(all.events, func(a, b csvEvent) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.line, b.line)) })
	return all, nil
}

// maxRow bounds a row: it becomes a body, which has the names of the columns, too.
const maxRow = 4 << 20

// boundedReader bounds the bytes that are read for one row. A quote that is not closed would be a row of all that follows.
type boundedReader struct {
	from io.Reader
	read int // since the row before
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.read > maxRow {
		return 0, fmt.Errorf("a row has more than %d bytes; is a quote not closed?", maxRow)
	}
	n, err := b.from.Read(p)
	b.read += n
	return n, err
}

// Next implements Reader.
func (c *CSV) Next() (Event, string, error) {
	if c.next == len(c.events) {
		return Event{}, "", io.EOF
	}
	e := c.events[c.next]
	c.next++
	return e.Event, fmt.Sprintf("line %d", e.line), nil
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

// events returns the events of a row.
func (t table) events(row []string) ([]Event, error) {
	at := make(map[int]time.Time, len(t.times))
	for _, c := range t.times {
		text := row[c.column]
		if text == "" {
			continue
		}
		moment, err := parseTime(text, t.zone)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", t.header[c.column], err)
		}
		at[c.column] = moment
	}
	var found []Event
	for _, c := range t.times {
		moment, ok := at[c.column]
		if !ok {
			continue
		}
		body := make(map[string]string, len(row))
		for i, value := range row {
			if later, mapped := at[i]; !mapped || !later.After(moment) {
				body[t.header[i]] = value
			}
		}
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		found = append(found, Event{Subject: c.subject, Time: moment, Data: data})
	}
	return found, nil
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
	return time.Time{}, fmt.Errorf("%q is not a time; write it as 2026-01-31T10:00:00Z or 2026-01-31 10:00:00", text)
}
