package ui

import (
	"slices"
	"strings"

	"deadman/web"
)

// labels maps locations in API errors to field labels. An empty label is omitted, and other locations keep the API's
// name.
var labels = map[string]string{
	"body": "", "request": "", "body.match": "Match", "body.until": "Duration", "body.for": "Duration", "body.event": "Trigger event", "body.event.data": "Trigger event",
	"body.event.at": "Time", "body.event.subject": "Subject", "body.later_events": "Further events", "body.lookup_result": "Lookup result",
}

// problemText returns the text of an error with the form's labels, without duplicates.
func problemText(err error) string {
	p := asProblem(err)
	if p == nil {
		return err.Error()
	}
	var all []string
	for _, d := range p.Errors {
		if one := detail(d); !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	switch {
	case len(all) > 0:
		return strings.Join(all, "; ")
	case p.Detail != "":
		return p.Detail
	}
	return p.Title
}

// detail formats one error. It omits the part of the request, which is obvious on the page.
func detail(d web.ProblemDetail) string {
	label, known := labels[d.Location]
	if !known {
		_, label, _ = strings.Cut(d.Location, ".")
		label = strings.ReplaceAll(label, "_", " ")
		if label != "" {
			label = strings.ToUpper(label[:1]) + label[1:]
		}
	}
	if label == "" {
		return d.Message
	}
	return label + ": " + d.Message
}
