package rules

import (
	"reflect"
	"slices"
	"testing"

	"deadman/rules/bodies"
)

// TestExtent checks that an expression has decoded the fields that it reads, and no more.
func TestExtent(t *testing.T) {
	for source, want := range map[string]bodies.Part{
		`event.total > 0 && event.status == "X" && event.total < 9`: {Fields: []string{"total", "status"}},
		`event?.a.b[0].c == 1`:       {Fields: []string{"a"}},
		`any(event.items, .n > 1)`:   {Fields: []string{"items"}},
		`"a" in event || event.b`:    {Whole: true, Fields: []string{"b"}},
		`get(event, "a") == 1`:       {Whole: true},
		`event[event.name] == 1`:     {Whole: true, Fields: []string{"name"}},
		`len(keys(event)) > 1`:       {Whole: true},
		`any(event.a, # == event.b)`: {Fields: []string{"a", "b"}},
		`event["a"] == 1`:            {Fields: []string{"a"}},
	} {
		x, err := compileExpression(source, inIf)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if !reflect.DeepEqual(x.event, want) || !x.readsEvent() || slices.Contains(x.reads, nameState) {
			t.Errorf("%s reads %+v of the event, want %+v", source, x.event, want)
		}
	}
}
