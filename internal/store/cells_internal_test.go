package store

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	futurejobs "deadman/future_jobs"
)

// TestCells checks that cells in the encoding of pgx are read correctly.
func TestCells(t *testing.T) {
	m := pgtype.NewMap()
	encoded := func(oid uint32, v any) []byte {
		b, err := m.Encode(oid, pgtype.BinaryFormatCode, v, nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	before2000 := time.Date(1969, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
	c := rowDecoder{row: [][]byte{
		encoded(pgtype.Int2OID, -2), encoded(pgtype.Int4OID, -3), encoded(pgtype.Int8OID, int64(-4)),
		encoded(pgtype.Int4OID, 5), nil, encoded(pgtype.Int8OID, 6), nil,
		encoded(pgtype.TimestamptzOID, before2000), encoded(pgtype.TimestamptzOID, time.Unix(0, 0)), nil,
		{},
		nil,
	}}
	if a, b, d := c.int16(), c.int32(), c.int64(); a != -2 || b != -3 || d != -4 {
		t.Errorf("numbers: %d, %d, %d", a, b, d)
	}
	if a, b := c.count(9), c.count(9); a != 5 || b != 9 {
		t.Errorf("counts: %d, %d", a, b)
	}
	if a, b := c.micros(9), c.micros(9); a != 6*time.Microsecond || b != 9 {
		t.Errorf("durations: %s, %s", a, b)
	}
	if a, b, d := c.time(), c.time(), c.time(); a != before2000 || b != time.Unix(0, 0).UTC() || !d.IsZero() {
		t.Errorf("instants: %s, %s, %s", a, b, d)
	}
	if a, b := c.bytes(), c.bytes(); a == nil || b != nil {
		t.Errorf("bytes: %v, %v", a, b)
	}
	if c.err != nil || len(c.row) != 0 {
		t.Errorf("%v, and %d are left", c.err, len(c.row))
	}
	wrong := rowDecoder{row: [][]byte{{1, 2}, {3, 4}}}
	if n := wrong.int64(); n != 0 || wrong.err == nil || !strings.Contains(wrong.err.Error(), "2 bytes, want 8") {
		t.Errorf("%d, %v", n, wrong.err)
	}
}

// TestColumnsForget checks that reused columns have no data of an earlier batch.
func TestColumnsForget(t *testing.T) {
	decision := futurejobs.Decision{Job: futurejobs.Job{ID: 1}, Outcome: "exhausted"}
	c, _, err := columnsOf([]*futurejobs.Decision{&decision})
	if err != nil {
		t.Fatal(err)
	}
	c.settleSQL(1, nil, nil, nil)
	c.empty()
	for _, table := range [][]*column{c.ends.all(), c.moves.all(), c.alerts.all()} {
		for _, column := range table {
			if column.n != 0 || column.once || column.none {
				t.Errorf("%s: %+v", column.name, column)
			}
		}
	}
}
