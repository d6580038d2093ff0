package web

import (
	"context"
	"net/http"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
)

// StartResult is the result of creating jobs, by their index.
type StartResult struct {
	Created int
	Existed []int   // their keys already had a job
	Refused []error // nil if it was created or existed
}

// NewStartResult combines the requested jobs with the result of applying them.
func NewStartResult(start rules.BulkStart, done futurejobs.ApplyResult) StartResult {
	begun := StartResult{Created: done.Created, Refused: start.Refused}
	for _, i := range done.AlreadyPending {
		begun.Existed = append(begun.Existed, start.Places[i])
	}
	return begun
}

// BulkResult is the result for the lines of a body. Blank lines are skipped, but numbered.
type BulkResult struct {
	Created      int           `json:"created" doc:"Number of created jobs."`
	Existed      int           `json:"existed" doc:"Number of lines whose job already exists. These jobs are unchanged."`
	Refused      int           `json:"refused" doc:"Number of invalid lines. Other lines are not affected."`
	ExistedLines []int         `json:"existed_lines" nullable:"false" doc:"Numbers of the lines whose job already exists, starting with 1."`
	RefusedLines []RefusedLine `json:"refused_lines" nullable:"false" doc:"Invalid lines and their errors."`
}

// bulkAPI has the operation that creates many jobs.
type bulkAPI struct {
	actions JobActions
	turns   *semaphore[tokenRef]
}

func (a *bulkAPI) register(all *operations) {
	register(all, operation{
		ID: "create-jobs", Tag: tagJobs, Method: "POST", Path: "/jobs/bulk", Summary: "create up to 10,000 jobs",
		Description: "Each line of the body (NDJSON) is an object as in POST /jobs. All jobs are created in one transaction; if the response is a " +
			"problem, none was created. Invalid lines do not affect other lines, and existing jobs stay unchanged, so the same body can be " +
			"sent again. Limits: 16 MiB in total, 256 KiB per line. The audit log has one entry per rule, with the number of created jobs.",
		Scope: access.Rules, Reach: reachBody, Status: http.StatusOK, IdempotencyKey: true, Limit: MaxBulkBytes, Turns: a.turns,
		Errors:      []int{http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType},
		RequestBody: bodyOfLines(bulkExample),
	}, withBody(a.create))
}

// lineExample is a line, and bulkExample a body.
const (
	lineExample = `{"rule": "order-unshipped", "key": "1234", "event": {"id": "1234", "total": 12.5}}`
	bulkExample = lineExample + `
{"rule": "order-unshipped", "key": "1235", "since": "2026-01-31T15:04:05Z"}
`
)

// jobLines are the lines of jobs.
var jobLines = lineKind[NewJob]{lineFormat{[]string{"rule", "key", "event", "since"}, 2, lineExample}, "event", readJobLine}

// readJobLine reads the job of a line.
func readJobLine(r *lineReader) (j NewJob, err error) {
	_, err = r.object(func(name string) (err error) {
		switch name {
		case "rule":
			j.Rule, err = r.name(name, maxRule)
		case "key":
			j.Key, err = r.name(name, maxText)
		case "since":
			j.Since, err = r.instant(name)
		default:
			j.Event, err = r.value()
		}
		return err
	})
	return j, err
}

func (a *bulkAPI) create(ctx context.Context, in *bulkIn) (BulkResult, error) {
	read, err := readLines(in, &jobLines, func(_ int, j NewJob) error { return principalOf(ctx).requireRule(access.Rules, j.Rule) })
	if err != nil {
		return BulkResult{}, err
	}
	begun, err := a.actions.CreateAll(ctx, read.items)
	if err != nil {
		return BulkResult{}, err
	}
	return bulkResult(read, begun), nil
}

// bulkResult returns the result for each line.
func bulkResult(read *bulk[NewJob], begun StartResult) BulkResult {
	wrong := read.refusals(begun.Refused)
	a := BulkResult{Created: begun.Created, Existed: len(begun.Existed), Refused: len(wrong), ExistedLines: []int{}, RefusedLines: wrong}
	for _, place := range begun.Existed {
		a.ExistedLines = append(a.ExistedLines, read.lines[place])
	}
	return a
}
