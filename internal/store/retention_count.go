package store

import (
	"context"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	ruledocs "deadman/rules/document"
)

// rowGroup counts the rows of a class.
type rowGroup struct {
	rowClass
	stays  bool // open or unpublished alerts
	rows   int64
	oldest time.Time
}

// RetentionQuery asks for the rows that retention deletes.
type RetentionQuery struct {
	Retention
	At    time.Time                      // the time of the deletion; rows that do not exist yet are not counted
	Rules map[string]*ruledocs.Retention // in place of the saved periods, by the names of rules; nil: none
}

// RetentionCount counts rows that retention deletes.
type RetentionCount struct {
	Kind    string // history, ticks, alerts or dead_letters
	Rule    string
	Outcome string // of history
	Rows    int64
	Oldest  time.Time
}

// retentionCounter counts rows that retention deletes.
type retentionCounter struct {
	*RetentionStore
	query RetentionQuery
	plan  retentionPlan
	names map[int32]string
	sums  map[RetentionCount]*RetentionCount // by their kind, rule and outcome
	open  map[int16][]alerts.ID              // alerts of conditionAlerts
}

// namedRule is the id and the name of a rule.
type namedRule struct {
	id      int32
	name    string
	deleted bool
}

func (c *retentionCounter) run(ctx context.Context) (err error) {
	if c.plan, err = c.retentionPlan(ctx, c.query.Retention); err != nil {
		return err
	}
	all, err := query(ctx, c.read, func(row scanner, r *namedRule) error { return row.Scan(&r.id, &r.name, &r.deleted) },
		`SELECT id, name, deleted_at IS NOT NULL FROM rule`)
	if err != nil {
		return err
	}
	c.names = make(map[int32]string, len(all))
	for _, r := range all {
		c.names[r.id] = r.name
		if keep, changed := c.query.Rules[r.name]; changed && !r.deleted {
			c.plan.set(r.id, r.name, keep)
		}
	}
	if err := c.history(ctx); err != nil {
		return err
	}
	if err := c.ticks(ctx); err != nil {
		return err
	}
	if err := c.ofAlerts(ctx); err != nil {
		return err
	}
	return c.letters(ctx)
}

// add adds rows to their sum.
func (c *retentionCounter) add(kind, rule, outcome string, rows int64, oldest time.Time) {
	key := RetentionCount{Kind: kind, Rule: rule, Outcome: outcome}
	sum := c.sums[key]
	if sum == nil {
		sum = &RetentionCount{Kind: kind, Rule: rule, Outcome: outcome, Oldest: oldest}
		c.sums[key] = sum
	}
	sum.Rows += rows
	if oldest.Before(sum.Oldest) {
		sum.Oldest = oldest
	}
}

// history counts the ended jobs: those older than every period, then those of the days with due classes.
func (c *retentionCounter) history(ctx context.Context) error {
	if longest := c.plan.longest(keptHistory); longest != 0 {
		ended, err := c.endedBefore(ctx, c.query.At.Add(-longest))
		if err != nil {
			return err
		}
		if err := c.addHistory(ctx, ended, func(rowClass) bool { return true }); err != nil {
			return err
		}
	}
	if len(c.plan.own) == 0 {
		return nil
	}
	days, err := c.dueDays(ctx, c.plan, keptHistory, c.query.At)
	if err != nil {
		return err
	}
	for _, d := range days {
		ended, err := c.endedOn(ctx, d.day)
		if err != nil {
			return err
		}
		if err := c.addHistory(ctx, ended, func(r rowClass) bool { return c.plan.isDue(keptHistory, r, d.day, c.query.At) }); err != nil {
			return err
		}
	}
	return nil
}

func (c *retentionCounter) addHistory(ctx context.Context, ended filter, due func(rowClass) bool) error {
	groups, err := c.endedGroups(ctx, ended)
	for _, g := range groups {
		if due(g.rowClass) {
			c.add("history", c.names[g.rule], g.outcome, g.rows, g.oldest)
		}
	}
	return err
}

// ticks counts the ticks of each rule.
func (c *retentionCounter) ticks(ctx context.Context) error {
	for _, table := range tickTables {
		rules, err := table.rulesWithTicks(ctx, c.read)
		if err != nil {
			return err
		}
		for _, id := range rules {
			period := c.plan.period(keptHistory, rowClass{rule: id})
			if period == 0 {
				continue
			}
			due, err := query(ctx, c.read, func(row scanner, g *rowGroup) error { return row.Scan(&g.rows, at(&g.oldest)) }, table.count, id, c.query.At.Add(-period))
			if err != nil {
				return err
			}
			for _, g := range due {
				c.add("ticks", c.names[id], "", g.rows, g.oldest)
			}
		}
	}
	return nil
}

// ofAlerts counts the alerts as history does.
func (c *retentionCounter) ofAlerts(ctx context.Context) (err error) {
	if c.open, err = conditionAlerts(ctx, c.database); err != nil {
		return err
	}
	if longest := c.plan.longest(keptAlerts); longest != 0 {
		if err := c.addAlerts(ctx, alerts.ID{}, firstAlert(c.query.At.Add(-longest)), func(rowClass) bool { return true }); err != nil {
			return err
		}
	}
	if len(c.plan.own) == 0 {
		return nil
	}
	days, err := c.dueDays(ctx, c.plan, keptAlerts, c.query.At)
	if err != nil {
		return err
	}
	for _, d := range days {
		if err := c.addAlerts(ctx, firstAlert(d.day), firstAlert(d.day.Add(futurejobs.Day)),
			func(r rowClass) bool { return c.plan.isDue(keptAlerts, r, d.day, c.query.At) }); err != nil {
			return err
		}
	}
	return nil
}

func (c *retentionCounter) addAlerts(ctx context.Context, from, end alerts.ID, due func(rowClass) bool) error {
	for _, shard := range c.allShards() {
		groups, err := c.alerts.alertGroups(ctx, shard, from, end, c.open[shard])
		if err != nil {
			return err
		}
		for _, g := range groups {
			if !g.stays && due(g.rowClass) {
				c.add("alerts", c.names[g.rule], "", g.rows, g.oldest)
			}
		}
	}
	return nil
}

// letterGroup counts dead letters of a rule.
type letterGroup struct {
	rule   string
	rows   int64
	oldest time.Time
}

func (c *retentionCounter) letters(ctx context.Context) error {
	if c.query.DeadLetters == 0 {
		return nil
	}
	groups, err := query(ctx, c.read, func(row scanner, g *letterGroup) error { return row.Scan(&g.rule, &g.rows, at(&g.oldest)) },
		`SELECT d.rule, count(*), min(d.at) FROM dead_letter d WHERE d.at < $1 GROUP BY d.rule`, c.query.At.Add(-c.query.DeadLetters))
	for _, g := range groups {
		c.add("dead_letters", g.rule, "", g.rows, g.oldest)
	}
	return err
}
