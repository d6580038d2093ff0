package main

import (
	"encoding/json"
	"strings"
	"testing"

	"deadman/bench"
)

// deadman bench measures SQLite where nothing is said, as people and as programs read it.
func TestBench(t *testing.T) {
	args := []string{"bench", "--jobs", "200", "--rounds", "1", "--shape", "finish,mixed"}
	text := runs(t, nil, args...)
	if text.code != 0 {
		t.Fatalf("%+v", text)
	}
	for _, want := range []string{"RESULT deadman-finish floor n=200 ", "RESULT deadman-mixed engine n=200 ", "SHAPE", "OF THE FIRST", "MEMORY"} {
		if !strings.Contains(text.out, want) {
			t.Errorf("it does not say %q:\n%s", want, text.out)
		}
	}
	values := runs(t, nil, append(args, "-o", "json")...)
	var got struct{ Summary []bench.Summary }
	if err := json.Unmarshal([]byte(values.out), &got); values.code != 0 || err != nil || len(got.Summary) != 4 {
		t.Errorf("%v: %+v", err, values)
	}
}

func TestBenchRefuses(t *testing.T) {
	for flag, want := range map[string]string{
		"--shape=quick": `there is no "quick"`, "--jobs=1": "from 2 to", "--rounds=0": "from 1 to 100", "--nodes=3": "SQLite has one node", "--nodes=99": "from 1 to 16", "--shape=": "name one of",
		"--pending=-1": "from 0 to", "--shape=due": "more than those with --pending", "--scattered": "--database-url", "--old-snapshot": "--database-url",
		"--jobs=3000000 --shape=finish,create":       "at most 2000000",
		"--scattered --database-url=postgres://none": "4,000,000 have to be pending",
	} {
		if got := runs(t, nil, append([]string{"bench"}, strings.Fields(flag)...)...); got.code != 2 || !strings.Contains(got.err, want) {
			t.Errorf("%s: %+v", flag, got)
		}
	}
}
