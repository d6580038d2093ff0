package web

import (
	"fmt"
	"slices"
	"strings"
)

// ConditionKind describes a condition of /readyz. docs/reference/conditions.md lists all of them.
type ConditionKind struct {
	Name  string
	Vital bool
	If    string // when a node has the condition; empty: always
	Holds string // what holds while the condition is OK, in Markdown with links from docs/reference
}

// DatabaseCondition is the name of the condition that the database answers. Most others depend on it.
const DatabaseCondition = "database"

// LacksDatabase reports whether the condition of the database failed.
func LacksDatabase(conditions []Condition) bool {
	return slices.ContainsFunc(conditions, func(c Condition) bool { return c.Name == DatabaseCondition && !c.OK })
}

// ConditionKinds describes the conditions in the order of /readyz. A test compares them with the code of the conditions.
var ConditionKinds = []ConditionKind{
	{Name: DatabaseCondition, Vital: true, Holds: "the database answers"},
	{Name: "clock", Holds: "the [clock of the database](../operations/monitoring.md#clock-changes) runs evenly"},
	{Name: "schema", Vital: true, Holds: "this program supports the version of the [schema](../operations/upgrading.md)"},
	{Name: "nats", Holds: "the node is connected to the broker"},
	{Name: "leases", Holds: "the node can take and renew leases of shards"},
	{Name: "ingest", Holds: "the rules, and all streams that this node reads, can be read"},
	{Name: "streams", Holds: "each subject of a rule has a stream, and the stream exists"},
	{Name: "ticks", Holds: "the ticks of [schedules](rule-triggers.md) are applied"},
	{Name: "sweep", Holds: "no due job of this node is more than 10 s behind its slot"},
	{Name: "due", Holds: "no node has [overdue jobs](../operations/monitoring.md#overdue-jobs)"},
	{Name: "rules", Holds: "all live nodes can [read](../operations/monitoring.md#unreadable-rules) the rules of due jobs"},
	{Name: "node", Holds: "the node can hold shards: it is not [unfit](../operations/monitoring.md#unfit-nodes)"},
	{Name: "relay", Holds: "decided alerts are published"},
	{Name: "alerts_stream", Holds: "the state of the [stream of alerts](../operations/nats.md#the-stream-of-alerts) is known, and it has room"},
	{Name: "restore", Holds: "database and stream of alerts [agree](../operations/failover-and-restore.md#the-report)"},
	{Name: "sources", If: "with a file of sources", Holds: "each [source](sources.md) answers"},
	{Name: "notifications", If: "with a file of channels, or without one while notifications wait", Holds: "notifications are sent, and no [channel](notifications.md#delivery) fails"},
	{Name: "files", If: "with a file that SIGHUP reloads", Holds: "no changed file was refused"},
	{Name: "rule_files", If: "with a folder of rules", Holds: "no [rule file](rule-versions.md) was refused, at the start or on SIGHUP, and no other node's folder replaced its rules"},
	{Name: "heartbeat", If: "with a heartbeat", Holds: "the receiver accepts the [heartbeat](../operations/monitoring.md#the-heartbeat)"},
	{Name: "serving", Vital: true, If: "while the node stops", Holds: "never: the node accepts no more work"},
}

// troubleshooting is the address of the page about failed conditions, on each node.
const troubleshooting = ManualPath + "/operations/troubleshooting#"

// runbookOf returns the address of the section about a condition on each node.
func runbookOf(condition string) string { return troubleshooting + "condition-" + condition }

// ConditionTable returns ConditionKinds as a Markdown table, with links from docs/reference.
func ConditionTable() string {
	var b strings.Builder
	b.WriteString("| condition | required | present | holds if | if it fails |\n|---|---|---|---|---|\n")
	for _, k := range ConditionKinds {
		required, present := "", "always"
		if k.Vital {
			required = "yes "
		}
		if k.If != "" {
			present = k.If
		}
		fmt.Fprintf(&b, "| `%s` | %s| %s | %s | [remedies](../operations/troubleshooting.md#condition-%s) |\n", k.Name, required, present, k.Holds, k.Name)
	}
	return b.String()
}
