package histories_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/faults/histories"
)

var file = flag.String("history", "testdata/valid.edn", "check this history, in EDN or JSON")

// TestHistory checks a file: go test ./internal/faults/histories -run TestHistory -history FILE
func TestHistory(t *testing.T) {
	violations, err := histories.Check(readFile(t, *file))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range violations {
		t.Error(v)
	}
}

func readFile(t *testing.T, path string) histories.History {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	read := histories.ReadEDN
	if filepath.Ext(path) == ".json" {
		read = histories.ReadJSON
	}
	h, err := read(f)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if len(h) == 0 {
		t.Fatalf("%s has no entry", path)
	}
	return h
}

// Each file of testdata is the shortest history with its anomaly, and with no other. The checker names the entries that prove
// it.
func TestEachAnomalyIsFound(t *testing.T) {
	wants := map[string]histories.Violation{
		"duplicate-elements":   {Anomaly: histories.DuplicateElements, Entries: []int{1, 5}},
		"incompatible-order":   {Anomaly: histories.IncompatibleOrder, Entries: []int{5, 7}},
		"out-of-order":         {Anomaly: histories.OutOfOrder, Entries: []int{1, 3, 5}},
		"out-of-order-unknown": {Anomaly: histories.OutOfOrder, Entries: []int{3, 5, 7}},
		"nonmonotonic-read":    {Anomaly: histories.NonmonotonicRead, Entries: []int{3, 5}},
		"lost":                 {Anomaly: histories.Lost, Entries: []int{3, 5}},
		"unexpected":           {Anomaly: histories.Unexpected, Entries: []int{1}},
		"unexpected-early":     {Anomaly: histories.Unexpected, Entries: []int{1, 3}},
		"G1a":                  {Anomaly: histories.AbortedRead, Entries: []int{0, 3}},
		"G1b":                  {Anomaly: histories.IntermediateRead, Entries: []int{1, 3}},
		"G0":                   {Anomaly: histories.WriteCycle, Entries: []int{2, 3, 5}},
	}
	files, err := filepath.Glob("testdata/*.edn")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".edn")
		t.Run(name, func(t *testing.T) {
			got, err := histories.Check(readFile(t, path))
			if err != nil {
				t.Fatal(err)
			}
			var want []histories.Violation
			if v, wrong := wants[name]; wrong {
				v.List = "x"
				want = append(want, v)
			}
			for i := range got {
				if got[i].Text == "" {
					t.Errorf("%v has no text", got[i])
				}
				got[i].Text = ""
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
	if len(files) != len(wants)+1 {
		t.Errorf("%d files, and %d are described", len(files), len(wants))
	}
}

// A history that breaks the form is refused, with the entry.
func TestCheckRefusesOtherForms(t *testing.T) {
	x := []histories.Access{histories.Append("x", "1")}
	for want, h := range map[string]histories.History{
		"entry 0: process 7 completes no operation":                          {{Type: histories.OK, Process: 7}},
		"entry 1: process 7 has not completed the operation of entry 0":      {{Type: histories.Invoke, Process: 7}, {Index: 1, Type: histories.Invoke, Process: 7}},
		`entry 1 has type "done"; use invoke, ok, fail or info`:              {{Type: histories.Invoke}, {Index: 1, Type: "done"}},
		`entry 1: element "1" is appended to x a second time, after entry 0`: {{Type: histories.Invoke, Value: x}, {Index: 1, Type: histories.Invoke, Value: x, Process: 1}},
	} {
		if _, err := histories.Check(h); err == nil || err.Error() != want {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
}

// A file that is no history of transactions is refused, with the entry.
func TestReadRefusesOtherFiles(t *testing.T) {
	for text, want := range map[string]string{
		`{:process 0 :type :ok :f :read :value 1}`:                    `entry 0: f is "read"; use txn`,
		`{:process 0 :type :ok} {:process 0 :value [[:w "x" "1"]]}`:   `entry 1: [:w x 1] is neither an append nor a read (r)`,
		`[{:process 0 :type :invoke :value [[:append "x"]]}]`:         `entry 0: [:append x] has 2 parts; use [append LIST ELEMENT] or [r LIST ELEMENTS]`,
		`{:process 0 :type :ok} {:process 0 :type :invoke :index 1.5`: `after 1 entries: `,
	} {
		if _, err := histories.ReadEDN(strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %s", text, err, want)
		}
	}
}
