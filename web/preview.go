package web

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"deadman/internal/access"
	"deadman/rules"
)

// PreviewEvent is an event of a preview.
type PreviewEvent struct {
	Subject identifier      `json:"subject,omitempty" doc:"Absent for the first event: what the trigger listens to; and for a ping, of a heartbeat without an event. Other pings have the subject ping. The data of a ping is such as {\"key\": \"backup\", \"kind\": \"success\"}; the kind expected is that the key is waited for and never reported." example:"orders.created"`
	At      time.Time       `json:"at,omitzero" doc:"When the stream takes it in; absent for the first: now." example:"2026-01-31T15:04:05Z"`
	Data    json.RawMessage `json:"data,omitempty" doc:"Its body."`
}

// PreviewRequest is the events of a preview.
type PreviewRequest struct {
	Event PreviewEvent   `json:"event,omitzero" doc:"What begins the wait. Of a rule with a schedule it is a time alone, from which the rule ticks; of a heartbeat with keys it may be one: the first of them never reports. Absent: such a time, which is now."`
	Then  []PreviewEvent `json:"then,omitempty" nullable:"false" maxItems:"100" doc:"What comes later, in the order of its times."`
	Until time.Time      `json:"until,omitzero" doc:"When the preview ends; absent: when the job does."`

	Found json.RawMessage `json:"found,omitempty" doc:"What the lookup finds at every look: an object, or null for no such entity. Absent: its source is asked, once and now, which takes the scope rules."`
}

// PreviewText is a preview of an unsaved rule.
type PreviewText struct {
	Rule json.RawMessage `json:"rule" doc:"The rule: its document, or a text that is its YAML."`
	PreviewRequest
}

// previewAPI has the operations that show what a rule would do.
type previewAPI struct {
	rules  Rules
	trials *places[tokenRef]
	now    func() time.Time
}

func (a *previewAPI) register(all *operations) {
	const says = "The events and the looks between them go through the engine itself, in a time of its own: " +
		"which slots, which steps, which texts, and what ends the job. Nothing is written and nobody is told. " +
		"Of a rule with a schedule the next ticks are shown, and what the first of them leads to. " +
		"What a lookup finds is given, or its source is asked once; a handler is not asked, and the preview ends at its first look. " +
		"One lint or preview of a token is at work at a time, and a few wait; more are answered with 429."
	register(all, operation{
		ID: "preview-rule", Tag: tagRules, Method: "POST", Path: "/rules/{name}/preview", Does: "shows what a saved rule would do because of an event",
		Says: says, Scope: access.Read, Reach: reachRule, Errors: []int{http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests},
	}, withBody(inTurn(a.trials, a.preview)))
	register(all, operation{
		ID: "preview-unsaved-rule", Tag: tagRules, Method: "POST", Path: "/rules/preview", Does: "shows what a rule that is not saved would do because of an event",
		Says: says, Scope: access.Read, Reach: reachPublic, Limit: 2 * rules.MaxSize, Errors: []int{http.StatusRequestEntityTooLarge, http.StatusTooManyRequests},
	}, withBody(inTurn(a.trials, a.previewText)))
}

// previewIn is a preview of a saved rule.
type previewIn struct {
	RuleName
	Version int32 `query:"version" minimum:"1" maximum:"2147483647" doc:"Which version; absent: the newest."`
	Body    PreviewRequest
}

func (a *previewAPI) preview(ctx context.Context, in *previewIn) (rules.Preview, error) {
	ask := a.events(ctx, in.Body)
	ask.Name, ask.Version = string(in.Name), in.Version
	return a.rules.Preview(ctx, ask)
}

func (a *previewAPI) previewText(ctx context.Context, in *struct{ Body PreviewText }) (rules.Preview, error) {
	ask := a.events(ctx, in.Body.PreviewRequest)
	ask.Text = in.Body.Rule
	var yaml string
	if json.Unmarshal(in.Body.Rule, &yaml) == nil {
		ask.Text = []byte(yaml)
	}
	return a.rules.Preview(ctx, ask)
}

// events converts the events of a preview. The first one without a time happens now.
func (a *previewAPI) events(ctx context.Context, of PreviewRequest) rules.PreviewRequest {
	ask := rules.PreviewRequest{Until: of.Until, Found: of.Found}
	if principalOf(ctx).requireScope(access.Rules) != nil {
		ask.Unasked = "it is asked for those only who may change rules"
	}
	if of.Event.At.IsZero() {
		of.Event.At = a.now().UTC()
	}
	for _, e := range append([]PreviewEvent{of.Event}, of.Then...) {
		ask.Events = append(ask.Events, rules.PreviewEvent{Subject: string(e.Subject), At: e.At, Data: e.Data})
	}
	return ask
}
