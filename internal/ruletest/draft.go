package ruletest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"deadman/rules"
	"deadman/rules/document"
)

// Draft is a test without expectations.
type Draft struct {
	Name     string
	Events   []Event
	Until    time.Time // zero: the end of all jobs
	Outcomes bool      // the outcomes are expected, too
}

// ErrDraft means that an event of a draft is refused, so that no test can be written of it.
var ErrDraft = errors.New("the rule refuses the event of the draft")

// Write returns a file of tests that expects what a rule does with the events of drafts.
func Write(ctx context.Context, d document.Document, header string, drafts []Draft) ([]byte, error) {
	s := Suite{Documents: []document.Document{d}}
	var b strings.Builder
	b.WriteString(header + "tests:\n")
	for i, draft := range drafts {
		r := &run{Suite: &s, Test: &Test{Start: DefaultStart, Until: draft.Until, Events: draft.Events}}
		r.story = newStory(r.Test)
		if err := r.play(ctx, rules.NewCoverage()); err != nil {
			return nil, err
		}
		if len(r.letters) > 0 {
			return nil, fmt.Errorf("%w: %s", ErrDraft, r.letters[0]["reason"])
		}
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "  - name: %s\n", scalar(draft.Name))
		r.writeEvents(&b)
		writeRows(&b, "alerts", r.alerts, "at", "key", "step", "status", "severity")
		if draft.Outcomes {
			writeRows(&b, "outcomes", r.outcomes, "at", "key", "outcome")
		}
	}
	return []byte(b.String()), nil
}

// writeEvents writes the events and the end of a test.
func (r *run) writeEvents(b *strings.Builder) {
	if len(r.Events) > 0 {
		b.WriteString("    events:\n")
	}
	for _, e := range r.Events {
		if e.Subject == "" {
			fmt.Fprintf(b, "      - {at: %s, ping: %s}\n", r.when(e.At), scalar(e.Ping.Key))
			continue
		}
		data := ""
		if e.Data != nil {
			data = ", data: " + string(e.Data)
		}
		fmt.Fprintf(b, "      - {at: %s, subject: %s%s}\n", r.when(e.At), scalar(e.Subject), data)
	}
	if !r.Until.IsZero() {
		fmt.Fprintf(b, "    until: %s\n", r.when(r.Until))
	}
}

// writeRows writes columns of expected entries.
func writeRows(b *strings.Builder, list string, rows []row, columns ...string) {
	if len(rows) == 0 {
		fmt.Fprintf(b, "    %s: []\n", list)
		return
	}
	fmt.Fprintf(b, "    %s:\n", list)
	for _, r := range rows {
		var cells []string
		for _, c := range columns {
			if value, ok := r[c]; ok && value != "" {
				cells = append(cells, c+": "+scalar(value))
			}
		}
		fmt.Fprintf(b, "      - {%s}\n", strings.Join(cells, ", "))
	}
}

var (
	plainText = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9 ._/-]*$`)
	wordLike  = regexp.MustCompile(`(?i)^(true|false|null|yes|no|on|off|nan)$`)
	spanText  = regexp.MustCompile(`^([0-9]+(d|h|m|s|ms))+$`)
)

// scalar returns a text as a scalar of YAML, quoted if necessary.
func scalar(text string) string {
	if plainText.MatchString(text) && !wordLike.MatchString(text) && !strings.HasSuffix(text, " ") || spanText.MatchString(text) {
		return text
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		return strconv.Quote(text)
	}
	return string(quoted)
}
