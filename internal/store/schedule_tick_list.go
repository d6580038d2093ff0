package store

import (
	"context"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
)

// searchedTicks is the number of ticks of a rule that one page searches, if no index has the ticks of its filter.
const searchedTicks = 100_000

// tickList lists ticks of one schedule or of a rule.
type tickList struct {
	*StoredTickStore
	ref    futurejobs.ScheduleRef
	filter futurejobs.TickFilter
	most   int // of searched ticks
}

func (l tickList) size() futurejobs.Filter {
	return futurejobs.Filter{After: l.filter.After, Before: l.filter.Before, Limit: l.filter.Limit}
}

func (l tickList) page(ctx context.Context) (futurejobs.Page[futurejobs.ScheduleTick], error) {
	var none futurejobs.Page[futurejobs.ScheduleTick]
	found, search, err := l.statement()
	if err != nil {
		return none, err
	}
	ticks, err := query(ctx, l.read, func(row scanner, t *futurejobs.ScheduleTick) error { return row.Scan(tickFields(t)...) },
		rebindPlaceholders(found.text+tickOrder+` LIMIT ?`), append(found.args, limit(l.size())+1)...)
	if err != nil {
		return none, err
	}
	page := paged(l.name(), ticks, l.size(), positionOfTick)
	if search.text == "" || page.Next != "" {
		return page, nil
	}
	ends, err := query(ctx, l.read, func(row scanner, p *position) error { return row.Scan(at(&p.At), &p.Key) },
		rebindPlaceholders(`SELECT tick_at, schedule_id FROM schedule_tick`+search.text+tickOrder+` LIMIT 1 OFFSET ?`), append(search.args, l.most-1)...)
	if err != nil {
		return none, err
	}
	for _, end := range ends { // the search has not reached the end of the list
		end.List = l.name()
		page.Next = end.cursor()
	}
	return page, nil
}

// name returns the name of the list in its cursors.
func (l tickList) name() string {
	if l.ref.ID == "" {
		return "rule ticks"
	}
	return "schedule ticks"
}

func positionOfTick(t futurejobs.ScheduleTick) position { return position{At: t.At, Key: t.ID} }

const (
	tickColumns = `rule_id, schedule_id, tick_at, decided_at, emitted_at, outcome, missed, attempts, retry_at, COALESCE(reason, '')`
	tickOrder   = ` ORDER BY tick_at DESC, schedule_id DESC`

	// isUnusual is the condition of the index schedule_tick_outcome.
	isUnusual = `outcome NOT IN ('emitted', 'planned')`
)

// statement returns the statement that finds the ticks, without its order and limit, and the condition of the ticks that it
// searches; empty: it does not search.
//
//  1. A page of a schedule reads the primary key.
//  2. An outcome of few ticks has an index.
//  3. Else the statement searches the ticks of the rule in the order of the list, up to a number.
func (l tickList) statement() (found, search filter, err error) {
	of, err := l.selected()
	if err != nil {
		return found, search, err
	}
	rest, outcome := l.rest(), l.filter.Outcome
	where := filter{` WHERE ` + of.text, of.args}
	switch {
	case outcome == "":
	case l.ref.ID != "" || outcome == futurejobs.TickEmitted:
		rest.and(`outcome = ?`, escape(string(outcome)))
	case outcome == futurejobs.TickPlanned: // of all rules
		where.text = ` WHERE outcome = 'planned' AND ` + unindexed(of.text)
	default:
		where.and(isUnusual+` AND outcome = ?`, escape(string(outcome)))
	}
	switch {
	case rest.text == anyTick:
	case l.ref.ID != "":
		where.and(rest.text, rest.args...)
	default:
		args := append(append(slices.Clone(where.args), l.most), rest.args...)
		return filter{`SELECT ` + tickColumns + ` FROM (SELECT * FROM schedule_tick` + where.text + tickOrder + ` LIMIT ?) AS t WHERE ` + rest.text, args}, where, nil
	}
	return filter{`SELECT ` + tickColumns + ` FROM schedule_tick` + where.text, where.args}, search, nil
}

// selected returns the condition of the ticks of the rule or schedule, of the filter's time and after its cursor.
func (l tickList) selected() (filter, error) {
	of := filter{`rule_id = ?`, []any{l.ref.RuleID}}
	if l.ref.ID != "" {
		of.and(`schedule_id = ?`, l.ref.ID)
	}
	of.timeRange(`tick_at`, l.size())
	if l.filter.Cursor == "" {
		return of, nil
	}
	var last position
	if err := last.read(l.name(), l.filter.Cursor); err != nil {
		return of, err
	}
	if l.ref.ID != "" {
		of.and(`tick_at < ?`, last.At)
	} else {
		of.and(`(tick_at, schedule_id) < (?, ?)`, last.At, last.Key)
	}
	return of, nil
}

// anyTick is the condition without a filter.
const anyTick = `TRUE`

// rest returns the condition of the filters that no index has.
func (l tickList) rest() filter {
	rest := filter{text: anyTick}
	if l.filter.Missed {
		rest.and(`missed > 0`)
	}
	if l.filter.LateBy >= time.Second {
		rest.and(l.secondsOf(`tick_at`, `COALESCE(emitted_at, decided_at)`)+` >= ?`, int64(l.filter.LateBy/time.Second))
	}
	return rest
}
