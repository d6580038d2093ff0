package ui

import (
	"slices"
	"strings"

	"deadman/web"
)

// labels are what fields are called on pages, by where the API finds something wrong with them; others
// have the name that they have there. An empty one is seen without a name.
var labels = map[string]string{
	"body": "", "request": "", "body.match": "What is muted", "body.until": "For", "body.event": "The event", "body.event.data": "The event",
	"body.event.at": "At", "body.event.subject": "It comes on", "body.then": "What comes then", "body.found": "What a lookup finds",
}

// problemText is what a person is told of an error: each thing that is wrong once, by the names of the form.
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

// detail is one thing that is wrong. Whether it is in the address or in a form is seen.
func detail(d web.Detail) string {
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
