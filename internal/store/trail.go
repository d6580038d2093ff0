package store

import (
	"strconv"
	"strings"

	futurejobs "deadman/future_jobs"
)

// What finds the first of a text in another is called otherwise in each database.
const (
	findInPostgres = "strpos"
	findInSQLite   = "instr"
)

// trailWith is SQL for what futurejobs.Trail.With makes of a trail and of one entry that is new. The
// entry may be NULL: then it is the trail as it is, which Postgres need not write again. old and
// news are columns or parameters; find is one of the names above.
func trailWith(old, news, find string) string {
	return strings.NewReplacer("old", old, "news", news, "find", find, "most", strconv.Itoa(futurejobs.TrailMost-1), "nl", "'\n'",
		"update", "'%"+futurejobs.UpdateEnds+"'").Replace(
		`CASE WHEN news IS NULL OR news LIKE update AND old LIKE update THEN old ELSE coalesce(CASE WHEN length(old) - length(replace(old, nl, '')) < most THEN old
		ELSE substr(old, find(old, nl) + 1) END || nl, '') || news END`)
}
