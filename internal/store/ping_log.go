package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"deadman/internal/pings"
)

const (
	// pingRows is the number of pings that one statement writes, and maxPingLogs the number of keys that one statement
	// trims. SQLite searches all earlier parameters to find one, so many parameters are slow.
	pingRows    = 16
	maxPingLogs = 50
	// pingBatch is the number of pings that one transaction writes.
	pingBatch = 1000
)

// PingLogStore logs the last pings of each key.
type PingLogStore struct{ *database }

// LogPings implements pings.Store, in bounded transactions.
func (s *PingLogStore) LogPings(ctx context.Context, entries []pings.Entry) error {
	for some := range slices.Chunk(entries, pingBatch) {
		if err := s.tx(ctx, func(tx *sql.Tx, _ time.Time) error { return insertPings(ctx, tx, some) }); err != nil {
			return wrapErr("log pings", err)
		}
	}
	for some := range slices.Chunk(logsOf(entries), pingBatch) {
		if err := s.tx(ctx, func(tx *sql.Tx, _ time.Time) error { return trimPings(ctx, tx, some) }); err != nil {
			return wrapErr("trim the log of pings", err)
		}
	}
	bodied := slices.DeleteFunc(slices.Clone(entries), func(e pings.Entry) bool { return e.Body == "" })
	for some := range slices.Chunk(logsOf(bodied), pingBatch) {
		if err := s.tx(ctx, func(tx *sql.Tx, _ time.Time) error { return trimBodies(ctx, tx, some) }); err != nil {
			return wrapErr("trim the bodies of the log of pings", err)
		}
	}
	return nil
}

const (
	pingColumns = `rule_id, key, at, kind, exit_status, run, agent, body, body_size`
	insertPing  = `INSERT INTO ping_log (` + pingColumns + `) VALUES `
	onePing     = `(?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

func insertPings(ctx context.Context, tx *sql.Tx, entries []pings.Entry) error {
	return inChunks(ctx, tx, entries, pingRows, func(n int) string { return insertPing + repeated(onePing, n) },
		func(e pings.Entry) []any {
			return []any{
				e.RuleID, escape(e.Key), e.At, string(e.Signal.Kind), exitOf(e.Signal), optional(e.Run),
				document([]byte(e.Agent)), optional(e.Body), e.BodySize,
			}
		})
}

// inChunks runs a statement for size items at a time: text returns the statement for n items, and args the parameters
// of one. It prepares the statement once, and once more for the rest.
func inChunks[T any](ctx context.Context, tx *sql.Tx, all []T, size int, text func(n int) string, args func(T) []any) error {
	for len(all) > 0 {
		n := min(size, len(all))
		statement, err := tx.PrepareContext(ctx, rebindPlaceholders(text(n)))
		if err != nil {
			return err
		}
		for ; len(all) >= n && n > 0; all = all[n:] {
			var some []any
			for _, one := range all[:n] {
				some = append(some, args(one)...)
			}
			if _, err := statement.ExecContext(ctx, some...); err != nil {
				return errors.Join(err, statement.Close())
			}
		}
		if err := statement.Close(); err != nil {
			return err
		}
	}
	return nil
}

func exitOf(s pings.Signal) any {
	if s.Exit == nil {
		return nil
	}
	return *s.Exit
}

// repeated returns a text repeated with commas.
func repeated(text string, times int) string {
	return strings.TrimSuffix(strings.Repeat(text+", ", times), ", ")
}

// pingLog identifies the pings of a rule and a key.
type pingLog struct {
	rule int32
	key  string
}

func logsOf(entries []pings.Entry) []pingLog {
	seen := make(map[pingLog]bool)
	var logs []pingLog
	for _, e := range entries {
		if log := (pingLog{e.RuleID, e.Key}); !seen[log] {
			seen[log] = true
			logs = append(logs, log)
		}
	}
	return logs
}

// trimPings deletes all but the last pings of each key.
func trimPings(ctx context.Context, tx *sql.Tx, logs []pingLog) error {
	return inChunks(ctx, tx, logs, maxPingLogs, trimText, func(l pingLog) []any { return []any{l.rule, escape(l.key)} })
}

// logsText returns the CTE of n keys.
func logsText(n int) string {
	return `WITH lane (rule_id, key) AS (VALUES ` + repeated(`(CAST(? AS int), CAST(? AS text))`, n) + `)`
}

// trimText returns the statement of trimPings for n keys.
func trimText(n int) string {
	return logsText(n) + `
DELETE FROM ping_log WHERE id IN (
	SELECT l.id FROM lane k JOIN ping_log l ON l.rule_id = k.rule_id AND l.key = k.key
	WHERE l.id <= (SELECT m.id FROM ping_log m WHERE m.rule_id = k.rule_id AND m.key = k.key ORDER BY m.id DESC LIMIT 1 OFFSET ` +
		strconv.Itoa(pings.Logged) + `))`
}

// trimBodies deletes the bodies of the older pings of each key.
func trimBodies(ctx context.Context, tx *sql.Tx, logs []pingLog) error {
	return inChunks(ctx, tx, logs, maxPingLogs, bodiesText, func(l pingLog) []any { return []any{l.rule, escape(l.key)} })
}

// bodiesText returns the statement of trimBodies for n keys.
func bodiesText(n int) string {
	return logsText(n) + `
UPDATE ping_log SET body = NULL WHERE id IN (
	SELECT id FROM (
		SELECT l.id, sum(octet_length(l.body)) OVER (PARTITION BY l.rule_id, l.key ORDER BY l.id DESC) AS kept
		FROM lane k JOIN ping_log l ON l.rule_id = k.rule_id AND l.key = k.key
		WHERE l.body IS NOT NULL) AS bodies
	WHERE kept > ` + strconv.Itoa(pings.KeptBodies) + `)`
}

// PingLog implements pings.Store.
func (s *PingLogStore) PingLog(ctx context.Context, ruleID int32, key string, before int64, limit int) ([]pings.Entry, error) {
	w := filter{`SELECT id, ` + pingColumns + ` FROM ping_log WHERE rule_id = ?`, []any{ruleID}}
	if key != "" {
		w.and(`key = ?`, escape(key))
	}
	if before != 0 {
		w.and(`id < ?`, before)
	}
	found, err := query(ctx, s.read, readPing, rebindPlaceholders(w.text+` ORDER BY id DESC LIMIT ?`), append(w.args, limit)...)
	if err != nil {
		return nil, wrapErr("log of pings", err)
	}
	return found, nil
}

func readPing(row scanner, e *pings.Entry) error {
	var exit sql.Null[int]
	var run, body sql.Null[string]
	err := row.Scan(&e.ID, &e.RuleID, (*escapedText)(&e.Key), at(&e.At), (*string)(&e.Signal.Kind), &exit, &run, &e.Agent, &body, &e.BodySize)
	e.Run, e.Body = run.V, body.V
	if exit.Valid {
		e.Signal.Exit = &exit.V
	}
	return err
}

// forgetPings deletes log entries before the given time, in bounded transactions. It returns their number.
func (s *PingLogStore) forgetPings(ctx context.Context, before time.Time) (int64, error) {
	return s.pruneAll(ctx, "", `DELETE FROM ping_log WHERE id IN
	(SELECT id FROM (SELECT id, at FROM ping_log ORDER BY id LIMIT $1) AS oldest WHERE at < $2)`, pruneBatch, before)
}

// PingBytes returns the bytes of bodies in the log of pings of the rules with names that begin with a text, by rule name, with
// those of deleted rules.
func (s *PingLogStore) PingBytes(ctx context.Context, within string) (map[string]int64, error) {
	bytes, err := perRule(ctx, s.read, `SELECT r.name, sum(octet_length(l.body)) FROM ping_log l JOIN rule r ON r.id = l.rule_id
WHERE l.body IS NOT NULL AND substr(r.name, 1, $1) = $2 GROUP BY r.name`, len(within), within)
	if err != nil {
		return nil, wrapErr("bytes of the log of pings", err)
	}
	return bytes, nil
}
