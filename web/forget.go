package web

import (
	"context"
	"net/http"

	"deadman/internal/access"
)

// Forgetter deletes the past of a key. Implementations are safe for concurrent use.
type Forgetter interface {
	// Forget deletes the ended jobs of a key with everything about them, or with DryRun counts that. It reads the stream of
	// events for a bounded time: unless the result is Done, the caller repeats the request with its After and Through. It
	// returns futurejobs.ErrNotFound for an entity that no rule has or had. While the key has a pending job, or an alert that
	// is not sent, the error has the status 409, and its text names the messages that were erased before.
	Forget(ctx context.Context, r ForgetRequest) (Forgotten, error)
}

// ForgetRequest names the key to be forgotten. It is in the body, so that it is in no log of addresses.
type ForgetRequest struct {
	Entity string `json:"entity" minLength:"1" doc:"Entity type." example:"order"`
	Key    string `json:"key" minLength:"1" doc:"Key of the entity." example:"1234"`
	DryRun bool   `json:"dry_run,omitempty" doc:"Count what would be deleted, and delete nothing."`

	After   uint64 `json:"after,omitempty" doc:"To continue: after of the last answer, if its done was false."`
	Through uint64 `json:"through,omitempty" doc:"To continue: through of the last answer, if its done was false."`
	Limit   int    `json:"limit,omitempty" minimum:"0" doc:"Number of messages of DEADMAN_EVENTS after which the request answers with its progress. 0: it reads for 20 s at the most."`
}

// Forgotten has the numbers of deleted rows and messages about a key, and the remains. They are those of one request; unless it
// is Done, no row is deleted yet.
type Forgotten struct {
	Done    bool   `json:"done" doc:"Whether all is deleted. Otherwise the request read a part of the stream DEADMAN_EVENTS, and deleted events only: repeat it with after and through until done is true, and add events and unread_events up."`
	After   uint64 `json:"after,omitempty" doc:"Sequence of the last message of DEADMAN_EVENTS that was read. Absent if done is true."`
	Through uint64 `json:"through,omitempty" doc:"Sequence of the last message of DEADMAN_EVENTS that is to be read: the last one at the first request. Absent if done is true."`

	Jobs          int64 `json:"jobs" doc:"Ended jobs in the history."`
	Alerts        int64 `json:"alerts" doc:"Alerts in the database."`
	Notifications int64 `json:"notifications" doc:"Deliveries of the alerts to channels. Messages that a channel has received stay there."`
	EarlyResolves int64 `json:"early_resolves" doc:"Stored resolves that came before their trigger."`
	Pings         int64 `json:"pings" doc:"Entries of the log of pings."`
	PingAddresses int64 `json:"ping_addresses" doc:"Addresses for pings of the key."`
	Mutes         int64 `json:"mutes" doc:"Mutes of exactly this key."`
	DeadLetters   int64 `json:"dead_letters" doc:"Dead letters of the entity's rules whose event has the key."`
	Answers       int64 `json:"answers" doc:"Kept answers to requests with an Idempotency-Key that name the key."`

	AlertMessages int64 `json:"alert_messages" doc:"Messages in the stream DEADMAN_ALERTS."`
	Events        int64 `json:"events" doc:"Messages in the stream DEADMAN_EVENTS that act on a job of the key."`

	AuditEntries int64  `json:"audit_entries" doc:"Entries of the audit log that have the pseudonym in place of the key."`
	Pseudonym    string `json:"pseudonym,omitempty" doc:"Random name of the key in the audit log. Absent in a dry run."`

	UnreadEvents int64    `json:"unread_events,omitempty" doc:"Messages in DEADMAN_EVENTS that act on a job of the key and are not read yet. They are not deleted; repeat the request later."`
	UnreadAlerts int64    `json:"unread_alerts,omitempty" doc:"Last messages of DEADMAN_ALERTS, also of other rules, that the request had no time to read. Alerts of the key among them are deleted only if the database had them."`
	OtherStreams []string `json:"other_streams,omitempty" doc:"Streams of others that rules of the entity read. Their messages are not deleted."`
	RuleVersions []string `json:"rule_versions,omitempty" doc:"Versions of rules whose documents name the key. They are not changed." example:"backup@3"`
}

// forgetAPI has the operation that deletes the past of a key.
type forgetAPI struct {
	forgetter Forgetter // nil: the node has none
}

func (a *forgetAPI) register(all *operations) {
	if a.forgetter == nil {
		return
	}
	register(all, operation{
		ID: "forget-entity", Tag: tagJobs, Method: "POST", Path: "/entities/forget", Summary: "delete the past of an entity's key",
		Description: "Deletes ended jobs, alerts, notifications, pings and dead letters of the key from the database and from the streams of deadman, " +
			"and replaces the key in the audit log by a random pseudonym. Reads the whole stream DEADMAN_EVENTS, in several requests if it takes more " +
			"than 20 s: an answer has done, and otherwise the after and through of the next request. Pending jobs must be cancelled before.",
		Scope: access.Admin, Reach: reachAll, Status: http.StatusOK, Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, withBody(func(ctx context.Context, in *struct{ Body ForgetRequest }) (Forgotten, error) {
		return a.forgetter.Forget(ctx, in.Body)
	}))
}
