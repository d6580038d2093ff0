package web

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"deadman/rules/document"

	"github.com/danielgtaylor/huma/v2"

	futurejobs "deadman/future_jobs"
)

// The limits of one call, and how many calls are read and answered at once: the others are queued, to bound the memory
// of their bodies.
const (
	MaxBulkLines = 10_000
	MaxBulkBytes = 16 << 20
	MaxBulkLine  = bodyLimit // the limit of a single object
	bulkTurns    = 4
)

// lineType is the media type of one JSON value per line.
const lineType = "application/x-ndjson"

// RefusedLine is an invalid line, which has no effect.
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

// bodyOfLines describes a body of lines.
func bodyOfLines(example string) *huma.RequestBody {
	return &huma.RequestBody{Required: true, Description: "One JSON object per line.", Content: map[string]*huma.MediaType{
		lineType: {Schema: &huma.Schema{Type: huma.TypeString}, Example: example},
	}}
}

// isForm reports whether a body has the type of an HTML form, the default of curl.
func isForm(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (kind == "application/x-www-form-urlencoded" || strings.HasPrefix(kind, "multipart/"))
}

// lineKind is a kind of lines.
type lineKind[T any] struct {
	lineFormat
	large string // the field that makes a line too long
	read  func(*lineReader) (T, error)
}

// bulk is the parsed lines of a body.
type bulk[T any] struct {
	items []T
	lines []int // line numbers of the items
	wrong []RefusedLine
}

// readLines reads the lines of a body. accept returns an error if the sender may not send an item in the line of a
// number. The error of readLines is about the body as a whole.
func readLines[T any](in *bulkIn, kind *lineKind[T], accept func(number int, item T) error) (*bulk[T], error) {
	body := in.RawBody
	if isForm(in.Type) {
		return nil, problem(http.StatusUnsupportedMediaType, "%s is not supported; send one JSON object per line as %s (with curl: -H 'Content-Type: %[2]s' --data-binary @FILE)", in.Type, lineType)
	}
	if first := bytes.TrimLeft(body, " \t\r\n"); len(first) == 0 {
		return nil, refused("body", "it is empty; send one JSON object per line, such as %s", kind.example)
	} else if first[0] == '[' {
		return nil, refused("body", "it is a JSON array; send one object per line, as jq -c '.[]' prints them")
	}
	limit := bytes.Count(body, []byte{'\n'}) + 1
	all := &bulk[T]{items: make([]T, 0, min(limit, MaxBulkLines)), lines: make([]int, 0, min(limit, MaxBulkLines))}
	filled := 0
	for number := 1; len(body) > 0; number++ {
		var line []byte
		line, body, _ = bytes.Cut(body, []byte{'\n'})
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if filled++; filled > MaxBulkLines {
			return nil, problemOfDetails(TooLarge, http.StatusRequestEntityTooLarge, []ProblemDetail{{
				Location: "body", Message: fmt.Sprintf("there are more than %d lines; none had an effect: send them in several requests", MaxBulkLines),
			}})
		}
		all.decodeLine(number, line, kind, accept)
	}
	return all, nil
}

// decodeLine reads one line.
func (b *bulk[T]) decodeLine(number int, line []byte, kind *lineKind[T], accept func(int, T) error) {
	if len(line) > MaxBulkLine {
		b.refuse(number, "", fmt.Sprintf("%d bytes are too many for a line; the limit is %d: give %s less to carry", len(line), MaxBulkLine, kind.large))
		return
	}
	item, err := kind.read(&lineReader{lineFormat: &kind.lineFormat, text: line})
	if err == nil {
		err = accept(number, item)
	}
	var wrong lineError
	switch {
	case errors.As(err, &wrong):
		b.refuse(number, wrong.field, wrong.message)
	case err != nil:
		b.refuse(number, "rule", err.Error())
	default:
		b.items, b.lines = append(b.items, item), append(b.lines, number)
	}
}

func (b *bulk[T]) refuse(line int, field, message string) {
	b.wrong = append(b.wrong, RefusedLine{Line: line, Field: field, Message: message})
}

// refusals returns all invalid lines in order: those that were not decoded, and those whose items were refused with
// errors, by their index.
func (b *bulk[T]) refusals(errs []error) []RefusedLine {
	for place, err := range errs {
		if err != nil {
			field, message := refusalOf(err)
			b.refuse(b.lines[place], field, message)
		}
	}
	slices.SortFunc(b.wrong, func(x, y RefusedLine) int { return x.Line - y.Line })
	if b.wrong == nil {
		return []RefusedLine{}
	}
	return b.wrong
}

// refusalOf returns the field of an item that its rule refuses, and the reason.
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
