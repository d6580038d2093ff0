package alerts

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"time"

	"github.com/google/uuid"
)

// ID identifies an alert. It is a UUID of version 8 (RFC 9562, section 5.8): 48 bits of
// milliseconds, 12 bits for the place within the decision, 32 bits of the job's id and 30 of a
// hash of the decision. So the same decision has the same id and no other has, ids of one job
// sort in the order in which they were said, and those of one slot in the order of their jobs.
type ID = uuid.UUID

// LeastPart is how many letters of an id have to be given where a part is enough. An id begins with
// the instant, which all alerts of a slot share, and ends with what is its own.
const LeastPart = 4

// IsPart reports whether a text may be what an id begins or ends with.
func IsPart(text string) bool {
	return len(text) >= LeastPart && strings.Trim(strings.ToLower(text), "0123456789abcdef-") == ""
}

// HasPart reports whether an id begins or ends with a text.
func HasPart(id ID, text string) bool {
	whole, part := id.String(), strings.ToLower(text)
	return strings.HasPrefix(whole, part) || strings.HasSuffix(whole, part)
}

// Decision is what an alert's id is made of.
type Decision struct {
	JobID     int64
	CreatedAt time.Time // the job's; a job id is never reused, and this proves it
	Check     int       // the number of the check that decided, 0 for an event
	Status    Status
	StepIndex int
	Place     int       // the place among the alerts of this decision, from 0
	At        time.Time // the slot checked, or when the event was applied
}

// ID derives the alert's id.
func (d Decision) ID() ID {
	var b [64]byte // of which a status has some
	binary.BigEndian.PutUint64(b[0:], uint64(d.JobID))
	binary.BigEndian.PutUint64(b[8:], uint64(d.CreatedAt.UnixMicro()))
	binary.BigEndian.PutUint64(b[16:], uint64(d.Check))
	binary.BigEndian.PutUint64(b[24:], uint64(d.StepIndex))
	binary.BigEndian.PutUint64(b[32:], uint64(d.Place))
	sum := sha256.Sum256(append(b[:40], d.Status...))

	var id ID
	ms := uint64(d.At.UnixMilli())
	binary.BigEndian.PutUint64(id[:8], ms<<16|0x8000|uint64(d.Place)&0x0fff)
	own := uint64(uint32(d.JobID))<<30 | uint64(binary.BigEndian.Uint32(sum[:])>>2)
	binary.BigEndian.PutUint64(id[8:], 1<<63|own)
	return id
}

// SaidAt is Decision.At of the decision that an id is made of, in whole milliseconds.
func SaidAt(id ID) time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16)).UTC()
}

// Made reports whether id is that of the decision, at whatever instant it was made.
func (d Decision) Made(id ID) bool {
	own := d.ID()
	return bytes.Equal(own[8:], id[8:])
}
