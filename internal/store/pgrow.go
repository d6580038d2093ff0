package store

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// rowDecoder reads a row column by column, as the server sends it in binary. pgx would look up a decoder for each
// column, which costs more than the decoding.
type rowDecoder struct {
	row [][]byte // the columns that are left; nil is NULL
	err error    // of the first invalid column
}

func (c *rowDecoder) next() []byte {
	cell := c.row[0]
	c.row = c.row[1:]
	return cell
}

// number reads a number of size bytes; 0 and false for NULL.
func (c *rowDecoder) number(size int) (n uint64, known bool) {
	cell := c.next()
	switch {
	case cell == nil:
		return 0, false
	case len(cell) != size:
		c.err = cmp.Or(c.err, fmt.Errorf("%d columns from the end: %d bytes, want %d", len(c.row), len(cell), size))
		return 0, false
	case size == 2:
		return uint64(binary.BigEndian.Uint16(cell)), true
	case size == 4:
		return uint64(binary.BigEndian.Uint32(cell)), true
	}
	return binary.BigEndian.Uint64(cell), true
}

//nolint:gosec // the same bits
func (c *rowDecoder) int16() int16 { n, _ := c.number(2); return int16(n) }

//nolint:gosec // the same bits
func (c *rowDecoder) int32() int32 { n, _ := c.number(4); return int32(n) }

//nolint:gosec // the same bits
func (c *rowDecoder) int64() int64 { n, _ := c.number(8); return int64(n) }

// count reads a number of 4 bytes; NULL stands for the usual one.
func (c *rowDecoder) count(usual int) int {
	if n, known := c.number(4); known {
		return int(int32(n)) //nolint:gosec // the same bits
	}
	return usual
}

// micros reads a duration stored in microseconds; NULL stands for the usual one.
func (c *rowDecoder) micros(usual time.Duration) time.Duration {
	if n, known := c.number(8); known {
		return time.Duration(n) * time.Microsecond //nolint:gosec // the same bits
	}
	return usual
}

// time reads an instant; NULL is zero.
func (c *rowDecoder) time() time.Time {
	n, known := c.number(8)
	if !known {
		return time.Time{}
	}
	return time.UnixMicro(int64(n) + y2k).UTC() //nolint:gosec // the same bits
}

// bytes reads bytes and copies them; NULL is nil.
func (c *rowDecoder) bytes() []byte { return slices.Clone(c.next()) }

// into passes bytes or a text to read, which must not retain them.
func (c *rowDecoder) into(read func(cell []byte) error) { c.err = cmp.Or(c.err, read(c.next())) }

// dueCells are dueColumns in the binary form that readDue reads. A comparison with the usual number, and NULL in place
// of it, costs the server half as much as sending the number. The usual case is a job without a check, or with a check
// for each change.
const dueCells = `f.shard, f.id, f.rule_id, f.version, f.key,
	f.created_at, f.since_at, f.first_check_at, f.next_check_at,
	f.rev, nullif(f.check_count, f.rev), nullif(f.checks, f.rev), nullif(f.undecided, 0), nullif(f.step, 0),
	nullif(f.check_total, 0), nullif(f.check_slowest, f.check_total), f.event, f.state, f.alert_ids,
	f.pauses, f.paused_next_at, f.members, f.acked_until, f.snoozed_until, f.origin`

// readDue reads jobs until their bodies exceed limit bytes, and then returns errTooManyBytes; 0: no bound.
func readDue(room []futurejobs.Job, rows pgx.Rows, limit int) ([]futurejobs.Job, error) {
	bytes := 0
	return allInto(room, rows, func(_ scanner, j *futurejobs.Job) error {
		c := rowDecoder{row: rows.RawValues()}
		j.Shard, j.ID, j.RuleID, j.Version = c.int16(), c.int64(), c.int32(), c.int32()
		c.into((*escapedText)(&j.Key).UnmarshalText)
		j.CreatedAt, j.Since, j.FirstCheckAt, j.NextCheckAt = c.time(), c.time(), c.time(), c.time()
		j.Rev = c.int32()
		j.CheckCount, j.CheckAttempts, j.UndeterminedChecks, j.Step = c.count(int(j.Rev)), c.count(int(j.Rev)), c.count(0), c.count(0)
		j.CheckTotal = c.micros(0)
		j.CheckSlowest = c.micros(j.CheckTotal)
		j.Event, j.State = c.bytes(), c.bytes()
		c.into((*idList)(&j.Alerts).ScanBytes)
		c.into((*pauseList)(&j.Pauses).ScanBytes)
		j.PausedNext, j.Members, j.AckedUntil, j.SnoozedUntil = c.time(), c.bytes(), c.time(), c.time()
		j.Origin = alerts.Origin(c.int64()) //nolint:gosec // the same bits
		if bytes += j.Size(); limit > 0 && bytes > limit {
			return errTooManyBytes
		}
		return c.err
	})
}
