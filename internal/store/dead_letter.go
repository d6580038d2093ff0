package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	futurejobs "deadman/future_jobs"
)

const insertLetter = `
INSERT INTO dead_letter (stream, subject, seq, event_at, event_id, header, body, rule, part, reason, size, at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`

// addToSummary adds refused events to the summary of their rule, stream and minute. Batches of a stream come one after
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
		l.Event.Stream, escape(l.Event.Subject), int64(l.Event.Seq), when(l.Event.At), escape(l.Event.ID),
		head, data, l.Rule, string(l.Part), escape(l.Reason), l.Size, now,
	}, nil
}

// readListedLetter is readLetter for a list.
func readListedLetter(row scanner, l *futurejobs.DeadLetter) error {
	return readLetter(rowWithExtras{row, []any{&l.Omitted}}, l)
}

func readLetter(row scanner, l *futurejobs.DeadLetter) error {
	var head string
	e := &l.Event
	if err := row.Scan(&l.ID, &e.Stream, (*escapedText)(&e.Subject), &e.Seq, at(&e.At), (*escapedText)(&e.ID),
		&head, &e.Data, &l.Rule, &l.Part, (*escapedText)(&l.Reason), &l.Size, at(&l.At), &l.Tries, at(&l.LastTriedAt),
		&l.Summarized, &l.LastSeq, at(&l.LastEventAt)); err != nil {
		return err
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

// DeadLetter returns one dead letter, or futurejobs.ErrNotFound.
func (s *Store) DeadLetter(ctx context.Context, id int64) (futurejobs.DeadLetter, error) {
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
func (s *Store) DeadLetters(ctx context.Context, f futurejobs.Filter) (futurejobs.Page[futurejobs.DeadLetter], error) {
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

// lettersCounted is the number of the newest dead letters that are counted; it bounds the time of a page.
const lettersCounted = 5000

// reasonsMost is the number of reasons returned, those with the most letters.
const reasonsMost = 50

// LetterReasons counts the newest dead letters of a filter's Rule, RulePrefix, Subject and Reason by the rule that
// refused them and the reason.
func (s *Store) LetterReasons(ctx context.Context, f futurejobs.Filter) (futurejobs.DeadLetterReasons, error) {
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
