package main

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"time"

	"deadman/alerts"
	"deadman/internal/replay"
)

// wantedRates parses the values of --suggest.
func wantedRates(texts []string) (all []replay.Wanted, err error) {
	for _, text := range texts {
		w := replay.Wanted{}
		rate := text
		if step, of, ok := strings.Cut(text, "="); ok {
			w.Step, rate = step, of
		}
		number, isPercent := strings.CutSuffix(strings.TrimSpace(rate), "%")
		percent, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !isPercent || !(percent > 0 && percent < 100) {
			return nil, usage("--suggest: %s is not a share of jobs; write a percentage between 0%% and 100%%, such as 1%% or late=1%%", clip(text, 60))
		}
		w.Share = percent / 100
		all = append(all, w)
	}
	return all, nil
}

// suggestions prints a row for each step, and then why steps have no suggestion.
func (t *replayText) suggestions(all []replay.Suggestion) error {
	first := all[0]
	fmt.Fprintf(t.out, "\nsteps for a wanted share of alerts, learned from the jobs that began from %s to %s, tried on those from then to %s\n\n",
		t.io.exact(first.Learned.From), t.io.exact(first.Learned.Until), t.io.exact(first.HeldBack.Until))
	w := newTable(t.out, t.io.palette, "rule", "step", "after now", "alerts on", "wanted", "after", "learned", "held back", "jobs learned", "jobs held back")
	var refused []string
	for _, s := range all {
		after := cellOf(s.After)
		if s.Refused != "" {
			after = dimCell("-")
			refused = append(refused, fmt.Sprintf("%s %s: no suggestion: %s", s.Rule, s.Step, s.Refused))
		}
		w.row(cellOf(s.Rule), cellOf(s.Step), cellOf(cmp.Or(s.AfterNow, "-")), cellOf(replay.PercentOf(s.HeldBack.RateNow)), cellOf(replay.Percent(s.Wanted)), after,
			cellOf(replay.PercentOf(s.Learned.Rate)), cellOf(replay.PercentOf(s.HeldBack.Rate)), numberCell(s.Learned.Jobs), numberCell(s.HeldBack.Jobs))
	}
	if err := w.end(); err != nil || len(refused) == 0 {
		return err
	}
	_, err := fmt.Fprintln(t.out, "\n"+plainLines(strings.Join(refused, "\n")))
	return err
}

// suggestionCSV prints a row for each suggestion.
type suggestionCSV struct{ out *csv.Writer }

func (c *suggestionCSV) alert(alerts.Alert) error { return nil }

func (c *suggestionCSV) end(s *replay.Summary) error {
	rows := [][]string{{
		"rule", "step", "after_now", "wanted", "after", "calendar", "refused", "learned_from", "learned_until", "learned_jobs", "learned_undecided", "learned_rate", "learned_rate_now",
		"held_back_from", "held_back_until", "held_back_jobs", "held_back_undecided", "held_back_rate", "held_back_rate_now",
	}}
	for _, one := range s.Suggestions {
		row := []string{one.Rule, one.Step, one.AfterNow, fmt.Sprint(one.Wanted), one.After, one.Calendar, one.Refused}
		for _, part := range []replay.Part{one.Learned, one.HeldBack} {
			row = append(row, part.From.UTC().Format(time.RFC3339), part.Until.UTC().Format(time.RFC3339), fmt.Sprint(part.Jobs), fmt.Sprint(part.Undecided), quantileText(part.Rate), quantileText(part.RateNow))
		}
		rows = append(rows, row)
	}
	return c.out.WriteAll(rows)
}
