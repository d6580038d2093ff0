package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tested are the files of a module whose tests pass, fail, skip, log, panic and do not compile.
var tested = map[string]string{
	"go.mod": "module tested\n\ngo 1.26\n",
	"good/good_test.go": `package good

import (
	"testing"
	"time"
)

func TestGood(t *testing.T) {
	t.Log("a log that is of no interest")
	t.Run("quick", func(t *testing.T) {})
	t.Run("slow", func(t *testing.T) {
		t.Run("part", func(t *testing.T) { time.Sleep(100 * time.Millisecond) })
		t.Run("rest", func(t *testing.T) { time.Sleep(10 * time.Millisecond) })
	})
}

func TestSkipped(t *testing.T) { t.Skip("no machine") }
`,
	"bad/bad_test.go": `package bad

import "testing"

func TestFails(t *testing.T) {
	t.Run("sound", func(t *testing.T) { t.Log("a log of a sound part") })
	t.Run("broken", func(t *testing.T) { t.Error("one is not two"); t.Log("{\"time\":\"now\",\"msg\":\"of a node\"}") })
}

func TestPasses(t *testing.T) { t.Log("a log of a test that passes") }
`,
	"panics/panics_test.go": "package panics\n\nimport \"testing\"\n\nfunc TestPanics(t *testing.T) { panic(\"no way\") }\n",
	"broken/broken_test.go": "package broken\n\nimport \"testing\"\n\nfunc TestBroken(t *testing.T) { missing() }\n",
}

// testModule runs go test in a folder of the module, and returns the report and the table.
func testModule(t *testing.T, folder string) (report, table string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range tested {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-json", folder)
	cmd.Dir = dir
	events, err := cmd.Output()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	record := filepath.Join(dir, "record")
	var out, times bytes.Buffer
	if err := errors.Join(run(record, "", 0, bytes.NewReader(events), &out), run("", record, 0, nil, &times)); err != nil {
		t.Fatal(err)
	}
	return out.String(), times.String()
}

func TestPassingPackageIsOneLine(t *testing.T) {
	report, table := testModule(t, "./good")
	if !strings.HasPrefix(report, "ok  \ttested/good\t") || strings.Count(report, "\n") != 1 {
		t.Errorf("report:\n%s", report)
	}
	for _, want := range []string{"skipped  tested/good TestSkipped  good_test.go:17: no machine", "0.1  tested/good TestGood/slow/part", "ok  \ttested/good\t"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
}

func TestFailedPackageShowsTestsThatFail(t *testing.T) {
	for folder, want := range map[string]string{
		"./bad":    "--- FAIL: TestFails/broken\none is not two\nFAIL\ttested/bad",
		"./panics": "panic: no way\npanics_test.go:5\nFAIL\ttested/panics",
		"./broken": "undefined: missing\nFAIL\ttested/broken [build failed]",
	} {
		report, _ := testModule(t, folder)
		for _, line := range strings.Split(want, "\n") {
			if !strings.Contains(report, line) {
				t.Errorf("%s: the report lacks %q:\n%s", folder, line, report)
			}
		}
		if strings.Contains(report, "a log of a") {
			t.Errorf("%s: the report has the output of tests that passed:\n%s", folder, report)
		}
	}
}

func TestTableEndsWithFailedTests(t *testing.T) {
	_, table := testModule(t, "./bad")
	_, failed, _ := strings.Cut(table, "FAIL\ttested/bad")
	if !strings.Contains(failed, "failed  tested/bad TestFails/broken\nbad_test.go:7: one is not two\n") {
		t.Errorf("the table lacks the reason:\n%s", table)
	}
	for _, other := range []string{"of a node", "tested/bad TestFails\n", "TestPasses\n"} {
		if strings.Contains(failed, other) {
			t.Errorf("the failed tests have %q:\n%s", other, table)
		}
	}
}

func TestLoopFailsForTestThatExceedsItsShare(t *testing.T) {
	ends := []event{
		{Package: "p", Test: "TestParent", Elapsed: 300},
		{Package: "p", Test: "TestParent/slow", Elapsed: 251},
		{Package: "p", Test: "TestParent/quick", Elapsed: 249},
		{Package: "p", Elapsed: 900},
	}
	err := overlong(ends, 1000)
	if err == nil || !strings.HasPrefix(err.Error(), "p TestParent/slow took 251 s, the most is 250 s") || strings.Contains(err.Error(), "\n") {
		t.Errorf("of 1000 s: %v", err)
	}
	if err := overlong(ends, 0); err != nil {
		t.Errorf("of a loop without a limit: %v", err)
	}
	wait := []event{{Package: "p", Test: "TestWaits", Elapsed: 119}}
	if err := overlong(wait, 200); err != nil {
		t.Errorf("of a short loop: %v", err)
	}
	wait[0].Elapsed = 121
	if err := overlong(wait, 200); err == nil {
		t.Error("a test of two minutes is more than half of the loop, and nothing reports it")
	}
}

// A test that no loop runs, such as one of a package or with a name that all of them leave out, is found.
func TestUnrunTestsAreNamed(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"go.mod": tested["go.mod"], "good/good_test.go": tested["good/good_test.go"], "bad/bad_test.go": tested["bad/bad_test.go"]} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	ran := func(ends ...string) error {
		record := filepath.Join(dir, "record")
		if err := os.WriteFile(record, []byte(strings.Join(ends, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		return checkAllRan(record, "^tested/bad TestPass")
	}
	const good, fails = `{"Action":"pass","Package":"tested/good","Test":"TestGood"}`, `{"Action":"fail","Package":"tested/bad","Test":"TestFails"}`
	const skipped = `{"Action":"skip","Package":"tested/good","Test":"TestSkipped"}`
	if err := ran(good, skipped, fails); err != nil {
		t.Error(err)
	}
	err := ran(good, `{"Action":"pass","Package":"tested/bad","Test":"TestSkipped"}`)
	if err == nil || strings.Count(err.Error(), "ran in no loop") != 2 {
		t.Fatalf("of two missing tests: %v", err)
	}
	for _, want := range []string{"tested/bad TestFails ran in no loop", "tested/good TestSkipped ran in no loop"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing: %v", want, err)
		}
	}
}

func TestUnfinishedPackageShowsItsOutput(t *testing.T) {
	var out, record bytes.Buffer
	events := `{"Action":"output","Package":"p","Test":"TestHangs","Output":"waits\n"}` + "\ngo: no network\n"
	if err := follow(strings.NewReader(events), &out, &record); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "go: no network\nwaits\n" || record.Len() != 0 {
		t.Errorf("report %q, record %q", got, record.String())
	}
}
