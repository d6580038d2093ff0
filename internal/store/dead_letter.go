package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

const insertLetter = `
INSERT INTO dead_letter (stream, subject, seq, event_at, event_id, header, body, rule, part, reason, size, at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`

// addToSummary adds refused events to the summary of their rule, line and minute. Batches of a line come one after
// another, so the events added are newer.
const addToSummary = `
INSERT INTO dead_letter (stream, subject, seq, event_at, event_id, header, body, rule, part, reason, size, at, summarized, last_seq, last_event_at, minute_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
ON CONFLICT (rule, stream, minute_at) DO UPDATE
SET summarized = dead_letter.summarized + excluded.summarized, last_seq = excluded.last_seq, last_event_at = excluded.last_event_at`

// summaryPeriod is the period of a summary.
const summaryPeriod = time.Minute

// summary returns the parameters of addToSummary.
func summary(l futurejobs.DeadLetter, now time.Time) ([]any, error) {
	args, err := letter(l, now)
	return append(args, l.Summarized, int64(l.LastSeq), when(l.LastEventAt), now.Truncate(summaryPeriod)), err
}

// letter returns the parameters of insertLetter. It keeps the whole event, with any bytes.
func letter(l futurejobs.DeadLetter, now time.Time) ([]any, error) {
	head, err := header(l.Event.Header)
	if err != nil {
		return nil, wrapErr("dead letter", err)
	}
	data := l.Event.Data
	if data == nil {
		data = []byte{}
	}
	return []any{
		lineOf(l.Event), escape(l.Event.Subject), int64(l.Event.Seq), when(l.Event.At), escape(l.Event.ID),
		head, data, l.Rule, string(l.Part), escape(l.Reason), l.Size, now,
	}, nil
}

// lineOf returns the line of an event, as a dead letter has it in the column stream: the tenants' line, or the stream.
func lineOf(e futurejobs.Event) string {
	if futurejobs.IsTenantsLine(e.Line) {
		return e.Line
	}
	return e.Stream
}

// readListedLetter is readLetter for a list.
func readListedLetter(row scanner, l *futurejobs.DeadLetter) error {
	return readLetter(rowWithExtras{row, []any{&l.Omitted}}, l)
}

func readLetter(row scanner, l *futurejobs.DeadLetter) error {
	var line, head string
	e := &l.Event
	if err := row.Scan(&l.ID, &line, (*escapedText)(&e.Subject), &e.Seq, at(&e.At), (*escapedText)(&e.ID),
		&head, &e.Data, &l.Rule, &l.Part, (*escapedText)(&l.Reason), &l.Size, at(&l.At), &l.Tries, at(&l.LastTriedAt),
		&l.Summarized, &l.LastSeq, at(&l.LastEventAt)); err != nil {
		return err
	}
	if e.Stream = futurejobs.StreamOf(line); futurejobs.IsTenantsLine(line) {
		e.Line = line
	}
	if len(e.Data) == 0 {
		e.Data = nil
	}
	var err error
	e.Header, err = readHeader(head)
	return err
}

const letterColumns = `id, stream, subject, seq, event_at, event_id, header, body, rule, part, reason, size, at, tries, last_tried_at, summarized, last_seq, last_event_at`

// letterSize is the expression for the bytes of a dead letter's large columns.
const letterSize = `octet_length(header) + octet_length(body)`

// listedLetters are letterColumns in a list, and a flag that headers and body are left out.
var listedLetters = strings.NewReplacer(
	`header`, `CASE WHEN `+letterSize+` <= `+listedMost+` THEN header ELSE '[]' END`,
	`body`, `CASE WHEN `+letterSize+` <= `+listedMost+` THEN body END`,
).Replace(letterColumns) + `, ` + letterSize + ` > ` + listedMost

// DeadLetterStore lists dead letters, and reads and deletes them for a retry.
type DeadLetterStore struct{ *database }

// DeadLetter returns one dead letter, or futurejobs.ErrNotFound.
func (s *DeadLetterStore) DeadLetter(ctx context.Context, id int64) (futurejobs.DeadLetter, error) {
	letters, err := query(ctx, s.read, readLetter, `SELECT `+letterColumns+` FROM dead_letter WHERE id = $1`, id)
	if err == nil && len(letters) == 0 {
		err = futurejobs.ErrNotFound
	}
	if err != nil {
		return futurejobs.DeadLetter{}, wrapErr(fmt.Sprintf("dead letter %d", id), err)
	}
	return letters[0], nil
}

// DeadLetters lists the dead letters, newest first. A filter's Rule, RulePrefix, Subject and Reason narrow the list;
// its other fields do not apply. Headers and bodies larger than futurejobs.ListedMost are left out.
func (s *DeadLetterStore) DeadLetters(ctx context.Context, f futurejobs.Filter) (futurejobs.Page[futurejobs.DeadLetter], error) {
	var page futurejobs.Page[futurejobs.DeadLetter]
	before := position{ID: maxID}
	if err := before.read("dead_letter", f.Cursor); err != nil {
		return page, err
	}
	w := filter{`SELECT ` + listedLetters + ` FROM dead_letter WHERE id < ?`, []any{before.ID}}
	w.letters(f)
	letters, err := query(ctx, s.read, readListedLetter, rebindPlaceholders(w.text+` ORDER BY id DESC LIMIT ?`), append(w.args, limit(f)+1)...)
	if err != nil {
		return page, wrapErr("dead letters", err)
	}
	return paged("dead_letter", letters, f, func(l futurejobs.DeadLetter) position { return position{ID: l.ID} }), nil
}

// countLetters counts the rows by an index, and reads the summaries.
const countLetters = `
SELECT (SELECT count(*) FROM dead_letter) + CAST(coalesce(sum(summarized - 1), 0) AS bigint) FROM dead_letter WHERE minute_at IS NOT NULL`

// CountLetters returns the number of events that are dead letters, also in summaries.
func (s *DeadLetterStore) CountLetters(ctx context.Context) (n int64, err error) {
	if err := s.read.QueryRowContext(ctx, countLetters).Scan(&n); err != nil {
		return 0, wrapErr("count dead letters", err)
	}
	return n, nil
}

// lettersCounted is the number of the newest dead letters of which the reasons are counted; it bounds the time of a page.
const lettersCounted = 5000

// reasonsMost is the number of reasons returned, those with the most letters.
const reasonsMost = 50

// LetterReasons counts the newest dead letters of a filter's Rule, RulePrefix, Subject and Reason by the rule that
// refused them and the reason.
func (s *DeadLetterStore) LetterReasons(ctx context.Context, f futurejobs.Filter) (futurejobs.DeadLetterReasons, error) {
	var counted futurejobs.DeadLetterReasons
	w := filter{`SELECT id, rule, reason, at, summarized FROM dead_letter WHERE 1 = 1`, nil}
	w.letters(f)
	found, err := query(ctx, s.read, func(row scanner, r *futurejobs.DeadLetterReason) error {
		return row.Scan(&r.Rule, (*escapedText)(&r.Reason), &r.Letters, &r.Summarized, &r.Newest, at(&r.At), &counted.Letters)
	}, rebindPlaceholders(`
SELECT rule, reason, count(*), CAST(sum(summarized) AS bigint), max(id), max(at), sum(count(*)) OVER ()
FROM (`+w.text+` ORDER BY id DESC LIMIT ?) AS newest
GROUP BY rule, reason ORDER BY count(*) DESC, max(id) DESC LIMIT ?`), append(w.args, lettersCounted, reasonsMost)...)
	if err != nil {
		return counted, wrapErr("reasons of dead letters", err)
	}
	counted.Reasons, counted.More = found, counted.Letters == lettersCounted
	return counted, nil
}

const (
	keepLetter = `UPDATE dead_letter SET reason = $1, tries = tries + 1, last_tried_at = $2 WHERE id = $3`
	dropLetter = `DELETE FROM dead_letter WHERE id = $1`
)

// statement is a text with its arguments.
type statement struct {
	text string
	args []any
}

// letterWrites returns the writes for a batch's dead letters. If the batch retries a dead letter, tried is the write
// for that one, which must still exist.
func letterWrites(ctx context.Context, b futurejobs.EffectBatch, net futurejobs.FoldResult, now time.Time) (writes []statement, tried statement, err error) {
	again, fresh := sortLetters(b, net.DeadLetters)
	var beyond futurejobs.Summaries
	for _, l := range fresh {
		if l.Summarized > 0 {
			beyond.Add(l)
			continue
		}
		args, err := letter(l, now)
		if err != nil {
			return nil, tried, err
		}
		writes = append(writes, statement{insertLetter, args})
	}
	for _, l := range beyond.All() {
		args, err := summary(l, now)
		if err != nil {
			return nil, tried, err
		}
		writes = append(writes, statement{addToSummary, args})
	}
	if b.Letter == nil {
		return writes, tried, nil
	}
	detail := fmt.Sprintf("ingested; jobs created: %d, ended: %d, changed: %d", net.Created, net.Ended, net.Updated+net.Paused+net.Resumed)
	tried = statement{dropLetter, []any{b.Letter.ID}}
	if again != "" {
		detail = "refused again: " + again
		tried = statement{keepLetter, []any{escape(again), now, b.Letter.ID}}
	}
	args, err := auditArgs(ctx, now, access.DeadLetterRetry, letterObject(b.Letter.ID), detail)
	return append(writes, statement{insertAudit, args}), tried, err
}

// sortLetters separates the reasons that a retried letter is refused again from new dead letters. folded are the
// letters from folding the effects.
func sortLetters(b futurejobs.EffectBatch, folded []futurejobs.DeadLetter) (again string, fresh []futurejobs.DeadLetter) {
	var reasons []string
	for _, l := range slices.Concat(b.DeadLetters, folded) {
		switch {
		case b.Letter == nil || l.Rule != b.Letter.Rule:
			fresh = append(fresh, l)
		case !slices.Contains(reasons, l.Reason):
			reasons = append(reasons, l.Reason)
		}
	}
	return strings.Join(reasons, "; "), fresh
}

func letterObject(id int64) string { return fmt.Sprintf("dead-letter/%d", id) }

// LettersAfter returns up to limit dead letters of a filter's Rule, RulePrefix, Subject and Reason that follow an id,
// oldest first.
func (s *DeadLetterStore) LettersAfter(ctx context.Context, f futurejobs.Filter, after int64, limit int) ([]futurejobs.DeadLetter, error) {
	w := filter{`SELECT ` + letterColumns + ` FROM dead_letter WHERE id > ?`, []any{after}}
	w.letters(f)
	letters, err := query(ctx, s.read, readLetter, rebindPlaceholders(w.text+` ORDER BY id LIMIT ?`), append(w.args, limit)...)
	if err != nil {
		return nil, wrapErr("dead letters", err)
	}
	return letters, nil
}

// DropLetter deletes a dead letter, or returns futurejobs.ErrNotFound.
func (s *DeadLetterStore) DropLetter(ctx context.Context, id int64) error {
	err := s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		n, err := exec(ctx, tx, dropLetter, id)
		if err == nil && n == 0 {
			err = futurejobs.ErrNotFound
		}
		if err != nil {
			return err
		}
		return audit(ctx, tx, now, access.DeadLetterDrop, letterObject(id), "")
	})
	if err != nil {
		return wrapErr(fmt.Sprintf("drop dead letter %d", id), err)
	}
	return nil
}

// DropLetters deletes the dead letters that match a filter's Rule, RulePrefix, Subject and Reason, and returns their
// number.
func (s *DeadLetterStore) DropLetters(ctx context.Context, f futurejobs.Filter) (dropped int64, err error) {
	w := filter{`DELETE FROM dead_letter WHERE 1 = 1`, nil}
	w.letters(f)
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) (err error) {
		if dropped, err = exec(ctx, tx, rebindPlaceholders(w.text), w.args...); err != nil || dropped == 0 {
			return err
		}
		return audit(ctx, tx, now, access.DeadLetterDrop, "dead-letter", fmt.Sprintf("%d dropped%s", dropped, narrowed(f)))
	})
	if err != nil {
		return 0, wrapErr("drop dead letters", err)
	}
	return dropped, nil
}

// narrowed describes a filter in the audit log.
func narrowed(f futurejobs.Filter) string {
	text := ""
	if f.Rule != "" {
		text += " of rule " + f.Rule
	}
	if f.Subject != "" {
		text += " on " + f.Subject
	}
	if f.Reason != "" {
		text += " because: " + f.Reason
	}
	return text
}
