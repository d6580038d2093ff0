package ui

import (
	"encoding/json"
	"regexp"
	"strings"

	"deadman/rules/document"
)

// sampleSubject returns the trigger's subject with its wildcards filled in. It is empty if the subject has none.
func sampleSubject(t document.Trigger) string {
	if !strings.ContainsAny(t.Subject(), "*>") {
		return ""
	}
	return withoutWildcards(t.Subject())
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
