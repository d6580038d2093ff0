// Package histories has histories of operations in the form of Jepsen, their files, and a checker for histories of lists that
// are only appended to. Elle, Knossos and the checkers of Jepsen read the same files.
//
// An operation has an invocation and a completion, and a process has one operation at a time. The forms are described at
// https://cljdoc.org/d/io.jepsen/history and in the README of Elle, https://github.com/jepsen-io/elle.
// Decision 117 has the operations of deadman that are recorded in this way.
package histories

import (
	"fmt"
	"slices"
	"time"
)

// Type is the part of an operation that an entry of a history records.
type Type string

// The types of entries. An operation without a completion is as one that completed with Info.
const (
	Invoke Type = "invoke"
	OK     Type = "ok"   // the operation took effect
	Fail   Type = "fail" // it had no effect, and never will
	Info   Type = "info" // it may have taken effect, or may do so later
)

// Entry is an invocation or a completion.
type Entry struct {
	Index   int // its number in the file
	Process int
	Type    Type
	Time    time.Duration // since the beginning of the history
	Value   []Access
	Error   string // of a completion; empty: none
}

// Access is an append of an element to a list, or a read of a list. A list has an element at most once.
type Access struct {
	Append   bool
	List     string
	Element  string   // of an append
	Elements []string // of a completed read
}

// Append returns the access that appends an element to a list.
func Append(list, element string) Access { return Access{Append: true, List: list, Element: element} }

// Read returns the access that reads a list and finds elements.
func Read(list string, elements ...string) Access { return Access{List: list, Elements: elements} }

// History is a sequence of entries in the order of their times.
type History []Entry

// operation is an invocation with its completion.
type operation struct {
	invoked, completed int // positions in the history; without a completion, the second is the length of the history
	process            int
	outcome            Type // OK, Fail or Info
	value              []Access
}

// entry is the position of the entry with the effect of the operation.
func (o *operation) entry() int {
	if o.outcome == OK {
		return o.completed
	}
	return o.invoked
}

// operations pairs invocations with completions, in the order of the invocations. An error names an entry that breaks the
// form of a history.
func (h History) operations() ([]*operation, error) {
	var all []*operation
	open := map[int]*operation{} // by process
	for i, e := range h {
		o := open[e.Process]
		switch {
		case e.Type == Invoke && o != nil:
			return nil, fmt.Errorf("entry %d: process %d has not completed the operation of entry %d", e.Index, e.Process, h[o.invoked].Index)
		case e.Type == Invoke:
			o = &operation{invoked: i, completed: len(h), process: e.Process, outcome: Info, value: e.Value}
			all, open[e.Process] = append(all, o), o
		case o == nil:
			return nil, fmt.Errorf("entry %d: process %d completes no operation", e.Index, e.Process)
		case !slices.Contains([]Type{OK, Fail, Info}, e.Type):
			return nil, fmt.Errorf("entry %d has type %q; use invoke, ok, fail or info", e.Index, e.Type)
		default:
			o.completed, o.outcome = i, e.Type
			if e.Type == OK {
				o.value = e.Value
			}
			delete(open, e.Process)
		}
	}
	return all, nil
}
