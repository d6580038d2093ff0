package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"deadman/rules/document"

	"github.com/danielgtaylor/huma/v2"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
)

// The limits of one call, and how many calls are read and answered at once: the others are queued, to bound the memory
// of their bodies.
const (
	MaxBulkLines = 10_000
	MaxBulkBytes = 16 << 20
	MaxBulkLine  = bodyLimit // the limit of a single job
	bulkTurns    = 4
)

// lineType is the media type of one JSON value per line.
const lineType = "application/x-ndjson"

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

// RefusedLine is a line without a job.
type RefusedLine struct {
	Line    int    `json:"line" doc:"Number of the line, starting with 1." example:"3"`
	Field   string `json:"field,omitempty" doc:"Invalid field. Absent if the whole line is invalid." example:"key"`
	Message string `json:"message" doc:"Error and remedy." example:"the key is empty"`
}

// bulkIn is a body of lines.
type bulkIn struct {
	Type    string `header:"Content-Type" hidden:"true"`
	RawBody []byte
}

// bulkAPI has the operation that creates many jobs.
type bulkAPI struct {
	actions JobActions
}

func (a *bulkAPI) register(all *operations) {
	register(all, operation{
		ID: "create-jobs", Tag: tagJobs, Method: "POST", Path: "/jobs/bulk", Summary: "create up to 10,000 jobs",
		Description: "Each line of the body (NDJSON) is an object as in POST /jobs. All jobs are created in one transaction; if the response is a " +
			"problem, none was created. Invalid lines do not affect other lines, and existing jobs stay unchanged, so the same body can be " +
			"sent again. Limits: 16 MiB in total, 256 KiB per line. The audit log has one entry per rule, with the number of created jobs.",
		Scope: access.Rules, Reach: reachBody, Status: http.StatusOK, IdempotencyKey: true, Limit: MaxBulkBytes, Turns: newBulkTurns(),
		Errors: []int{http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType},
		RequestBody: &huma.RequestBody{Required: true, Description: "One JSON object per line.", Content: map[string]*huma.MediaType{
			lineType: {Schema: &huma.Schema{Type: huma.TypeString}, Example: bulkExample},
		}},
	}, withBody(a.create))
}

// lineExample is a line, and bulkExample a body.
const (
	lineExample = `{"rule": "order-unshipped", "key": "1234", "event": {"id": "1234", "total": 12.5}}`
	bulkExample = lineExample + `
{"rule": "order-unshipped", "key": "1235", "since": "2026-01-31T15:04:05Z"}
`
)

func (a *bulkAPI) create(ctx context.Context, in *bulkIn) (BulkResult, error) {
	if isForm(in.Type) {
		return BulkResult{}, problem(http.StatusUnsupportedMediaType, "%s is not supported; send one JSON object per line as %s (with curl: -H 'Content-Type: %[2]s' --data-binary @FILE)", in.Type, lineType)
	}
	read, err := readLines(in.RawBody, func(rule string) error { return principalOf(ctx).requireRule(access.Rules, rule) })
	if err != nil {
		return BulkResult{}, err
	}
	begun, err := a.actions.CreateAll(ctx, read.jobs)
	if err != nil {
		return BulkResult{}, err
	}
	return read.answer(begun), nil
}

// isForm reports whether a body has the type of an HTML form, the default of curl.
func isForm(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (kind == "application/x-www-form-urlencoded" || strings.HasPrefix(kind, "multipart/"))
}

// bulk is the parsed lines of a body.
type bulk struct {
	jobs  []NewJob
	lines []int // line numbers of the jobs
	wrong []RefusedLine
}

// readLines reads the jobs of a body. allow returns an error if the sender may not create jobs of a rule. The error is
// about the body as a whole.
func readLines(body []byte, allow func(rule string) error) (*bulk, error) {
	if first := bytes.TrimLeft(body, " \t\r\n"); len(first) == 0 {
		return nil, refused("body", "it is empty; send one JSON object per line, such as %s", lineExample)
	} else if first[0] == '[' {
		return nil, refused("body", "it is a JSON array; send one object per line, as jq -c '.[]' prints them")
	}
	limit := bytes.Count(body, []byte{'\n'}) + 1
	all := &bulk{jobs: make([]NewJob, 0, min(limit, MaxBulkLines)), lines: make([]int, 0, min(limit, MaxBulkLines))}
	filled := 0
	for number := 1; len(body) > 0; number++ {
		var line []byte
		line, body, _ = bytes.Cut(body, []byte{'\n'})
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if filled++; filled > MaxBulkLines {
			return nil, problemOfDetails(TooLarge, http.StatusRequestEntityTooLarge, []ProblemDetail{{
				Location: "body", Message: fmt.Sprintf("there are more than %d lines; nothing was begun: send them in several requests", MaxBulkLines),
			}})
		}
		all.decodeLine(number, line, allow)
	}
	return all, nil
}

// decodeLine reads one line.
func (b *bulk) decodeLine(number int, line []byte, allow func(rule string) error) {
	if len(line) > MaxBulkLine {
		b.refuse(number, "", fmt.Sprintf("%d bytes are too many for a line; the limit is %d: give the event less to carry", len(line), MaxBulkLine))
		return
	}
	r := lineReader{text: line}
	job, err := r.job()
	if err == nil {
		err = allow(job.Rule)
	}
	var wrong lineError
	switch {
	case errors.As(err, &wrong):
		b.refuse(number, wrong.field, wrong.message)
	case err != nil:
		b.refuse(number, "rule", err.Error())
	default:
		b.jobs, b.lines = append(b.jobs, job), append(b.lines, number)
	}
}

func (b *bulk) refuse(line int, field, message string) {
	b.wrong = append(b.wrong, RefusedLine{Line: line, Field: field, Message: message})
}

// answer returns the result for each line.
func (b *bulk) answer(begun StartResult) BulkResult {
	for place, err := range begun.Refused {
		if err != nil {
			field, message := refusalOf(err)
			b.refuse(b.lines[place], field, message)
		}
	}
	slices.SortFunc(b.wrong, func(x, y RefusedLine) int { return x.Line - y.Line })
	a := BulkResult{Created: begun.Created, Existed: len(begun.Existed), Refused: len(b.wrong), ExistedLines: []int{}, RefusedLines: b.wrong}
	for _, place := range begun.Existed {
		a.ExistedLines = append(a.ExistedLines, b.lines[place])
	}
	if a.RefusedLines == nil {
		a.RefusedLines = []RefusedLine{}
	}
	return a
}

// refusalOf returns the field of a job that its rule refuses, and the reason.
func refusalOf(err error) (field, message string) {
	var wrong document.Problems
	if errors.As(err, &wrong) && len(wrong) > 0 {
		if p := wrong[0].Pointer; p != "" {
			field = p[1:]
		}
		return field, wrong[0].Message
	}
	if errors.Is(err, futurejobs.ErrNotFound) {
		field = "rule"
	}
	return field, err.Error()
}
