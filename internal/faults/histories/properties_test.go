package histories_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"deadman/internal/faults/histories"
)

// store makes valid histories: processes append to lists and read them at random. As in deadman, an append takes effect at any
// time after its invocation, also after its completion.
type store struct {
	*rapid.T
	history  histories.History
	lists    map[string][]string
	open     map[int][]histories.Access // by process
	waiting  map[int][][]histories.Access
	outcomes map[int]histories.Type // drawn for the open append of a process
	appended int
}

// The first elements of the list "a" of each history: a transaction of process 0 with the first two, then another of it, then
// one of process 8.
var first = []string{"first", "second", "third", "fourth"}

func drawHistory(t *rapid.T) histories.History {
	s := &store{T: t, lists: map[string][]string{}, open: map[int][]histories.Access{}, waiting: map[int][][]histories.Access{}, outcomes: map[int]histories.Type{}}
	s.do(0, histories.Append("a", first[0]), histories.Append("a", first[1]))
	s.do(0, histories.Append("a", first[2]))
	s.do(8, histories.Append("a", first[3]))
	s.read("a")
	for range rapid.IntRange(0, 60).Draw(t, "steps") {
		s.step(rapid.IntRange(0, 4).Draw(t, "process"))
	}
	for _, p := range slices.Sorted(maps.Keys(s.waiting)) {
		for len(s.waiting[p]) > 0 {
			s.takeEffect(p)
		}
	}
	s.read(slices.Sorted(maps.Keys(s.lists))...)
	return s.history
}

func (s *store) record(process int, typ histories.Type, value []histories.Access) {
	s.history = append(s.history, histories.Entry{
		Index: len(s.history), Process: process, Type: typ, Time: time.Duration(len(s.history)) * time.Millisecond, Value: value,
	})
}

// do appends at once.
func (s *store) do(process int, value ...histories.Access) {
	s.record(process, histories.Invoke, value)
	s.record(process, histories.OK, value)
	s.apply(value)
}

// read reads lists at once, by process 9.
func (s *store) read(lists ...string) {
	var invoked, found []histories.Access
	for _, l := range lists {
		invoked, found = append(invoked, histories.Read(l)), append(found, histories.Read(l, s.lists[l]...))
	}
	s.record(9, histories.Invoke, invoked)
	s.record(9, histories.OK, found)
}

func (s *store) apply(value []histories.Access) {
	for _, a := range value {
		s.lists[a.List] = append(slices.Clone(s.lists[a.List]), a.Element)
	}
}

// takeEffect applies the oldest waiting append of a process.
func (s *store) takeEffect(process int) {
	s.apply(s.waiting[process][0])
	s.waiting[process] = s.waiting[process][1:]
}

// step invokes an append of a process, completes its open one, has a waiting one take effect, or reads.
func (s *store) step(process int) {
	value, open := s.open[process]
	switch what := rapid.IntRange(0, 3).Draw(s.T, "what"); {
	case what == 0:
		s.read(rapid.SampledFrom([][]string{{"a"}, {"b"}, {"a", "b"}}).Draw(s.T, "lists")...)
	case what == 1 && len(s.waiting[process]) > 0:
		s.takeEffect(process)
	case open:
		outcome := s.outcomes[process]
		delete(s.open, process)
		s.record(process, outcome, value)
	default:
		for range rapid.IntRange(1, 3).Draw(s.T, "appends") {
			s.appended++
			value = append(value, histories.Append(rapid.SampledFrom([]string{"a", "b"}).Draw(s.T, "list"), fmt.Sprint(s.appended)))
		}
		s.open[process] = value
		s.outcomes[process] = rapid.SampledFrom([]histories.Type{histories.OK, histories.OK, histories.Fail, histories.Info}).Draw(s.T, "outcome")
		s.record(process, histories.Invoke, value)
		if s.outcomes[process] == histories.OK || s.outcomes[process] == histories.Info && rapid.Bool().Draw(s.T, "happens") {
			s.waiting[process] = append(s.waiting[process], value)
		}
	}
}

func TestValidHistoriesHaveNoViolation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if violations, err := histories.Check(drawHistory(t)); err != nil || len(violations) > 0 {
			t.Fatalf("%v %v", err, violations)
		}
	})
}

// change replaces the elements that the reads from an entry on find in the list "a".
func change(h histories.History, from int, replace func([]string) []string) histories.History {
	for i := from; i < len(h); i++ {
		if h[i].Type != histories.OK {
			continue
		}
		h[i].Value = slices.Clone(h[i].Value)
		for k, a := range h[i].Value {
			if a.List == "a" && !a.Append {
				h[i].Value[k] = histories.Read("a", replace(slices.Clone(a.Elements))...)
			}
		}
	}
	return h
}

// again adds a read of the list "a" that finds elements, and repeats the last read behind it.
func again(h histories.History, replace func([]string) []string) histories.History {
	n := len(h)
	invoked, found := h[n-2], h[n-1]
	for _, e := range []histories.Entry{invoked, found, invoked, found} {
		e.Index = len(h)
		h = append(h, e)
	}
	wrong := change(slices.Clone(h[:n+2]), n, replace)
	return append(wrong, h[n+2:]...)
}

func without(e string) func([]string) []string {
	return func(all []string) []string { return slices.DeleteFunc(all, func(o string) bool { return o == e }) }
}

func swap(a, b string) func([]string) []string {
	return func(all []string) []string {
		i, j := slices.Index(all, a), slices.Index(all, b)
		if i >= 0 && j >= 0 {
			all[i], all[j] = all[j], all[i]
		}
		return all
	}
}

// plants make a valid history wrong, each in one way.
var plants = []struct {
	name    string
	anomaly histories.Anomaly
	plant   func(histories.History) histories.History
}{
	{"an alert is published twice", histories.DuplicateElements, func(h histories.History) histories.History {
		return change(h, len(h)-1, func(all []string) []string { return append(all, first[3]) })
	}},
	{"an alert is lost", histories.Lost, func(h histories.History) histories.History { return change(h, 0, without(first[2])) }},
	{"the end of the stream is lost", histories.Lost, func(h histories.History) histories.History {
		return change(h, len(h)-1, func(all []string) []string { return all[:3] })
	}},
	{"the alerts of a key are swapped", histories.OutOfOrder, func(h histories.History) histories.History { return change(h, 0, swap(first[1], first[2])) }},
	{"two reads disagree", histories.IncompatibleOrder, func(h histories.History) histories.History {
		return again(h, swap(first[2], first[3]))
	}},
	{"an alert has no event", histories.Unexpected, func(h histories.History) histories.History {
		return change(h, len(h)-1, func(all []string) []string { return append(all, "none") })
	}},
	{"an alert is before its event", histories.Unexpected, func(h histories.History) histories.History {
		late := slices.Concat(h[:4], h[6:], h[4:6]) // the operation of the fourth element
		for i := range late {
			late[i].Index = i
		}
		return late
	}},
	{"a refused event has an alert", histories.AbortedRead, func(h histories.History) histories.History {
		h[5].Type = histories.Fail // the same
		return h
	}},
	{"a read goes back", histories.NonmonotonicRead, func(h histories.History) histories.History {
		return again(h, func(all []string) []string { return all[:2] })
	}},
	{"a part of a transaction is read", histories.IntermediateRead, func(h histories.History) histories.History {
		return again(h, func(all []string) []string { return all[:1] })
	}},
	{"an alert is within a transaction", histories.WriteCycle, func(h histories.History) histories.History { return change(h, 0, swap(first[1], first[3])) }},
}

// Each plant is found in each history, by its name.
func TestPlantedAnomaliesAreFound(t *testing.T) {
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				h := p.plant(drawHistory(t))
				violations, err := histories.Check(h)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.ContainsFunc(violations, func(v histories.Violation) bool {
					return v.Anomaly == p.anomaly && v.List == "a" && slices.ContainsFunc(v.Entries, func(i int) bool {
						return slices.ContainsFunc(h[i].Value, func(a histories.Access) bool { return a.List == "a" })
					})
				}) {
					t.Fatalf("%s is not found, but %v", p.anomaly, violations)
				}
			})
		})
	}
}

// A file has all of a history, in EDN and in JSON.
func TestFilesRoundTrip(t *testing.T) {
	for name, write := range map[string]func(histories.History, *bytes.Buffer) (histories.History, error){
		"EDN": func(h histories.History, b *bytes.Buffer) (histories.History, error) {
			if err := histories.WriteEDN(b, h); err != nil {
				return nil, err
			}
			return histories.ReadEDN(b)
		},
		"JSON": func(h histories.History, b *bytes.Buffer) (histories.History, error) {
			if err := histories.WriteJSON(b, h); err != nil {
				return nil, err
			}
			return histories.ReadJSON(b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				want := drawHistory(t)
				for i := range want {
					want[i].Error = rapid.String().Draw(t, "error")
				}
				want = change(want, 0, func(all []string) []string { return append(all, rapid.String().Draw(t, "element")) })
				var text bytes.Buffer
				got, err := write(want, &text)
				if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || d != "" {
					t.Fatalf("%v %s\n%s", err, d, text.Bytes())
				}
			})
		})
	}
}

// The history of testdata/valid.edn as a set: the append without a completion has only an invocation.
func TestWriteSetEDN(t *testing.T) {
	var text bytes.Buffer
	if err := histories.WriteSetEDN(&text, readFile(t, "testdata/valid.edn")); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/valid.set")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), text.String()); d != "" {
		t.Error(d)
	}
}
