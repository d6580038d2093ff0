package store

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"deadman/alerts"
)

// TestWire checks that arrayEncoder produces the same bytes as pgx does for a slice.
func TestWire(t *testing.T) {
	m := pgtype.NewMap()
	if err := registerArrayCodec(m); err != nil {
		t.Fatal(err)
	}
	zoned, y2000 := time.Date(2026, 3, 29, 1, 59, 59, 999_999_000, time.FixedZone("", -3600)), time.UnixMicro(y2k)
	a, b := alerts.Decision{JobID: 1}.ID(), alerts.Decision{JobID: 2}.ID()
	text, seven := "ä\n", int64(7)
	for name, c := range map[string]struct {
		kind  elementType
		write func(w *arrayEncoder)
		want  any
	}{
		"smallint":    {smallints, func(w *arrayEncoder) { w.int16(0); w.int16(-1); w.int16(-32768) }, []int16{0, -1, -32768}},
		"int":         {ints, func(w *arrayEncoder) { w.int32(1 << 30); w.int32(-1) }, []int32{1 << 30, -1}},
		"bigint":      {bigints, func(w *arrayEncoder) { w.int64(1 << 60); w.int64(-1) }, []int64{1 << 60, -1}},
		"text":        {texts, func(w *arrayEncoder) { w.text(""); w.text("ä\n") }, []string{"", "ä\n"}},
		"or NULL":     {texts, func(w *arrayEncoder) { w.optional(""); w.optional("ä\n") }, []*string{nil, &text}},
		"all NULL":    {texts, func(w *arrayEncoder) { w.optional(""); w.optional("") }, []*string{nil, nil}},
		"last":        {bigints, func(w *arrayEncoder) { w.origin(0); w.origin(0); w.origin(7) }, []*int64{nil, nil, &seven}},
		"json":        {texts, func(w *arrayEncoder) { w.json([]byte("ä\n")); w.json(nil) }, []*string{&text, nil}},
		"instant":     {timestamptzs, func(w *arrayEncoder) { w.instant(time.Time{}); w.instant(zoned); w.instant(y2000) }, []time.Time{{}, zoned, y2000}},
		"timestamptz": {timestamptzs, func(w *arrayEncoder) { w.time(zoned); w.time(time.Time{}) }, []*time.Time{&zoned, nil}},
		"bytea":       {byteas, func(w *arrayEncoder) { w.bytes([]byte{0}); w.bytes(nil); w.bytes([]byte{}) }, [][]byte{{0}, nil, {}}},
		"ids":         {byteas, func(w *arrayEncoder) { w.ids([]alerts.ID{a, b}); w.ids(nil) }, [][]byte{append(a[:], b[:]...), nil}},
		"uuid":        {uuids, func(w *arrayEncoder) { w.bytes(a[:]); w.bytes(b[:]) }, [][16]byte{a, b}},
	} {
		t.Run(name, func(t *testing.T) {
			want, err := m.Encode(c.kind.all, pgtype.BinaryFormatCode, c.want, nil)
			if err != nil {
				t.Fatal(err)
			}
			w := &arrayEncoder{kind: c.kind}
			for range 2 { // the second time into the capacity of the first
				w.empty()
				c.write(w)
				got, err := m.Encode(c.kind.all, pgtype.BinaryFormatCode, w, []byte("before"))
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, append([]byte("before"), want...)) {
					t.Errorf("%x, want %x", got, want)
				}
			}
		})
	}
}

// TestWireSame checks that equal items are detected, and their value.
func TestWireSame(t *testing.T) {
	at := time.Date(2026, 3, 29, 1, 59, 59, 999_999_000, time.UTC)
	for name, c := range map[string]struct {
		kind  elementType
		write func(w *arrayEncoder)
		want  any // nil: different values, or none
	}{
		"none":          {ints, func(*arrayEncoder) {}, nil},
		"one":           {smallints, func(w *arrayEncoder) { w.int16(-7) }, int16(-7)},
		"ints":          {ints, func(w *arrayEncoder) { w.int32(-7); w.int32(-7); w.int32(-7) }, int32(-7)},
		"bigints":       {bigints, func(w *arrayEncoder) { w.int64(1 << 40); w.int64(1 << 40) }, int64(1 << 40)},
		"other ints":    {ints, func(w *arrayEncoder) { w.int32(7); w.int32(7); w.int32(8) }, nil},
		"texts":         {texts, func(w *arrayEncoder) { w.text("a"); w.text("a") }, "a"},
		"longer texts":  {texts, func(w *arrayEncoder) { w.text("a"); w.text("a\x00\x00\x00\x01a") }, nil},
		"shorter texts": {texts, func(w *arrayEncoder) { w.text("ab"); w.text("a") }, nil},
		"instants":      {timestamptzs, func(w *arrayEncoder) { w.time(at); w.time(at) }, at},
		"all NULL":      {timestamptzs, func(w *arrayEncoder) { w.time(time.Time{}); w.time(time.Time{}) }, nil},
		"some NULL":     {timestamptzs, func(w *arrayEncoder) { w.time(at); w.time(time.Time{}) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := &arrayEncoder{kind: c.kind}
			c.write(w)
			if same := w.same(); same != (c.want != nil) {
				t.Fatalf("same: %v", same)
			}
			if c.want == nil {
				return
			}
			got := w.first()
			if instant, is := got.(time.Time); is {
				got = instant.UTC()
			}
			if got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// TestPredictedSize checks that the size of later arrays is computed again each time a statement is sent.
func TestPredictedSize(t *testing.T) {
	first, second, third := &arrayEncoder{kind: ints}, &arrayEncoder{kind: texts}, &arrayEncoder{kind: byteas}
	first.int32(1)
	second.text("ä")
	third.bytes([]byte{1, 2, 3})
	for _, c := range []struct {
		args []any
		want []int // bytes that follow each array
	}{
		{[]any{7, first, "x", second, third}, []int{2*20 + 6 + 7, 0, 0}},
		{[]any{7, first, "x", second, third}, []int{2*20 + 6 + 7, 0, 0}}, // sent again
		{[]any{second, third}, []int{2*20 + 6 + 7, 20 + 7, 0}},
		{[]any{third}, []int{2*20 + 6 + 7, 20 + 7, 0}},
	} {
		withSizeHint(c.args)
		if got := []int{first.ahead, second.ahead, third.ahead}; !slices.Equal(got, c.want) {
			t.Errorf("%d bytes follow the arrays of %v, want %d", got, c.args, c.want)
		}
	}
}
