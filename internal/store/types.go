package store

import (
	"bytes"
	"database/sql/driver"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"

	"deadman/alerts"
)

// instant reads a time from either database, in UTC; NULL is zero.
type instant time.Time

// at returns a scanner into t.
func at(t *time.Time) *instant { return (*instant)(t) }

// Scan implements sql.Scanner.
func (i *instant) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*i = instant{}
	case int64:
		*i = instant(time.UnixMicro(v).UTC())
	case time.Time:
		*i = instant(v.UTC())
	default:
		return fmt.Errorf("%T is not a time", src)
	}
	return nil
}

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (i *instant) ScanTimestamptz(v pgtype.Timestamptz) error {
	*i = instant{}
	if v.Valid {
		*i = instant(v.Time.UTC())
	}
	return nil
}

// when returns a time as a parameter; zero is NULL.
func when(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

// stamp returns a time as an element of an array; zero is NULL.
func stamp(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()}
}

// micros reads a duration stored in microseconds.
type micros time.Duration

// Scan implements sql.Scanner.
func (m *micros) Scan(src any) error {
	v, ok := src.(int64)
	if !ok {
		return fmt.Errorf("%T is not a number of microseconds", src)
	}
	*m = micros(time.Duration(v) * time.Microsecond)
	return nil
}

// ScanInt64 implements pgtype.Int64Scanner.
func (m *micros) ScanInt64(v pgtype.Int8) error { return m.Scan(v.Int64) }

// origin reads and writes the origin of a job; NULL is none.
type origin alerts.Origin

// Value implements driver.Valuer.
func (o origin) Value() (driver.Value, error) {
	if o == 0 {
		return nil, nil //nolint:nilnil // NULL
	}
	return int64(o), nil //nolint:gosec // the same bits
}

// Scan implements sql.Scanner.
func (o *origin) Scan(src any) error {
	v, ok := src.(int64)
	if src != nil && !ok {
		return fmt.Errorf("%T is not an origin", src)
	}
	*o = origin(v) //nolint:gosec // the same bits
	return nil
}

// ScanInt64 implements pgtype.Int64Scanner.
func (o *origin) ScanInt64(v pgtype.Int8) error {
	*o = origin(v.Int64) //nolint:gosec // the same bits
	return nil
}

// idList reads and writes the ids of a job's alerts.
type idList []alerts.ID

// Scan implements sql.Scanner.
func (l *idList) Scan(src any) error {
	b, ok := src.([]byte)
	if src != nil && !ok {
		return fmt.Errorf("%T is not a list of ids", src)
	}
	return l.ScanBytes(b)
}

// ScanBytes implements pgtype.BytesScanner.
func (l *idList) ScanBytes(b []byte) error {
	const size = len(alerts.ID{})
	if len(b)%size != 0 {
		return fmt.Errorf("%d bytes are not a list of ids", len(b))
	}
	*l = nil
	for ; len(b) > 0; b = b[size:] {
		*l = append(*l, alerts.ID(b[:size]))
	}
	return nil
}

// packed returns the ids as they are stored; nil if the list is empty.
func packed(ids []alerts.ID) []byte {
	if len(ids) == 0 {
		return nil
	}
	b := make([]byte, 0, len(ids)*len(alerts.ID{}))
	for _, id := range ids {
		b = append(b, id[:]...)
	}
	return b
}

// blob returns bytes as a parameter; nil is NULL.
func blob(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

// escapedText is a string of arbitrary bytes. Postgres stores neither NUL nor invalid UTF-8, so these are stored as Go
// escapes, and so is the backslash.
type escapedText string

// Value implements driver.Valuer.
func (v escapedText) Value() (driver.Value, error) { return escape(string(v)), nil }

// Scan implements sql.Scanner.
func (v *escapedText) Scan(src any) error {
	switch s := src.(type) {
	case string:
		return v.read(s)
	case []byte:
		return v.read(string(s))
	}
	return fmt.Errorf("%T is not a string", src)
}

// ScanText implements pgtype.TextScanner.
func (v *escapedText) ScanText(t pgtype.Text) error { return v.read(t.String) }

// MarshalText implements encoding.TextMarshaler.
func (v escapedText) MarshalText() ([]byte, error) { return []byte(escape(string(v))), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (v *escapedText) UnmarshalText(b []byte) error { return v.read(string(b)) }

func (v *escapedText) read(s string) error {
	if strings.IndexByte(s, '\\') >= 0 {
		var err error
		if s, err = strconv.Unquote(`"` + s + `"`); err != nil {
			return fmt.Errorf("escaped string: %w", err)
		}
	}
	*v = escapedText(s)
	return nil
}

// escape returns s as escapedText stores it.
func escape(s string) string {
	if strings.IndexByte(s, '\\') < 0 && strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) {
		return s
	}
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}

// body returns JSON as it is stored; nil for none.
func body(b []byte) *string {
	if b == nil {
		return nil
	}
	s := document(b)
	return &s
}

// document returns JSON as it is stored.
func document(b []byte) string { return string(sanitizeJSON(b)) }

// sanitizeJSON returns text that both databases store. JSON is UTF-8; invalid bytes are replaced, as every decoder
// would.
func sanitizeJSON(b []byte) []byte {
	if bytes.IndexByte(b, 0) >= 0 {
		b = bytes.ReplaceAll(b, []byte{0}, []byte("\uFFFD"))
	}
	if !utf8.Valid(b) {
		b = bytes.ToValidUTF8(b, []byte("\uFFFD"))
	}
	return b
}

// sanitizeText is document for text that rarely needs it.
func sanitizeText(s string) string {
	if strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) {
		return s
	}
	return document([]byte(s))
}

// optional returns text as a parameter; empty is NULL.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	s = sanitizeText(s)
	return &s
}
