package ui

import (
	"slices"

	"deadman/internal/access"
	"deadman/web"
)

// permissions are the visitor's rights beyond reading. Pages omit buttons for actions that the API would refuse.
type permissions struct {
	Answer bool // acknowledge alerts, snooze jobs
	Change bool // change rules and their jobs, check jobs now, close alerts
	Events bool // publish events
	Admin  bool // all actions
	Some   bool // limited to some rules; outside of them, publishing at most
	Sends  bool // may publish on some subjects
}

// Mute reports whether the visitor may mute alerts.
func (m permissions) Mute() bool { return m.Answer && !m.Some }

// Publish reports whether the visitor may publish events.
func (m permissions) Publish() bool { return m.Events && (!m.Some || m.Sends) }

// DeadLetters reports whether the visitor may retry and drop dead letters.
func (m permissions) DeadLetters() bool { return m.Admin && !m.Some }

// may reads the permissions of the visitor's token.
func (c client) may() (permissions, error) {
	var self web.TokenSelf
	if err := c.get("/tokens/self", nil, &self); err != nil {
		return permissions{}, err
	}
	return permissions{
		Answer: slices.Contains(self.Scopes, string(access.OnCall)),
		Change: slices.Contains(self.Scopes, string(access.Rules)),
		Events: slices.Contains(self.Scopes, string(access.Events)),
		Admin:  slices.Contains(self.Scopes, string(access.Admin)),
		Some:   self.Prefix != "",
		Sends:  self.Publish == nil || len(self.Publish) > 0,
	}, nil
}
