package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus"
	"deadman/internal/operatorfiles"
	"deadman/internal/subjects"
	"deadman/internal/webhooks"
)

// permission is a line of deploy/nats-permissions.conf that a node needs.
type permission struct {
	list    string // of the user's permissions: publish or subscribe
	line    string
	state   State  // without it
	without string // what does not work without it
}

const (
	publish   = "publish"
	subscribe = "subscribe"

	listStreams = "$JS.API.STREAM.LIST"
	accountInfo = "$JS.API.INFO"
)

func onStream(verb, stream string, state State, without string) permission {
	return permission{publish, "$JS.API.STREAM." + verb + "." + stream, state, without}
}

func onConsumer(verb, stream string, state State, without string) permission {
	return permission{publish, "$JS.API.CONSUMER." + verb + "." + stream + ".*", state, without}
}

// ownPermissions returns the permissions that each node needs. hasAlerts is true if the stream of alerts exists, and captures
// if the node stores events of subjects without a stream.
func ownPermissions(ns subjects.Namespace, hasAlerts, captures bool) []permission {
	alertsStream, eventsStream := ns.Stream(bus.AlertsStream), ns.Stream(bus.EventsStream)
	creates, events := Failed, Warning
	if hasAlerts {
		creates = Warning
	}
	if captures {
		events = Failed
	}
	const notPublished, notRead = "no alert is published", "pages, deadman alert tail and the comparison after a restore read no alerts"
	const notCaptured, kept = "rules on subjects without a stream get no events", "consumers that are not needed any more stay for a minute"
	return []permission{
		{subscribe, ns.Inbox() + ".>", Failed, "the node gets no answer from the broker"},
		{subscribe, ns.Subject("deadman.acks.*"), Warning, "alerts cannot be acknowledged over NATS"},
		{subscribe, "$SRV.>", Warning, "nats micro ls does not list the node"},
		onStream("INFO", alertsStream, Failed, notPublished),
		onStream("CREATE", alertsStream, creates, "the stream of alerts cannot be created, or not again after a deletion"),
		onStream("UPDATE", alertsStream, Warning, "alerts are published one by one, the stream gets no copies, and another deployment in the stream is not detected"),
		onStream("MSG.GET", alertsStream, Failed, "an alert that the stream refused as a repeat waits in the database"),
		onStream("MSG.DELETE", alertsStream, Warning, "alerts of a forgotten key stay"),
		onConsumer("CREATE", alertsStream, Failed, notRead),
		onConsumer("MSG.NEXT", alertsStream, Failed, notRead),
		onConsumer("INFO", alertsStream, Failed, "alerts are not compared after a restore, and pages read none while the broker is slow"),
		onConsumer("DELETE", alertsStream, Warning, kept),
		{publish, ns.Subject("deadman.alerts.>"), Failed, notPublished},
		{publish, listStreams, Failed, "the streams of the subjects of rules are not found"},
		onStream("INFO", eventsStream, events, notCaptured),
		onStream("CREATE", eventsStream, events, notCaptured),
		onStream("UPDATE", eventsStream, events, notCaptured),
		onStream("MSG.GET", eventsStream, events, "jobs on its events are not checked"),
		onStream("MSG.DELETE", eventsStream, Warning, "events of a forgotten key stay"),
		onConsumer("CREATE", eventsStream, events, notCaptured),
		onConsumer("MSG.NEXT", eventsStream, events, notCaptured),
		onConsumer("INFO", eventsStream, Warning, notReplayed),
		onConsumer("DELETE", eventsStream, Warning, "a change of the stream waits ten seconds"),
		{publish, ns.Subject("deadman.handlers.>"), Warning, "handlers in other programs are not called"},
		{publish, "$SRV.INFO", Warning, "deadman handler list shows states as unknown"},
	}
}

const notReplayed = "past events are not replayed for a rule, and events are read late while the broker is slow"

// readPermissions returns the permissions for a stream of an operator that rules read.
func readPermissions(stream string) []permission {
	const notRead = "rules get no events of the stream"
	return []permission{
		onStream("INFO", stream, Failed, notRead),
		onStream("MSG.GET", stream, Failed, "jobs on its events are not checked"),
		onConsumer("CREATE", stream, Failed, notRead),
		onConsumer("MSG.NEXT", stream, Failed, notRead),
		onConsumer("INFO", stream, Warning, notReplayed),
		onConsumer("DELETE", stream, Warning, "consumers that are not needed any more stay for a minute"),
	}
}

// permissionInspection checks the permissions of the NATS user.
type permissionInspection struct {
	brokerInspection
	*probe
}

// permissions checks what the node needs, given the streams. known is false if the streams could not be listed.
func (i permissionInspection) permissions(streams []jetstream.StreamConfig, known bool) {
	hooked := i.hookSubjects()
	hasAlerts, captures := false, !known || i.unread
	for _, s := range streams {
		hasAlerts = hasAlerts || s.Name == i.Namespace.Stream(bus.AlertsStream)
	}
	var needed []permission
	for _, subject := range slices.Concat(i.subjects, hooked) {
		stream := i.streamOf(subject, streams)
		captures = captures || stream == ""
		if stream != "" && !slices.ContainsFunc(needed, func(q permission) bool { return q.line == "$JS.API.STREAM.INFO."+stream }) {
			needed = append(needed, readPermissions(stream)...)
		}
	}
	needed = append(ownPermissions(i.Namespace, hasAlerts, captures), needed...)
	for _, subject := range hooked {
		needed = append(needed, permission{publish, subject, Failed, "webhooks on it are refused"})
	}
	if i.HeartbeatSubject != "" {
		needed = append(needed, permission{publish, i.HeartbeatSubject, Failed, "the heartbeat of the nodes is not sent"})
	}
	i.judge(needed)
	i.eventsOverHTTP()
}

// streamOf returns the stream of an operator that captures a subject; empty: none.
func (i permissionInspection) streamOf(subject string, streams []jetstream.StreamConfig) string {
	for _, s := range streams {
		own := s.Name == i.Namespace.Stream(bus.AlertsStream) || s.Name == i.Namespace.Stream(bus.EventsStream)
		if !own && slices.ContainsFunc(s.Subjects, func(of string) bool { return subjects.Covers(of, subject) }) {
			return s.Name
		}
	}
	return ""
}

// judge probes permissions, and reports each missing one with its line.
func (i permissionInspection) judge(needed []permission) {
	const check = "broker permissions"
	missing, err := i.missing(needed)
	if err != nil {
		i.problem(check, Unknown, err.Error(), "compare the user with deploy/nats-permissions.conf")
		return
	}
	for _, m := range missing {
		i.problem(check, m.state, fmt.Sprintf("the user may not %s on %s: %s", m.list, m.line, m.without),
			fmt.Sprintf("add %q to %s.allow of the user, as in deploy/nats-permissions.conf; a node uses it at once", m.line, m.list))
	}
	if len(missing) == 0 {
		i.ok(check, "the user has the %d permissions that a node and its rules need", len(needed))
	}
}

// eventsOverHTTP reports the subjects of rules on which a node may publish no events. Events over NATS need no such permission.
func (i permissionInspection) eventsOverHTTP() {
	const check = "events over HTTP"
	var needed []permission
	for _, subject := range i.subjects {
		needed = append(needed, permission{list: publish, line: subject})
	}
	missing, err := i.missing(needed)
	switch {
	case err != nil || len(needed) == 0: // judge has the error
	case len(missing) == 0:
		i.ok(check, "permitted on the %d subjects of the known rules", len(needed))
	default:
		var names []string
		for _, m := range missing {
			names = append(names, m.line)
		}
		i.ok(check, "refused on %s, which the user may not publish on; events over NATS need no permission of a node", strings.Join(names, ", "))
	}
}

// hookSubjects returns the subjects on which webhooks publish.
func (i permissionInspection) hookSubjects() (all []string) {
	if i.Hooks == "" {
		return nil
	}
	data, err := operatorfiles.Read(i.Hooks)
	if err != nil {
		return nil // the finding about the file has it
	}
	known, err := webhooks.Parse(data, i.Hooks)
	if err != nil {
		return nil
	}
	for _, hook := range known {
		if hook.Subject != "" && !slices.Contains(all, hook.Subject) {
			all = append(all, hook.Subject)
		}
	}
	slices.Sort(all)
	return all
}
