package bus

import (
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/rules"
)

// storedMessage is the answer to a query for a message.
type storedMessage struct {
	Seq    uint64    `json:"seq"` // 0: no such message
	Time   time.Time `json:"time"`
	Header []byte    `json:"hdrs"`
}

// has reports whether a message has the id.
func (m storedMessage) has(id string) bool {
	header, err := nats.DecodeHeadersMsg(m.Header)
	return err == nil && header.Get(jetstream.MsgIDHeader) == id
}

// copyOf returns the origin of a copied message.
func (m storedMessage) copyOf() (of rules.CopiedFrom, err error) {
	if len(m.Header) == 0 {
		return of, nil
	}
	header, err := nats.DecodeHeadersMsg(m.Header)
	if err == nil {
		of.Stream, of.Through, _ = rules.CopyOf(header)
	}
	return of, err
}

// messageQuery is a query for one message of a stream.
type messageQuery struct {
	Seq  uint64 `json:"seq,omitempty"`
	Next string `json:"next_by_subj,omitempty"`
	Last string `json:"last_by_subj,omitempty"`
}
