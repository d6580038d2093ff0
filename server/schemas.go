package server

import (
	"maps"

	"deadman/alerts"
	"deadman/internal/calendars"
	"deadman/internal/logins"
	"deadman/internal/notify"
	"deadman/internal/remotehandlers"
	"deadman/internal/replay"
	"deadman/internal/sources"
	"deadman/internal/webhooks"
	"deadman/rules/document"
)

// Schemas returns functions that encode the JSON Schemas of alerts, of the handler protocol, and of the files that a node
// reads, by name. Each is made of the code that writes or reads its documents, so that both have the same fields (decision
// 109). The files of rules' tests are unknown to a node.
func Schemas() map[string]func() ([]byte, error) {
	return map[string]func() ([]byte, error){
		"alert":        alerts.Schema,
		"system-alert": alerts.SystemSchema,
		"rule":         document.Schema,
		"handler":      remotehandlers.Schema,
		"calendars":    calendars.Schema,
		"sources":      sources.Schema,
		"hooks":        webhooks.Schema,
		"login":        logins.Schema,
		"notify":       notify.Schema,
		"lookups":      replay.LookupsSchema,
	}
}

// servedSchemas returns all schemas that a node serves; others are those of its program.
func servedSchemas(others map[string]func() ([]byte, error)) map[string]func() ([]byte, error) {
	all := Schemas()
	maps.Copy(all, others)
	return all
}
