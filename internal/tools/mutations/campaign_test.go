package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// sample is a module with two packages. The tests of sample/user catch the bugs that those of sample/sum do not.
var sample = map[string]string{
	"go.mod": "module sample\n\ngo 1.26\n",
	"sum/sum.go": `package sum

func Of(a, b int) int { return a + b }

func Unused() int { return 1 }
`,
	"sum/sum_test.go": `package sum

import "testing"

func TestSkipped(t *testing.T) { t.Skip("always") }

func TestOf(t *testing.T) {
	t.Run("small", func(t *testing.T) {
		if Of(1, 0) != 1 {
			t.Error("wrong")
		}
	})
}
`,
	"user/user.go": `package user

import "sample/sum"

func Twice(a int) int { return sum.Of(a, a) }
`,
	"user/user_test.go": `package user

import "testing"

func TestTwice(t *testing.T) {
	if Twice(2) != 4 {
		t.Error("wrong")
	}
}
`,
}

func newCampaign(t *testing.T) (c campaign, out *strings.Builder) {
	t.Helper()
	root := t.TempDir()
	for name, text := range sample {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out = &strings.Builder{}
	return campaign{tester{root, time.Hour}, out}, out
}

const only = "./sum -run ^TestOf$"

func TestBugIsCaughtOrReported(t *testing.T) {
	for name, test := range map[string]struct {
		replace string
		tests   []string
		timeout time.Duration
		want    string
	}{
		"caught":      {"return a - 2*b - a", []string{only}, 0, "caught by sample/sum TestOf/small"},
		"importer":    {"return a", nil, 0, "caught by sample/user TestTwice"},
		"second":      {"return a", []string{only, "./user"}, 0, "caught by sample/user TestTwice"},
		"panic":       {"panic(a)", []string{only}, 0, "caught by sample/sum TestOf/small"},
		"exit":        {"done := make(chan int); go panic(1); return <-done", []string{only}, 0, "caught by sample/sum TestOf/small"},
		"timeout":     {"select {}", []string{only}, time.Second, "caught by the timeout, in sample/sum TestOf/small"},
		"survivor":    {"return b + a", []string{only}, 0, "SURVIVED"},
		"broken":      {"return b + c", []string{only}, 0, "undefined: c"},
		"not there":   {"return a", []string{"./sum -run ^TestOther$"}, 0, "no test ran"},
		"all skipped": {"return a", []string{"./sum -run ^TestSkipped$"}, 0, "no test ran"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := newCampaign(t)
			if test.timeout > 0 {
				c.timeout = test.timeout
			}
			planted := bug{Name: "b", File: "sum/sum.go", Find: "return a + b", Replace: test.replace, Tests: test.tests}
			var err error
			if len(planted.Tests) == 0 {
				if planted.Tests, err = c.importers(t.Context(), planted.File); err != nil {
					t.Fatal(err)
				}
			}
			got, err := c.try(t.Context(), planted)
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if text, err := os.ReadFile(filepath.Join(c.root, planted.File)); err != nil || string(text) != sample[planted.File] {
				t.Errorf("the file changed: %s, %v", text, err)
			}
		})
	}
}

func TestCampaignFailsIfBugSurvives(t *testing.T) {
	c, out := newCampaign(t)
	dead := bug{Name: "dead", Promise: "P1", File: "sum/sum.go", Find: "return a + b", Replace: "return 0", Tests: []string{only}}
	if err := c.run(t.Context(), []bug{dead}); err != nil {
		t.Fatalf("a caught bug: %v", err)
	}
	alive := dead
	alive.Name, alive.Find, alive.Replace = "alive", "return 1", "return 2"
	err := c.run(t.Context(), []bug{dead, alive})
	if err == nil || !strings.Contains(err.Error(), "1 bugs were not caught") {
		t.Errorf("a survivor: %v", err)
	}
	for _, line := range []string{"./sum ", "passes without a bug", "dead ", "alive ", "2 bugs, 1 caught"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("the report does not have %q:\n%s", line, out)
		}
	}
}

func TestCampaignNeedsPassingTests(t *testing.T) {
	c, _ := newCampaign(t)
	b := bug{Name: "b", File: "sum/sum.go", Find: "return a + b", Replace: "return 0", Tests: []string{only}}
	if err := os.WriteFile(filepath.Join(c.root, "sum", "sum.go"), []byte("package sum\n\nfunc Of(a, b int) int { return a + b + 1 }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.run(t.Context(), []bug{b}); err == nil || !strings.Contains(err.Error(), "without a bug: sample/sum TestOf/small fails") {
		t.Errorf("got %v", err)
	}
}

func TestBugThatDoesNotApply(t *testing.T) {
	c, _ := newCampaign(t)
	for name, find := range map[string]string{"gone": "return a * b", "not unique": "return", "empty": "", "the same": "return 1"} {
		_, err := bug{Name: "mine", File: "sum/sum.go", Find: find, Replace: "return 1"}.plant(c.root)
		if err == nil || !strings.Contains(err.Error(), "mine does not apply") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestReadBugs(t *testing.T) {
	for text, want := range map[string]string{
		"- {name: a, file: f}\n- {name: a, file: f}\n": "not unique",
		"- {file: f}\n":          "is empty",
		"- {name: a, path: f}\n": "unknown field",
	} {
		_, err := readBugs(fstest.MapFS{"bugs/x.yaml": {Data: []byte(text)}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}
