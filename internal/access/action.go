package access

import (
	"fmt"
	"slices"
	"strings"

	futurejobs "deadman/future_jobs"
)

// Action is the action of an audit entry.
type Action string

// The actions. Each has an entry in Actions.
const (
	RuleSave   Action = "rule.save"
	RuleDelete Action = "rule.delete"
	RulePause  Action = "rule.pause"
	RuleResume Action = "rule.resume"
	RuleRebind Action = "rule.rebind"

	CalendarSave   Action = "calendar.save"
	CalendarDelete Action = "calendar.delete"

	JobCreate Action = "job.create"
	JobCancel Action = "job.cancel"
	JobCheck  Action = "job.check"
	JobSnooze Action = "job.snooze"
	JobMove   Action = futurejobs.ActionMove

	ScheduleChange Action = "schedule.change"

	AlertAck       Action = "alert.ack"
	AlertUnack     Action = "alert.unack"
	AlertClose     Action = "alert.close"
	AlertRepublish Action = "alert.republish"

	AckLinkRevoke Action = "ack-link.revoke"

	MuteCreate Action = "mute.create"
	MuteEnd    Action = "mute.end"

	DeadLetterRetry Action = futurejobs.ActionRetry
	DeadLetterDrop  Action = "dead-letter.drop"

	PingCreate  Action = "ping.create"
	PingRotate  Action = "ping.rotate"
	PingDelete  Action = "ping.delete"
	BadgeCreate Action = "badge.create"
	BadgeRevoke Action = "badge.revoke"

	ChannelTest Action = "channel.test"
	SourceTest  Action = "source.test"
	HandlerTest Action = "handler.test"

	TokenCreate Action = "token.create"
	TokenRevoke Action = "token.revoke"

	QuotaSet    Action = "quota.set"
	QuotaDelete Action = "quota.delete"

	EntityForget Action = "entity.forget"

	SessionCreate Action = "session.create"
	SessionRevoke Action = "session.revoke"
)

// Audited describes the audit entries of an action.
type Audited struct {
	Action  Action
	Object  string // forms of the object, in Markdown
	Content string // condition of the entry, and contents of its detail
}

// Actions describes all actions. docs/operations/audit.md shows them as a table, and the store writes no others.
var Actions = []Audited{
	{RuleSave, "`rule/<name>`", "a version of the rule was saved; its number and bundle, and of a node's folder the node and the file"},
	{RuleDelete, "`rule/<name>`", "the rule was deleted; its last version and bundle"},
	{RulePause, "`rule/<name>`", "the rule was paused"},
	{RuleResume, "`rule/<name>`", "the rule was resumed"},
	{RuleRebind, "`rule/<name>`", "subjects of the rule are read from other streams; the streams now and before"},
	{CalendarSave, "`calendar/<name>`", "a version of the calendar was saved; its number"},
	{CalendarDelete, "`calendar/<name>`", "the calendar was deleted; its last version"},
	{JobCreate, "`job/<rule>/<key>`; `job/<rule>` in bulk", "a job was created; in bulk, the number"},
	{JobCancel, "`job/<rule>/<key>`", "the job was cancelled, also by closing its alert; the reason, if given"},
	{JobCheck, "`job/<rule>/<key>`", "the job was checked on request; the result, unless that ended the job"},
	{JobSnooze, "`job/<rule>/<key>`", "the next check was moved; the end of the snooze"},
	{JobMove, "`job/<rule>/<key>`", "the job was moved to a new version of its rule"},
	{ScheduleChange, "`schedules/<rule>`", "stored schedules of the rule were changed; the numbers of created, updated and deleted ones"},
	{AlertAck, "`alert/<id>`", "the alert was acknowledged; its rule and key, the end, the note"},
	{AlertUnack, "`alert/<id>`", "the acknowledgement was removed; the rule and key of the alert"},
	{AlertClose, "`alert/<id>`", "the alert about lost data was closed; the reason"},
	{AlertRepublish, "`rule/<name>`; `alerts` for all rules", "alerts were queued to be published again; the start, and the number"},
	{AckLinkRevoke, "`ack-links`", "all links and buttons that acknowledge alerts were revoked"},
	{MuteCreate, "`mute/<id>`", "a mute was created; its conditions, its start if it begins later, its end, the reason"},
	{MuteEnd, "`mute/<id>`", "the mute was ended before its end, or before its start"},
	{DeadLetterRetry, "`dead-letter/<id>`; `job/<rule>/<key>` for each job that it changed", "the event was ingested again; the result"},
	{DeadLetterDrop, "`dead-letter/<id>`; `dead-letter` for several", "dead letters were dropped; of several, the number and the filter"},
	{PingCreate, "`rule/<name>`", "an address for pings was created; its key"},
	{PingRotate, "`rule/<name>`", "an address for pings was replaced; its key"},
	{PingDelete, "`rule/<name>`", "an address for pings was deleted; its key"},
	{BadgeCreate, "`rule/<name>`", "the first badge of the rule was created"},
	{BadgeRevoke, "`rule/<name>`", "all badges of the rule were revoked"},
	{ChannelTest, "`channel/<name>`", "a test message was sent to the channel; the result, or the reason of the failure"},
	{SourceTest, "`source/<name>`", "the source was tested; the result, or the reason of the failure"},
	{HandlerTest, "`handler/<name>`", "the handler was called with a test check; the result, or the reason of the failure"},
	{TokenCreate, "`token/<name>`", "a token was created; its id, scopes, prefix and expiry"},
	{TokenRevoke, "`token/<name>`", "the token was revoked; its id"},
	{QuotaSet, "`quota/<prefix>`", "limits of a prefix were set; the limits"},
	{QuotaDelete, "`quota/<prefix>`", "the limits of a prefix were removed"},
	{EntityForget, "`entity/<entity>/<pseudonym>`", "the past of a key was deleted; the numbers of jobs, alerts and dead letters"},
	{SessionCreate, "`session/<id>`", "a browser logged in; the token's name, or the person's id and groups"},
	{SessionRevoke, "`session/<id>`", "the session was ended, also by *Log out*; its token's id, or the person"},
}

// Check returns an error unless the action is in Actions.
func (a Action) Check() error {
	if slices.ContainsFunc(Actions, func(known Audited) bool { return known.Action == a }) {
		return nil
	}
	return fmt.Errorf("the audit has no action %q; add it to access.Actions", string(a))
}

// ActionTable returns Actions as a Markdown table.
func ActionTable() string {
	var b strings.Builder
	b.WriteString("| action | object | change; detail |\n|---|---|---|\n")
	for _, a := range Actions {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", a.Action, a.Object, a.Content)
	}
	return b.String()
}
