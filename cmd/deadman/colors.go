package main

import (
	"deadman/alerts"
	"deadman/checks"
	"deadman/web"
)

// colors paints text if colors are on.
type colors struct{ on bool }

// colour is an SGR parameter of ECMA-48. All have two digits, so that painting widens every cell of a table equally.
type colour string

const (
	normal colour = "39"
	bold   colour = "01"
	dim    colour = "02"
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
	blue   colour = "34"
	pink   colour = "35"
)

func (p colors) paint(c colour, s string) string {
	if !p.on {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[00m"
}

func severityColour(s alerts.Severity) colour {
	switch s {
	case alerts.Critical:
		return pink
	case alerts.Error:
		return red
	case alerts.Warning:
		return yellow
	}
	return blue
}

// newAlertColour returns the color of an alert.
func newAlertColour(a alerts.Alert) colour {
	if a.Status == alerts.Resolved {
		return green
	}
	return severityColour(a.Severity)
}

func statusColour(s web.Status) colour {
	switch s {
	case web.Due, web.Paused:
		return yellow
	case web.Undetermined:
		return red
	case web.Open:
		return pink
	}
	return normal
}

func outcomeColour(o checks.Outcome) colour {
	switch {
	case o == checks.Cancelled, o == checks.Restarted, o == checks.RuleDeleted:
		return normal
	case o == checks.Exhausted, o == checks.Expired, o == checks.Undetermined, o.IsGuard():
		return red
	}
	return green // a resolution, which may have the rule's own name
}
