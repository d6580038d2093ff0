package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
)

// bug is an entry of the list.
type bug struct {
	Name    string   `yaml:"name"`    // words joined by hyphens; unique
	Promise string   `yaml:"promise"` // of the design, P1 to P15; empty: none
	File    string   `yaml:"file"`    // relative to the module
	Find    string   `yaml:"find"`    // occurs once in the file
	Replace string   `yaml:"replace"`
	Tests   []string `yaml:"tests"` // arguments of go test, cheapest first; none: the file's package and its importers
}

// readBugs reads the bugs of all files, and returns an error if a name is missing or not unique.
func readBugs(files fs.FS) ([]bug, error) {
	var all []bug
	seen := make(map[string]bool)
	paths, err := fs.Glob(files, "bugs/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		text, err := fs.ReadFile(files, path)
		if err != nil {
			return nil, err
		}
		var bugs []bug
		if err := yaml.UnmarshalWithOptions(text, &bugs, yaml.Strict()); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, b := range bugs {
			if b.Name == "" || seen[b.Name] {
				return nil, fmt.Errorf("%s: the name %q is empty or not unique", path, b.Name)
			}
			seen[b.Name] = true
		}
		all = append(all, bugs...)
	}
	return all, nil
}

// plant returns the text of the bug's file with the bug.
func (b bug) plant(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, b.File))
	if err != nil {
		return "", fmt.Errorf("%s does not apply: %w", b.Name, err)
	}
	switch n := strings.Count(string(text), b.Find); {
	case b.Find == "" || b.Find == b.Replace:
		return "", errors.New(b.Name + " does not apply: find is empty, or equal to replace")
	case n != 1:
		return "", fmt.Errorf("%s does not apply: its text occurs %d times in %s, must be once; follow the change of the code in find:\n%s", b.Name, n, b.File, b.Find)
	}
	return strings.Replace(string(text), b.Find, b.Replace, 1), nil
}
