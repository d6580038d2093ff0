//go:build !faultpoints

package bus

import "github.com/nats-io/nats.go"

// planted is where the fault campaign's build plants a bug, and so is overlooked.
func planted(*nats.Msg) {}

func overlooked() bool { return false }
