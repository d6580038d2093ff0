package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"deadman/rules/document"

	"deadman/internal/access"
	"deadman/internal/subjects"
)

// claim is something that a rule uses, with its place in the document.
type claim struct {
	pointer string
	refused error // why the bounds do not allow it; nil: they do
}

// outOf returns the claims of a document that are out of bounds. A subject that is filled in at a check counts as all
// subjects that it can result in.
func outOf(d document.Document, b *access.Bounds) document.Problems {
	if b == nil {
		return nil
	}
	claims := append(subjectClaims(d, b), lookupClaims(d, b)...)
	switch emit := d.Trigger.Emit; {
	case emit == nil:
	case emit.Webhook != "":
		claims = append(claims, claim{"/trigger/emit/webhook", errTenantWebhook})
	default:
		claims = append(claims, claim{"/trigger/emit/subject", b.MayPublish(emit.Subject)})
	}
	if d.Handler != "" {
		claims = append(claims, claim{"/handler", b.MayCall(d.Handler)})
	}
	var out document.Problems
	for _, c := range claims {
		if c.refused != nil {
			out = append(out, document.Problem{Pointer: c.pointer, Rule: d.Name, Message: c.refused.Error()})
		}
	}
	return out
}

// errTenantWebhook refuses a webhook to a rule with bounds.
var errTenantWebhook = errors.New("the channel is out of the token's bounds: channels belong to the operator; emit the event on a subject")

// subjectClaims returns the subjects that the rule listens to.
func subjectClaims(d document.Document, b *access.Bounds) []claim {
	events := []claim{{"/trigger/event", mayRead(b, d.Trigger.Event)}}
	if d.Trigger.Heartbeat != nil {
		events = append(events, claim{"/trigger/heartbeat/event", mayRead(b, d.Trigger.Heartbeat.Event)})
	}
	for i, w := range d.Update {
		events = append(events, claim{document.ItemPointer("/update", i) + "/event", mayRead(b, w.Event)})
	}
	for i, w := range d.Resolve {
		events = append(events, claim{document.ItemPointer("/resolve", i) + "/event", mayRead(b, w.Event)})
	}
	for i, p := range d.Pause {
		at := document.ItemPointer("/pause", i)
		events = append(events, claim{at + "/event", mayRead(b, p.Event)})
		if p.Until != nil {
			events = append(events, claim{at + "/until/event", mayRead(b, p.Until.Event)})
		}
	}
	return events
}

// mayRead refuses a subject that may not be read; an empty subject is left to the compiler.
func mayRead(b *access.Bounds, subject string) error {
	if subject == "" {
		return nil
	}
	return b.MayRead(subject)
}

// lookupClaims returns the claims of the lookup.
func lookupClaims(d document.Document, b *access.Bounds) []claim {
	if d.Lookup == nil {
		return nil
	}
	claims := []claim{{d.Lookup.SourceAt(), b.MayQuery(d.Lookup.SourceName())}}
	if d.Lookup.NATS != nil {
		claims = append(claims, claim{"/lookup/nats/subject", b.MayPublish(patternOf(d.Lookup.NATS.Subject))})
	}
	return claims
}

// lookupRefusal returns why the bounds refuse the rule's lookup; empty: they do not.
func lookupRefusal(d document.Document, b *access.Bounds) string {
	if b == nil {
		return ""
	}
	for _, c := range lookupClaims(d, b) {
		if c.refused != nil {
			return c.refused.Error()
		}
	}
	return ""
}

// filledIn takes the place of an expression's result in a template. No subject has it.
const filledIn = "\x00"

// patternOf returns the pattern of all subjects that a template can result in. The result of an expression is a part of
// one token.
func patternOf(template string) string {
	var text strings.Builder
	for {
		before, rest, found := strings.Cut(template, "{{")
		text.WriteString(before)
		if !found {
			return subjects.Widened(text.String(), filledIn)
		}
		text.WriteString(filledIn)
		end := closing(rest)
		if end < 0 {
			return subjects.Widened(text.String(), filledIn)
		}
		template = rest[end+2:]
	}
}

// rebound returns an error text if the bounds of a rule change; empty: they do not.
func rebound(before *ListedRule, b *access.Bounds) string {
	if before == nil || before.Bounds.Equal(b) {
		return ""
	}
	if b == nil {
		return fmt.Sprintf("the rule had the bounds of the token %s, and has none from now on", before.Bounds.Token)
	}
	return fmt.Sprintf("the rule takes the bounds of the token %s: %s", b.Token, b)
}

// askable returns the names of sources that may be queried.
func askable(names []string, b *access.Bounds) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return b.MayQuery(name) != nil })
}
