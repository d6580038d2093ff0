package notify

import (
	"slices"

	"deadman/alerts"
)

// Reached returns the channels that the routes send an alert to, in the order of the routes. It ignores mutes and
// limits.
func (n *Notifier) Reached(a alerts.Alert) (channels []string) {
	for _, r := range n.file.Load().routes {
		if !r.takes(a) {
			continue
		}
		for _, channel := range r.To {
			if !slices.Contains(channels, channel) {
				channels = append(channels, channel)
			}
		}
		if !r.Continue {
			break
		}
	}
	return channels
}
