//go:build faultpoints

package bus

import (
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/failpoints"
)

// dropSeqCheck plants a bug: only the stream's duplicate window protects an alert from repetition.
func dropSeqCheck(m *nats.Msg) {
	if failpoints.BugEnabled(failpoints.WindowOnly) {
		m.Header.Del(jetstream.ExpectedLastSubjSeqHeader)
	}
}

// skipTickSeqCheck plants a bug: only the duplicate window protects a tick's event from repetition.
func skipTickSeqCheck() bool { return failpoints.BugEnabled(failpoints.WindowOnly) }
