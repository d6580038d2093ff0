//go:build faultpoints

package failpoints

import (
	"fmt"
	"slices"
)

// Plant is a bug that is built in on purpose: whoever checks the promises has to notice it.
type Plant string

// The plants.
const (
	CursorFirst    Plant = "ack-before-commit"   // the cursor moves in a transaction of its own, before the effects
	NoCursor       Plant = "no-cursor-compare"   // events are applied wherever the cursor stands
	NoFence        Plant = "no-fence"            // a settle counts whoever holds the shard
	AlertsApart    Plant = "alerts-apart"        // alerts are written after the commit of their decision
	NoReadThrough  Plant = "no-read-through"     // jobs are judged before their streams are read
	MarkFirst      Plant = "mark-before-publish" // alerts leave the outbox before they are published
	WindowOnly     Plant = "duplicate-window"    // repeats are refused within the duplicate window only
	ForgetsUnacked Plant = "forgets-unacked"     // an alert whose acknowledgement failed counts as sent
	OutageAbsent   Plant = "outage-absent"       // whoever can't be asked about is taken for absent
	LastKnown      Plant = "last-known"          // whoever can't be found out about is as last known
)

// Plants are all that there are.
var Plants = []Plant{CursorFirst, NoCursor, NoFence, AlertsApart, NoReadThrough, MarkFirst, WindowOnly, ForgetsUnacked, OutageAbsent, LastKnown}

var sown Plant

// Sow plants a bug in this process, before anything runs. Empty: none.
func Sow(p Plant) error {
	if p != "" && !slices.Contains(Plants, p) {
		return fmt.Errorf("there is no plant %q; there are %q", p, Plants)
	}
	sown = p
	return nil
}

// Planted reports whether a bug is in this process.
func Planted(p Plant) bool { return sown == p }
