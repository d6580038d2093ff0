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

// rowDecoder are a row as the server sends it in binary, read column by column. pgx would find out for each column
// how it is to be read, which costs more than to read it.
type rowDecoder struct {
	row [][]byte // what is left of it; nil is NULL
	err error    // of the first column that is not what it should be
}

func (c *rowDecoder) next() []byte {
	cell := c.row[0]
	c.row = c.row[1:]
	return cell
}

// number is a number of so many bytes; 0 and false for NULL.
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

// count is a number of 4 bytes, where NULL stands for one that is usual.
func (c *rowDecoder) count(usual int) int {
	if n, known := c.number(4); known {
		return int(int32(n)) //nolint:gosec // the same bits
	}
	return usual
}

// micros is a duration that is kept in microseconds, where NULL stands for one that is usual.
func (c *rowDecoder) micros(usual time.Duration) time.Duration {
	if n, known := c.number(8); known {
		return time.Duration(n) * time.Microsecond //nolint:gosec // the same bits
	}
	return usual
}

// time is an instant: the zero one for NULL.
func (c *rowDecoder) time() time.Time {
	n, known := c.number(8)
	if !known {
		return time.Time{}
	}
	return time.UnixMicro(int64(n) + y2k).UTC() //nolint:gosec // the same bits
}

// bytes are bytes that outlive the row; nil for NULL.
func (c *rowDecoder) bytes() []byte { return slices.Clone(c.next()) }

// into has a value read bytes, or a text, that it does not keep.
func (c *rowDecoder) into(read func(cell []byte) error) { c.err = cmp.Or(c.err, read(c.next())) }

// dueCells are dueColumns as readDue reads them, in binary. To find that a number is usual and to send NULL for it
// costs the server half of what it costs to send it: nobody looked yet, or each change was a look.
const dueCells = `f.shard, f.id, f.rule_id, f.version, f.key,
	f.created_at, f.since_at, f.first_check_at, f.next_check_at,
	f.rev, nullif(f.check_count, f.rev), nullif(f.checks, f.rev), nullif(f.undecided, 0), nullif(f.step, 0),
	nullif(f.check_total, 0), nullif(f.check_slowest, f.check_total), f.event, f.state, f.alert_ids,
	f.pauses, f.paused_next_at, f.members, f.acked_until, f.snoozed_until, f.origin`

// readDue reads jobs until their bodies have more than so many bytes, which is errTooManyBytes; 0: however many.
func readDue(room []futurejobs.Job, rows pgx.Rows, most int) ([]futurejobs.Job, error) {
	bytes := 0
	return allInto(room, rows, func(_ scanner, j *futurejobs.Job) error {
		c := rowDecoder{row: rows.RawValues()}
		j.Shard, j.ID, j.RuleID, j.Version = c.int16(), c.int64(), c.int32(), c.int32()
		c.into((*escapedText)(&j.Key).UnmarshalText)
		j.CreatedAt, j.Since, j.FirstCheckAt, j.NextCheckAt = c.time(), c.time(), c.time(), c.time()
		j.Rev = c.int32()
		j.CheckCount, j.Checks, j.Undecided, j.Step = c.count(int(j.Rev)), c.count(int(j.Rev)), c.count(0), c.count(0)
		j.CheckTotal = c.micros(0)
		j.CheckSlowest = c.micros(j.CheckTotal)
		j.Event, j.State = c.bytes(), c.bytes()
		c.into((*idList)(&j.Alerts).ScanBytes)
		c.into((*pauseList)(&j.Pauses).ScanBytes)
		j.PausedNext, j.Members, j.AckedUntil, j.SnoozedUntil = c.time(), c.bytes(), c.time(), c.time()
		j.Origin = alerts.Origin(c.int64()) //nolint:gosec // the same bits
		if bytes += j.Size(); most > 0 && bytes > most {
			return errTooManyBytes
		}
		return c.err
	})
}
