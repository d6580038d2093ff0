package store

import (
	"strconv"
	"strings"
)

// alertQueue is a table of alerts to be processed.
type alertQueue struct {
	rows    string // a table with a row for each alert, with shard and id
	columns string // of rows, to be selected
	order   string // of the rows of a shard, oldest first
	first   string // an entry before all others of a shard, as columns FROM a table; empty: none
	lateral bool   // the database has LATERAL
}

// queueBytes is the size of the alerts that ends a read of a queue, in bytes as they are stored. The alert that passes it
// is read, too.
const queueBytes = 16 << 20

// next returns the statement for the next alerts of a queue, oldest first within a shard. Shards take turns, so a long
// queue of one does not hold up the others. It returns up to limit alerts, and ends at queueBytes; through has the bytes up
// to an alert.
func (q alertQueue) next(shards []int16, limit int, except string) string {
	limitSQL := ` LIMIT ` + strconv.Itoa(limit)
	turnsOf := func(shard string) string {
		return `(SELECT row_number() OVER (ORDER BY ` + q.order + `) AS turn, ` + q.columns + `
	FROM ` + q.rows + ` AS q WHERE q.shard = ` + shard + except + ` ORDER BY ` + q.order + limitSQL + `) AS s`
	}
	var turns []string
	if q.lateral {
		// One subquery for all shards: a thousand of them take Postgres 0.4 s to plan.
		turns = append(turns, `SELECT s.* FROM unnest('{`+strings.Trim(inList(shards), `()`)+`}'::smallint[]) AS own (shard) CROSS JOIN LATERAL `+turnsOf(`own.shard`))
	} else {
		for _, shard := range shards {
			turns = append(turns, `SELECT * FROM `+turnsOf(itoa(shard)))
		}
	}
	if q.first != "" {
		turns = append(turns, `SELECT 0 AS turn, `+q.first+` WHERE shard IN `+inList(shards))
	}
	return `SELECT * FROM (
	SELECT q.*, sum(q.size) OVER (ORDER BY q.turn, q.shard ROWS UNBOUNDED PRECEDING) AS through FROM (
		SELECT q.*, octet_length(coalesce(a.detail, '')) AS size
		FROM (SELECT turn, ` + q.columns + ` FROM (` + union(turns) + `) AS q ORDER BY turn, shard` + limitSQL + `) AS q
		LEFT JOIN alert a ON a.shard = q.shard AND a.id = q.id
	) AS q
) AS q WHERE q.through - q.size < ` + strconv.Itoa(queueBytes)
}

// isFull reports whether a read with a limit ended before the end of its queue: it returned so many alerts, or the last of
// them passed queueBytes.
func isFull(alerts, limit int, through int64) bool { return alerts == limit || through >= queueBytes }

// notOfRules returns the condition that a row of a queue q belongs to none of the rules, and its parameters. Without
// names it is empty, so a read of the queue touches no other table.
func notOfRules(names []string) (condition string, args []any) {
	if len(names) == 0 {
		return "", nil
	}
	marks := make([]string, len(names))
	for i, name := range names {
		marks[i], args = "$"+strconv.Itoa(i+1), append(args, escape(name))
	}
	return ` AND NOT EXISTS (SELECT 1 FROM alert x JOIN rule y ON y.id = x.rule_id
	WHERE x.shard = q.shard AND x.id = q.id AND y.name IN (` + strings.Join(marks, ", ") + `))`, args
}
