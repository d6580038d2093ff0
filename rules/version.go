package rules

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"deadman/rules/document"

	futurejobs "deadman/future_jobs"
	"deadman/internal/schedules"
)

// version is one saved version of a rule, compiled when it is needed.
type version struct {
	saved    RuleVersion
	document document.Document
	err      error              // why the document cannot be read
	schedule schedules.Schedule // its ticks from 1970; nil: it does not tick
	env      environment
	source   Source // that its lookup queries; nil: none, or it is not defined

	form      atomic.Pointer[form] // nil: it is not compiled, or was evicted from the cache
	used      atomic.Bool          // since it was compiled, or the cache examined it
	compiling sync.Mutex
}

// form is the result of compiling a version, or the error.
type form struct {
	rule *Rule
	err  error
}

func newVersion(s RuleVersion, env environment) *version {
	v := &version{saved: s, env: env}
	v.document, v.err = decodeDocument(s.Document)
	v.schedule = scheduleOf(v.document)
	v.source = env.sourceOf(v.document)
	return v
}

// streams returns the roles of the streams that the version reads.
func (v *version) streams() streamRoles { return streamRoles{v.document, v.saved.Reads} }

// compiled returns the rule of the version. The caller must not keep it longer than one operation takes: the memory of
// rules that are kept is not bounded.
func (v *version) compiled() (*Rule, error) {
	if f := v.form.Load(); f != nil {
		if !v.used.Load() { // an unconditional store would make processors contend each time
			v.used.Store(true)
		}
		return f.rule, f.err
	}
	v.compiling.Lock()
	defer v.compiling.Unlock()
	f := v.form.Load()
	if f == nil {
		f = &form{}
		f.rule, f.err = v.compile()
		v.form.Store(f)
		if v.env.cache != nil {
			v.env.cache.add(v, f.weight())
		}
	}
	return f.rule, f.err
}

// weight returns the approximate memory of the form, in bytes.
func (f *form) weight() int64 {
	if f.rule == nil {
		return 1 << 10
	}
	return int64(f.rule.weight)
}

// decodeDocument reads the form that Canonical wrote. A field that this program does not know is an error: a rule that
// is only partly understood would raise only part of its alerts.
func decodeDocument(stored []byte) (document.Document, error) {
	var d document.Document
	decoder := json.NewDecoder(bytes.NewReader(stored))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&d)
	return d, wrapErr("read document", err)
}

func (v *version) compile() (*Rule, error) {
	if v.err != nil {
		return nil, fmt.Errorf("rule %s version %d: %w", v.saved.Name, v.saved.Version, v.err)
	}
	r, err := compileAmid(v.document, v.saved, v.env)
	return r, wrapErr(fmt.Sprintf("rule %s version %d", v.saved.Name, v.saved.Version), err)
}

// grid returns the grid of the version, or none if its document cannot be read.
func (v *version) grid() (futurejobs.Grid, bool) {
	grid, err := futurejobs.NewGrid(time.Duration(v.document.Slot))
	return grid, v.err == nil && err == nil
}

// usesSame reports whether a version of a rule would use the same calendars and the same source in another environment.
func (v *version) usesSame(env environment) bool {
	return v.source == env.sourceOf(v.document) && !slices.ContainsFunc(v.document.CalendarNames(), func(name string) bool {
		return v.env.calendars[name] != env.calendars[name]
	})
}

// rule is all versions of one rule that is not deleted, newest first.
type rule struct {
	versions []*version
	paused   bool     // no new jobs are created
	halted   bool     // its events are not evaluated: they cost too much
	starts   []string // the streams of the triggers of all versions
}

// began returns when the rule was first saved, independent of its versions.
func (r *rule) began() time.Time { return r.versions[len(r.versions)-1].saved.SavedAt }

// inCharge returns the version that decides about an event: the newest that was saved before it. It is nil for an event
// that came before the rule, that the rule no longer reads, or that it has from another stream or line. Lines of a stream
// share its sequences: for each event one version is in charge, and one line applies it.
func (r *rule) inCharge(e futurejobs.Event) *version {
	for _, v := range r.versions {
		read, reads := v.read(e)
		switch {
		case reads && read.after(e):
			if read.given(e) || v.hasOrigin(e) || e.Line != "" && e.Line != read.Stream {
				return nil
			}
			return v
		case !reads && v.before(e):
			return nil
		}
	}
	return nil
}

// read returns the read that includes an event: of several, the last one to begin.
func (v *version) read(e futurejobs.Event) (last StreamBinding, ok bool) {
	return v.last(func(r StreamBinding) bool { return r.source() == e.Stream && matches(r.Subject, e.Subject) })
}

// before reports whether the version was saved before an event that it does not read. Its other reads of the stream
// decide, or without any the event's time.
func (v *version) before(e futurejobs.Event) bool {
	if r, ok := v.last(func(r StreamBinding) bool { return r.source() == e.Stream }); ok {
		return r.after(e)
	}
	return e.At.After(v.saved.SavedAt)
}

func (v *version) last(wanted func(StreamBinding) bool) (last StreamBinding, ok bool) {
	for _, r := range v.saved.Reads {
		if wanted(r) && (!ok || r.From > last.From) {
			last, ok = r, true
		}
	}
	return last, ok
}

// hasOrigin reports whether the event is a copy of one that the version reads from its original stream.
func (v *version) hasOrigin(e futurejobs.Event) bool {
	e.Stream, e.Seq, _ = copyOf(e)
	_, reads := v.read(e)
	return reads
}

// isLetterOf reports whether a dead letter of all rules is one of this rule, too. Each line of a stream writes its own
// letter of an event; the rule changed its line before the event, or the line of the event was its own.
func (r *rule) isLetterOf(e futurejobs.Event) bool {
	read, reads := r.versions[0].read(e)
	return !reads || !read.after(e) || read.Stream == cmp.Or(e.Line, e.Stream)
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

// expected reports whether a version of the rule names keys that it expects, or has a heartbeat while the newest has
// none.
func (r *rule) expected() bool {
	hasHeartbeat := r.versions[0].document.Trigger.Heartbeat != nil
	return slices.ContainsFunc(r.versions, func(v *version) bool {
		return v.document.ExpectedKeys() != nil || v.document.Trigger.Heartbeat != nil && !hasHeartbeat
	})
}
