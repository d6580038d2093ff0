package ui

import (
	"encoding/json"
	"regexp"
	"strings"

	"deadman/rules/document"
)

// triggerOf returns the subject of a trigger, with wildcards, and the expression of its key. Both are empty for a schedule
// and for a heartbeat that takes pings only.
func triggerOf(t document.Trigger) (subject, key string) {
	if t.Heartbeat != nil {
		return t.Heartbeat.Event, t.Heartbeat.Key
	}
	return t.Event, t.Key
}

// sampleSubject returns the trigger's subject with its wildcards filled in. It is empty if the subject has none.
func sampleSubject(t document.Trigger) string {
	subject, _ := triggerOf(t)
	if !strings.ContainsAny(subject, "*>") {
		return ""
	}
	return withoutWildcards(subject)
}

func withoutWildcards(subject string) string {
	return strings.NewReplacer("*", "one", ">", "one").Replace(subject)
}

// ofEvent matches a field of the event in an expression, such as event.order.id.
var ofEvent = regexp.MustCompile(`\bevent((?:\.[A-Za-z_][0-9A-Za-z_]*)+)`)

// sampleEvent makes up an event with the fields of a key expression.
func sampleEvent(key string) string {
	body := map[string]any{}
	for _, read := range ofEvent.FindAllStringSubmatch(key, -1) {
		names := strings.Split(read[1][1:], ".")
		last, at := len(names)-1, body
		for _, name := range names[:last] {
			inner, is := at[name].(map[string]any)
			if !is {
				inner = map[string]any{}
				at[name] = inner
			}
			at = inner
		}
		at[names[last]] = "1234"
	}
	text, err := json.Marshal(body)
	if err != nil || len(body) == 0 {
		return `{"id": "1234"}`
	}
	return indented(text)
}
