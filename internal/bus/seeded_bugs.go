//go:build !faultpoints

package bus

import "github.com/nats-io/nats.go"

// dropSeqCheck does nothing in this build. In the fault campaign's build it plants a bug.
func dropSeqCheck(*nats.Msg) {}

func skipTickSeqCheck() bool { return false }
