package access

import (
	"slices"
	"strings"
)

// Scope is a set of permissions of a token.
type Scope string

// The scopes.
const (
	Read   Scope = "read"   // read everything except tokens and the audit log
	Events Scope = "events" // publish events only
	OnCall Scope = "oncall" // acknowledge alerts, snooze jobs, mute; implies read
	Rules  Scope = "rules"  // change rules and their jobs, close alerts; implies oncall
	Admin  Scope = "admin"  // everything, and the only scope for tokens, the audit log and changes of dead letters
)

// Scopes lists all scopes, in ascending order.
var Scopes = []Scope{Read, Events, OnCall, Rules, Admin}

// covers reports whether s implies other.
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

// suggestScope returns the scope most likely meant by s, or an empty one. No two scopes share their first two
// letters.
func suggestScope(s string) Scope {
	if len(s) < 2 {
		return ""
	}
	prefix := strings.ToLower(s[:2])
	for _, known := range Scopes {
		if strings.HasPrefix(string(known), prefix) {
			return known
		}
	}
	return ""
}
