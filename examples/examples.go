// Package examples has example rules: each is in a folder with a sequence of events that tests play. The files are
// embedded in the program.
package examples

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

//go:embed */*.yaml */events.jsonl
var files embed.FS

// Example is an example rule.
type Example struct {
	Name      string // its folder
	Situation string // the folder that it is in
	Text      string // as YAML
	Events    []Event
}

// Event is an event of an example.
type Event struct {
	At      time.Time       `json:"at"`
	Subject string          `json:"subject"`
	Data    json.RawMessage `json:"data"`
}

// order lists the situations that are shown first, the simplest one at the beginning.
var order = []string{"nightly-backup", "orders", "payment-capture", "nightly-import", "device-silent", "kyc-unfinished", "ticket-sla"}

// All returns all examples, those in order first. An error is a bug.
func All() ([]Example, error) {
	paths, err := fs.Glob(files, "*/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("examples: %w", err)
	}
	all := make([]Example, 0, len(paths))
	for _, file := range paths {
		if strings.HasSuffix(file, ".test.yaml") {
			continue
		}
		e, err := read(file)
		if err != nil {
			return nil, fmt.Errorf("examples: %s: %w", file, err)
		}
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(a, b Example) int { return place(a) - place(b) })
	return all, nil
}

func place(e Example) int {
	if i := slices.Index(order, e.Situation); i >= 0 {
		return i
	}
	return len(order)
}

func read(file string) (Example, error) {
	situation := path.Dir(file)
	e := Example{Name: strings.TrimSuffix(path.Base(file), ".yaml"), Situation: situation}
	text, err := files.ReadFile(file)
	if err != nil {
		return e, err
	}
	e.Text = string(text)
	if text, err = files.ReadFile(situation + "/events.jsonl"); err != nil {
		return e, err
	}
	for line := range bytes.Lines(text) {
		var event Event
		if err := json.Unmarshal(line, &event); err != nil {
			return e, err
		}
		e.Events = append(e.Events, event)
	}
	return e, nil
}
