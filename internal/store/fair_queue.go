package store

import (
	"strconv"
	"strings"
)

// alertQueue is where alerts wait for somebody.
type alertQueue struct {
	rows    string // what there is a row of for each alert, with shard and id
	columns string // of rows, that are asked for
	order   string // of the rows of a shard, oldest first
	first   string // what comes before everything else of a shard, as columns FROM a table; empty: nothing
}

// news is what nobody has routed to people yet.
var news = alertQueue{rows: `alert_news`, columns: `shard, id`, order: `id`}

// next is the statement for what comes next in a queue, oldest first within a shard. Shards take
// turns, so that a long queue of one does not hold up the others.
func (q alertQueue) next(shards []int16, limit int, except string) string {
	most := ` LIMIT ` + strconv.Itoa(limit)
	turns := make([]string, 0, len(shards)+1)
	for _, shard := range shards {
		turns = append(turns, `SELECT * FROM (SELECT row_number() OVER (ORDER BY `+q.order+`) AS turn, `+q.columns+`
	FROM `+q.rows+` AS q WHERE shard = `+itoa(shard)+except+` ORDER BY `+q.order+most+`) AS s`+itoa(shard))
	}
	if q.first != "" {
		turns = append(turns, `SELECT 0 AS turn, `+q.first+` WHERE shard IN `+inList(shards))
	}
	return `SELECT ` + q.columns + ` FROM (` + union(turns) + `) AS q ORDER BY turn, shard` + most
}

// notOfRules is the condition that a row of a queue q is of none of some rules, and its
// parameters. Without it, reading a queue touches nothing else.
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
