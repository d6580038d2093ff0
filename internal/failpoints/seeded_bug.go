//go:build faultpoints

package failpoints

import (
	"fmt"
	"slices"
)

// SeededBug is a deliberate bug, which the checks of the promises must detect.
type SeededBug string

// The seeded bugs.
const (
	CursorFirst    SeededBug = "ack-before-commit"   // the cursor is committed before the effects, in its own transaction
	NoCursor       SeededBug = "no-cursor-compare"   // events are applied regardless of the cursor
	NoFence        SeededBug = "no-fence"            // settling ignores the lease of the shard
	AlertsApart    SeededBug = "alerts-apart"        // alerts are written after the commit of their decision
	NoReadThrough  SeededBug = "no-read-through"     // jobs are checked before their streams are read
	MarkFirst      SeededBug = "mark-before-publish" // alerts leave the outbox before they are published
	WindowOnly     SeededBug = "duplicate-window"    // duplicates are detected within the broker's duplicate window only
	ForgetsUnacked SeededBug = "forgets-unacked"     // an alert whose acknowledgement failed counts as sent
	OutageAbsent   SeededBug = "outage-absent"       // an undetermined key counts as absent
	LastKnown      SeededBug = "last-known"          // an undetermined key keeps its last known state
)

// SeededBugs are all seeded bugs.
var SeededBugs = []SeededBug{CursorFirst, NoCursor, NoFence, AlertsApart, NoReadThrough, MarkFirst, WindowOnly, ForgetsUnacked, OutageAbsent, LastKnown}

var enabledBugs SeededBug

// EnableBug enables a bug in this process; call it before the node starts. Empty: none.
func EnableBug(p SeededBug) error {
	if p != "" && !slices.Contains(SeededBugs, p) {
		return fmt.Errorf("unknown seeded bug %q; use one of %q", p, SeededBugs)
	}
	enabledBugs = p
	return nil
}

// BugEnabled reports whether a bug is enabled.
func BugEnabled(p SeededBug) bool { return enabledBugs == p }
