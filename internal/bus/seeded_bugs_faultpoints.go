//go:build faultpoints

package bus

import (
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/failpoints"
)

// planted is a bug: an alert is protected by the stream's duplicate window alone.
func planted(m *nats.Msg) {
	if failpoints.Planted(failpoints.WindowOnly) {
		m.Header.Del(jetstream.ExpectedLastSubjSeqHeader)
	}
}

// overlooked is a bug: an event of a tick is protected by that alone, too.
func overlooked() bool { return failpoints.Planted(failpoints.WindowOnly) }
