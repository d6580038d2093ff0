package ui

import (
	"slices"

	"deadman/internal/access"
	"deadman/web"
)

// permissions is what the visitor of a page may do beside looking. A page shows no button for what it
// would be refused.
type permissions struct {
	Answer bool // what is said: acknowledge it, snooze its job, look at that now
	Change bool // rules and their jobs
	Events bool // publish them
	Admin  bool // everything
	Some   bool // all of this for some rules alone, and of what belongs to none only what it may publish on
	Sends  bool // it may publish on some subjects
}

// Mute reports whether the visitor may keep alerts from people.
func (m permissions) Mute() bool { return m.Answer && !m.Some }

// Publish reports whether the visitor may publish events.
func (m permissions) Publish() bool { return m.Events && (!m.Some || m.Sends) }

// DeadLetters reports whether the visitor may retry and drop what could not be taken in.
func (m permissions) DeadLetters() bool { return m.Admin && !m.Some }

// may asks what the visitor's token allows.
func (c client) may() (permissions, error) {
	var self web.Self
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
