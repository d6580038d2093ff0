package ui

import "time"

// Visible exports escapeControls.
var Visible = escapeControls

// SampleEvent returns the event of a sample of the gallery at a time.
func SampleEvent(name string, now time.Time) (string, error) {
	all, err := gallery()
	for _, s := range all {
		if s.Name == name {
			return s.eventAt(now), err
		}
	}
	return "", err
}
