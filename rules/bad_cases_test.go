package rules_test

// badDocuments are frequent errors of authors, with their messages.
var badDocuments = []struct {
	name string
	text string
	want []string
}{
	{
		"empty",
		"",
		[]string{`1:1 : there is no rule here; one begins with "name:"`},
	},
	{
		"only a comment",
		`# nothing
`,
		[]string{`1:1 : there is no rule here; one begins with "name:"`},
	},
	{
		"only separators",
		`---
---
`,
		[]string{`1:1 : there is no rule here; one begins with "name:"`},
	},
	{
		"a list of rules",
		`- name: late
`,
		[]string{"1:1 : expected a mapping with the fields name, description, entity, enabled, trigger, update, resolve, pause, lookup, while, escalate, calendars, recheck, handler, at_most_once, slot, spread, catch_up, hold, early, again, guards, quiet, keep, labels, not a list"},
	},
	{
		"plain text",
		`order
`,
		[]string{"1:1 : expected a mapping with the fields name, description, entity, enabled, trigger, update, resolve, pause, lookup, while, escalate, calendars, recheck, handler, at_most_once, slot, spread, catch_up, hold, early, again, guards, quiet, keep, labels, not text"},
	},
	{
		"not UTF-8",
		"name: late\nentity: \xff\n",
		[]string{"2:9 : byte 0xff is not part of UTF-8 text; save the file as UTF-8"},
	},
	{
		"a NUL",
		"name: l\x00te\n",
		[]string{"1:8 : byte 0x00 is not part of UTF-8 text; save the file as UTF-8"},
	},
	{
		"unknown field",
		withEdits("nmae: late"),
		[]string{`7:1 /nmae: unknown field "nmae"; did you mean "name"?`},
	},
	{
		"unknown field far from any",
		withEdits("colour: red"),
		[]string{`7:1 /colour: unknown field "colour"; the fields here are name, description, entity, enabled, trigger, update, resolve, pause, lookup, while, escalate, calendars, recheck, handler, at_most_once, slot, spread, catch_up, hold, early, again, guards, quiet, keep, labels`},
	},
	{
		"unknown field in trigger",
		withEdits("trigger: {evnt: orders.created, key: event.id}"),
		[]string{
			"3:1 /trigger/event: the event is missing; write the subject that triggers a job, such as orders.created",
			`3:11 /trigger/evnt: unknown field "evnt"; did you mean "event"?`,
		},
	},
	{
		"unknown field in resolve",
		withEdits("resolve: [{event: orders.shipped, key: event.id, fi: 'event.a'}]"),
		[]string{`4:50 /resolve/0/fi: unknown field "fi"; did you mean "if"?`},
	},
	{
		"unknown field in a step",
		withEdits("escalate: [{after: 3h, sevrity: error}]"),
		[]string{`5:24 /escalate/0/sevrity: unknown field "sevrity"; did you mean "severity"?`},
	},
	{
		"unknown guard",
		withEdits("guards: {max-checks: 3}"),
		[]string{`7:10 /guards/max-checks: unknown field "max-checks"; did you mean "max_checks"?`},
	},
	{
		"field without a value",
		withEdits("while:"),
		[]string{"7:1 /while: the field has no value; set one or remove the field"},
	},
	{
		"field with null",
		withEdits("hold: ~"),
		[]string{"7:1 /hold: the field has no value; set one or remove the field"},
	},
	{
		"trigger without a value",
		withEdits("trigger:"),
		[]string{"3:1 /trigger: the field has no value; set one or remove the field"},
	},
	{
		"guard without a value",
		withEdits("guards: {timeout: }"),
		[]string{"7:10 /guards/timeout: the field has no value; set one or remove the field"},
	},
	{
		"field twice",
		withEdits("labels: {a: b, a: c}"),
		[]string{`7:16 : not YAML: mapping key "a" already defined at [7:10]`},
	},
	{
		"field twice in the document",
		withEdits(`entity: order
entity: parcel`),
		[]string{`3:1 : not YAML: mapping key "entity" already defined at [2:1]`},
	},
	{
		"trigger as text",
		withEdits("trigger: orders.created"),
		[]string{"3:10 /trigger: expected a mapping with the fields event, key, if, since, shape, schedule, zone, keys, emit, heartbeat, not text"},
	},
	{
		"trigger as list",
		withEdits("trigger: [{event: orders.created, key: event.id}]"),
		[]string{"3:1 /trigger: expected a mapping with the fields event, key, if, since, shape, schedule, zone, keys, emit, heartbeat, not a list"},
	},
	{
		"resolve as text",
		withEdits("resolve: orders.shipped"),
		[]string{"4:10 /resolve: expected a mapping with the fields event, key, if, shape, as, distinct, need, not text"},
	},
	{
		"resolve empty",
		withEdits("resolve: []"),
		[]string{"4:1 /resolve: an empty list resolves nothing; remove the field"},
	},
	{
		"escalate as mapping",
		withEdits("escalate: {after: 3h}"),
		[]string{"5:1 /escalate: expected a list of steps, not a mapping; write: escalate: [{after: 3h, step: primary}]"},
	},
	{
		"escalate as text",
		withEdits("escalate: 3h"),
		[]string{"5:11 /escalate: expected a list of steps, not text; write: escalate: [{after: 3h, step: primary}]"},
	},
	{
		"step as text",
		withEdits("escalate: [3h]"),
		[]string{"5:12 /escalate/0: expected a mapping with the fields after, at, every, times, until, of, within, step, severity, text, not text"},
	},
	{
		"labels as list",
		withEdits("labels: [a, b]"),
		[]string{"7:1 /labels: expected a mapping of names to text, not a list; write: labels: {team: fulfilment}"},
	},
	{
		"guards as text",
		withEdits("guards: strict"),
		[]string{"7:9 /guards: expected a mapping with the fields timeout, attempts, interval, jitter, max_checks, horizon, end, not text"},
	},
	{
		"name as number",
		withEdits("name: 1234"),
		[]string{`1:7 /name: expected text, not a number; quote it: "1234"`},
	},
	{
		"name as boolean",
		withEdits("name: true"),
		[]string{`1:7 /name: expected text, not a boolean; quote it: "true"`},
	},
	{
		"name as list",
		withEdits("name: [late]"),
		[]string{"1:1 /name: expected text, not a list"},
	},
	{
		"enabled as text",
		withEdits("enabled: yes"),
		[]string{"7:10 /enabled: yes is text in YAML 1.2; write true or false"},
	},
	{
		"enabled as number",
		withEdits("enabled: 1"),
		[]string{"7:10 /enabled: expected true or false, not a number"},
	},
	{
		"label as number",
		withEdits("labels: {tier: 1}"),
		[]string{`7:16 /labels/tier: expected text, not a number; quote it: "1"`},
	},
	{
		"calendars",
		"calendars:\n  work:\n    zone: UTC\n",
		[]string{"1:1 : it has calendars, not rules: apply them with deadman calendar apply FILE, or name the file in --calendars, and keep it outside of the folder of rules"},
	},
	{
		"no name",
		withoutField("name"),
		[]string{"1:1 /name: the rule has no name; write one of 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit, such as name: order-unshipped"},
	},
	{
		"the node's own name",
		withEdits("name: deadman"),
		[]string{`1:7 /name: "deadman" is reserved for deadman's own alerts; use another name`},
	},
	{
		"name with capitals",
		withEdits("name: Late"),
		[]string{`1:7 /name: "Late" is not a name; write 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit, such as order-unshipped`},
	},
	{
		"name with a dot",
		withEdits("name: late.order"),
		[]string{`1:7 /name: "late.order" is not a name; write 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit, such as order-unshipped`},
	},
	{
		"name too long",
		withEdits("name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
		[]string{`1:7 /name: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" is not a name; write 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit, such as order-unshipped`},
	},
	{
		"no entity",
		withoutField("entity"),
		[]string{"1:1 /entity: the rule has no entity; write the kind of its entities, such as entity: order"},
	},
	{
		"entity with a space",
		withEdits("entity: sales order"),
		[]string{`2:9 /entity: "sales order" is not an entity; write 1 to 63 letters, digits, dots, _ and -, such as order`},
	},
	{
		"label name",
		withEdits(`labels: {"a b": c}`),
		[]string{`7:17 /labels/a b: "a b" is not a label; write letters, digits, dots, _ and -, beginning with a letter`},
	},
	{
		"no trigger",
		withoutField("trigger"),
		[]string{"1:1 /trigger: the trigger is missing; write trigger: {event: orders.created, key: event.id}"},
	},
	{
		"no event",
		withEdits("trigger: {key: event.id}"),
		[]string{"3:1 /trigger/event: the event is missing; write the subject that triggers a job, such as orders.created"},
	},
	{
		"no key",
		withEdits("trigger: {event: orders.created}"),
		[]string{"3:1 /trigger/key: the key is missing; write an expression for the entity of the event, such as key: event.id"},
	},
	{
		"subject with an empty token",
		withEdits("trigger: {event: orders..created, key: event.id}"),
		[]string{`3:18 /trigger/event: "orders..created" has an empty token; write tokens with single dots between, such as orders.created`},
	},
	{
		"subject with a space",
		withEdits(`trigger: {event: "orders created", key: event.id}`),
		[]string{`3:18 /trigger/event: "orders created" has a space or a control character; a subject has none`},
	},
	{
		"subject > not last",
		withEdits(`trigger: {event: "orders.>.created", key: event.id}`),
		[]string{`3:18 /trigger/event: "orders.>.created" has ">" before its end; it stands for all that follows, so it must be last`},
	},
	{
		"subject wildcard within a token",
		withEdits(`trigger: {event: "orders.cre*", key: event.id}`),
		[]string{`3:18 /trigger/event: "orders.cre*" has a wildcard within a token; "*" and ">" are tokens of their own`},
	},
	{
		"everything",
		withEdits(`trigger: {event: ">", key: event.id}`),
		[]string{`3:18 /trigger/event: ">" is never listened to (">", "$…", "_INBOX…" and "deadman…" are the servers' own); name the subject of your events`},
	},
	{
		"system subject",
		withEdits(`trigger: {event: "$SYS.x", key: event.id}`),
		[]string{`3:18 /trigger/event: "$SYS.x" is never listened to (">", "$…", "_INBOX…" and "deadman…" are the servers' own); name the subject of your events`},
	},
	{
		"inbox subject",
		withEdits(`trigger: {event: "_INBOX.x", key: event.id}`),
		[]string{`3:18 /trigger/event: "_INBOX.x" is never listened to (">", "$…", "_INBOX…" and "deadman…" are the servers' own); name the subject of your events`},
	},
	{
		"own subject",
		withEdits(`trigger: {event: "deadman.alerts.>", key: event.id}`),
		[]string{`3:18 /trigger/event: "deadman.alerts.>" is never listened to (">", "$…", "_INBOX…" and "deadman…" are the servers' own); name the subject of your events`},
	},
	{
		"emitted data that JSON has no number for",
		emitRule("{subject: imports.due, data: {n: .inf, m: [0x1F]}}"),
		[]string{
			`3:71 /trigger/emit/data/n: .inf is not a JSON number; write its digits, such as 1000 or 0.5, or quote it: ".inf"`,
			`3:84 /trigger/emit/data/m/0: 0x1F is not a JSON number; write its digits, such as 1000 or 0.5, or quote it: "0x1F"`,
		},
	},
	{
		"heartbeat trigger",
		withEdits("trigger: {heartbeat: {event: a, key: event.id}}"),
		[]string{
			`3:11 /trigger/heartbeat/every: the interval of the heartbeat is missing; write every: 10m, or a crontab as schedule: "0 2 * * *"`,
		},
	},
	{
		"query trigger",
		withEdits("trigger: {query: x}"),
		[]string{`3:11 /trigger/query: "query" is reserved for a later version; write an event, a schedule or a heartbeat`},
	},
	{
		"pause",
		withEdits("pause: {event: orders.changed, key: event.id}"),
		[]string{`7:1 /pause: the pause would never end; name the event that ends it, such as until: orders.released, or add an if that stops holding, such as if: event.status == "ON_HOLD"`},
	},
	{
		"lookup",
		withEdits("lookup: {sql: {source: shop}}"),
		[]string{
			"7:10 /lookup/sql/query: the query is missing; write one for one row, such as select status from orders where id = $1",
		},
	},
	{
		"handler",
		withEdits("handler: mine"),
		[]string{
			"5:1 /escalate: the rule has a handler, which replaces escalate; remove one of the two",
		},
	},
	{
		"step at",
		withEdits(`escalate: [{at: "09:00", after: 1h}]`),
		[]string{"5:12 /escalate/0: after, at and every exclude each other; keep one of them"},
	},
	{
		"step every",
		withEdits("escalate: [{after: 1h}, {every: 24h}]"),
		[]string{"5:25 /escalate/1/times: every needs times or until; write times: 3, or until: acknowledged"},
	},
	{
		"resolve need",
		withEdits("resolve: {event: a, key: event.id, need: 3}"),
		[]string{"4:42 /resolve/need: need requires distinct; write an expression that identifies each member, such as distinct: event.parcel"},
	},
	{
		"key is a number",
		withEdits("trigger: {event: orders.created, key: 5}"),
		[]string{`3:39 /trigger/key: 5 is a number here, not an expression; write one that reads a field, such as event.n`},
	},
	{
		"while is a boolean",
		withEdits("while: true"),
		[]string{`7:8 /while: true is a boolean here, not an expression; write a condition that reads a field, such as event.paid == true`},
	},
	{
		"if is a number",
		withEdits("trigger: {event: orders.created, key: event.id, if: 1}"),
		[]string{`3:53 /trigger/if: 1 is a number here, not an expression; write one that reads a field, such as event.n`},
	},
	{
		"while is a tag",
		withEdits("while: !event.paid"),
		[]string{`7:8 : YAML reads !event.paid as a tag, not as part of a value; quote the whole value`},
	},
	{
		"tag before more",
		withEdits("while: !!str x"),
		[]string{`7:8 : YAML reads !!str as a tag, not as part of a value; quote the whole value`},
	},
	{
		"alias",
		withEdits("while: *paid"),
		[]string{`7:8 : YAML reads a leading "*" or "&" as an alias or an anchor, which rules don't have; quote the whole value`},
	},
	{
		"anchor",
		withEdits("while: &paid x"),
		[]string{`7:8 : YAML reads a leading "*" or "&" as an alias or an anchor, which rules don't have; quote the whole value`},
	},
	{
		"merge key",
		withEdits("<<: {a: b}"),
		[]string{`7:1 : YAML merge keys ("<<") are not part of rules; write the fields out`},
	},
	{
		"text made a mapping",
		withEdits("escalate: [{after: 3h, text: {{key}} waits}]"),
		[]string{`5:31 : not YAML: could not find flow map content; a value that begins with "{" must be quoted: text: "{{key}} waits"`},
	},
	{
		"text begins with braces",
		withEdits(`description: x
while: {{state.x}}`),
		[]string{`8:9 : not YAML: could not find flow map content; a value that begins with "{" must be quoted: text: "{{key}} waits"`},
	},
	{
		"ternary",
		withEdits(`while: state.a ? "x" : "y"`),
		[]string{`7:8 : not YAML: mapping value is not allowed in this context; a value with ": " in it must be quoted, or the indent is wrong`},
	},
	{
		"begins with a quote",
		withEdits(`while: "a" == state.b`),
		[]string{`7:12 : not YAML: value is not allowed in this context. map key-value is pre-defined; a value that begins with a quote must be quoted as a whole: if: '"a" == event.b'`},
	},
	{
		"cut off by a comment",
		withEdits("while: any(state.items, # > 3)"),
		[]string{`7:8 /while: the expression ends too early; close what is open, and quote the whole if " #" is in it`},
	},
	{
		"flow list",
		withEdits("while: [state.a]"),
		[]string{`7:1 /while: YAML read this as a list; quote the whole expression if it contains ": " or " #", or begins with "{" or "["`},
	},
	{
		"empty expression",
		withEdits(`while: ""`),
		[]string{"7:8 /while: the expression is empty; write one or remove the field"},
	},
	{
		"unknown name",
		withEdits(`while: stat.status == "OPEN"`),
		[]string{`7:8 /while: unknown name "stat"; did you mean "state"? (at character 1)`},
	},
	{
		"state in if",
		withEdits("trigger: {event: orders.created, key: event.id, if: state.a == 1}"),
		[]string{`3:53 /trigger/if: "state" can't be read here, only event (at character 1)`},
	},
	{
		"step in while",
		withEdits(`while: step == "x"`),
		[]string{`7:8 /while: "step" can't be read here, only event, key, since, state (at character 1)`},
	},
	{
		"clock",
		withEdits("while: now() > date(state.eta)"),
		[]string{"7:8 /while: there is no clock in an expression; use since, or a step's after (at character 1)"},
	},
	{
		"unknown function",
		withEdits("while: lenn(state.items) > 1"),
		[]string{`7:8 /while: unknown name "lenn"; did you mean "len"? (at character 1)`},
	},
	{
		"one equals sign",
		withEdits(`while: state.status = "OPEN"`),
		[]string{`7:8 /while: unexpected token Operator("=") (at character 14); to compare, write "=="`},
	},
	{
		"not a condition",
		withEdits("while: since + hours(1)"),
		[]string{"7:8 /while: a condition must be true or false, not a time"},
	},
	{
		"text is no condition",
		withEdits("while: string(state.a)"),
		[]string{"7:8 /while: a condition must be true or false, not text"},
	},
	{
		"always true",
		withEdits("while: 1 < 2"),
		[]string{"7:8 /while: the condition reads nothing, so it is always the same; compare a field, such as event.total > 0, or remove the condition"},
	},
	{
		"text with number",
		withEdits("while: key == 5"),
		[]string{"7:8 /while: == does not apply to text and a number; write the number in quotes to compare texts, or remove the quotes to compare numbers (at character 5)"},
	},
	{
		"text with number nested",
		withEdits(`while: state.a == ("x" == 1)`),
		[]string{"7:8 /while: == does not apply to text and a number; write the number in quotes to compare texts, or remove the quotes to compare numbers (at character 17)"},
	},
	{
		"bad constant date",
		withEdits(`while: date("soon") > since`),
		[]string{`7:8 /while: "soon" is not an instant; write it like "2026-11-20T15:04:05Z"`},
	},
	{
		"bad constant duration",
		withEdits(`while: since + duration("3 days") > date(state.eta)`),
		[]string{`7:8 /while: "3 days" is not a duration; write a number with a unit, such as "90s", "15m", "1h30m" or "7d"`},
	},
	{
		"bad pattern",
		withEdits("while: state.a matches '('"),
		[]string{`7:8 /while: the pattern "(" cannot be read: error parsing regexp: missing closing ): ` + "`(`"},
	},
	{
		"pattern from the event",
		withEdits("while: state.a matches state.b"),
		[]string{`7:8 /while: the pattern of "matches" must be written out, not taken from an event`},
	},
	{
		"method",
		withEdits("while: since.Unix() > 5"),
		[]string{"7:8 /while: a time has no fields; compare it with another one"},
	},
	{
		"variable",
		withEdits("while: 'let a = state.a; a == 1'"),
		[]string{"7:8 /while: variables and sequences are not part of the language; write one expression"},
	},
	{
		"range",
		withEdits("while: state.a in 1..5"),
		[]string{`7:8 /while: ranges ("..") are not part of the language; compare with <= and >=`},
	},
	{
		"environment",
		withEdits("while: '$env.key == key'"),
		[]string{`7:8 /while: "$env" is not part of the language; name what you read, such as event.total`},
	},
	{
		"sort",
		withEdits("while: sort(state.a)[0] == 1"),
		[]string{`7:8 /while: unknown name "sort"; an expression reads event, key, since, state, as in event.sort (at character 1)`},
	},
	{
		"reduce",
		withEdits("while: 'reduce(state.a, #acc + #) > 1'"),
		[]string{`7:8 /while: "reduce" is not part of the language; use one of its functions, such as any, all, count or sum`},
	},
	{
		"key counts",
		withEdits("trigger: {event: orders.created, key: event.id % 10}"),
		[]string{"3:39 /trigger/key: in a key the numbers of an event are text, so that no digit is lost; write int(…) around the one you count with"},
	},
	{
		"key is a condition",
		withEdits("trigger: {event: orders.created, key: event.id == event.b}"),
		[]string{"3:39 /trigger/key: a key must be text or a whole number, not true or false"},
	},
	{
		"key is a time",
		withEdits("trigger: {event: orders.created, key: date(event.id)}"),
		[]string{"3:39 /trigger/key: a key must be text or a whole number, not a time"},
	},
	{
		"open bracket",
		withEdits("while: len(state.items > 1"),
		[]string{`7:8 /while: the expression ends too early; close what is open, and quote the whole if " #" is in it`},
	},
	{
		"too deep",
		withEdits("while: (((((((((((((((((((((((((((((((((state.a)))))))))))))))))))))))))))))))))"),
		[]string{"7:8 /while: the expression is nested deeper than 32 brackets; make it simpler"},
	},
	{
		"too long",
		withEdits(`while: state.a == "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"`),
		[]string{"7:8 /while: the expression has 4109 bytes, the most is 4096"},
	},
	{
		"too many parts",
		withEdits("while: state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a or state.a"),
		[]string{"7:8 /while: the expression has more than 256 parts; make it simpler"},
	},
	{
		"since is a duration",
		withEdits("trigger: {event: orders.created, key: event.id, since: hours(3)}"),
		[]string{"3:56 /trigger/since: since must be a time, not a duration; write event.placed_at or date(…)"},
	},
	{
		"no steps",
		withoutField("escalate"),
		[]string{"1:1 /escalate: the rule has no steps, so it never alerts; write escalate: [{after: 3h, step: primary}]"},
	},
	{
		"no steps in the list",
		withEdits("escalate: []"),
		[]string{"5:1 /escalate: the rule has no steps, so it never alerts; write escalate: [{after: 3h, step: primary}]"},
	},
	{
		"step without after",
		withEdits("escalate: [{step: primary}]"),
		[]string{"5:12 /escalate/0/after: the step has no time; write after, at or every, such as after: 3h"},
	},
	{
		"after zero",
		withEdits("escalate: [{after: 0s}]"),
		[]string{"5:20 /escalate/0/after: 0s is not a time for this step, because the job has only begun then; write how long to wait, such as after: 3h. Only the first step of a heartbeat can be due at once"},
	},
	{
		"after without a unit",
		withEdits("escalate: [{after: 30}]"),
		[]string{`5:20 /escalate/0/after: 30 has no unit; write "30s", "30m" or "30h"`},
	},
	{
		"after is no duration",
		withEdits("escalate: [{after: soon}]"),
		[]string{`5:20 /escalate/0/after: "soon" is not a duration; write a number with a unit, such as "90s", "15m", "1h30m" or "7d"; or an expression such as hours(event.sla_hours)`},
	},
	{
		"after negative",
		withEdits("escalate: [{after: -3h}]"),
		[]string{`5:20 /escalate/0/after: "-3h" is not a duration; write a number with a unit, such as "90s", "15m", "1h30m" or "7d"`},
	},
	{
		"after with a fraction",
		withEdits("escalate: [{after: 1.5h}]"),
		[]string{`5:20 /escalate/0/after: "1.5h" is not a duration; write a number with a unit, such as "90s", "15m", "1h30m" or "7d"`},
	},
	{
		"steps fall",
		withEdits("escalate: [{after: 3h}, {after: 2h}]"),
		[]string{"5:33 /escalate/1/after: 2h is not after the step before, 3h; order the steps by their times"},
	},
	{
		"steps equal",
		withEdits("escalate: [{after: 3h}, {after: 180m}]"),
		[]string{"5:33 /escalate/1/after: 3h is not after the step before, 3h; order the steps by their times"},
	},
	{
		"step beyond the horizon",
		withEdits("escalate: [{after: 31d}]"),
		[]string{"5:20 /escalate/0/after: 31d is beyond the horizon, 30d; raise guards.horizon or shorten it"},
	},
	{
		"severity",
		withEdits("escalate: [{after: 3h, severity: critcal}]"),
		[]string{`5:34 /escalate/0/severity: "critcal" is not a severity; did you mean "critical"?`},
	},
	{
		"step name",
		withEdits("escalate: [{after: 3h, step: First Call}]"),
		[]string{`5:30 /escalate/0/step: "First Call" is not a name; write 1 to 63 of a-z, 0-9, _ and -, such as primary`},
	},
	{
		"step name twice",
		withEdits("escalate: [{after: 3h, step: a}, {after: 4h, step: a}]"),
		[]string{`5:52 /escalate/1/step: step 1 is named "a" too; names of steps are unique`},
	},
	{
		"too many steps",
		withEdits("escalate: [{after: 1h}, {after: 2h}, {after: 3h}, {after: 4h}, {after: 5h}, {after: 6h}, {after: 7h}, {after: 8h}, {after: 9h}, {after: 10h}, {after: 11h}, {after: 12h}, {after: 13h}, {after: 14h}, {after: 15h}, {after: 16h}, {after: 17h}, {after: 18h}, {after: 19h}, {after: 20h}, {after: 21h}, {after: 22h}, {after: 23h}, {after: 24h}, {after: 25h}, {after: 26h}, {after: 27h}, {after: 28h}, {after: 29h}, {after: 30h}, {after: 31h}, {after: 32h}, {after: 33h}]"),
		[]string{"5:1 /escalate: 33 steps, the most is 32"},
	},
	{
		"text open",
		withEdits(`escalate: [{after: 3h, text: "order {{key"}]`),
		[]string{`5:30 /escalate/0/text: "{{" is never closed; write "}}" behind the expression`},
	},
	{
		"text empty expression",
		withEdits(`escalate: [{after: 3h, text: "order {{}}"}]`),
		[]string{`5:30 /escalate/0/text: "{{}}" is empty; write an expression in it, such as {{key}}`},
	},
	{
		"text unknown name",
		withEdits(`escalate: [{after: 3h, text: "order {{id}}"}]`),
		[]string{`5:30 /escalate/0/text: {{id}}: unknown name "id"; an expression reads event, job, key, since, state, step, as in event.id (at character 1)`},
	},
	{
		"as reserved",
		withEdits("resolve: {event: a, key: event.id, as: exhausted}"),
		[]string{`4:40 /resolve/as: "exhausted" is reserved for outcomes without an event; write another word, such as done`},
	},
	{
		"as guard",
		withEdits("resolve: {event: a, key: event.id, as: guard_past}"),
		[]string{`4:40 /resolve/as: "guard_past" is reserved for outcomes without an event; write another word, such as done`},
	},
	{
		"as pattern",
		withEdits("resolve: {event: a, key: event.id, as: Well Done}"),
		[]string{`4:40 /resolve/as: "Well Done" is not an outcome; write a word such as cancelled`},
	},
	{
		"resolve without key",
		withEdits("resolve: [{event: a}]"),
		[]string{"4:11 /resolve/0/key: the key is missing; write an expression for the entity of the event, such as key: event.id"},
	},
	{
		"ends what it begins",
		withEdits("resolve: {event: orders.*, key: event.id}"),
		[]string{"4:18 /resolve/event: every event that triggers a job also resolves it, so the rule never alerts; add an if to the resolve, which the events of the trigger do not meet"},
	},
	{
		"slot does not divide",
		withEdits("slot: 7m"),
		[]string{"6:7 /slot: slot 7m does not divide a day into whole slots; write one that does, such as 6m40s"},
	},
	{
		"slot below a second",
		withEdits("slot: 500ms"),
		[]string{"6:7 /slot: slot 500ms is under 1s; write 1s or more"},
	},
	{
		"slot zero",
		withEdits("slot: 0"),
		[]string{"6:7 /slot: slot 0s is under 1s; write 1s or more"},
	},
	{
		"slot above a day",
		withEdits("slot: 2d"),
		[]string{"6:7 /slot: slot 48h does not divide a day into whole slots; write one that does, such as 24h"},
	},
	{
		"slot is a list",
		withEdits("slot: [15m]"),
		[]string{`6:1 /slot: expected a duration such as "15m", not a list`},
	},
	{
		"hold too long",
		withEdits("hold: 20y"),
		[]string{"7:7 /hold: 7300d is not between 0 and 3650d"},
	},
	{
		"timeout zero",
		withEdits("guards: {timeout: 0s}"),
		[]string{"7:19 /guards/timeout: 0s is not between 1ms and 10m"},
	},
	{
		"timeout too long",
		withEdits("guards: {timeout: 1h}"),
		[]string{"7:19 /guards/timeout: 1h is not between 1ms and 10m"},
	},
	{
		"attempts zero",
		withEdits("guards: {attempts: 0}"),
		[]string{`7:20 /guards/attempts: expected a whole number from 1, such as 3, not "0"`},
	},
	{
		"attempts text",
		withEdits("guards: {attempts: many}"),
		[]string{`7:20 /guards/attempts: expected a whole number from 1, such as 3, not "many"`},
	},
	{
		"attempts fraction",
		withEdits("guards: {attempts: 1.5}"),
		[]string{`7:20 /guards/attempts: expected a whole number from 1, such as 3, not "1.5"`},
	},
	{
		"attempts octal",
		withEdits("guards: {attempts: 010}"),
		[]string{`7:20 /guards/attempts: expected a whole number from 1, such as 3, not "010"`},
	},
	{
		"attempts too many",
		withEdits("guards: {attempts: 1000}"),
		[]string{"7:20 /guards/attempts: 1000 is not between 1 and 100"},
	},
	{
		"max_checks too few",
		withEdits("guards: {max_checks: 1}"),
		[]string{"7:22 /guards/max_checks: 1 checks are fewer than the 2 that the steps and the end of the hold take; write 2 or more"},
	},
	{
		"max_checks too many",
		withEdits("guards: {max_checks: 20000}"),
		[]string{"7:22 /guards/max_checks: 20000 is more than 10000"},
	},
	{
		"horizon zero",
		withEdits("guards: {horizon: 0}"),
		[]string{"7:19 /guards/horizon: 0s is not between 1s and 3650d"},
	},
	{
		"horizon too far",
		withEdits("guards: {horizon: 20y}"),
		[]string{"7:19 /guards/horizon: 7300d is not between 1s and 3650d"},
	},
	{
		"tab",
		"name: late\n\tentity: order\n",
		[]string{"2:1 : not YAML: found character '\t' that cannot start any token"},
	},
	{
		"unclosed list",
		`name: [late
`,
		[]string{"1:7 : not YAML: sequence end token ']' not found"},
	},
	{
		"unclosed quote",
		`name: "late
`,
		[]string{"1:7 : not YAML: could not find end character of double-quoted text"},
	},
	{
		"indent",
		`name: late
 entity: order
`,
		[]string{`1:7 : not YAML: mapping value is not allowed in this context; a value with ": " in it must be quoted, or the indent is wrong`},
	},
	{
		"complex key",
		`? name
: late
`,
		[]string{`1:1 : a rule has no use for a "?" key; write "name: value"`},
	},
	{
		"deep list",
		`- - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - a
`,
		[]string{"1:65 : nested deeper than 32 levels; nothing here needs such depth"},
	},
	{
		"deep brackets",
		`a: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]
`,
		[]string{"1:36 : nested deeper than 32 levels; nothing here needs such depth"},
	},
	{
		"deep indent",
		`a:
                                                                                                                                            b: c
`,
		[]string{"2:141 : this line is indented by more than 128 columns; nothing here needs such depth"},
	},
	{
		"two with one name",
		`name: late
entity: order
trigger: {event: a, key: event.id}
escalate: [{after: 3h}]
---
name: late
entity: order
trigger: {event: a, key: event.id}
escalate: [{after: 3h}]
`,
		[]string{"6:1 /name: the name is already used by the rule on line 1; names are unique"},
	},
	{
		"JSON",
		`{"name": "late", "entity": "order",
 "trigger": {"event": "a", "key": "event.id"},
 "escalate": [{"after": "3h", "sverity": "error"}], "slot": 900}
`,
		[]string{
			`3:31 /escalate/0/sverity: unknown field "sverity"; did you mean "severity"?`,
			`3:61 /slot: 900 has no unit; write "900s", "900m" or "900h"`,
		},
	},
	{
		"JSON twice",
		`{"name": "late", "name": "b", "entity": "order",
 "trigger": {"event": "a", "key": "event.id"}, "escalate": [{"after": "3h"}]}`,
		[]string{"1:18 /name: the field is duplicated; keep one"},
	},
	{
		"JSON deep",
		`{"a": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}`,
		[]string{"1:39 : nested deeper than 32 levels; nothing here needs such depth"},
	},
}
