//go:build faultpoints

package failpoints

import (
	"fmt"
	"slices"
)

// SeededBug is a bug that is built in on purpose: whoever checks the promises has to notice it.
type SeededBug string

// The plants.
const (
	CursorFirst    SeededBug = "ack-before-commit"   // the cursor moves in a transaction of its own, before the effects
	NoCursor       SeededBug = "no-cursor-compare"   // events are applied wherever the cursor stands
	NoFence        SeededBug = "no-fence"            // a settle counts whoever holds the shard
	AlertsApart    SeededBug = "alerts-apart"        // alerts are written after the commit of their decision
	NoReadThrough  SeededBug = "no-read-through"     // jobs are judged before their streams are read
	MarkFirst      SeededBug = "mark-before-publish" // alerts leave the outbox before they are published
	WindowOnly     SeededBug = "duplicate-window"    // repeats are refused within the duplicate window only
	ForgetsUnacked SeededBug = "forgets-unacked"     // an alert whose acknowledgement failed counts as sent
	OutageAbsent   SeededBug = "outage-absent"       // whoever can't be asked about is taken for absent
	LastKnown      SeededBug = "last-known"          // whoever can't be found out about is as last known
)

// SeededBugs are all that there are.
var SeededBugs = []SeededBug{CursorFirst, NoCursor, NoFence, AlertsApart, NoReadThrough, MarkFirst, WindowOnly, ForgetsUnacked, OutageAbsent, LastKnown}

var enabledBugs SeededBug

// EnableBug plants a bug in this process, before anything runs. Empty: none.
func EnableBug(p SeededBug) error {
	if p != "" && !slices.Contains(SeededBugs, p) {
		return fmt.Errorf("there is no plant %q; there are %q", p, SeededBugs)
	}
	enabledBugs = p
	return nil
}

// BugEnabled reports whether a bug is in this process.
func BugEnabled(p SeededBug) bool { return enabledBugs == p }
