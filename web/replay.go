package web

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"deadman/rules/document"

	"deadman/internal/access"
	"deadman/internal/replaytasks"
	"deadman/rules"
)

// Replays runs replays in the background. replaytasks.Runner implements it, and documents the errors. Implementations are safe
// for concurrent use.
type Replays interface {
	Start(ctx context.Context, q replaytasks.Request, ended func()) (replaytasks.Task, error)
	Task(owner, id string) (replaytasks.Task, error)
	Cancel(owner, id string) error
}

// ReplayRequest is the range of a replay.
type ReplayRequest struct {
	Since        time.Time       `json:"since" doc:"Begin of the range; it ends with the request. The rule counts as saved then. At most 366 days ago." example:"2026-01-24T00:00:00Z"`
	LookupResult json.RawMessage `json:"lookup_result,omitempty" doc:"Result of the lookup at each check: an object, or null if the entity does not exist. Required for a rule with a lookup, since the past answers of its source are unknown."`
}

// UnsavedReplayRequest is a replay of an unsaved rule.
type UnsavedReplayRequest struct {
	Rule json.RawMessage `json:"rule" doc:"Rule document, as an object or as YAML text."`
	ReplayRequest
}

// Replay is a replay of a rule over the events that its streams store.
type Replay struct {
	ID        string                    `json:"id" doc:"ID of the replay. Only the node and the token that started it know it."`
	Rule      string                    `json:"rule" doc:"Name of the rule."`
	Version   int32                     `json:"version,omitempty" doc:"Version of the rule. Absent if it is not saved."`
	Node      string                    `json:"node" doc:"Node that runs the replay, and has its result in memory."`
	State     string                    `json:"state" enum:"running,done,failed,cancelled" doc:"running: it plays events. done: result is present. failed, cancelled: reason is present."`
	Since     time.Time                 `json:"since" doc:"Begin of the range."`
	Until     time.Time                 `json:"until" doc:"End of the range: the start of the replay."`
	StartedAt time.Time                 `json:"started_at" doc:"Start of the replay."`
	EndedAt   time.Time                 `json:"ended_at,omitzero" doc:"End of the replay. Absent while it runs."`
	ExpiresAt time.Time                 `json:"expires_at,omitzero" doc:"Time at which the node forgets the replay. Absent while it runs."`
	Events    int64                     `json:"events" doc:"Events played so far."`
	PlayedTo  time.Time                 `json:"played_to" doc:"Time of the last played event."`
	Progress  float64                   `json:"progress" doc:"Part of the range that was read, from 0 to 1, by the sequences of the streams."`
	Raised    int64                     `json:"raised" doc:"Firing alerts so far."`
	Reason    string                    `json:"reason,omitempty" doc:"Why the replay failed or was cancelled, with the remedy."`
	Warnings  []string                  `json:"warnings,omitempty" nullable:"false" doc:"Events that the streams lack."`
	Result    *replaytasks.ReplayResult `json:"result,omitempty" doc:"Result. Absent unless the state is done."`
}

func newReplay(t replaytasks.Task) Replay {
	return Replay{
		ID: t.ID, Rule: t.Rule, Version: t.Version, Node: t.Node, State: string(t.State), Since: t.Since, Until: t.Until, StartedAt: t.StartedAt,
		EndedAt: t.EndedAt, ExpiresAt: t.ExpiresAt, Events: t.Events, PlayedTo: t.PlayedTo, Progress: t.Progress(), Raised: t.Raised,
		Reason: t.Reason, Warnings: t.Warnings, Result: t.Result,
	}
}

// replayAPI has the operations on replays.
type replayAPI struct {
	rules   Rules
	replays Replays
	permits *semaphore[tokenRef]
}

func (a *replayAPI) register(all *operations) {
	const description = "Runs the rule over the events that its streams store, in virtual time, in the background; nothing is stored, published or sent. " +
		"The answer is the running replay; GET /replays/{id} returns its progress, and its result for 15 minutes after the end. " +
		"A replay lives in the memory of the node that started it: other nodes answer 404, and it ends with the node. " +
		"Each token or prefix has one running replay, and further ones get 429; a node that runs two answers 503. " +
		"A replay fails after 2 minutes, 2,000,000 events, 1 GiB of events or 128 MiB of pending jobs. " +
		"Rules with a handler and heartbeats without an event are refused."
	starts := []int{http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests}
	register(all, operation{
		ID: "replay-rule", Tag: tagRules, Method: "POST", Path: "/rules/{name}/replays", Summary: "replay a saved rule over the past events of its streams",
		Description: description, Scope: access.Read, Reach: reachRule, Status: http.StatusAccepted, Errors: append(starts, http.StatusNotFound),
	}, a.start)
	register(all, operation{
		ID: "replay-unsaved-rule", Tag: tagRules, Method: "POST", Path: "/rules/replays", Summary: "replay an unsaved rule over the past events of its streams",
		Description: description + " It requires the scope rules, since its texts can contain all that the events contain.",
		Scope:       access.Rules, Reach: reachBody, Status: http.StatusAccepted, Limit: 2 * document.MaxSize, Errors: starts,
	}, a.startText)
	register(all, operation{
		ID: "get-replay", Tag: tagRules, Method: "GET", Path: "/replays/{id}", Summary: "get the progress or the result of a replay, on the node that started it",
		Scope: access.Read, Reach: reachBody, Errors: []int{http.StatusNotFound},
	}, withBody(a.get))
	register(all, operation{
		ID: "cancel-replay", Tag: tagRules, Method: "DELETE", Path: "/replays/{id}", Summary: "cancel a running replay, or remove an ended one",
		Scope: access.Read, Reach: reachBody, Errors: []int{http.StatusNotFound},
	}, noContent(a.cancel))
}

// replayOut is a started replay.
type replayOut struct {
	Location string `header:"Location" doc:"Path of the replay."`
	Body     Replay
}

func (a *replayAPI) start(ctx context.Context, in *struct {
	RuleName
	Version int32 `query:"version" minimum:"1" maximum:"2147483647" doc:"Version of the rule. Default: the newest."`
	Body    ReplayRequest
},
) (*replayOut, error) {
	return a.begin(ctx, in.Body, func() (rules.Replayable, error) {
		return a.rules.Replayable(ctx, nil, string(in.Name), in.Version)
	})
}

func (a *replayAPI) startText(ctx context.Context, in *struct{ Body UnsavedReplayRequest }) (*replayOut, error) {
	return a.begin(ctx, in.Body.ReplayRequest, func() (rules.Replayable, error) {
		found, err := a.rules.Replayable(ctx, ruleText(in.Body.Rule), "", 0)
		if err == nil {
			err = principalOf(ctx).requireRule(access.Rules, found.Document.Name)
		}
		return found, err
	})
}

// begin starts a replay with a permit, which it holds until its end.
func (a *replayAPI) begin(ctx context.Context, of ReplayRequest, find func() (rules.Replayable, error)) (*replayOut, error) {
	v := principalOf(ctx)
	tenant := v.tenant()
	if full := a.permits.acquire(tenant); full != nil {
		return nil, full
	}
	started := false
	release := func() { a.permits.release(tenant) }
	defer func() {
		if !started {
			release()
		}
	}()
	rule, err := find()
	if err != nil {
		return nil, err
	}
	t, err := a.replays.Start(ctx, replaytasks.Request{Replayable: rule, Since: of.Since.UTC(), Found: of.LookupResult, Owner: replayOwner(v), Tenant: tenant.id}, release)
	if err != nil {
		return nil, err
	}
	started = true
	return &replayOut{Location: apiPath + "/replays/" + t.ID, Body: newReplay(t)}, nil
}

// replayOwner identifies the visitor with its present bounds: a result has what they permitted.
func replayOwner(v principal) string {
	return cmp.Or(v.ref().id, "open") + " " + v.token.Bounds().String()
}

// replayIn names a replay.
type replayIn struct {
	ID identifier `path:"id" doc:"ID of the replay." example:"7d1c6a52-6f0e-4d8e-9d5b-0a4f5f1f2c11"`
}

func (a *replayAPI) get(ctx context.Context, in *replayIn) (Replay, error) {
	t, err := a.replays.Task(replayOwner(principalOf(ctx)), string(in.ID))
	if err != nil {
		return Replay{}, err
	}
	return newReplay(t), nil
}

func (a *replayAPI) cancel(ctx context.Context, in *replayIn) error {
	return a.replays.Cancel(replayOwner(principalOf(ctx)), string(in.ID))
}
