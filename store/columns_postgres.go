package store

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	futurejobs "deadman/future_jobs"
)

// columns are decisions as arrays, in the order in which rows are locked.
type columns struct {
	ends, moves int // how many of each

	shard []int16
	id    []int64
	rev   []int32

	outcome   []string  // empty: the job goes on
	reason    []*string // of an ending
	next      []time.Time
	undecided []int32

	checkCount, step                   []int32
	picked, started, completed, failed []pgtype.Timestamptz
	checks                             []int32
	total, slowest                     []int64 // µs
	alertIDs                           [][]byte
	trail                              pgtype.FlatArray[*string] // what is new of it

	alertJob  []int64
	alertID   [][16]byte
	decidedAt []time.Time
	detail    []string
}

func columnsOf(decisions []futurejobs.Decision) (*columns, error) {
	c := newColumns(len(decisions))
	for _, d := range inOrder(decisions) {
		if d.Ends() {
			c.ends++
		} else {
			c.moves++
		}
		c.add(d)
		if err := c.say(d); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// newColumns has room for n decisions that say an alert each.
func newColumns(n int) *columns {
	return &columns{
		shard: make([]int16, 0, n), id: make([]int64, 0, n), rev: make([]int32, 0, n),
		outcome: make([]string, 0, n), reason: make([]*string, 0, n), next: make([]time.Time, 0, n), undecided: make([]int32, 0, n),
		checkCount: make([]int32, 0, n), step: make([]int32, 0, n),
		picked: make([]pgtype.Timestamptz, 0, n), started: make([]pgtype.Timestamptz, 0, n),
		completed: make([]pgtype.Timestamptz, 0, n), failed: make([]pgtype.Timestamptz, 0, n),
		checks: make([]int32, 0, n), total: make([]int64, 0, n), slowest: make([]int64, 0, n),
		alertIDs: make([][]byte, 0, n), trail: make(pgtype.FlatArray[*string], 0, n),
		alertJob: make([]int64, 0, n), alertID: make([][16]byte, 0, n), decidedAt: make([]time.Time, 0, n), detail: make([]string, 0, n),
	}
}

func (c *columns) add(d *futurejobs.Decision) {
	j := &d.Job
	c.shard = append(c.shard, j.Shard)
	c.id = append(c.id, j.ID)
	c.rev = append(c.rev, j.Rev)
	c.outcome = append(c.outcome, string(d.Outcome))
	c.reason = append(c.reason, optional(d.Reason))
	c.next = append(c.next, j.NextCheckAt)
	c.undecided = append(c.undecided, int32(j.Undecided))
	c.checkCount = append(c.checkCount, int32(j.CheckCount))
	c.step = append(c.step, int32(j.Step))
	c.picked = append(c.picked, stamp(j.Last.PickedAt))
	c.started = append(c.started, stamp(j.Last.StartedAt))
	c.completed = append(c.completed, stamp(j.Last.CompletedAt))
	c.failed = append(c.failed, stamp(j.Last.FailedAt))
	c.checks = append(c.checks, int32(j.Checks))
	c.total = append(c.total, j.CheckTotal.Microseconds())
	c.slowest = append(c.slowest, j.CheckSlowest.Microseconds())
	c.alertIDs = append(c.alertIDs, packed(j.Alerts))
	c.trail = append(c.trail, optional(string(j.Trail)))
}

func (c *columns) say(d *futurejobs.Decision) error {
	for _, a := range d.Alerts {
		text, err := detail(a)
		if err != nil {
			return err
		}
		c.alertJob = append(c.alertJob, d.Job.ID)
		c.alertID = append(c.alertID, a.ID)
		c.decidedAt = append(c.decidedAt, a.DecidedAt)
		c.detail = append(c.detail, text)
	}
	return nil
}

// args are the parameters of asked and, if there are alerts, of speak.
func (c *columns) args() []any {
	args := []any{
		c.shard, c.id, c.rev, c.outcome, c.reason, c.next, c.undecided,
		c.checkCount, c.step, c.picked, c.started, c.completed, c.failed,
		c.checks, c.total, c.slowest, c.alertIDs, c.trail,
	}
	if len(c.alertID) > 0 {
		args = append(args, c.alertJob, c.alertID, c.decidedAt, c.detail)
	}
	return args
}
