package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"deadman/alerts"
)

// arrayEncoder is an array on its way to Postgres: items are encoded as they are added, in the format of the server's
// array_recv. pgx would treat each item as a value of any type, which costs more than all other work to send a batch.
type arrayEncoder struct {
	kind   elementType
	items  []byte // the length, or noValue, and the bytes of each; empty while all are NULL
	n      int32
	values int32 // the number of items that are not NULL
	ahead  int   // bytes of the later arrays of the statement, if known
}

// elementType is the type of an array's items.
type elementType struct {
	name     string
	oid, all uint32 // of an item, and of an array of them
}

func (k elementType) named(name string) column {
	return column{arrayEncoder: arrayEncoder{kind: k}, name: name}
}

var (
	smallints    = elementType{"smallint", pgtype.Int2OID, pgtype.Int2ArrayOID}
	ints         = elementType{"int", pgtype.Int4OID, pgtype.Int4ArrayOID}
	bigints      = elementType{"bigint", pgtype.Int8OID, pgtype.Int8ArrayOID}
	timestamptzs = elementType{"timestamptz", pgtype.TimestamptzOID, pgtype.TimestamptzArrayOID}
	uuids        = elementType{"uuid", pgtype.UUIDOID, pgtype.UUIDArrayOID}
	texts        = elementType{"text", pgtype.TextOID, pgtype.TextArrayOID}
	byteas       = elementType{"bytea", pgtype.ByteaOID, pgtype.ByteaArrayOID}

	kinds = []elementType{smallints, ints, bigints, timestamptzs, uuids, texts, byteas}
)

const (
	noValue = ^uint32(0) // the length of NULL
	lengths = 4          // bytes of a length
)

// reset allocates capacity for a number of items with a total size in bytes.
func (w *arrayEncoder) reset(items, bytes int) { w.items = make([]byte, 0, items*lengths+bytes) }

// empty removes all items and keeps the capacity.
func (w *arrayEncoder) empty() { w.items, w.n, w.values, w.ahead = w.items[:0], 0, 0, 0 }

func (w *arrayEncoder) item(size int) {
	if w.values == 0 {
		w.items = w.appendNulls(w.items)
	}
	w.items = binary.BigEndian.AppendUint32(w.items, uint32(size)) //nolint:gosec // of what is in memory
	w.n++
	w.values++
}

// null adds NULL. Many columns have only NULLs and are not sent, so NULLs are encoded only once a first value is added.
func (w *arrayEncoder) null() {
	if w.values > 0 {
		w.items = binary.BigEndian.AppendUint32(w.items, noValue)
	}
	w.n++
}

// appendNulls appends the items of an array of NULLs.
func (w *arrayEncoder) appendNulls(buf []byte) []byte {
	for range w.n {
		buf = binary.BigEndian.AppendUint32(buf, noValue)
	}
	return buf
}

func (w *arrayEncoder) int16(v int16) {
	w.item(2)
	w.items = binary.BigEndian.AppendUint16(w.items, uint16(v)) //nolint:gosec // the same bits
}

func (w *arrayEncoder) int32(v int32) {
	w.item(4)
	w.items = binary.BigEndian.AppendUint32(w.items, uint32(v)) //nolint:gosec // the same bits
}

func (w *arrayEncoder) int64(v int64) {
	w.item(8)
	w.items = binary.BigEndian.AppendUint64(w.items, uint64(v)) //nolint:gosec // the same bits
}

// add adds a value of any type that rowTable supports.
func (w *arrayEncoder) add(v any) error {
	switch v := v.(type) {
	case nil:
		w.null()
	case int16:
		w.int16(v)
	case int32:
		w.int32(v)
	case int64:
		w.int64(v)
	case string:
		w.text(v)
	case time.Time:
		w.time(v)
	default:
		return fmt.Errorf("%T is not a value of an array", v)
	}
	return nil
}

// origin adds the origin of a job; none is NULL.
func (w *arrayEncoder) origin(o alerts.Origin) {
	if o == 0 {
		w.null()
		return
	}
	w.int64(int64(o)) //nolint:gosec // the same bits
}

// time adds an instant; zero is NULL.
func (w *arrayEncoder) time(t time.Time) {
	if t.IsZero() {
		w.null()
		return
	}
	w.instant(t)
}

// y2k is the Postgres epoch in µs since 1970.
const y2k = 946_684_800_000_000

// instant adds an instant, even the zero one.
func (w *arrayEncoder) instant(t time.Time) { w.int64(t.UnixMicro() - y2k) }

// bytes adds bytes; nil is NULL.
func (w *arrayEncoder) bytes(b []byte) {
	if b == nil {
		w.null()
		return
	}
	w.item(len(b))
	w.items = append(w.items, b...)
}

// text adds a text of valid UTF-8 without NUL bytes.
func (w *arrayEncoder) text(s string) {
	w.item(len(s))
	w.items = append(w.items, s...)
}

// optional adds any text, sanitized; empty is NULL.
func (w *arrayEncoder) optional(s string) {
	if s == "" {
		w.null()
		return
	}
	w.text(sanitizeText(s))
}

// json adds JSON as it is stored; nil is NULL.
func (w *arrayEncoder) json(b []byte) { w.bytes(sanitizeJSON(b)) }

// ids adds a list of ids; empty is NULL.
func (w *arrayEncoder) ids(all []alerts.ID) {
	if len(all) == 0 {
		w.null()
		return
	}
	w.item(len(all) * len(alerts.ID{}))
	for _, id := range all {
		w.items = append(w.items, id[:]...)
	}
}

// same reports whether all items are one value: the array then equals itself shifted by one item.
func (w *arrayEncoder) same() bool {
	if w.n == 0 || w.values < w.n {
		return false
	}
	one := lengths + int(binary.BigEndian.Uint32(w.items))
	return bytes.Equal(w.items[one:], w.items[:len(w.items)-one])
}

// first returns the first item of a non-empty array of numbers, instants or texts.
func (w *arrayEncoder) first() any {
	size := binary.BigEndian.Uint32(w.items)
	item := w.items[lengths : lengths+size]
	switch w.kind {
	case smallints:
		return int16(binary.BigEndian.Uint16(item)) //nolint:gosec // the same bits
	case ints:
		return int32(binary.BigEndian.Uint32(item)) //nolint:gosec // the same bits
	case bigints:
		return int64(binary.BigEndian.Uint64(item)) //nolint:gosec // the same bits
	case timestamptzs:
		return time.UnixMicro(int64(binary.BigEndian.Uint64(item)) + y2k) //nolint:gosec // the same bits
	}
	return string(item)
}

// withSizeHint gives the first array of a statement's parameters the size of those that follow, so that pgx allocates
// once and not for each array.
func withSizeHint(args []any) []any {
	var first *arrayEncoder
	for _, arg := range args {
		w, is := arg.(*arrayEncoder)
		switch {
		case !is:
		case first == nil:
			first, w.ahead = w, 0
		default:
			first.ahead += 5*lengths + len(w.items)
		}
	}
	return args
}

// arrayCodec sends encoded arrays as they are, and any other value as pgx does.
type arrayCodec struct{ *pgtype.ArrayCodec }

// PlanEncode implements pgtype.Codec.
func (c arrayCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, is := value.(*arrayEncoder); is && format == pgtype.BinaryFormatCode {
		return encodePlan{} // of any element type: the server compares it with the expected one
	}
	return c.ArrayCodec.PlanEncode(m, oid, format, value)
}

type encodePlan struct{}

// Encode implements pgtype.EncodePlan. The header has the number of dimensions, a flag for NULLs, the element type, the
// number of items and the lower bound.
func (encodePlan) Encode(value any, buf []byte) ([]byte, error) {
	w := value.(*arrayEncoder) //nolint:forcetypeassert // it is what was planned for
	buf = slices.Grow(buf, 5*lengths+len(w.items)+w.ahead)
	nulls := uint32(0)
	if w.values < w.n {
		nulls = 1
	}
	for _, part := range []uint32{1, nulls, w.kind.oid, uint32(w.n), 1} { //nolint:gosec // n counts
		buf = binary.BigEndian.AppendUint32(buf, part)
	}
	if w.values == 0 {
		return w.appendNulls(buf), nil
	}
	return append(buf, w.items...), nil
}

// registerArrayCodec registers arrayCodec on a connection.
func registerArrayCodec(m *pgtype.Map) error {
	for _, k := range kinds {
		t, known := m.TypeForOID(k.all)
		codec, is := (*pgtype.ArrayCodec)(nil), false
		if known {
			codec, is = t.Codec.(*pgtype.ArrayCodec)
		}
		if !is {
			return fmt.Errorf("no codec of arrays of %s", k.name)
		}
		m.RegisterType(&pgtype.Type{Name: t.Name, OID: t.OID, Codec: arrayCodec{codec}})
	}
	return nil
}
