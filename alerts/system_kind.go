package alerts

import (
	"fmt"
	"strings"
	"unicode"
)

// SystemKind describes a kind of alert about deadman itself. docs/reference/conditions.md lists all of them.
type SystemKind struct {
	Topic   string // form of the key, such as node/<name>
	Step    string // empty: alerts of this kind have no step
	Meaning string // condition that raises the alert, in Markdown with links from docs/reference
	Section string // heading in docs/operations/troubleshooting.md that names causes and remedies
}

// The forms of keys that several kinds have.
const (
	sweepKey  = "sweep"
	ruleKey   = "rule/<name>"
	streamKey = "stream/<name>"
	ownAlerts = "stream/DEADMAN_ALERTS"
)

// SystemKinds describes the alerts under the rule SystemRule. A test compares them with the code that raises alerts.
var SystemKinds = []SystemKind{
	{sweepKey, "gap", "due jobs were not decided in time: a [monitoring gap](../operations/monitoring.md#monitoring-gaps)", "Alerts are late"},
	{"ingest/<stream>", "gap", "a stream was not read to its end in time; `ingest/<stream>/tenants` is about the [rules of tenants](../operations/tenants.md#lines) alone", "Condition ingest"},
	{sweepKey, "overdue", "[overdue jobs](../operations/monitoring.md#overdue-jobs) without another explanation", "Condition due"},
	{"clock", "step", "the [database's clock](../operations/monitoring.md#clock-changes) stepped", "Condition clock"},
	{"node/<name>", "unfit", "a node is [unfit](../operations/monitoring.md#unfit-nodes) to hold shards", "Condition node"},
	{"rule-files/<folder>", "refused", "a node refuses [rule files](rule-versions.md) of its folder; resolved when a node applies all files of a folder with that name", "Condition rule_files"},
	{"rule/<name>/<version>", "unreadable", "a version of a rule with due jobs [cannot be read](../operations/monitoring.md#unreadable-rules) by a node", "Condition rules"},
	{ruleKey, "costly", "the rule was paused because its [expressions cost too much](rule-expressions.md#cost) on five events; resolved when it is resumed or deleted", "A rule is paused or put off"},
	{ruleKey, "allowance", "checks of the rule are [put off](rule-expressions.md#cost) for a minute, because the rules of its tenant used up the allowance of their conditions; resolved when no due check is put off", "A rule is paused or put off"},
	{ruleKey, "ticks", "schedule ticks cannot be applied, or are [put off](rule-expressions.md#cost), for a minute", "Condition ticks"},
	{ruleKey, "post", "events of stored schedules were not accepted by their [webhook](rule-triggers.md#stored-schedules) in any attempt", "Events of schedules are not accepted"},
	{ruleKey, "tick", "a schedule tick was found later than [`catch_up`](rule-checks.md#catch_up) allows, and is skipped or expired, or it cannot be computed", "A tick was missed"},
	{ruleKey, "refused", "jobs of a schedule tick could not be created", "A tick was missed"},
	{"quota/<prefix>*/<limit>", "quota", "a [quota](../operations/tenants.md#quotas) refused something; labels `prefix` and `quota`; `warning` for events, `error` for jobs and alerts; resolved after ten minutes without a refusal", "A quota refuses"},
	{streamKey, "lost", "[events were lost](../operations/nats.md#lost-events); `stream/<name>/tenants` is about the rules of tenants alone; open until it is closed", "Events were lost"},
	{"subject/<name>", "captured", "`DEADMAN_EVENTS` captured a subject that lost its stream; open until it is closed", "Events were lost"},
	{"stream/DEADMAN_EVENTS", "filling", "the [stream of events](../operations/nats.md#the-stream-of-events) is over 80 % full", "Condition streams"},
	{ownAlerts, "filling", "the [stream of alerts](../operations/nats.md#the-stream-of-alerts) is over 80 % full", "Condition alerts_stream"},
	{ownAlerts, "full", "the stream of alerts is over 99 % full", "Condition alerts_stream"},
	{ownAlerts, "recreated", "the stream of alerts was deleted and created again; open until the alert is closed", "Condition alerts_stream"},
	{"database", "restored", "the [database went back](../operations/failover-and-restore.md#the-report); open until it is closed", "Condition restore"},
	{"database", "newer-rules", "open alerts of rules that are newer than the restored state [stay open](../operations/failover-and-restore.md#alerts-of-newer-rules) until an actor closes this alert", "Condition restore"},
	{"schema", "behind", "a node is [behind the schema](../operations/upgrading.md#skipping-versions)", "Condition schema"},
	{"channel/<name>", "", "a [channel](notifications.md#delivery) failed three times in a row", "Condition notifications"},
	{"channel/<name>", "given-up", "messages that the channel did not take in 72 hours were given up", "Condition notifications"},
	{ruleKey, "trigger-refused", "three trigger events of the rule, one after another, were refused: no job watches them; open until it is closed", "Events have no effect"},
	{"dead-letters", "many", "100 dead letters (`dead_letter_alert`), or 100 more than at the last close of this alert; open until it is closed", "Events have no effect"},
	{"dead-letters", "capped", "[dead letters](../operations/dead-letters.md#limits) exceeded a limit", "Events have no effect"},
	{"early-resolves", "capped", "[early resolves](rule-events.md#early) exceeded a limit", "Early resolves are forgotten"},
	{"history", "unready", "the table for the [history](../operations/retention.md) of the next day could not be made", "The table of tomorrow's history is missing"},
}

// SystemKindOf returns the kind of an alert of SystemRule by its key and step.
func SystemKindOf(key, step string) (kind SystemKind, found bool) {
	for _, k := range SystemKinds {
		form, _, _ := strings.Cut(k.Topic, "<")
		isSame := key == k.Topic || form != k.Topic && strings.HasPrefix(key, form)
		if isSame && k.Step == step && (!found || len(k.Topic) > len(kind.Topic)) {
			kind, found = k, true
		}
	}
	return kind, found
}

// Page returns the address of the section about causes and remedies in the documentation of each node.
func (k SystemKind) Page() string { return "/docs/operations/troubleshooting#" + Anchor(k.Section) }

// Anchor returns the anchor of a heading of the documentation.
func Anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r) || unicode.IsNumber(r) || r == '_' || r == '-':
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// IsOpenedByState reports whether the firing alert of the kind stays until its condition ends. The others report an event,
// or are open until an actor closes them.
func (k SystemKind) IsOpenedByState() bool {
	switch k.Step {
	case "lost", "captured", "recreated", "restored", "newer-rules", "trigger-refused", "many", "tick", "post", "given-up":
		return false
	case "refused":
		return k.Topic != ruleKey
	}
	return true
}

// SystemKindTable returns SystemKinds as a Markdown table, with links from docs/reference.
func SystemKindTable() string {
	var b strings.Builder
	b.WriteString("| key | step | condition | causes and remedies |\n|---|---|---|---|\n")
	for _, k := range SystemKinds {
		step := ""
		if k.Step != "" {
			step = "`" + k.Step + "` "
		}
		fmt.Fprintf(&b, "| `%s` | %s| %s | [%s](../operations/troubleshooting.md#%s) |\n", k.Topic, step, k.Meaning, k.Section, Anchor(k.Section))
	}
	return b.String()
}
