package ui

import (
	"encoding/json"
	"regexp"
	"strings"

	"deadman/rules"
)

// sampleSubject is a subject for what a trigger listens to, with what stands for wildcards made up;
// empty: there are none.
func sampleSubject(t rules.Trigger) string {
	listens := t.Event
	if t.Heartbeat != nil {
		listens = t.Heartbeat.Event
	}
	if !strings.ContainsAny(listens, "*>") {
		return ""
	}
	return strings.NewReplacer("*", "one", ">", "one").Replace(listens)
}

// ofEvent is a field of an event that an expression reads, such as event.order.id.
var ofEvent = regexp.MustCompile(`\bevent((?:\.[A-Za-z_][0-9A-Za-z_]*)+)`)

// sampleEvent is an event that has the fields that a key is made of.
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
