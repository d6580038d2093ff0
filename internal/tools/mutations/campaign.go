package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// campaign plants bugs and reports which are caught.
type campaign struct {
	tester

	out io.Writer
}

// run plants the bugs, and returns an error if one is not caught.
func (c campaign) run(ctx context.Context, bugs []bug) error {
	startedAt := time.Now()
	for i, b := range bugs {
		if len(b.Tests) > 0 {
			continue
		}
		var err error
		if bugs[i].Tests, err = c.importers(ctx, b.File); err != nil {
			return err
		}
	}
	if err := c.baseline(ctx, bugs); err != nil {
		return err
	}
	missed := 0
	for _, b := range bugs {
		at := time.Now()
		result, err := c.try(ctx, b)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			missed++
			result = err.Error()
		}
		c.print("%-52s %-3s %4.0fs  %s\n", b.Name, b.Promise, time.Since(at).Seconds(), result)
	}
	c.print("%d bugs, %d caught, in %s\n", len(bugs), len(bugs)-missed, time.Since(startedAt).Round(time.Second))
	if missed > 0 {
		return fmt.Errorf("%d bugs were not caught: extend a test, or correct the entry of the list", missed)
	}
	return nil
}

func (c campaign) print(format string, values ...any) { _, _ = fmt.Fprintf(c.out, format, values...) }

// baseline runs the tests of all bugs without a bug, each package once.
func (c campaign) baseline(ctx context.Context, bugs []bug) error {
	patterns := make(map[string][]string) // by package; an empty pattern means all tests
	for _, b := range bugs {
		for _, test := range b.Tests {
			name, pattern, _ := strings.Cut(test, " -run ")
			patterns[name] = append(patterns[name], pattern)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(patterns)) {
		at, args := time.Now(), name
		if all := patterns[name]; !slices.Contains(all, "") {
			slices.Sort(all)
			args += " -run " + strings.Join(slices.Compact(all), "|")
		}
		v, err := c.test(ctx, "", args)
		if err == nil && v.failed != "" {
			err = errors.New(v.failed + " fails")
		}
		if err != nil {
			return fmt.Errorf("%s without a bug: %w", name, err)
		}
		c.print("%-56s %4.0fs  passes without a bug\n", name, time.Since(at).Seconds())
	}
	return nil
}

// errSurvived means that no test fails with the bug.
var errSurvived = errors.New("SURVIVED")

// try plants a bug and runs its tests up to the first failure. It returns what caught the bug.
func (c campaign) try(ctx context.Context, b bug) (string, error) {
	text, err := b.plant(c.root)
	if err != nil {
		return "", err
	}
	folder, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	overlay, err := c.overlay(folder, b.File, text)
	if err != nil {
		return "", err
	}
	for _, args := range b.Tests {
		switch v, err := c.test(ctx, overlay, args); {
		case err != nil:
			return "", err
		case v.timedOut:
			return "caught by the timeout, in " + v.failed, nil
		case v.failed != "":
			return "caught by " + v.failed, nil
		}
	}
	return "", errSurvived
}
