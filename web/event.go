package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/subjects"
	"deadman/rules"
)

// MaxEventBytes is the largest body of an event that the API accepts.
const MaxEventBytes = 256 << 10

// EventPublisher publishes events and follows alerts. The bus implements it. Implementations are safe for concurrent
// use.
type EventPublisher interface {
	// PublishEvent puts an event into the stream of its subject, and returns once it is durable. A repeat of an id is
	// not stored twice, even on another subject; repeated reports that seq is that of the first event. An empty id is no
	// id.
	PublishEvent(ctx context.Context, subject string, data []byte, header map[string][]string, id string) (stream string, seq uint64, repeated bool, err error)
	// Follow yields the last backlog alerts of the stream, then each new one, until ctx is done. It yields errors too,
	// and may continue after one.
	Follow(ctx context.Context, backlog int) iter.Seq2[alerts.Alert, error]
}

// LoadedRules matches events with rules. rules.Catalog implements it.
type LoadedRules interface {
	// DryMatch predicts an event's effects for its sender; isWhole is false if rules could not be evaluated.
	DryMatch(e futurejobs.Event) (effects []futurejobs.Effect, refusals []futurejobs.Refusal, isWhole bool)
	Refresh(ctx context.Context) error
	// Newest returns the newest version of a rule, or futurejobs.ErrNotFound.
	Newest(name string) (*rules.Rule, error)
	// NextSteps returns the next steps of jobs as of now.
	NextSteps(now time.Time) *rules.NextSteps
	// PlannedTicks returns for each bucket of a span the number of first checks of jobs that schedules will create after
	// now, and of events that they will emit.
	PlannedTicks(span futurejobs.BucketRange, now time.Time) []int
}

// PublishResult is the place of a published event, and its predicted effects.
type PublishResult struct {
	Stream string `json:"stream" doc:"Stream that stored the event."`
	Seq    uint64 `json:"seq,omitzero" doc:"Sequence number of the event in the stream. Absent for tokens with bounds, because it counts the events of all senders."`

	Duplicate bool `json:"duplicate,omitempty" doc:"Whether the stream already has an event with this ID from the same sender on the same subject. The new event was not stored."`

	Affected        []AffectedEntity `json:"affected,omitempty" doc:"Up to 20 entities whose jobs the event may create, change or end, by the rules that this node knows and the token may read."`
	EffectsHidden   bool             `json:"effects_hidden,omitempty" doc:"Whether the token may not read all rules: affected and would_dead_letter lack the others."`
	NotEvaluated    bool             `json:"not_evaluated,omitempty" doc:"Whether the node was too busy to evaluate the event. Then affected and would_dead_letter are absent. The event is stored."`
	WouldDeadLetter []RefusedRule    `json:"would_dead_letter,omitempty" doc:"Rules that will refuse the event as a dead letter, among those that this node knows and the token may read."`
}

// AffectedEntity is an entity that an event concerns, for a rule.
type AffectedEntity struct {
	Rule   string `json:"rule" doc:"Name of the rule." example:"order-unshipped"`
	Entity string `json:"entity" doc:"Entity type." example:"order"`
	Key    string `json:"key" doc:"Key of the entity." example:"1234"`
	Effect string `json:"effect,omitempty" enum:"start,heartbeat,resolve,member,update,pause,resume" doc:"Effect of the event on the job of the entity. start: it starts a job, unless one is pending and the rule keeps it. heartbeat: it reports to a heartbeat. resolve: it ends a pending job. member: it adds a member to a set of the job. update: it changes the state. pause, resume: it stops or starts the clock of the job."`
	Paused bool   `json:"paused,omitempty" doc:"Whether the rule of a heartbeat is paused or disabled: a key without a job gets none, and is not watched."`
}

// newAffected returns the entity of an effect.
func newAffected(e futurejobs.Effect) AffectedEntity {
	heartbeat, _ := e.Action.(futurejobs.Heartbeat)
	return AffectedEntity{Rule: e.Rule.Name, Entity: e.Rule.Entity, Key: e.Ref.Key, Effect: effectOf(e.Action), Paused: heartbeat.Paused}
}

// effectOf names the action of an event.
func effectOf(action futurejobs.Action) string {
	switch action.(type) {
	case futurejobs.Start, futurejobs.StartExpired:
		return "start"
	case futurejobs.Heartbeat:
		return "heartbeat"
	case futurejobs.End:
		return "resolve"
	case futurejobs.AddMember:
		return "member"
	case futurejobs.Update:
		return "update"
	case futurejobs.Pause:
		return "pause"
	case futurejobs.Resume:
		return "resume"
	}
	return ""
}

// matchedAtOnce is how many events are matched at once for their senders.
const matchedAtOnce = 2

// matchWait is how long a sender waits for a free place. The event is in the stream already.
const matchWait = 250 * time.Millisecond

// maxConcerned is the largest number of affected entities in an answer.
const maxConcerned = 20

// RefusedRule is a rule that cannot process an event.
type RefusedRule struct {
	Rule   string `json:"rule,omitempty" doc:"Rule that refuses the event. Absent if all rules do."`
	Reason string `json:"reason" doc:"Reason of the refusal."`
}

// EventPath has the subject of an event, and the id that identifies a repeat.
type EventPath struct {
	Subject identifier `path:"subject" doc:"NATS subject, without wildcards." example:"orders.created"`
	ID      string     `header:"Idempotency-Key" hidden:"true"`
	NATSID  string     `header:"Nats-Msg-Id" doc:"Event ID for deduplication. The stream stores one event for each ID, subject and token within its duplicate window (2 minutes in DEADMAN_EVENTS). Default: the Idempotency-Key."`
	Type    string     `header:"Content-Type" hidden:"true"`
}

// eventIn is a request that publishes an event.
type eventIn struct {
	EventPath
	RawBody []byte `contentType:"application/json"`

	header map[string][]string
}

var _ huma.Resolver = (*eventIn)(nil)

// Resolve implements huma.Resolver: it checks the event as a whole.
func (in *eventIn) Resolve(ctx huma.Context) []error {
	in.header = make(map[string][]string)
	ctx.EachHeader(func(name, value string) {
		if name = strings.ToLower(name); belongs(name) {
			in.header[name] = append(in.header[name], value)
		}
	})
	var wrong []error
	refuse := func(location, format string, args ...any) {
		wrong = append(wrong, ProblemDetail{Location: location, Message: fmt.Sprintf(format, args...)})
	}
	if err := subjects.CheckLiteral(string(in.Subject)); err != nil {
		refuse("path.subject", "%s", err)
	}
	switch {
	case in.NATSID != "" && in.ID != "" && in.NATSID != in.ID:
		refuse("header.Idempotency-Key", "differs from Nats-Msg-Id; give one of them")
	case max(len(in.NATSID), len(in.ID)) > maxIdempotencyKey:
		refuse("header.Idempotency-Key", "the id is over the limit of %d bytes", maxIdempotencyKey)
	}
	if isJSON(in.Type) && !json.Valid(in.RawBody) {
		refuse("body", "not valid JSON, though the Content-Type says so")
	}
	return wrong
}

// belongs reports whether a header belongs to the event rather than to the request.
func belongs(name string) bool {
	return strings.HasPrefix(name, "ce-") || name == "content-type" || name == "traceparent" || name == "tracestate"
}

func isJSON(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (kind == jsonType || strings.HasSuffix(kind, "+json"))
}

// size is the approximate size of the event in the stream, in bytes.
func (in *eventIn) size() int {
	n := len(in.Subject) + len(in.RawBody)
	for name, values := range in.header {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	return n
}

// eventAPI has the operation that publishes events.
type eventAPI struct {
	wire     EventPublisher
	catalog  LoadedRules
	quotas   *quotaAPI
	matching chan struct{} // bounds the events that are matched for their senders
	log      *slog.Logger
	now      func() time.Time
}

func (a *eventAPI) register(all *operations) {
	register(all, operation{
		ID: "publish-event", Tag: tagEvents, Method: "POST", Path: "/events/{subject}", Summary: "publish an event",
		Description: "Responds when the event is durable in the stream of its subject. The headers ce-*, Content-Type, traceparent and tracestate are " +
			"stored with it.",
		Scope: access.Events, Reach: reachBody, Status: http.StatusAccepted, Limit: MaxEventBytes, IdempotencyKey: true,
		Errors: []int{http.StatusConflict, http.StatusRequestEntityTooLarge},
		RequestBody: &huma.RequestBody{Description: "Body of the event, of any media type.", Content: map[string]*huma.MediaType{
			jsonType:                   {Schema: &huma.Schema{}, Example: map[string]any{"id": "1234", "total": 12.5}},
			"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
		}},
	}, withBody(a.publish))
}

func (a *eventAPI) publish(ctx context.Context, in *eventIn) (PublishResult, error) {
	key, subject := cmp.Or(in.NATSID, in.ID), string(in.Subject)
	if err := principalOf(ctx).publish(subject); err != nil {
		return PublishResult{}, err
	}
	if key != "" {
		in.header[senderIDHeader] = []string{key}
	}
	if err := a.quotas.withinQuota(ctx, in.size()); err != nil {
		return PublishResult{}, err
	}
	stream, seq, repeated, err := a.wire.PublishEvent(ctx, subject, in.RawBody, in.header, eventID(access.ActorOf(ctx), subject, key))
	if err != nil {
		return PublishResult{}, fmt.Errorf("publish on %s: %w", in.Subject, err)
	}
	taken := PublishResult{Stream: stream, Seq: seq, Duplicate: repeated}
	if principalOf(ctx).token.Bounds() != nil {
		taken.Seq = 0
	}
	a.meaning(ctx, &taken, futurejobs.Event{
		Stream: stream, Subject: subject, Seq: seq, At: a.now(), Header: in.header, Data: in.RawBody,
	})
	return taken, nil
}

// senderIDHeader keeps the sender's id of an event; the message's own id is derived from it.
var senderIDHeader = strings.ToLower(idempotencyHeader)

// eventID returns the id by which the stream detects a repeat of an event, empty if the sender gave no key. A stream has
// one set of ids for all of its subjects and publishers, so the id includes the sender and the subject.
func eventID(sender access.Actor, subject, key string) string {
	if key == "" {
		return ""
	}
	return keyOf(sender.TokenID, sender.Name, subject, key)
}

// meaning adds the predicted effects of a stored event. If the rules cannot be refreshed, it uses those known before.
func (a *eventAPI) meaning(ctx context.Context, taken *PublishResult, e futurejobs.Event) {
	if err := a.catalog.Refresh(ctx); err != nil {
		a.log.WarnContext(ctx, "event evaluated with rules that may be outdated", "subject", e.Subject, "err", err)
	}
	wait := time.NewTimer(matchWait)
	defer wait.Stop()
	select { // matching may take much more memory than the event's body
	case a.matching <- struct{}{}:
		defer func() { <-a.matching }()
	case <-wait.C:
		taken.NotEvaluated = true
		return
	case <-ctx.Done():
		return
	}
	v := principalOf(ctx)
	taken.EffectsHidden = !v.canSee("")
	effects, refusals, isWhole := a.catalog.DryMatch(e)
	taken.NotEvaluated = !isWhole
	for _, effect := range effects {
		of := newAffected(effect)
		if v.canSee(of.Rule) && len(taken.Affected) < maxConcerned && !slices.Contains(taken.Affected, of) {
			taken.Affected = append(taken.Affected, of)
		}
	}
	for _, r := range refusals {
		if !v.canSee(r.Rule) || r.Rule == "" && v.requireUnrestricted() != nil {
			continue
		}
		taken.WouldDeadLetter = append(taken.WouldDeadLetter, RefusedRule{Rule: r.Rule, Reason: r.Reason})
	}
}
