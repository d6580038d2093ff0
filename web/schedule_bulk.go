package web

import (
	"context"
	"fmt"
	"net/http"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/schedules"
)

// ScheduleBulkResult is the result for the lines of a body. Blank lines are skipped, but numbered.
type ScheduleBulkResult struct {
	Created      int           `json:"created" doc:"Number of created schedules."`
	Updated      int           `json:"updated" doc:"Number of replaced schedules. Their versions were raised."`
	Unchanged    int           `json:"unchanged" doc:"Number of schedules that were as in their line already."`
	Deleted      int           `json:"deleted" doc:"Number of deleted schedules."`
	Unknown      int           `json:"unknown" doc:"Number of lines that delete a schedule that does not exist."`
	Ended        int           `json:"ended" doc:"Number of lines whose enabled schedule has no tick after now, such as @at with a past time. It is stored, and emits no event."`
	EndedLines   []int         `json:"ended_lines,omitempty" doc:"Numbers of the first 100 of these lines." nullable:"false"`
	Refused      int           `json:"refused" doc:"Number of invalid lines. Other lines are not affected."`
	RefusedLines []RefusedLine `json:"refused_lines" nullable:"false" doc:"Invalid lines and their errors."`
}

// maxEndedLines is the largest number of lines with an ended schedule that a result lists.
const maxEndedLines = 100

// scheduleLineExample is a line, and scheduleBulkExample a body.
const (
	scheduleLineExample = `{"rule": "report-due", "id": "customer-1234", "schedule": "30 8 * * MON-FRI", "zone": "Europe/Berlin", "data": {"customer": 1234}}`
	scheduleBulkExample = scheduleLineExample + `
{"rule": "report-due", "id": "customer-1235", "schedule": "@every 90m", "enabled": false}
{"rule": "report-due", "id": "customer-1236", "deleted": true}
`
)

func (a *scheduleAPI) registerBulk(all *operations) {
	register(all, operation{
		ID: "change-schedules", Tag: tagSchedules, Method: "POST", Path: "/schedules/bulk", Summary: "create, replace and delete up to 10,000 stored schedules",
		Description: "Each line of the body (NDJSON) is an object with rule, id, and the fields of a PUT of one schedule, which creates or replaces the " +
			"schedule; or with rule, id and deleted: true, which deletes it. All changes are made in one transaction; if the response is a problem, " +
			"none was made. Invalid lines do not affect other lines, and the same body can be sent again. A schedule may be in one line only. " +
			"A rule that has another trigger now accepts deletions only. " +
			"503: the event of a tick may be in transit; retry. Limits: 16 MiB in total, 256 KiB per line. The audit log has one entry per rule.",
		Scope: access.Rules, Reach: reachBody, Status: http.StatusOK, IdempotencyKey: true, Limit: MaxBulkBytes, Turns: a.turns,
		Errors:      []int{http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType},
		RequestBody: bodyOfLines(scheduleBulkExample),
	}, withBody(a.change))
}

// scheduleLines are the lines of changed schedules.
var scheduleLines = lineKind[ScheduleChange]{
	lineFormat{[]string{"rule", "id", "schedule", "zone", "data", "enabled", "deleted"}, 2, scheduleLineExample}, "data", readScheduleLine,
}

// readScheduleLine reads the change of a line.
func readScheduleLine(r *lineReader) (c ScheduleChange, err error) {
	c.Enabled = true
	seen, err := r.object(func(name string) (err error) {
		switch name {
		case "rule":
			c.Rule, err = r.name(name, maxRule)
		case "id":
			c.ID, err = r.name(name, futurejobs.MaxScheduleID)
		case "schedule":
			c.Text, err = r.name(name, schedules.MaxText)
		case "zone":
			c.Zone, err = r.short(name, maxText)
		case "data":
			c.Data, err = r.value()
			c.Data = withoutNull(c.Data)
		case "enabled":
			c.Enabled, err = r.truth(name)
		default:
			c.Deleted, err = r.truth(name)
		}
		return err
	})
	if err != nil {
		return c, err
	}
	const schedule, deleted = 2, 6 // indexes of the fields
	if !c.Deleted && !seen.has(schedule) {
		return c, missingField("schedule")
	}
	for i := schedule; c.Deleted && i < deleted; i++ {
		if seen.has(i) {
			return c, lineError{r.fields[i], "the line deletes the schedule; remove " + r.fields[i] + ", or remove deleted"}
		}
	}
	return c, nil
}

func (a *scheduleAPI) change(ctx context.Context, in *bulkIn) (ScheduleBulkResult, error) {
	lineOf := make(map[[2]string]int)
	read, err := readLines(in, &scheduleLines, func(line int, c ScheduleChange) error {
		if err := principalOf(ctx).requireRule(access.Rules, c.Rule); err != nil {
			return err
		}
		name := [2]string{c.Rule, c.ID}
		if first := lineOf[name]; first > 0 {
			return lineError{"id", fmt.Sprintf("line %d has the same rule and id; send each schedule once, or the later line in another request", first)}
		}
		lineOf[name] = line
		return nil
	})
	if err != nil {
		return ScheduleBulkResult{}, err
	}
	done, err := a.actions.ChangeSchedules(ctx, read.items)
	if err != nil {
		return ScheduleBulkResult{}, err
	}
	var ended []int
	for _, i := range done.Ended[:min(len(done.Ended), maxEndedLines)] {
		ended = append(ended, read.lines[i])
	}
	wrong := read.refusals(done.Refused)
	return ScheduleBulkResult{
		Created: done.Created, Updated: done.Updated, Unchanged: done.Unchanged, Deleted: done.Deleted, Unknown: done.Unknown,
		Ended: len(done.Ended), EndedLines: ended, Refused: len(wrong), RefusedLines: wrong,
	}, nil
}
