package web

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"deadman/rules/document"

	"deadman/alerts"
	"deadman/internal/access"
	"deadman/rules"
)

// PreviewEvent is an event of a preview.
type PreviewEvent struct {
	Subject identifier      `json:"subject,omitempty" doc:"Subject of the event. The first event defaults to the trigger's subject, or to a ping for a heartbeat without an event. Other pings have the subject ping. Data of a ping: {\"key\": \"backup\", \"kind\": \"success\"}. The kind expected means that the key is expected and has never sent a ping." example:"orders.created"`
	At      time.Time       `json:"at,omitzero" doc:"Time at which the stream stores the event. The first event defaults to now." example:"2026-01-31T15:04:05Z"`
	Data    json.RawMessage `json:"data,omitempty" doc:"Body of the event."`
}

// PreviewRequest is the events of a preview.
type PreviewRequest struct {
	Event       PreviewEvent   `json:"event,omitzero" doc:"Trigger event. For a rule with a schedule, only the time from which the rule ticks. Optional for a heartbeat with keys, whose first key then never sends a ping. Default: the time now."`
	LaterEvents []PreviewEvent `json:"later_events,omitempty" nullable:"false" maxItems:"100" doc:"Later events, in the order of time."`
	Until       time.Time      `json:"until,omitzero" doc:"End of the preview. Default: the end of the job."`

	LookupResult json.RawMessage `json:"lookup_result,omitempty" doc:"Result of the lookup at each check: an object, or null if the entity does not exist. Absent: the source is queried once, which requires the scope rules."`
}

// UnsavedPreviewRequest is a preview of an unsaved rule.
type UnsavedPreviewRequest struct {
	Rule json.RawMessage `json:"rule" doc:"Rule document, as an object or as YAML text."`
	PreviewRequest
}

// previewAPI has the operations that show what a rule would do.
type previewAPI struct {
	rules    Rules
	trials   *semaphore[tokenRef]
	channels Channels // nil: this node sends no notifications
	now      func() time.Time
}

func (a *previewAPI) register(all *operations) {
	const description = "Runs the events and the checks between them through the engine in simulated time and returns the timeline: " +
		"slots, steps, texts and the outcome. Nothing is stored, published or sent. " +
		"For a rule with a schedule, the next ticks are returned, and the timeline of the first. " +
		"The result of a lookup is part of the request, or its source is queried once. Handlers are not called: the preview ends at their first check. " +
		"Each token or prefix has one lint or preview at a time; a few wait, further ones get 429."
	register(all, operation{
		ID: "preview-rule", Tag: tagRules, Method: "POST", Path: "/rules/{name}/preview", Summary: "simulate a saved rule for an event or its schedule",
		Description: description, Scope: access.Read, Reach: reachRule, Errors: []int{http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests},
	}, withBody(inTurnOf(a.trials, principal.tenant, a.preview)))
	register(all, operation{
		ID: "preview-unsaved-rule", Tag: tagRules, Method: "POST", Path: "/rules/preview", Summary: "simulate an unsaved rule for an event or its schedule",
		Description: description, Scope: access.Read, Reach: reachPublic, Limit: 2 * document.MaxSize, Errors: []int{http.StatusRequestEntityTooLarge, http.StatusTooManyRequests},
	}, withBody(inTurnOf(a.trials, principal.tenant, a.previewText)))
}

// previewIn is a preview of a saved rule.
type previewIn struct {
	RuleName
	Version int32 `query:"version" minimum:"1" maximum:"2147483647" doc:"Version of the rule. Default: the newest."`
	Body    PreviewRequest
}

func (a *previewAPI) preview(ctx context.Context, in *previewIn) (rules.Preview, error) {
	request := a.events(ctx, in.Body)
	request.Name, request.Version = string(in.Name), in.Version
	return a.rules.Preview(ctx, request)
}

func (a *previewAPI) previewText(ctx context.Context, in *struct{ Body UnsavedPreviewRequest }) (rules.Preview, error) {
	request := a.events(ctx, in.Body.PreviewRequest)
	request.Text = ruleText(in.Body.Rule)
	return a.rules.Preview(ctx, request)
}

// ruleText returns the text of a rule in a body: an object, or YAML as text.
func ruleText(rule json.RawMessage) []byte {
	var yaml string
	if json.Unmarshal(rule, &yaml) == nil {
		return []byte(yaml)
	}
	return rule
}

// events converts the events of a preview. The first one without a time happens now.
func (a *previewAPI) events(ctx context.Context, of PreviewRequest) rules.PreviewRequest {
	request := rules.PreviewRequest{Until: of.Until, Found: of.LookupResult}
	if principalOf(ctx).requireScope(access.Rules) != nil {
		request.SkipReason = "only a token that may write rules queries the source"
	}
	if a.channels != nil {
		request.Reached = func(alert alerts.Alert) []string { return a.reached(principalOf(ctx), alert) }
	}
	if of.Event.At.IsZero() {
		of.Event.At = a.now().UTC()
	}
	for _, e := range append([]PreviewEvent{of.Event}, of.LaterEvents...) {
		request.Events = append(request.Events, rules.PreviewEvent{Subject: string(e.Subject), At: e.At, Data: e.Data})
	}
	return request
}

// reached returns the channels that an alert is sent to; nil if the visitor may not read the rule, since the routes of
// other rules are hidden from a token with a prefix.
func (a *previewAPI) reached(v principal, alert alerts.Alert) []string {
	if !v.canSee(alert.Rule) {
		return nil
	}
	return append([]string{}, a.channels.Reached(alert)...)
}
