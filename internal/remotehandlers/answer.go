package remotehandlers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	"deadman/checks"
	"deadman/internal/configfile"
)

// MaxAnswer is the maximum size of an answer, in bytes.
const MaxAnswer = 256 << 10

// field parses the value of one field; the caller knows the name.
type field func(value json.RawMessage) error

// readAnswer parses an answer strictly: an unknown field or a value of the wrong type is an error, as it may be a
// mistake of the service. The values themselves are checked later, as for any other handler.
func readAnswer(data []byte, c checks.Check) (checks.Answer, error) {
	if len(data) > MaxAnswer {
		return checks.Answer{}, fmt.Errorf("it has %d bytes, the limit is %d; answer with less text and state", len(data), MaxAnswer)
	}
	a := checks.Answer{Step: c.Step}
	given, err := object(data, map[string]field{
		"next":    func(v json.RawMessage) error { return instant(v, &a.Next) },
		"nominal": func(v json.RawMessage) error { return plain(v, &a.Nominal, "true or false") },
		"outcome": func(v json.RawMessage) error { return plain(v, (*string)(&a.Outcome), "text") },
		"step":    func(v json.RawMessage) error { return plain(v, &a.Step, "a whole number") },
		"state":   func(v json.RawMessage) error { return stateOf(v, &a.State) },
		"alerts":  func(v json.RawMessage) error { return drafts(v, &a.Alerts, c.Step) },
	})
	if err != nil {
		return checks.Answer{}, err
	}
	if !given["next"] && !given["outcome"] {
		return checks.Answer{}, errors.New(`it has neither "next" nor "outcome"; write the time of the next check, or the outcome of the job`)
	}
	return a, nil
}

// object parses the fields of an object and returns the set of given fields.
func object(data []byte, fields map[string]field) (given map[string]bool, err error) {
	if !json.Valid(data) {
		return nil, errors.New("it is not JSON")
	}
	var values map[string]json.RawMessage
	if data = bytes.TrimSpace(data); data[0] != '{' || json.Unmarshal(data, &values) != nil {
		return nil, errors.New("it is not a JSON object")
	}
	given = make(map[string]bool, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		read := fields[name]
		if read == nil {
			return nil, unknown(name, slices.Sorted(maps.Keys(fields)))
		}
		if err := read(values[name]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		given[name] = true
	}
	return given, nil
}

func unknown(name string, known []string) error {
	if near := configfile.Suggest(name, known); near != "" {
		return fmt.Errorf("unknown field %q; did you mean %q?", clip(name), near)
	}
	return fmt.Errorf("unknown field %q; the fields here are %s", clip(name), strings.Join(known, ", "))
}

// plain parses a value into a Go type; what is its name in errors.
func plain[T any](value json.RawMessage, to *T, what string) error {
	if string(value) == "null" {
		return fmt.Errorf("it is null; write %s, or leave it out", what)
	}
	if json.Unmarshal(value, to) != nil {
		return fmt.Errorf("%s is not %s", clip(string(value)), what)
	}
	return nil
}

// instant parses an instant, or null.
func instant(value json.RawMessage, to *time.Time) error {
	if string(value) == "null" {
		return nil
	}
	const what = `an instant, such as "2026-03-02T13:00:00Z", nor null`
	var text string
	if json.Unmarshal(value, &text) != nil {
		return fmt.Errorf("%s is neither %s", clip(string(value)), what)
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.Year() < 1 || at.IsZero() {
		return fmt.Errorf("%s is neither %s", clip(string(value)), what)
	}
	*to = at.UTC()
	return nil
}

func stateOf(value json.RawMessage, to *json.RawMessage) error {
	if value[0] != '{' {
		return fmt.Errorf("%s is not an object", clip(string(value)))
	}
	*to = value
	return nil
}

// drafts parses alerts. step is the number of steps taken before.
func drafts(value json.RawMessage, to *[]alerts.Draft, step int) error {
	var all []json.RawMessage
	if err := plain(value, &all, "a list"); err != nil {
		return err
	}
	for i, one := range all {
		d := alerts.Draft{StepIndex: step}
		_, err := object(one, map[string]field{
			"severity": func(v json.RawMessage) error { return plain(v, (*string)(&d.Severity), "text") },
			"status":   func(v json.RawMessage) error { return plain(v, (*string)(&d.Status), "text") },
			"step":     func(v json.RawMessage) error { return plain(v, &d.Step, "text") },
			"text":     func(v json.RawMessage) error { return plain(v, &d.Text, "text") },
			"labels":   func(v json.RawMessage) error { return labels(v, &d.Labels) },
		})
		if err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
		*to = append(*to, d)
	}
	return nil
}

func labels(value json.RawMessage, to *map[string]string) error {
	var all map[string]json.RawMessage
	if err := plain(value, &all, "an object of text"); err != nil {
		return err
	}
	*to = make(map[string]string, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		var text string
		if err := plain(all[name], &text, "text"); err != nil {
			return fmt.Errorf("%s: %w", clip(name), err)
		}
		(*to)[name] = text
	}
	return nil
}
