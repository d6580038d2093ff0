package store

import (
	"encoding/binary"
	"fmt"
	"time"

	"deadman/checks"
)

// pauseList reads and writes the pauses of a job.
type pauseList []checks.Pause

// pauseSize is the stored size of a pause in bytes: two instants in microseconds.
const pauseSize = 16

// Scan implements sql.Scanner.
func (l *pauseList) Scan(src any) error {
	b, ok := src.([]byte)
	if src != nil && !ok {
		return fmt.Errorf("%T is not a list of pauses", src)
	}
	return l.ScanBytes(b)
}

// ScanBytes implements pgtype.BytesScanner.
func (l *pauseList) ScanBytes(b []byte) error {
	if len(b)%pauseSize != 0 {
		return fmt.Errorf("%d bytes are not a list of pauses", len(b))
	}
	*l = nil
	for ; len(b) > 0; b = b[pauseSize:] {
		p := checks.Pause{From: instantOf(b)}
		if binary.BigEndian.Uint64(b[8:]) != 0 {
			p.To = instantOf(b[8:])
		}
		*l = append(*l, p)
	}
	return nil
}

func instantOf(b []byte) time.Time {
	return time.UnixMicro(int64(binary.BigEndian.Uint64(b))).UTC()
}

// pausesOf returns the list as it is stored; nil if it is empty. The end of a current pause is 0.
func pausesOf(pauses []checks.Pause) []byte {
	if len(pauses) == 0 {
		return nil
	}
	b := make([]byte, 0, len(pauses)*pauseSize)
	for _, p := range pauses {
		b = binary.BigEndian.AppendUint64(b, uint64(p.From.UnixMicro()))
		var to uint64
		if !p.To.IsZero() {
			to = uint64(p.To.UnixMicro())
		}
		b = binary.BigEndian.AppendUint64(b, to)
	}
	return b
}
