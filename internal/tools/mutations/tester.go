package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// tester runs go test in a module.
type tester struct {
	root    string
	timeout time.Duration // of one package's tests
}

// verdict is the result of go test.
type verdict struct {
	failed   string // the first failed test, with its package; empty: all passed
	timedOut bool
}

// errNoTest means that no test ran.
var errNoTest = errors.New("no test ran: the pattern of -run matches none, or all were skipped")

// test runs go test with the arguments and an overlay; empty: none. It returns an error if the package does not compile, or
// if no test ran.
func (t tester) test(ctx context.Context, overlay, args string) (verdict, error) {
	all := []string{"test", "-json", "-count=1", "-failfast", "-vet=off", "-ldflags=-w", "-timeout", t.timeout.String()}
	if overlay != "" {
		all = append(all, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(all, strings.Fields(args)...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	cmd.Dir = t.root
	// The bugs are to be caught by the short form of the tests.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "DEADMAN_TEST_LONG=") })
	var errs bytes.Buffer
	cmd.Stderr = &errs
	events, err := cmd.Output()
	if ctx.Err() != nil {
		return verdict{}, ctx.Err()
	}
	v, ran, broken := judge(bytes.NewReader(events))
	switch {
	case broken != "":
		return v, errors.New("it does not compile:\n" + broken)
	case v.failed != "" || err == nil && ran:
		return v, nil
	case err == nil:
		return v, errNoTest
	}
	return v, fmt.Errorf("go test %s: %w, and no test failed: %s", args, err, strings.TrimSpace(errs.String()))
}

// judge reads the output of go test -json. It reports whether a test ran, and the output of a failed build.
func judge(events io.Reader) (v verdict, ran bool, broken string) {
	running := make(map[string]bool)
	var output strings.Builder
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct{ Action, Package, Test, Output, FailedBuild string }
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		name := e.Package + " " + e.Test
		switch {
		case e.Action == "build-output":
			output.WriteString(e.Output)
		case strings.HasPrefix(e.Output, "panic: test timed out after"):
			v.timedOut = true
		case e.Action == "fail" && e.FailedBuild != "":
			return v, ran, output.String()
		case e.Action == "fail" && v.failed == "":
			v.failed = name // subtests fail before their parents
			for test := range running {
				if e.Test == "" && len(test) > len(v.failed) {
					v.failed = test // it ended the program
				}
			}
		case e.Test == "":
		case e.Action == "run":
			running[name] = true
		case e.Action == "pass" || e.Action == "fail" || e.Action == "skip":
			delete(running, name)
			ran = ran || e.Action == "pass"
		}
	}
	return v, ran, ""
}

// overlay writes a planted file, and an overlay that puts it in the place of the original, to a folder.
func (t tester) overlay(folder, file, text string) (string, error) {
	planted := filepath.Join(folder, filepath.Base(file))
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(t.root, file): planted}})
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "overlay.json")
	return path, errors.Join(os.WriteFile(planted, []byte(text), 0o600), os.WriteFile(path, replace, 0o600))
}

// importers returns the package of a file and the packages whose tests import it, those with the fewest dependencies first:
// packages that start whole nodes are last.
func (t tester) importers(ctx context.Context, file string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-test", "-f", `{{if .ForTest}}{{else}}{{.ImportPath}} {{join .Deps " "}}{{end}}`, "./...")
	cmd.Dir = t.root
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	folder := "/" + filepath.Dir(file)
	var found [][]string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 0 && strings.HasSuffix(fields[0], ".test") && slices.ContainsFunc(fields[1:], func(p string) bool { return strings.HasSuffix(p, folder) }) {
			found = append(found, fields)
		}
	}
	slices.SortStableFunc(found, func(a, b []string) int { return len(a) - len(b) })
	var packages []string
	for _, fields := range found {
		packages = append(packages, strings.TrimSuffix(fields[0], ".test"))
	}
	return packages, nil
}
