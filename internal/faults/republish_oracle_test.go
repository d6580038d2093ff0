package faults

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Loss describes the alerts lost by the stream before the database's alerts were republished.
type Loss struct {
	Alerts  map[string]bool // ids of the alerts that the stream had
	Deleted bool            // the stream was deleted, not purged
	Full    bool            // the stream rejected alerts from before the loss until after the request to republish
	Kept    uint64          // if Full: the last sequence before that; alerts up to it keep their positions
}

// decided is an alert in the database.
type decided struct {
	shard int
	line  string // its rule and key
	at    time.Time
}

// Republished checks on a system at rest that the stream has each alert of the database, including those that it lost,
// and the alerts of each rule and key in the order of their decisions. An alert published before the lost ones were
// republished keeps its position. The deletion of a stream is alerted. overtakes is the number of lines with a lost
// alert and a later one that was not lost: those could be in the wrong order.
func (c *Checker) Republished(ctx context.Context, l Loss) (overtakes int, err error) {
	there, err := c.decisions(ctx)
	if err != nil {
		return 0, err
	}
	published, err := c.Stream(ctx)
	if err != nil {
		return 0, err
	}
	var breaches []string
	breach := func(format string, args ...any) { breaches = append(breaches, fmt.Sprintf(format, args...)) }
	missing := maps.Clone(there)
	back := map[int]uint64{} // for each shard, the sequence of the first republished alert
	lost, later := map[string]time.Time{}, map[string]bool{}
	reported := false
	for _, s := range published {
		d, known := there[s.ID]
		delete(missing, s.ID)
		reported = reported || s.Rule == own && s.Key == "stream/DEADMAN_ALERTS" && s.Step == "recreated" && s.Status == "firing"
		switch {
		case !known:
			breach("P7: alert %s (%s/%s) is in the stream, and the database does not have it", s.ID, s.Rule, s.Key)
		case l.Alerts[s.ID]:
			back[d.shard] = min(s.Seq, cmp.Or(back[d.shard], s.Seq))
			if before, ok := lost[d.line]; !ok || d.at.Before(before) {
				lost[d.line] = d.at
			}
		}
	}
	for id, d := range missing {
		breach("P7: alert %s (%s, lost: %v) is in the database, and not in the stream", id, d.line, l.Alerts[id])
	}
	if l.Deleted && !reported {
		breach("P7: the stream of alerts was deleted, and no alert reports it")
	}
	newest := map[bool]map[string]PublishedAlert{false: {}, true: {}} // of each line, separately for alerts that keep their positions and the others
	for _, s := range published {
		d := there[s.ID]
		if at, ok := lost[d.line]; ok && !l.Alerts[s.ID] && d.at.After(at) {
			later[d.line] = true
		}
		first, some := back[d.shard]
		keeps := l.Full && s.Seq <= l.Kept || !l.Full && (!some || s.Seq < first)
		before, ok := newest[keeps][d.line]
		if ok && there[before.ID].at.After(d.at) {
			breach("P7: %s: alert %d, decided at %s, comes after alert %d, decided at %s", d.line,
				s.Seq, d.at.UTC().Format(clock), before.Seq, there[before.ID].at.UTC().Format(clock))
			continue
		}
		newest[keeps][d.line] = s
	}
	return len(later), join(breaches)
}

// decisions reads the alerts of the database by id.
func (c *Checker) decisions(ctx context.Context) (map[string]decided, error) {
	rows, err := c.DB.QueryContext(ctx, `SELECT a.id, a.shard, coalesce(r.name, '') || '/' || a.key, a.decided_at
		FROM alert a LEFT JOIN rule r ON r.id = a.rule_id`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]decided{}
	for rows.Next() {
		var id string
		var d decided
		if err := rows.Scan(&id, &d.shard, &d.line, &d.at); err != nil {
			return nil, err
		}
		all[id] = d
	}
	return all, rows.Err()
}

// byDecision sorts alerts by decision, as republished ones may be behind newer ones. Alerts decided at the same time
// keep the order of the stream.
func byDecision(published []PublishedAlert) []PublishedAlert {
	slices.SortStableFunc(published, func(a, b PublishedAlert) int { return a.DecidedAt.Compare(b.DecidedAt) })
	return published
}
