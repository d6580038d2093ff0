package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/calendars"
	"deadman/internal/operatorfiles"
	"deadman/internal/subjects"
	"deadman/rules"
	"deadman/rules/document"
)

// waitingRule is a rule with the longest time from an event to its last step.
type waitingRule struct {
	name    string
	wait    time.Duration
	subject string // of its trigger
}

// rulesOfFolder reads the rules of the folder that a node applies at its start, without those that have errors.
func rulesOfFolder(i *inspection) {
	if i.Rules == "" {
		return
	}
	var known calendars.Set
	if data, err := operatorfiles.Read(i.Calendars); err == nil && i.Calendars != "" {
		known, _ = calendars.Parse(data, i.Calendars) // the finding about the file has the error
	}
	files, err := rules.FilesIn(i.Rules)
	if err != nil {
		return // the finding about the folder has it
	}
	for _, file := range files {
		data, err := rules.ReadFile(file)
		var docs []document.Document
		if err == nil {
			docs, err = rules.ParseAgainst(data, file, known)
		}
		if err != nil {
			i.problem("rules", Failed, clip(err.Error()), "deadman rule lint "+file+"; a node starts without the rules of the file")
			continue
		}
		for _, d := range docs {
			i.read(d)
		}
	}
}

// clip shortens a text with many errors to its first line.
func clip(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return first
}

// read notes the subjects and the longest wait of a rule.
func (i *inspection) read(d document.Document) {
	if slices.Contains(i.names, d.Name) {
		return // its version in the folder is newer than the one in the database
	}
	i.names = append(i.names, d.Name)
	for _, subject := range d.Subjects() {
		if !slices.Contains(i.subjects, subject) {
			i.subjects = append(i.subjects, subject)
		}
	}
	i.wait(d)
}

// wait notes the longest wait of a rule that is started by events.
func (i *inspection) wait(d document.Document) {
	if d.Trigger.Event == "" {
		return
	}
	w := waitingRule{name: d.Name, subject: d.Trigger.Event}
	for _, step := range d.Escalate {
		if step.After.Computed != "" || step.At != "" {
			w.wait = max(w.wait, time.Duration(d.Guards.Horizon))
		}
		w.wait = max(w.wait, time.Duration(step.After.Fixed))
	}
	i.waiting = append(i.waiting, w)
}

// rules reads the newest versions of the rules in the database.
func (p postgresInspection) rules(ctx context.Context, check string) error {
	var none bool
	if err := p.conn.QueryRow(ctx, `SELECT to_regclass('rule_version') IS NULL`).Scan(&none); err != nil {
		return err
	}
	if none {
		p.ok(check, "the database has none yet")
		return nil
	}
	rows, err := p.conn.Query(ctx, `SELECT DISTINCT ON (v.rule_id) v.document FROM rule_version v JOIN rule r ON r.id = v.rule_id
		WHERE r.deleted_at IS NULL ORDER BY v.rule_id, v.version DESC`)
	if err != nil {
		return err
	}
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, text := range texts {
		var d document.Document
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			return fmt.Errorf("a document of a rule cannot be read: %w", err)
		}
		p.read(d)
	}
	p.ok(check, "%d in the database", len(texts))
	return nil
}

// horizon compares the retention of a stream with the waits of the rules that its events start: after a loss of the database,
// jobs are created again from the events that the stream still has.
func (i *inspection) horizon(check string, cfg jetstream.StreamConfig) {
	if cfg.MaxAge <= 0 {
		return
	}
	var short []string
	var longest time.Duration
	for _, w := range i.waiting {
		reads := slices.ContainsFunc(cfg.Subjects, func(s string) bool { return subjects.Covers(s, w.subject) })
		if reads && w.wait > cfg.MaxAge {
			short, longest = append(short, fmt.Sprintf("%s (%s)", w.name, document.Duration(w.wait))), max(longest, w.wait)
		}
	}
	if len(short) == 0 {
		return
	}
	const named = 3
	text := strings.Join(short[:min(len(short), named)], ", ")
	if more := len(short) - named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	i.problem(check, Warning, fmt.Sprintf("it keeps events for %s, and rules wait longer: %s; after a loss of the database their older jobs cannot be created again",
		document.Duration(cfg.MaxAge), text), fmt.Sprintf("raise max_age with nats stream edit %s --max-age %dh, or shorten the rules", cfg.Name, int(longest.Hours())+1))
}
