package access

import (
	"slices"
	"strings"
)

// Scope is a kind of thing that a token allows.
type Scope string

// The scopes.
const (
	Read   Scope = "read"   // see everything but tokens and the audit
	Events Scope = "events" // publish events, and nothing else
	OnCall Scope = "oncall" // acknowledge alerts, look at jobs and snooze them, mute; implies read
	Rules  Scope = "rules"  // change rules and their jobs; implies oncall
	Admin  Scope = "admin"  // everything; no other is enough for tokens, the audit and what is done to dead letters
)

// Scopes are all scopes, least first.
var Scopes = []Scope{Read, Events, OnCall, Rules, Admin}

// covers reports whether having s is having other.
func (s Scope) covers(other Scope) bool {
	switch s {
	case other:
		return true
	case OnCall:
		return other == Read
	case Rules:
		return other == OnCall || other == Read
	case Admin:
		return slices.Contains(Scopes, other)
	}
	return false
}

// suggestScope is the scope that somebody had in mind who wrote s, or empty. No two scopes begin
// with the same two letters.
func suggestScope(s string) Scope {
	if len(s) < 2 {
		return ""
	}
	begin := strings.ToLower(s[:2])
	for _, known := range Scopes {
		if strings.HasPrefix(string(known), begin) {
			return known
		}
	}
	return ""
}
