package ui

import (
	"encoding/json"
	"regexp"
	"strings"
	"time"

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

// sampleEvent makes up an event with the fields of a key expression, and of an expression for its time, which may be empty.
func sampleEvent(key, since string) string {
	body := map[string]any{}
	sampleFields(body, since, time.Now().UTC().Format(time.RFC3339))
	sampleFields(body, key, "1234")
	text, err := json.Marshal(body)
	if err != nil || len(body) == 0 {
		return `{"id": "1234"}`
	}
	return indented(text)
}

// sampleFields sets the fields of an event that an expression reads to a value.
func sampleFields(body map[string]any, expression, value string) {
	for _, read := range ofEvent.FindAllStringSubmatch(expression, -1) {
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
		at[names[last]] = value
	}
}
