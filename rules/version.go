package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"deadman/calendars"
	futurejobs "deadman/future_jobs"
)

// version is one saved version of a rule, compiled when it is first needed.
type version struct {
	saved    Saved
	document Document
	err      error           // why the document can't be read
	starts   map[string]Read // by stream, the last one to begin
	compiled func() (*Rule, error)
}

func newVersion(s Saved, known calendars.Set) *version {
	v := &version{saved: s, starts: make(map[string]Read)}
	v.document, v.err = decodeDocument(s.Document)
	for _, read := range s.Reads {
		if known, there := v.starts[read.Stream]; !there || read.From > known.From {
			v.starts[read.Stream] = read
		}
	}
	v.compiled = sync.OnceValues(func() (*Rule, error) { return v.compile(known) })
	return v
}

// decodeDocument reads what Canonical wrote. A field that this program does not know is an
// error: a rule that is half understood would say half of what it should.
func decodeDocument(stored []byte) (Document, error) {
	var d Document
	decoder := json.NewDecoder(bytes.NewReader(stored))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&d)
	return d, wrap("read document", err)
}

func (v *version) compile(known calendars.Set) (*Rule, error) {
	if v.err != nil {
		return nil, fmt.Errorf("rule %s version %d: %w", v.saved.Name, v.saved.Version, v.err)
	}
	r, err := Compile(v.document, v.saved, known)
	return r, wrap(fmt.Sprintf("rule %s version %d", v.saved.Name, v.saved.Version), err)
}

// grid is the grid of the version, or none if its document can't be read.
func (v *version) grid() (futurejobs.Grid, bool) {
	grid, err := futurejobs.NewGrid(time.Duration(v.document.Slot))
	return grid, v.err == nil && err == nil
}

// rule is all versions of one rule that is not deleted, newest first.
type rule struct {
	versions []*version
	paused   bool // no new waits begin
}

// inCharge is the version that decides about an event: the newest that was saved before it.
// Where a version does not read the event's stream, its time has to tell. It is nil for an
// event that came before the rule, or that the rule no longer reads.
func (r *rule) inCharge(e futurejobs.Event) *version {
	for _, v := range r.versions {
		from, reads := v.starts[e.Stream]
		switch {
		case reads && from.after(e):
			return v
		case !reads && e.At.After(v.saved.SavedAt):
			return nil
		}
	}
	return nil
}

// of returns a version by its number, or the newest.
func (r *rule) of(number int32) *version {
	for _, v := range r.versions {
		if v.saved.Version == number {
			return v
		}
	}
	return r.versions[0]
}
