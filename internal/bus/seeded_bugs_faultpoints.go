//go:build faultpoints

package bus

import (
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/failpoints"
)

// dropSeqCheck is a bug: an alert is protected by the stream's duplicate window alone.
func dropSeqCheck(m *nats.Msg) {
	if failpoints.BugEnabled(failpoints.WindowOnly) {
		m.Header.Del(jetstream.ExpectedLastSubjSeqHeader)
	}
}

// skipTickSeqCheck is a bug: an event of a tick is protected by that alone, too.
func skipTickSeqCheck() bool { return failpoints.BugEnabled(failpoints.WindowOnly) }
