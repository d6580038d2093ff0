package store

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	futurejobs "deadman/future_jobs"
)

// filter is a statement under construction, with ? for each argument.
type filter struct {
	text string
	args []any
}

// and adds a condition.
func (w *filter) and(condition string, args ...any) {
	w.text, w.args = w.text+` AND `+condition, append(w.args, args...)
}

// andUnindexed adds conditions hidden in CASE, so the planner keeps scanning the ordering index: it cannot estimate a
// CASE, so it does not expect few rows.
func (w *filter) andUnindexed(conditions filter) {
	w.and(unindexed(conditions.text), conditions.args...)
}

// unindexed returns a condition that the planner uses no index for.
func unindexed(condition string) string {
	return `CASE WHEN ` + condition + ` THEN TRUE ELSE FALSE END`
}

// named narrows a column of rule names.
func (w *filter) named(column string, f futurejobs.Filter) {
	if f.Rule != "" {
		w.and(column+` = ?`, escape(f.Rule))
	}
	if f.RulePrefix != "" {
		head := escape(f.RulePrefix)
		w.and(beginning(column), utf8.RuneCountInString(head), head)
	}
}

// letters narrows the dead letters.
func (w *filter) letters(f futurejobs.Filter) {
	w.named(`rule`, f)
	if f.Subject != "" {
		w.and(`subject = ?`, escape(f.Subject))
	}
	if f.Reason != "" {
		w.and(`reason = ?`, escape(f.Reason))
	}
}

// beginning returns the condition that a column begins with a text; its parameters are the text's length and the text.
func beginning(column string) string { return `substr(` + column + `, 1, ?) = ?` }

// ended narrows the history f.
func (w *filter) ended(f futurejobs.Filter) {
	if f.Outcome != "" {
		w.and(`f.outcome = ?`, escape(string(f.Outcome)))
	}
	w.timeRange(`f.ended_at`, f)
}

// alerts narrows the alerts a. An unknown status or severity matches none.
func (w *filter) alerts(f futurejobs.Filter) {
	w.timeRange(`a.decided_at`, f)
	if f.Status != "" {
		w.and(`a.status = ?`, f.Status.Number())
	}
	if f.Severity != "" {
		w.and(`a.severity = ?`, f.Severity.Number())
	}
}

// timeRange narrows an instant to those from f.After, before f.Before.
func (w *filter) timeRange(column string, f futurejobs.Filter) {
	if !f.After.IsZero() {
		w.and(column+` >= ?`, f.After)
	}
	if !f.Before.IsZero() {
		w.and(column+` < ?`, f.Before)
	}
}

// prefixRanges returns the stored forms of a prefix: of keys that are stored as they are, and of escaped keys (escape).
func prefixRanges(prefix string) []string {
	kept, quoted := escape(prefix), strconv.Quote(prefix)
	return slices.Compact([]string{kept, quoted[1 : len(quoted)-1]})
}

// hasPrefix narrows a column to the range of its index that begins with a prefix.
func (w *filter) hasPrefix(column, prefix string) {
	w.anyPrefix(prefixRanges(prefix), func(head string) (condition string, args []any) {
		if end := prefixEnd(head); end != "" {
			return `(` + column + ` >= ? AND ` + column + ` < ?)`, []any{head, end}
		}
		return column + ` >= ?`, []any{head}
	})
}

// startsWith is hasPrefix for a scan of another index.
func (w *filter) startsWith(column, prefix string) {
	w.anyPrefix(prefixRanges(prefix), func(head string) (condition string, args []any) {
		return beginning(column), []any{utf8.RuneCountInString(head), head}
	})
}

// anyPrefix adds a condition with an alternative for each text.
func (w *filter) anyPrefix(texts []string, of func(string) (condition string, args []any)) {
	var alternatives []string
	for _, text := range texts {
		condition, args := of(text)
		alternatives, w.args = append(alternatives, condition), append(w.args, args...)
	}
	w.text += ` AND (` + strings.Join(alternatives, ` OR `) + `)`
}

// like narrows a column to a text, or to texts with a prefix if it ends with *. An index on the column serves both.
func (w *filter) like(column, wanted string) {
	prefix, open := strings.CutSuffix(wanted, "*")
	prefix = escape(prefix)
	switch {
	case open:
		w.and(column+` >= ?`, prefix)
		w.and(column+` < ?`, prefix+string(lastRune))
	case wanted != "":
		w.and(column+` = ?`, prefix)
	}
}

// prefixEnd returns the first text, in byte order, after all texts that begin with head; empty: none.
func prefixEnd(head string) string {
	for head != "" {
		last, size := utf8.DecodeLastRuneInString(head)
		head = head[:len(head)-size]
		switch {
		case last == utf8.MaxRune:
			continue
		case last == 0xD7FF: // the code points up to U+DFFF are not characters
			last = 0xDFFF
		}
		return head + string(last+1)
	}
	return ""
}

// scope is a shard and the rules to read in it.
type scope struct {
	shard int16
	rules []int32 // nil: all
}

// and narrows a statement on the alias to the scope's rules.
func (c scope) and(alias string) string { return ofRules(alias, c.rules) }

func ofRules(alias string, rules []int32) string {
	if rules == nil {
		return ""
	}
	return ` AND ` + alias + `.rule_id IN ` + inList(rules)
}

// ruleRow has the columns of a rule that a filter needs.
type ruleRow struct {
	id     int32
	entity string
}

// idsOf returns the ids of rows; nil for nil.
func idsOf(rows []ruleRow) []int32 {
	if rows == nil {
		return nil
	}
	ids := make([]int32, len(rows))
	for i, r := range rows {
		ids[i] = r.id
	}
	return ids
}

// rowField is a column of a rowTable.
type rowField struct {
	name string
	kind elementType
}

// rowTable returns rows as the table d of a statement for either database, and its one or more parameters, with ? for
// each. A statement that joins a table with it compares all columns of a key with columns of the rows: SQLite would otherwise
// search the rows for each row of the table. A value is an int16, int32, int64, string or time.Time, or nil for NULL; it has the
// type of its field.
func rowTable(s *database, fields []rowField, rows [][]any) (text string, args []any, err error) {
	if s.alone {
		return jsonTable(fields, rows)
	}
	columns := make([]column, len(fields))
	those := make([]*column, len(fields))
	for i, f := range fields {
		columns[i] = f.kind.named(f.name)
		those[i] = &columns[i]
		for _, row := range rows {
			if err := columns[i].add(row[i]); err != nil {
				return "", nil, fmt.Errorf("%s: %w", f.name, err)
			}
		}
	}
	text, args = table("d", those)
	return text, args, nil
}
