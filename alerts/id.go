package alerts

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"time"

	"github.com/google/uuid"
)

// ID identifies an alert. It is a UUID of version 8 (RFC 9562, section 5.8): 48 bits of milliseconds, 12 bits for the
// place within the decision, and 62 bits that begin with the age of the job and end with a hash of the decision. The
// same decision always has the same id, and no other decision has it. The ids of one job sort in the order in which
// its alerts are raised, and those of one slot in the order of their jobs.
type ID = uuid.UUID

// Origin identifies the event that created a job: the microseconds since 1970 at which the stream received the event,
// and the lowest 12 bits of the event's sequence. It is the same when the event is applied again, for example after a
// database restore. A key has at most one job at a time, so the rule, the key and the origin identify the job. 0
// means that no event created the job.
type Origin uint64

// originSeqBits is the number of bits of the sequence in an Origin.
const originSeqBits = 12

// OriginOf returns the origin of a job that an event created.
func OriginOf(at time.Time, seq uint64) Origin {
	return Origin(at.UnixMicro())<<originSeqBits | Origin(seq&(1<<originSeqBits-1)) //nolint:gosec // streams are younger than 1970
}

// At returns the time at which the stream received the event, to the microsecond.
func (o Origin) At() time.Time { return time.UnixMicro(int64(o >> originSeqBits)).UTC() } //nolint:gosec // 52 bits

// MinPartialID is the minimum length of a partial id. An id begins with the time, shared by all alerts of a slot, and
// ends with bits unique to the alert.
const MinPartialID = 4

// IsPartialID reports whether a text can be the beginning or the end of an id.
func IsPartialID(text string) bool {
	return len(PlainID(text)) >= MinPartialID && strings.Trim(PlainID(text), "0123456789abcdef") == ""
}

// MatchesPartialID reports whether an id begins or ends with a text.
func MatchesPartialID(id ID, text string) bool {
	whole, part := PlainID(id.String()), PlainID(text)
	return strings.HasPrefix(whole, part) || strings.HasSuffix(whole, part)
}

// PlainID returns an id, or a part of one, in lower case without dashes.
func PlainID(text string) string { return strings.ReplaceAll(strings.ToLower(text), "-", "") }

// Decision determines an alert's id. The id of an alert about a job with an origin does not depend on the job's id,
// nor on the time of its creation or check: an event that is applied again creates a job with another id, later, and
// its alerts keep their ids. Any other job is never created again, so its id and its creation time identify it.
type Decision struct {
	Origin Origin // of the job; 0: none, and JobID and CreatedAt count instead
	RuleID int32  // counts only with an origin, as Rule and Key do
	Rule   string
	Key    string

	JobID     int64
	CreatedAt time.Time // of the job; proves that the job id was not reused

	Check     int // the number of the deciding check, 0 for an event; with an origin it counts only for Undetermined
	Status    Status
	StepIndex int
	Place     int       // the place among the alerts of this decision, from 0
	At        time.Time // the planned slot of the step, or the time at which the stream received the deciding event
}

// The division of the 62 job-specific bits of an id.
const (
	jobBits       = 32 // of the job's id, without an origin
	ageBits       = 20 // of the origin's age, with an origin
	ageUnit       = 10 // bits of microseconds that the age omits: it counts milliseconds
	ownBits       = 62
	hashBits      = 64
	jobHashBits   = ownBits - jobBits
	ageHashBits   = ownBits - ageBits
	versionAndGap = 0x8000
	variant       = 1 << 63
)

// ID derives the alert's id.
func (d Decision) ID() ID {
	var id ID
	ms := uint64(d.At.UnixMilli()) //nolint:gosec // after 1970
	binary.BigEndian.PutUint64(id[:8], ms<<16|versionAndGap|uint64(d.Place)&0x0fff)
	binary.BigEndian.PutUint64(id[8:], variant|d.own())
	return id
}

// own returns the job-specific part of the id.
func (d Decision) own() uint64 {
	if d.Origin == 0 {
		return uint64(uint32(d.JobID))<<jobHashBits | d.hashOfJob()>>(hashBits-jobHashBits) //nolint:gosec // the low bits
	}
	age := uint64(d.Origin>>(originSeqBits+ageUnit)) & (1<<ageBits - 1)
	return age<<ageHashBits | d.hashOfOrigin()>>(hashBits-ageHashBits)
}

// hashOfJob hashes the decision about a job without an origin.
func (d Decision) hashOfJob() uint64 {
	var b [64]byte // the status follows the 40 bytes of numbers
	binary.BigEndian.PutUint64(b[0:], uint64(d.JobID))
	binary.BigEndian.PutUint64(b[8:], uint64(d.CreatedAt.UnixMicro()))
	binary.BigEndian.PutUint64(b[16:], uint64(d.Check))
	binary.BigEndian.PutUint64(b[24:], uint64(d.StepIndex))
	binary.BigEndian.PutUint64(b[32:], uint64(d.Place))
	sum := sha256.Sum256(append(b[:40], d.Status...))
	return binary.BigEndian.Uint64(sum[:])
}

// hashOfOrigin hashes the decision about a job with an origin. The rule's id counts beside its name: a rule that was
// deleted and saved again starts afresh. An undetermined check is not planned, so its number counts.
func (d Decision) hashOfOrigin() uint64 {
	var room [192]byte // large enough for a name and a key of usual length
	b := binary.BigEndian.AppendUint64(room[:0], uint64(d.Origin))
	b = binary.BigEndian.AppendUint32(b, uint32(d.RuleID))    //nolint:gosec // the same bits
	b = binary.BigEndian.AppendUint32(b, uint32(d.StepIndex)) //nolint:gosec // the same bits
	b = binary.BigEndian.AppendUint16(b, uint16(d.Place))     //nolint:gosec // an id has 12 bits of it
	if d.Status == Undetermined {
		b = binary.BigEndian.AppendUint64(b, uint64(d.Check)) //nolint:gosec // not negative
	}
	for _, text := range [...]string{string(d.Status), d.Rule, d.Key} { // no status and no name holds a NUL
		b = append(append(b, text...), 0)
	}
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:])
}

// TimeOf returns Decision.At of the decision behind an id, in whole milliseconds.
func TimeOf(id ID) time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16)).UTC()
}

// Matches reports whether id is that of the decision, regardless of At.
func (d Decision) Matches(id ID) bool {
	own := d.ID()
	return bytes.Equal(own[8:], id[8:])
}
