package rules

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"deadman/internal/configfile"
	"deadman/rules/document"
)

// reading is a use, with its place.
type reading struct {
	fieldUse
	subject string // of the event that is read; empty: it is the state
	pointer string
}

// declared is a shape, with its place.
type declared struct {
	document.Shape
	pointer string
}

// shapes compares the assumed kind of each field with its declaration and with its other uses. The state consists of
// the data of the trigger and the updates, with the result of a lookup merged over it; if the columns of that are
// unknown, it may be any value.
type shapes struct {
	*compiler
	declared map[string]declared // by subject
	merged   []string            // the subjects that make the state
	under    []string            // the subjects that make the state below the result of a lookup
	first    map[string]reading  // the first use of each field, by group and path
}

// stateful returns the subjects of the events that are merged into the state.
func stateful(watched []watched) []string {
	var all []string
	for _, w := range watched {
		if w.merged {
			all = append(all, w.subject)
		}
	}
	return all
}

func (s *shapes) declare(watched []watched) {
	for _, w := range watched {
		before, twice := s.declared[w.subject]
		switch {
		case w.shape == nil || w.subject == "":
		case twice && !sameShape(before.Shape, w.shape):
			s.problem(w.pointer+"/shape", "the shape differs from that of the same event at %s; declare it once", document.FieldOf(before.pointer))
		case !twice:
			s.declared[w.subject] = declared{w.shape, w.pointer}
		}
	}
}

func sameShape(a, b document.Shape) bool {
	return maps.EqualFunc(a, b, func(a, b document.Form) bool {
		x, errX := json.Marshal(a)
		y, errY := json.Marshal(b)
		return errX == nil && errY == nil && string(x) == string(y)
	})
}

// loose returns the fields with a type test in an expression, or with a declaration of any value: they may be used as
// several kinds.
func (s *shapes) loose() map[string]bool {
	loose := make(map[string]bool)
	for _, r := range s.readings {
		if r.kind == document.Any {
			loose[s.place(r)] = true
		}
	}
	return loose
}

// place returns the key of the field that is read. Events that are merged into the state share theirs.
func (s *shapes) place(r reading) string {
	group := r.subject
	if slices.Contains(s.merged, group) {
		group = ""
	}
	return group + "\x00\x00" + r.key()
}

// fits compares a reading with the declared shapes, if any of them includes it. A field that no shape has is a problem
// if all events that it may come from are declared.
func (s *shapes) fits(r reading) (compared bool) {
	from := []string{r.subject}
	if r.state {
		from = s.merged
	}
	if r.state && s.beats != nil && len(r.path) > 0 && r.path[0] == heartbeatField {
		return s.beat(r)
	}
	if r.state && s.columns != nil && len(r.path) > 0 {
		return s.finds(r)
	}
	open := len(from) == 0 // an event without a declaration may have any field
	var missing error
	for _, subject := range from {
		shape, ok := s.declared[subject]
		if !ok {
			open = true
			continue
		}
		kind, known, err := document.Form{Kind: document.Object, Fields: shape.Shape}.KindAt(r.path)
		if err != nil {
			missing = err
			continue
		}
		if known && !kind.Fits(r.kind) {
			s.problem(r.pointer, "%s is used as %s here, but %s declares %s",
				r, r.kind.Describe(), document.FieldOf(shape.pointer+"/shape"), kind.Describe())
		}
		return true
	}
	if missing != nil && !open {
		s.problem(r.pointer, "%s: its shape has %v", r, missing)
	}
	return missing != nil && !open
}

// beat compares a reading of the state with the shape of the heartbeat in it.
func (s *shapes) beat(r reading) (compared bool) {
	kind, known, err := document.Form{Kind: document.Object, Fields: pulseShape}.KindAt(r.path[1:])
	switch {
	case err != nil:
		s.problem(r.pointer, "%s: %s has %v", r, heartbeatField, err)
	case known && !kind.Fits(r.kind):
		s.problem(r.pointer, "%s is used as %s here, but is %s", r, r.kind.Describe(), kind.Describe())
	}
	return true
}

// finds compares a reading of the state with the columns of the lookup, and with the data that they are merged over. A
// field in neither is a problem if all of the data is declared, or if its name looks like a typing error.
func (s *shapes) finds(r reading) (compared bool) {
	if _, found := s.columns[r.path[0]]; found {
		kind, known, err := document.Form{Kind: document.Object, Fields: s.columns}.KindAt(r.path)
		if err == nil && known && !kind.Fits(r.kind) {
			s.problem(r.pointer, "%s is used as %s here, but the lookup returns %s", r, r.kind.Describe(), kind.Describe())
		}
		return true
	}
	open := false
	for _, subject := range s.under {
		shape, known := s.declared[subject]
		if _, has := shape.Shape[r.path[0]]; has {
			return false
		}
		open = open || !known
	}
	columns := slices.Sorted(maps.Keys(s.columns))
	switch near := configfile.Suggest(r.path[0], columns); {
	case near != "" && !(open && s.carried(r.path[0])):
		s.problem(r.pointer, "%s: the lookup returns no %q; did you mean %q? (the field of the event is event.%s)",
			r, clip(r.path[0], 40), near, clip(r.path[0], 40))
	case !open:
		s.problem(r.pointer, "%s: the lookup returns no %q, only %s, and no event has it",
			r, clip(r.path[0], 40), clip(strings.Join(columns, ", "), 200))
	default:
		return false
	}
	return true
}

// carried reports whether the rule reads a field of that name of an event.
func (s *shapes) carried(name string) bool {
	return slices.ContainsFunc(s.readings, func(r reading) bool { return !r.state && len(r.path) > 0 && r.path[0] == name })
}

// agree compares a reading with the first one of the same field.
func (s *shapes) agree(r reading) {
	if r.kind == "" || len(r.path) == 0 {
		return
	}
	place := s.place(r)
	first, seen := s.first[place]
	switch {
	case !seen:
		s.first[place] = r
	case !first.kind.Fits(r.kind) && first.pointer == r.pointer:
		s.problem(r.pointer, "%s is taken for %s and for %s; it can't be both%s", r, first.kind.Describe(), r.kind.Describe(), converted(first.kind, r.kind))
	case !first.kind.Fits(r.kind):
		s.problem(r.pointer, "%s is taken for %s here and for %s in %s; it can't be both%s",
			r, r.kind.Describe(), first.kind.Describe(), document.FieldOf(first.pointer), converted(first.kind, r.kind))
	case first.kind == document.Time:
		s.first[place] = r
	}
}

// converted returns how to convert one kind to another, if that is possible.
func converted(a, b document.Kind) string {
	if a.Fits(document.Time) && b.Fits(document.Time) {
		return ", so convert one side with string(), int() or float()"
	}
	return ""
}
