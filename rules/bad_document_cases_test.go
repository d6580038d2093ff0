package rules_test

// badMeanings are documents of the right shape with an impossible meaning, with their messages.
var badMeanings = []struct {
	name string
	text string
	want []string
}{
	{
		"a schedule that outruns its steps",
		withEdits(`trigger: {schedule: "@every 1h", keys: [a]}`),
		[]string{"1:1 /again: a tick comes 1h after the previous one and restarts the job before the first step is due (slot 15m), so the rule never alerts; write again: keep, or an earlier first step"},
	},
	{
		"a crontab that outruns its steps because of the slot",
		withEdits(`trigger: {schedule: "* * * * *", keys: [a]}`, "escalate: [{after: 30s}]"),
		[]string{"1:1 /again: a tick comes 1m after the previous one and restarts the job before the first step is due (slot 15m), so the rule never alerts; write again: keep, or an earlier first step"},
	},
	{
		"a schedule that outruns some of its keys, because they are spread",
		withEdits(`trigger: {schedule: "@every 10s", keys: [a, b]}`, "escalate: [{after: 5s}]", "slot: 1s", "spread: 10s"),
		[]string{"1:1 /again: a tick comes 10s after the previous one and restarts the job before the first step is due (slot 1s), so the rule never alerts; write again: keep, or an earlier first step"},
	},
	{
		"periods of retention out of their bounds",
		withEdits(`keep: {history: 23h, alerts: 11y, outcomes: {resolved: 0, shipped: 7d, exhausted: 1h}}`),
		[]string{
			"7:17 /keep/history: 23h is not between 1d and 3650d",
			"7:30 /keep/alerts: 4015d is not between 1d and 3650d",
			"7:56 /keep/outcomes/resolved: 0 is not between 1d and 3650d; write a longer period, or remove the outcome",
			"7:68 /keep/outcomes/shipped: no job of this rule ends with the outcome \"shipped\"; write one of resolved, cleared, exhausted, cancelled, restarted, expired, rule_deleted, undetermined, guard_timeout, guard_max_checks, guard_horizon, guard_past, or a value of as",
			"7:83 /keep/outcomes/exhausted: 1h is not between 1d and 3650d",
		},
	},
	{
		"a retention without a period",
		withEdits(`keep: {history: 0}`),
		[]string{"7:1 /keep: keep has no period; write one, such as keep: {history: 400d}, or remove the field"},
	},
	{
		"a retention of outcomes that is one period",
		withEdits(`keep: {outcomes: 7d}`),
		[]string{"7:18 /keep/outcomes: expected a mapping of outcomes to durations, not text; write: outcomes: {resolved: 7d}"},
	},
	{
		"an emission that waits",
		withEdits(`trigger: {schedule: "@daily", keys: [a], emit: {subject: imports.due}}`),
		[]string{
			"3:31 /trigger/keys: a rule that emits events creates no jobs; remove this field, or move it to a rule with the trigger event: imports.due",
			"4:1 /resolve: a rule that emits events creates no jobs; remove this field, or move it to a rule with the trigger event: imports.due",
			"5:1 /escalate: a rule that emits events creates no jobs; remove this field, or move it to a rule with the trigger event: imports.due",
		},
	},
	{
		"an emission on many subjects",
		emitRule("{subject: imports.*}"),
		[]string{`3:51 /trigger/emit/subject: "imports.*" has wildcards, but an event is published on one subject; write one, such as imports.due`},
	},
	{
		"an emission on our own subject",
		emitRule("{subject: deadman.ticks}"),
		[]string{`3:51 /trigger/emit/subject: "deadman.ticks" is never listened to (">", "$…", "_INBOX…" and "deadman…" are the servers' own); name the subject of your events`},
	},
	{
		"an emission without a subject",
		emitRule("{data: 1}"),
		[]string{"3:35 /trigger/emit/subject: the subject is missing; write the subject to publish the event on, such as imports.due"},
	},
	{
		"stored schedules with the fields of one schedule",
		"name: due\nentity: import\ntrigger: {schedule: \"@stored\", zone: UTC, keys: [a], emit: {subject: reports.due}}\ncatch_up: {after: 1h, do: expire}\n",
		[]string{
			"3:38 /trigger/zone: each stored schedule has its own zone; remove this field",
			"3:43 /trigger/keys: a rule that emits events creates no jobs; remove this field, or move it to a rule with the trigger event: reports.due",
			"4:27 /catch_up/do: a stored schedule emits events, and an event does not expire; write skip, run or all",
		},
	},
	{
		"events for a stream and a webhook",
		"name: due\nentity: import\ntrigger: {schedule: \"@stored\", emit: {subject: a, webhook: b, attempts: 100, interval: 1h}}\ncatch_up: {after: 25h, do: all}\n",
		[]string{
			"3:60 /trigger/emit/webhook: an event has one receiver; remove subject or webhook",
			"3:73 /trigger/emit/attempts: 100 attempts, 1h apart and twice as long after each, may take more than 1d; lower attempts or interval",
			"4:19 /catch_up/after: 1d1h is more than 1d, the most for all missed ticks; write a shorter time, or do: run",
		},
	},
	{
		"attempts for a stream, and all ticks of one schedule",
		"name: due\nentity: import\ntrigger: {schedule: \"@daily\", emit: {subject: a, attempts: 3}}\ncatch_up: {do: all}\n",
		[]string{
			"3:60 /trigger/emit/attempts: an event for a stream is published until the stream has it; remove attempts and interval",
			"4:16 /catch_up/do: all is for stored schedules, with schedule: \"@stored\"; write run, skip or expire",
		},
	},
	{
		"a webhook for one schedule",
		"name: due\nentity: import\ntrigger: {schedule: \"@daily\", emit: {webhook: a}}\n",
		[]string{"3:47 /trigger/emit/webhook: only the events of stored schedules are posted; write schedule: \"@stored\", and store a schedule, or emit the event on a subject"},
	},
	{
		"stored schedules without an event",
		"name: due\nentity: import\ntrigger: {schedule: \"@stored\"}\n",
		[]string{
			"3:1 /trigger/emit: the ticks of stored schedules emit an event; write emit: {subject: reports.due}, and start jobs by a rule with the trigger event: reports.due",
		},
	},
	{
		"a heartbeat that emits",
		withEdits("trigger: {heartbeat: {event: beats, key: event.id, every: 10m}, emit: {subject: imports.due}}"),
		[]string{`3:65 /trigger/emit: a trigger by heartbeat has no field "emit"; remove it`},
	},
	{
		"an event that emits",
		withEdits("trigger: {event: orders.created, key: event.id, emit: {subject: imports.due}}"),
		[]string{`3:49 /trigger/emit: a trigger by event has no field "emit"; remove it`},
	},
	{
		"a heartbeat of pings that says what only an event says",
		withEdits("trigger: {heartbeat: {if: event.ok == true, kind: event.kind, run: event.run, shape: {ok: boolean}, every: 10m}}"),
		[]string{
			"3:27 /trigger/heartbeat/if: the field does not apply to pings; add event, or remove if",
			"3:51 /trigger/heartbeat/kind: the field does not apply to pings; add event, or remove kind",
			"3:68 /trigger/heartbeat/run: the field does not apply to pings; add event, or remove run",
			"3:79 /trigger/heartbeat/shape: the field does not apply to pings; add event, or remove shape",
		},
	},
	{
		"a heartbeat with a key and no event",
		withEdits("trigger: {heartbeat: {key: event.id, every: 10m}}"),
		[]string{"3:11 /trigger/heartbeat/event: the event is missing; write the subject that carries the heartbeat, such as orders.created"},
	},
	{
		"a heartbeat both every so often and by a schedule",
		withEdits("trigger: {heartbeat: {every: 10m, schedule: '@daily'}}"),
		[]string{"3:11 /trigger/heartbeat: a heartbeat has an interval or a schedule, not both; keep one of every and schedule"},
	},
	{
		"a heartbeat that is expected once",
		withEdits("trigger: {heartbeat: {schedule: '@at 1763735945'}}"),
		[]string{"3:33 /trigger/heartbeat/schedule: @at 1763735945 ticks only once, but a heartbeat recurs; write a crontab, or @every"},
	},
	{
		"a heartbeat with a zone and no schedule",
		withEdits("trigger: {heartbeat: {every: 1d, zone: Europe/Berlin}}"),
		[]string{"3:40 /trigger/heartbeat/zone: zone needs a schedule; remove it"},
	},
	{
		"a heartbeat of a zone that is none",
		withEdits("trigger: {heartbeat: {schedule: '@daily', zone: Berlin}}"),
		[]string{`3:49 /trigger/heartbeat/zone: "Berlin" is not a time zone; write a name of the IANA database, such as Europe/Berlin or UTC`},
	},
	{
		"a heartbeat whose runs are always too short",
		withEdits("trigger: {heartbeat: {every: 1d, max: 5m, min: 5m}}"),
		[]string{"3:48 /trigger/heartbeat/min: 5m is not less than max, 5m, so every run would be too short or too long"},
	},
	{
		"heartbeat that is always too often",
		withEdits("trigger: {heartbeat: {every: 10m, grace: 5m, too_often: 10m}}"),
		[]string{"3:57 /trigger/heartbeat/too_often: 10m is not less than every, 10m, so runs in time would start too often; lower too_often"},
	},
	{
		"heartbeat that is more often by its schedule",
		withEdits(`trigger: {heartbeat: {schedule: "0 2,8 * * *", too_often: 8h}}`),
		[]string{"3:59 /trigger/heartbeat/too_often: 8h is not less than the shortest time between two ticks of the schedule, 6h, so runs in time would start too often; lower too_often"},
	},
	{
		"a heartbeat with a run too long",
		withEdits("trigger: {heartbeat: {every: 1d, max: 20y}}"),
		[]string{"3:39 /trigger/heartbeat/max: 7300d is not between 0 and 3650d"},
	},
	{
		"what no ping carries",
		withEdits("trigger: {heartbeat: {every: 10m}}", `escalate: [{after: 0s, text: "{{event.status}} {{state.heartbeat.run}} {{state.heartbeat.rum}}"}]`),
		[]string{
			`5:30 /escalate/0/text: event.status: its shape has no field "status", only body, duration_seconds, exit_status, kind, run, source`,
			`5:30 /escalate/0/text: state.heartbeat.rum: heartbeat has no field "rum"; did you mean "run"?`,
		},
	},
	{
		"a heartbeat that begins anew",
		withEdits("trigger: {heartbeat: {every: 10m}}", "again: restart"),
		[]string{"7:8 /again: again does not apply to a heartbeat, because each one postpones the job; remove again"},
	},
	{
		"keys expected without what a step needs",
		withEdits("trigger: {heartbeat: {event: beats, key: event.id, every: 10m, keys: [a]}}", "escalate: [{after: hours(event.n), step: late}]"),
		[]string{"3:64 /trigger/heartbeat/keys: step late depends on event, but an entity that never sent a heartbeat has no event; write a fixed time, or remove keys"},
	},
	{
		"two steps at once",
		withEdits("trigger: {heartbeat: {every: 10m}}", `escalate: [{after: 0s}, {after: 0s}]`),
		[]string{"5:33 /escalate/1/after: 0s is not after the step before; order the steps by their times"},
	},
	{
		"until whenever",
		withEdits("escalate: [{after: 1h}, {every: 15m, until: acknowleged}]"),
		[]string{`5:45 /escalate/1/until: "acknowleged" is not until when a step can be repeated; did you mean "acknowledged"?`},
	},
	{
		"so many times, and until acknowledged",
		withEdits("escalate: [{after: 1h}, {every: 15m, times: 3, until: acknowledged}]"),
		[]string{"5:55 /escalate/1/until: times and until exclude each other; keep one of them"},
	},
	{
		"once, until acknowledged",
		withEdits("escalate: [{after: 1h, until: acknowledged}]"),
		[]string{"5:31 /escalate/0/until: until needs every; write every: 15m, or remove until"},
	},
	{
		"a repeated step after one that is repeated until acknowledged",
		withEdits("escalate: [{every: 15m, until: acknowledged}, {every: 1h, times: 2}]"),
		[]string{"5:55 /escalate/1/every: step 1 is repeated until it is acknowledged, so that no later step can count from it; write after: instead of every:"},
	},
	{
		"the first of many beyond the horizon",
		withEdits("escalate: [{every: 40d, until: acknowledged}]"),
		[]string{"5:20 /escalate/0/every: 40d is beyond the horizon, 30d; raise guards.horizon or shorten it"},
	},
	{
		"spread over more than a day",
		withEdits("spread: 25h"),
		[]string{"7:9 /spread: 1d1h is not between 0 and 1d"},
	},
	{
		"spread over one slot",
		withEdits("spread: 20m"),
		[]string{"7:9 /spread: 20m is less than two slots of 15m; write 30m or more, or a smaller slot"},
	},
	{
		"a handler that is spread",
		applyEdit(withoutField("escalate")+"handler: mine\n", "spread: 1h"),
		[]string{"7:9 /spread: the rule has a handler, which decides the times of its checks; remove spread"},
	},
	{
		"a lookup beside a handler",
		`name: late
entity: order
trigger: {event: orders.created, key: event.id}
lookup: {kv: {source: shop, bucket: orders}}
handler: mine
`,
		[]string{"4:1 /lookup: the rule has a handler, which queries its own data; remove one of the two"},
	},
	{
		"a path that leads elsewhere",
		withEdits(`lookup: {http: {source: shop, path: "/orders/../{{key}}"}}`),
		[]string{`7:37 /lookup/http/path: "/orders/../x" leads elsewhere: a segment can't be ".."`},
	},
	{
		"a path with a character that has to be escaped",
		withEdits(`lookup: {http: {source: shop, path: "/größe/{{key}}"}}`),
		[]string{`7:37 /lookup/http/path: "/größe/x" has a character that a path can't have; write it escaped, as /gr%C3%B6%C3%9Fe/x`},
	},
	{
		"a path that leads elsewhere in disguise",
		withEdits(`lookup: {http: {source: shop, path: "/orders/%2e%2E/{{key}}"}}`),
		[]string{`7:37 /lookup/http/path: "/orders/%2e%2E/x" leads elsewhere: a segment can't be "%2e%2E"`},
	},
	{
		"a path of another host",
		withEdits(`lookup: {http: {source: shop, path: "//evil.example/{{key}}"}}`),
		[]string{`7:37 /lookup/http/path: "//evil.example/x" has an empty segment`},
	},
	{
		"a path with a fragment",
		withEdits(`lookup: {http: {source: shop, path: "/orders#{{key}}"}}`),
		[]string{`7:37 /lookup/http/path: "/orders#x" is more than a path with a query; write it without "#"`},
	},
	{
		"a path with a query that says nothing",
		withEdits(`lookup: {http: {source: shop, path: "/orders?id=%zz&key={{key}}"}}`),
		[]string{`7:37 /lookup/http/path: "/orders?id=%zz&key=x" has a query that can't be read; write it like ?id={{key}}&full=true`},
	},
	{
		"a request to the server's own subject",
		withEdits(`lookup: {nats: {source: shop, subject: "$JS.API.STREAM.DELETE.{{key}}"}}`),
		[]string{`7:40 /lookup/nats/subject: "$JS.API.STREAM.DELETE.x" belongs to the servers ("$…", "_INBOX…" and "deadman…"); name another subject`},
	},
	{
		"a request to many subjects",
		withEdits(`lookup: {nats: {source: shop, subject: "shop.*.{{key}}"}}`),
		[]string{`7:40 /lookup/nats/subject: "shop.*.x" has a wildcard; name one subject`},
	},
	{
		"a key that is none",
		withEdits(`lookup: {kv: {source: shop, bucket: orders, key: "{{key}} "}}`),
		[]string{`7:50 /lookup/kv/key: "x " can't be a key of a bucket: that has letters, digits, / _ = - and single dots between`},
	},
	{
		"a parameter that is no value",
		withEdits(`lookup: {sql: {source: shop, query: select 1, params: ["hours(3)"]}}`),
		[]string{"7:56 /lookup/sql/params/0: a parameter must be text, a number, true or false, or a time, not a duration"},
	},
	{
		"event and schedule",
		withEdits(`trigger: {event: orders.created, key: event.id, schedule: "@daily"}`, "enabled: false"),
		[]string{"3:1 /trigger: event, schedule and heartbeat exclude each other; keep one of them"},
	},
	{
		"event and heartbeat",
		withEdits("trigger: {event: a, heartbeat: {event: beats, key: event.id, every: 10m}}", "enabled: false"),
		[]string{"3:1 /trigger: event, schedule and heartbeat exclude each other; keep one of them"},
	},
	{
		"event with a zone",
		withEdits("trigger: {event: orders.created, key: event.id, zone: UTC}"),
		[]string{`3:55 /trigger/zone: a trigger by event has no field "zone"; remove it`},
	},
	{
		"event with keys",
		withEdits("trigger: {event: orders.created, key: event.id, keys: [a]}"),
		[]string{`3:49 /trigger/keys: a trigger by event has no field "keys"; remove it`},
	},
	{
		"schedule with a key",
		withEdits(`trigger: {schedule: "@daily", key: event.id}`, "enabled: false"),
		[]string{`3:36 /trigger/key: a trigger by schedule has no field "key"; remove it`},
	},
	{
		"schedule with an if and a since",
		withEdits(`trigger: {schedule: "@daily", if: event.a, since: event.b}`, "enabled: false"),
		[]string{
			`3:35 /trigger/if: a trigger by schedule has no field "if"; remove it`,
			`3:51 /trigger/since: a trigger by schedule has no field "since"; remove it`,
		},
	},
	{
		"schedule with a shape",
		withEdits(`trigger: {schedule: "@daily", shape: {a: text}}`, "enabled: false"),
		[]string{`3:31 /trigger/shape: a trigger by schedule has no field "shape"; remove it`},
	},
	{
		"heartbeat with a key beside it",
		withEdits("trigger: {key: event.id, heartbeat: {event: beats, key: event.id, every: 10m}}", "enabled: false"),
		[]string{`3:16 /trigger/key: "key" belongs inside heartbeat; write heartbeat: {key: …}`},
	},
	{
		"heartbeat with a zone and keys beside it",
		withEdits("trigger: {zone: UTC, keys: [a], heartbeat: {event: beats, key: event.id, every: 10m}}", "enabled: false"),
		[]string{
			`3:17 /trigger/zone: a trigger by heartbeat has no field "zone"; remove it`,
			`3:22 /trigger/keys: "keys" belongs inside heartbeat; write heartbeat: {keys: …}`,
		},
	},
	{
		"every beside a trigger",
		withEdits("trigger: {event: orders.created, key: event.id, every: 10m}"),
		[]string{`3:49 /trigger/every: "every" belongs inside heartbeat; for a schedule write schedule: "@every 1h"`},
	},
	{
		"grace beside a trigger",
		withEdits("trigger: {event: orders.created, key: event.id, grace: 10m}"),
		[]string{`3:49 /trigger/grace: "grace" belongs inside heartbeat`},
	},
	{
		"empty trigger",
		withEdits("trigger: {}"),
		[]string{"3:1 /trigger: the trigger is missing; write trigger: {event: orders.created, key: event.id}"},
	},
	{
		"empty event",
		withEdits(`trigger: {event: "", key: event.id}`),
		[]string{"3:18 /trigger/event: the text is empty; write one or remove the field"},
	},
	{
		"crontab of four fields",
		withEdits(`trigger: {schedule: "0 0 * *"}`, "enabled: false"),
		[]string{`3:21 /trigger/schedule: a crontab has 5 fields, minute, hour, day of month, month and day of week, not 4; write it like "0 9 * * 1-5"`},
	},
	{
		"crontab of six fields",
		withEdits(`trigger: {schedule: "0 0 0 * * *"}`, "enabled: false"),
		[]string{`3:21 /trigger/schedule: a crontab has 5 fields, minute, hour, day of month, month and day of week, not 6; write it like "0 9 * * 1-5"`},
	},
	{
		"crontab minute",
		withEdits(`trigger: {schedule: "61 0 * * *"}`, "enabled: false"),
		[]string{`3:21 /trigger/schedule: the minute, "61", is not possible; it is 0 to 59, ranges rise, and steps are 1 or more`},
	},
	{
		"crontab hour",
		withEdits(`trigger: {schedule: "0 24 * * *"}`, "enabled: false"),
		[]string{`3:21 /trigger/schedule: the hour, "24", is not possible; it is 0 to 23, ranges rise, and steps are 1 or more`},
	},
	{
		"crontab day",
		withEdits(`trigger: {schedule: "0 0 0 * *"}`, "enabled: false"),
		[]string{`3:21 /trigger/schedule: the day of month, "0", is not possible; it is 1 to 31, ranges rise, and steps are 1 or more`},
	},
	{
		"crontab month",
		withEdits(`trigger: {schedule: "0 0 1 13 *"}`, "enabled: false"),
		[]string{`3:21 /trigger/schedule: the month, "13", is not possible; it is 1 to 12 or JAN to DEC, ranges rise, and steps are 1 or more`},
	},
	{
		"crontab month by name",
		withEdits(`trigger: {schedule: "0 0 1 foo *"}`, "enabled: false"),
		[]string{`3:21 /trigger/schedule: the month, "foo", is not possible; it is 1 to 12 or JAN to DEC, ranges rise, and steps are 1 or more`},
	},
	{
		"crontab weekday",
		withEdits(`trigger: {schedule: "0 0 * * 8"}`, "enabled: false"),
		[]string{`3:21 /trigger/schedule: the day of week, "8", is not possible; it is 0 to 7 or SUN to SAT, ranges rise, and steps are 1 or more`},
	},
	{
		"crontab range falls",
		withEdits(`trigger: {schedule: "0 17-9 * * *"}`, "enabled: false"),
		[]string{`3:21 /trigger/schedule: the hour, "17-9", is not possible; it is 0 to 23, ranges rise, and steps are 1 or more`},
	},
	{
		"crontab step zero",
		withEdits(`trigger: {schedule: "*/0 * * * *"}`, "enabled: false"),
		[]string{`3:21 /trigger/schedule: the minute, "*/0", is not possible; it is 0 to 59, ranges rise, and steps are 1 or more`},
	},
	{
		"crontab star range",
		withEdits(`trigger: {schedule: "*-5 * * * *"}`, "enabled: false"),
		[]string{`3:21 /trigger/schedule: the minute, "*-5", is not a field of a crontab; write *, ?, a number, a range such as 1-5, steps such as */15, or several with "," between`},
	},
	{
		"crontab question with a step",
		withEdits(`trigger: {schedule: "?/5 * * * *"}`, "enabled: false"),
		[]string{`3:21 /trigger/schedule: the minute, "?/5", is not a field of a crontab; write *, ?, a number, a range such as 1-5, steps such as */15, or several with "," between`},
	},
	{
		"crontab comma alone",
		withEdits(`trigger: {schedule: ", * * * *"}`, "enabled: false"),
		[]string{`3:21 /trigger/schedule: the minute, ",", is not a field of a crontab; write *, ?, a number, a range such as 1-5, steps such as */15, or several with "," between`},
	},
	{
		"crontab words",
		withEdits(`trigger: {schedule: "every day at nine"}`, "enabled: false"),
		[]string{`3:21 /trigger/schedule: a crontab has 5 fields, minute, hour, day of month, month and day of week, not 4; write it like "0 9 * * 1-5"`},
	},
	{
		"impossible date",
		withEdits(`trigger: {schedule: "0 0 30 2 *"}`, "enabled: false"),
		[]string{`3:21 /trigger/schedule: "0 0 30 2 *" never comes: no month has such a day`},
	},
	{
		"impossible day of short months",
		withEdits(`trigger: {schedule: "0 0 31 4,6,9,11 *"}`, "enabled: false"),
		[]string{`3:21 /trigger/schedule: "0 0 31 4,6,9,11 *" never comes: no month has such a day`},
	},
	{
		"crontab with a zone in it",
		withEdits(`trigger: {schedule: "TZ=Europe/Berlin 0 0 * * *"}`, "enabled: false"),
		[]string{"3:21 /trigger/schedule: a schedule has no TZ=Europe/Berlin; write zone: Europe/Berlin beside it"},
	},
	{
		"crontab with only a zone in it",
		withEdits(`trigger: {schedule: "CRON_TZ=UTC"}`, "enabled: false"),
		[]string{"3:21 /trigger/schedule: a schedule has no CRON_TZ=UTC; write zone: UTC beside it"},
	},
	{
		"every of nothing",
		withEdits(`trigger: {schedule: "@every"}`, "enabled: false"),
		[]string{`3:21 /trigger/schedule: "" is not a duration; write a number with a unit, such as "90s", "15m", "1h30m" or "7d"`},
	},
	{
		"every of words",
		withEdits(`trigger: {schedule: "@every day"}`, "enabled: false"),
		[]string{`3:21 /trigger/schedule: "day" is not a duration; write a number with a unit, such as "90s", "15m", "1h30m" or "7d"`},
	},
	{
		"every too short",
		withEdits(`trigger: {schedule: "@every 500ms"}`, "enabled: false"),
		[]string{"3:21 /trigger/schedule: @every takes whole seconds between 1s and 3650d, not 500ms"},
	},
	{
		"every with a fraction",
		withEdits(`trigger: {schedule: "@every 1s500ms"}`, "enabled: false"),
		[]string{"3:21 /trigger/schedule: @every takes whole seconds between 1s and 3650d, not 1s500ms"},
	},
	{
		"every zero",
		withEdits(`trigger: {schedule: "@every 0s"}`, "enabled: false"),
		[]string{"3:21 /trigger/schedule: @every takes whole seconds between 1s and 3650d, not 0s"},
	},
	{
		"at a word",
		withEdits(`trigger: {schedule: "@at noon"}`, "enabled: false"),
		[]string{`3:21 /trigger/schedule: @at takes an instant such as "2026-11-20T15:04:05Z", or seconds since 1970, not "noon"`},
	},
	{
		"at milliseconds",
		withEdits(`trigger: {schedule: "@at 17637359450000"}`, "enabled: false"),
		[]string{`3:21 /trigger/schedule: @at takes an instant such as "2026-11-20T15:04:05Z", or seconds since 1970, not "17637359450000"`},
	},
	{
		"at without a zone",
		withEdits(`trigger: {schedule: "@at 2026-11-20T15:04:05"}`, "enabled: false"),
		[]string{`3:21 /trigger/schedule: @at takes an instant such as "2026-11-20T15:04:05Z", or seconds since 1970, not "2026-11-20T15:04:05"`},
	},
	{
		"macro with a mistake",
		withEdits(`trigger: {schedule: "@dayly"}`, "enabled: false"),
		[]string{`3:21 /trigger/schedule: "@dayly" is not a schedule; did you mean "@daily"?`},
	},
	{
		"macro far from any",
		withEdits(`trigger: {schedule: "@reboot"}`, "enabled: false"),
		[]string{`3:21 /trigger/schedule: "@reboot" is not a schedule; write one of @every, @at, @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly`},
	},
	{
		"macro with more",
		withEdits(`trigger: {schedule: "@daily 9:00"}`, "enabled: false"),
		[]string{`3:21 /trigger/schedule: @daily stands alone; leave "9:00" out`},
	},
	{
		"schedule too long",
		withEdits(`trigger: {schedule: "0 0 * * 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"}`, "enabled: false"),
		[]string{"3:21 /trigger/schedule: the schedule has 269 bytes, the most is 256"},
	},
	{
		"schedule as number",
		withEdits("trigger: {schedule: 5}", "enabled: false"),
		[]string{`3:21 /trigger/schedule: expected text, not a number; write text such as "0 9 * * 1-5"`},
	},
	{
		"zone unknown",
		withEdits(`trigger: {schedule: "@daily", zone: Europe/Berln}`, "enabled: false"),
		[]string{`3:37 /trigger/zone: "Europe/Berln" is not a time zone; write a name of the IANA database, such as Europe/Berlin or UTC`},
	},
	{
		"zone local",
		withEdits(`trigger: {schedule: "@daily", zone: Local}`, "enabled: false"),
		[]string{`3:37 /trigger/zone: "Local" is not a time zone; write a name of the IANA database, such as Europe/Berlin or UTC`},
	},
	{
		"zone of the machine in the database",
		withEdits(`trigger: {schedule: "@daily", zone: posixrules}`, "enabled: false"),
		[]string{`3:37 /trigger/zone: "posixrules" is not a time zone; write a name of the IANA database, such as Europe/Berlin or UTC`},
	},
	{
		"zone is a path",
		withEdits(`trigger: {schedule: "@daily", zone: ../UTC}`, "enabled: false"),
		[]string{`3:37 /trigger/zone: "../UTC" is not a time zone; write a name of the IANA database, such as Europe/Berlin or UTC`},
	},
	{
		"keys as text",
		withEdits(`trigger: {schedule: "@daily", keys: a}`, "enabled: false"),
		[]string{"3:37 /trigger/keys: expected a list, not text; write it in brackets, also where there is only one: [a]"},
	},
	{
		"keys empty",
		withEdits(`trigger: {schedule: "@daily", keys: []}`, "enabled: false"),
		[]string{"3:31 /trigger/keys: the list is empty; remove the field"},
	},
	{
		"keys twice",
		withEdits(`trigger: {schedule: "@daily", keys: [a, b, a]}`, "enabled: false"),
		[]string{`3:44 /trigger/keys/2: "a" is a duplicate of trigger.keys[0]; keys are unique`},
	},
	{
		"keys of numbers",
		withEdits(`trigger: {schedule: "@daily", keys: [a, 1]}`, "enabled: false"),
		[]string{`3:41 /trigger/keys/1: expected text, not a number; quote it: "1"`},
	},
	{
		"keys with an empty one",
		withEdits(`trigger: {schedule: "@daily", keys: ["", a]}`, "enabled: false"),
		[]string{"3:38 /trigger/keys/0: the text is empty; write one or remove the field"},
	},
	{
		"schedule reads an event",
		withEdits(`trigger: {schedule: "@daily"}`, "while: event.a == 1", "enabled: false"),
		[]string{`7:8 /while: "event" can't be read here, only key, since, state: a schedule has no event (at character 1)`},
	},
	{
		"schedule says an event",
		withEdits(`trigger: {schedule: "@daily"}`, `labels: {a: "{{event.a}}"}`, "enabled: false"),
		[]string{`7:13 /labels/a: {{event.a}}: "event" can't be read here, only key, since, state, step: a schedule has no event (at character 1)`},
	},
	{
		"schedule at an instant",
		withEdits(`trigger: {schedule: "@daily"}`, "enabled: false", "escalate: [{at: since + hours(9)}]"),
		[]string{`5:17 /escalate/0/at: "since + hours(9)" is not a time of day; in a rule with a schedule, at is a time of day, such as at: "09:00"`},
	},
	{
		"heartbeat as text",
		withEdits("trigger: {heartbeat: beats}", "enabled: false"),
		[]string{"3:22 /trigger/heartbeat: expected a mapping with the fields event, key, if, shape, every, schedule, zone, grace, kind, run, max, min, too_often, keys, not text"},
	},
	{
		"heartbeat of nothing",
		withEdits("trigger: {heartbeat: {}}", "enabled: false"),
		[]string{
			`3:11 /trigger/heartbeat/every: the interval of the heartbeat is missing; write every: 10m, or a crontab as schedule: "0 2 * * *"`,
		},
	},
	{
		"heartbeat too often",
		withEdits("trigger: {heartbeat: {event: beats, key: event.id, every: 10ms}}", "enabled: false"),
		[]string{"3:59 /trigger/heartbeat/every: 10ms is not between 1s and 3650d"},
	},
	{
		"heartbeat unknown field",
		withEdits("trigger: {heartbeat: {event: beats, key: event.id, evry: 10m}}", "enabled: false"),
		[]string{
			`3:11 /trigger/heartbeat/every: the interval of the heartbeat is missing; write every: 10m, or a crontab as schedule: "0 2 * * *"`,
			`3:52 /trigger/heartbeat/evry: unknown field "evry"; did you mean "every"?`,
		},
	},
	{
		"heartbeat grace too long",
		withEdits("trigger: {heartbeat: {event: beats, key: event.id, every: 1m, grace: 20y}}", "enabled: false"),
		[]string{"3:70 /trigger/heartbeat/grace: 7300d is not between 0 and 3650d"},
	},
	{
		"heartbeat subject",
		withEdits("trigger: {heartbeat: {event: beats.., key: event.id, every: 1m}}", "enabled: false"),
		[]string{`3:30 /trigger/heartbeat/event: "beats.." has an empty token; write tokens with single dots between, such as orders.created`},
	},
	{
		"heartbeat keys",
		withEdits("trigger: {heartbeat: {event: beats, key: event.id, every: 1m, keys: [a, a]}}", "enabled: false"),
		[]string{`3:73 /trigger/heartbeat/keys/1: "a" is a duplicate of trigger.heartbeat.keys[0]; keys are unique`},
	},
	{
		"heartbeat with retries",
		withEdits("trigger: {heartbeat: {event: beats, key: event.id, every: 1m}}", "enabled: false", "guards: {interval: 1m}"),
		[]string{"8:1 /guards: 3 attempts may take 3m, but checks are only 1m apart; lower attempts, interval, jitter or timeout"},
	},
	{
		"update as text",
		withEdits("update: orders.changed"),
		[]string{"7:9 /update: expected a mapping with the fields event, key, if, shape, not text"},
	},
	{
		"update empty",
		withEdits("update: []"),
		[]string{"7:1 /update: an empty list updates nothing; remove the field"},
	},
	{
		"update without event and key",
		withEdits("update: {if: event.a == 1}"),
		[]string{
			"7:1 /update/event: the event is missing; write the subject that updates the state, such as orders.created",
			"7:1 /update/key: the key is missing; write an expression for the entity of the event, such as key: event.id",
		},
	},
	{
		"update unknown field",
		withEdits("update: {event: a, key: event.id, as: x}"),
		[]string{`7:35 /update/as: unknown field "as"; the fields here are event, key, if, shape`},
	},
	{
		"update in a list",
		withEdits("update: [{event: a, key: event.id}, {event: b..c, key: event.id}]"),
		[]string{`7:45 /update/1/event: "b..c" has an empty token; write tokens with single dots between, such as orders.created`},
	},
	{
		"update reads the state",
		withEdits("update: {event: a, key: event.id, if: state.a == 1}"),
		[]string{`7:39 /update/if: "state" can't be read here, only event (at character 1)`},
	},
	{
		"pause empty",
		withEdits("pause: []"),
		[]string{"7:1 /pause: an empty list pauses nothing; remove the field"},
	},
	{
		"pause for good",
		withEdits("pause: [{event: a, key: event.id}, {event: b, key: event.id}]"),
		[]string{`7:9 /pause/0: the pause would never end; name the event that ends it, such as until: orders.released, or add an if that stops holding, such as if: event.status == "ON_HOLD"`},
	},
	{
		"end of a pause without an event",
		withEdits("pause: {event: a, key: event.id, until: {key: event.id}}"),
		[]string{"7:34 /pause/until/event: the event is missing; write the subject that ends a pause, such as orders.created"},
	},
	{
		"end of a pause by a number",
		withEdits("pause: {event: a, key: event.id, until: 3}"),
		[]string{`7:41 /pause/until: expected text, not a number; quote it: "3"`},
	},
	{
		"end of a pause by no subject",
		withEdits("pause: {event: a, key: event.id, until: a..b}"),
		[]string{`7:41 /pause/until/event: "a..b" has an empty token; write tokens with single dots between, such as orders.created`},
	},
	{
		"end of a pause that never comes",
		withEdits("pause: {event: a, key: event.id, until: {event: b, if: false}}"),
		[]string{"7:56 /pause/until/if: false is a boolean here, not an expression; write a condition that reads a field, such as event.paid == false"},
	},
	{
		"unknown field of the end of a pause",
		withEdits("pause: {event: a, key: event.id, until: {event: b, unless: event.x}}"),
		[]string{`7:52 /pause/until/unless: unknown field "unless"; the fields here are event, key, if, shape`},
	},
	{
		"pause that never begins",
		withEdits("pause: [{event: a, key: event.id}, {event: b, key: event.id, if: false}]"),
		[]string{"7:66 /pause/1/if: the condition is never true, so this pause never begins; remove this pause. If its event should end another pause, name the event there, such as until: orders.released"},
	},
	{
		"pause that never begins, quoted",
		withEdits(`pause: [{event: a, key: event.id}, {event: b, key: event.id, if: "false"}]`),
		[]string{"7:66 /pause/1/if: the condition is never true, so this pause never begins; remove this pause. If its event should end another pause, name the event there, such as until: orders.released"},
	},
	{
		"pause that never begins, beside a field",
		withEdits(`pause: {event: a, key: event.id, if: event.x == 1 and false}`),
		[]string{"7:38 /pause/if: the condition is never true, so this pause never begins; remove this pause. If its event should end another pause, name the event there, such as until: orders.released"},
	},
	{
		"condition of a pause that always holds",
		withEdits(`pause: {event: a, key: event.id, if: true}`),
		[]string{"7:38 /pause/if: true is a boolean here, not an expression; write a condition that reads a field, such as event.paid == true"},
	},
	{
		"pause without key",
		withEdits("pause: {event: a, if: event.x == 1}"),
		[]string{"7:1 /pause/key: the key is missing; write an expression for the entity of the event, such as key: event.id"},
	},
	{
		"too many updates",
		withEdits("update: [{event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}, {event: a, key: event.id}]"),
		[]string{"7:1 /update: 33 events update, the most is 32; use a wildcard"},
	},
	{
		"too many resolves",
		withEdits("resolve: [{event: a.0, key: event.id}, {event: a.1, key: event.id}, {event: a.2, key: event.id}, {event: a.3, key: event.id}, {event: a.4, key: event.id}, {event: a.5, key: event.id}, {event: a.6, key: event.id}, {event: a.7, key: event.id}, {event: a.8, key: event.id}, {event: a.9, key: event.id}, {event: a.10, key: event.id}, {event: a.11, key: event.id}, {event: a.12, key: event.id}, {event: a.13, key: event.id}, {event: a.14, key: event.id}, {event: a.15, key: event.id}, {event: a.16, key: event.id}, {event: a.17, key: event.id}, {event: a.18, key: event.id}, {event: a.19, key: event.id}, {event: a.20, key: event.id}, {event: a.21, key: event.id}, {event: a.22, key: event.id}, {event: a.23, key: event.id}, {event: a.24, key: event.id}, {event: a.25, key: event.id}, {event: a.26, key: event.id}, {event: a.27, key: event.id}, {event: a.28, key: event.id}, {event: a.29, key: event.id}, {event: a.30, key: event.id}, {event: a.31, key: event.id}, {event: a.32, key: event.id}]"),
		[]string{"4:1 /resolve: 33 events resolve, the most is 32; use a wildcard"},
	},
	{
		"resolve never reached",
		withEdits(`resolve: [{event: "a.*", key: event.id}, {event: a.b, key: event.id, if: event.x == 1, as: cancelled}]`),
		[]string{"4:50 /resolve/1/event: resolve[0] already resolves the job on every such event, so this entry is never reached; put the entry with the narrower if first"},
	},
	{
		"resolve twice under the same if",
		withEdits("resolve: [{event: a, key: event.id, if: event.x == 1}, {event: a, key: event.id, if: event.x == 1, as: done}]"),
		[]string{"4:64 /resolve/1/event: resolve[0] already resolves the job on every such event, so this entry is never reached; put the entry with the narrower if first"},
	},
	{
		"resolve twice",
		withEdits("resolve: [{event: a, key: event.id}, {event: a, key: event.id}]"),
		[]string{"4:46 /resolve/1/event: resolve[0] already resolves the job on every such event, so this entry is never reached; put the entry with the narrower if first"},
	},
	{
		"ends what it begins under the same if",
		withEdits("trigger: {event: orders.created, key: event.id, if: event.total > 0}", "resolve: {event: orders.created, key: event.id, if: event.total > 0}"),
		[]string{"4:18 /resolve/event: every event that triggers a job also resolves it, so the rule never alerts; add an if to the resolve, which the events of the trigger do not meet"},
	},
	{
		"distinct without need",
		withEdits("resolve: {event: a, key: event.id, distinct: event.parcel}"),
		[]string{"4:46 /resolve/distinct: distinct requires need; write how many members resolve the job, such as need: 3"},
	},
	{
		"need zero",
		withEdits("resolve: {event: a, key: event.id, distinct: event.parcel, need: 0}"),
		[]string{`4:66 /resolve/need: expected a whole number from 1, such as 3, or an expression, not "0"`},
	},
	{
		"need fraction",
		withEdits("resolve: {event: a, key: event.id, distinct: event.parcel, need: 1.5}"),
		[]string{`4:66 /resolve/need: expected a whole number from 1, such as 3, or an expression, not "1.5"`},
	},
	{
		"need too many",
		withEdits("resolve: {event: a, key: event.id, distinct: event.parcel, need: 10001}"),
		[]string{"4:66 /resolve/need: 10001 is not between 1 and 10000"},
	},
	{
		"need is text",
		withEdits(`resolve: {event: a, key: event.id, distinct: event.parcel, need: "'three'"}`),
		[]string{"4:66 /resolve/need: need must be a whole number, not text"},
	},
	{
		"need reads since",
		withEdits("resolve: {event: a, key: event.id, distinct: event.parcel, need: since}"),
		[]string{`4:66 /resolve/need: "since" can't be read here, only event, state (at character 1)`},
	},
	{
		"need a list",
		withEdits("resolve: {event: a, key: event.id, distinct: event.parcel, need: [3]}"),
		[]string{`4:60 /resolve/need: YAML read this as a list; quote the whole expression if it contains ": " or " #", or begins with "{" or "["`},
	},
	{
		"distinct is a condition",
		withEdits("resolve: {event: a, key: event.id, distinct: event.a == event.b, need: 3}"),
		[]string{"4:46 /resolve/distinct: a key must be text or a whole number, not true or false"},
	},
	{
		"distinct counts",
		withEdits("resolve: {event: a, key: event.id, distinct: event.a % 3, need: 3}"),
		[]string{"4:46 /resolve/distinct: in a key the numbers of an event are text, so that no digit is lost; write int(…) around the one you count with"},
	},
	{
		"as in a list",
		withEdits("resolve: [{event: a, key: event.id, as: undetermined}]"),
		[]string{`4:41 /resolve/0/as: "undetermined" is reserved for outcomes without an event; write another word, such as done`},
	},
	{
		"as expired",
		withEdits("resolve: {event: a, key: event.id, as: expired}"),
		[]string{`4:40 /resolve/as: "expired" is reserved for outcomes without an event; write another word, such as done`},
	},
	{
		"as restarted",
		withEdits("resolve: {event: a, key: event.id, as: restarted}"),
		[]string{`4:40 /resolve/as: "restarted" is reserved for outcomes without an event; write another word, such as done`},
	},
	{
		"wildcard of no wildcards",
		withEdits("trigger: {event: orders.created, key: wildcard(1)}"),
		[]string{`3:39 /trigger/key: "orders.created" has no wildcards; take the value from the event`},
	},
	{
		"wildcard beyond",
		withEdits("trigger: {event: orders.*.>, key: wildcard(3)}"),
		[]string{`3:35 /trigger/key: wildcard(3) is not one of "orders.*.>", which has 2, counted from 1`},
	},
	{
		"wildcard zero",
		withEdits("trigger: {event: orders.*, key: wildcard(0)}"),
		[]string{`3:33 /trigger/key: wildcard(0) is not one of "orders.*", which has 1, counted from 1`},
	},
	{
		"wildcard computed",
		withEdits("trigger: {event: orders.*, key: wildcard(event.n)}"),
		[]string{"3:33 /trigger/key: the number of a wildcard must be written out, such as wildcard(1)"},
	},
	{
		"wildcard of text",
		withEdits(`trigger: {event: orders.*, key: "wildcard('a')"}`),
		[]string{"3:33 /trigger/key: cannot use string as argument (type int) to call wildcard  (at character 10)"},
	},
	{
		"wildcard without a number",
		withEdits("trigger: {event: orders.*, key: wildcard()}"),
		[]string{"3:33 /trigger/key: not enough arguments to call wildcard (at character 1)"},
	},
	{
		"wildcard in while",
		withEdits("trigger: {event: orders.*, key: wildcard(1)}", "while: wildcard(1) == state.a"),
		[]string{"7:8 /while: wildcard(…) can't be read here: only key, if, since, distinct and need read the subject; take it from event or key"},
	},
	{
		"wildcard in text",
		withEdits("trigger: {event: orders.*, key: wildcard(1)}", `labels: {a: "{{wildcard(1)}}"}`),
		[]string{"7:13 /labels/a: {{wildcard(1)}}: wildcard(…) can't be read here: only key, if, since, distinct and need read the subject; take it from event or key"},
	},
	{
		"wildcard negative",
		withEdits("trigger: {event: orders.*, key: wildcard(-1)}"),
		[]string{"3:33 /trigger/key: the number of a wildcard must be written out, such as wildcard(1)"},
	},
	{
		"wildcard with a number",
		withEdits("trigger: {event: orders.*, key: event.id, if: wildcard(1) == 1}"),
		[]string{"3:47 /trigger/if: == does not apply to text and a number; write the number in quotes to compare texts, or remove the quotes to compare numbers (at character 13)"},
	},
	{
		"lookup as text",
		withEdits("lookup: shop", "enabled: false"),
		[]string{"7:9 /lookup: expected a mapping with the fields sql, http, nats, kv, not text"},
	},
	{
		"lookup of nothing",
		withEdits("lookup: {}", "enabled: false"),
		[]string{"7:1 /lookup: a lookup queries one source; write one of sql, http, nats and kv"},
	},
	{
		"lookup of two",
		withEdits("lookup: {nats: {source: shop, subject: a}, kv: {source: shop, bucket: a}}", "enabled: false"),
		[]string{"7:1 /lookup: a lookup queries one source; write one of sql, http, nats and kv"},
	},
	{
		"lookup unknown",
		withEdits("lookup: {sqll: {source: shop}}", "enabled: false"),
		[]string{`7:10 /lookup/sqll: unknown field "sqll"; did you mean "sql"?`},
	},
	{
		"lookup without a source",
		withEdits("lookup: {sql: {query: select 1}}", "enabled: false"),
		[]string{"7:10 /lookup/sql/source: the source is missing; write the name of a configured source, such as source: shop"},
	},
	{
		"lookup source",
		withEdits("lookup: {sql: {source: The Shop, query: select 1}}", "enabled: false"),
		[]string{`7:24 /lookup/sql/source: "The Shop" is not a name; write 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit, such as shop`},
	},
	{
		"lookup query empty",
		withEdits(`lookup: {sql: {source: shop, query: " "}}`, "enabled: false"),
		[]string{"7:37 /lookup/sql/query: the query is missing; write one for one row, such as select status from orders where id = $1"},
	},
	{
		"lookup param",
		withEdits("lookup: {sql: {source: shop, query: select 1, params: [evnt.id]}}", "enabled: false"),
		[]string{`7:56 /lookup/sql/params/0: unknown name "evnt"; did you mean "event"? (at character 1)`},
	},
	{
		"lookup params as text",
		withEdits("lookup: {sql: {source: shop, query: select 1, params: key}}", "enabled: false"),
		[]string{"7:55 /lookup/sql/params: expected a list, not text; write it in brackets, also where there is only one: [a]"},
	},
	{
		"lookup too many params",
		withEdits("lookup: {sql: {source: shop, query: select 1, params: [key, key, key, key, key, key, key, key, key, key, key, key, key, key, key, key, key, key, key, key, key, key, key, key, key, key, key, key, key, key, key, key, key]}}", "enabled: false"),
		[]string{"7:47 /lookup/sql/params: 33 params, the most is 32"},
	},
	{
		"lookup path",
		withEdits(`lookup: {http: {source: shop, path: "https://shop/{{key}}"}}`, "enabled: false"),
		[]string{`7:37 /lookup/http/path: "https://shop/x" is not a path; it begins with a slash, and the source knows the host`},
	},
	{
		"lookup path missing",
		withEdits("lookup: {http: {source: shop}}", "enabled: false"),
		[]string{"7:10 /lookup/http/path: the path is missing; write a template, such as /orders/{{key}}"},
	},
	{
		"lookup path template",
		withEdits(`lookup: {http: {source: shop, path: "/orders/{{id}}"}}`, "enabled: false"),
		[]string{`7:37 /lookup/http/path: {{id}}: unknown name "id"; an expression reads event, key, since, state, as in event.id (at character 1)`},
	},
	{
		"lookup absent",
		withEdits("lookup: {http: {source: shop, path: /a, absent: [404, 200]}}", "enabled: false"),
		[]string{"7:55 /lookup/http/absent/1: 200 is not between 400 and 599; only such a status can mean that the entity does not exist"},
	},
	{
		"lookup absent as number",
		withEdits("lookup: {http: {source: shop, path: /a, absent: 404}}", "enabled: false"),
		[]string{"7:49 /lookup/http/absent: expected a list, not a number; write it in brackets, also where there is only one: [a]"},
	},
	{
		"lookup absent as text",
		withEdits("lookup: {http: {source: shop, path: /a, absent: [gone]}}", "enabled: false"),
		[]string{`7:50 /lookup/http/absent/0: expected a whole number from 1, such as 3, not "gone"`},
	},
	{
		"lookup subject missing",
		withEdits("lookup: {nats: {source: shop}}", "enabled: false"),
		[]string{"7:10 /lookup/nats/subject: the subject is missing; write a template, such as shop.orders.{{key}}"},
	},
	{
		"lookup bucket",
		withEdits("lookup: {kv: {source: shop, bucket: my.orders}}", "enabled: false"),
		[]string{`7:37 /lookup/kv/bucket: "my.orders" is not a bucket; write letters, digits, _ and -, such as orders`},
	},
	{
		"lookup key",
		withEdits(`lookup: {kv: {source: shop, bucket: orders, key: "{{key"}}`, "enabled: false"),
		[]string{`7:50 /lookup/kv/key: "{{" is never closed; write "}}" behind the expression`},
	},
	{
		"handler name",
		`name: late
entity: order
trigger: {event: orders.created, key: event.id}
handler: My Handler
enabled: false
`,
		[]string{`4:10 /handler: "My Handler" is not a name; write 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit, such as shipping-checks`},
	},
	{
		"at most once without a handler",
		withEdits("at_most_once: true"),
		[]string{"7:15 /at_most_once: at_most_once needs a handler, because checks without one have no effects; add handler, or remove at_most_once"},
	},
	{
		"handler and the rest",
		withEdits("handler: mine", "while: state.a == 1", "recheck: date(state.eta)", "enabled: false"),
		[]string{
			"5:1 /escalate: the rule has a handler, which replaces escalate; remove one of the two",
			"8:8 /while: the rule has a handler, which replaces while; remove one of the two",
			"9:10 /recheck: the rule has a handler, which replaces recheck; remove one of the two",
		},
	},
	{
		"never true",
		withEdits(`while: state.status == "OPEN" and state.status == "NEW"`),
		[]string{`7:8 /while: the condition is never true: no state.status is both == "OPEN" and == "NEW"; did you mean "or"?`},
	},
	{
		"always true",
		withEdits(`while: state.status != "SHIPPED" or state.status != "LOST"`),
		[]string{`7:8 /while: the condition is always true: whatever state.status is, != "SHIPPED" or != "LOST"; did you mean "and"?`},
	},
	{
		"never true with numbers",
		withEdits("trigger: {event: orders.created, key: event.id, if: event.total > 100 and event.total < 50}"),
		[]string{`3:53 /trigger/if: the condition is never true: no event.total is both > 100 and < 50; did you mean "or"?`},
	},
	{
		"never true by the edge",
		withEdits("while: 5 < state.n and state.n <= 5"),
		[]string{`7:8 /while: the condition is never true: no state.n is both > 5 and <= 5; did you mean "or"?`},
	},
	{
		"never true with a value",
		withEdits("while: state.n == 5 and state.n > 7"),
		[]string{`7:8 /while: the condition is never true: no state.n is both == 5 and > 7; did you mean "or"?`},
	},
	{
		"always true with numbers",
		withEdits("while: state.n > 5 or state.n <= 5"),
		[]string{`7:8 /while: the condition is always true: whatever state.n is, > 5 or <= 5; did you mean "and"?`},
	},
	{
		"a duration as elsewhere in the document",
		withEdits("escalate: [{at: date(event.due) - 2h}]"),
		[]string{`5:17 /escalate/0/at: "2h" is not a number; in an expression write hours(2) (at character 20)`},
	},
	{
		"no duration and no number",
		withEdits("while: event.n > 3x"),
		[]string{`7:8 /while: bad number syntax: "3x" (at character 12)`},
	},
	{
		"false written out",
		withEdits("while: state.a == 1 and false"),
		[]string{"7:8 /while: the condition is never true; remove the literal false"},
	},
	{
		"true written out",
		withEdits("resolve: {event: a, key: event.id, if: event.a == 1 or true}"),
		[]string{"4:40 /resolve/if: the condition is always true; remove the literal true"},
	},
	{
		"not true written out",
		withEdits("while: not (state.a == 1 or true)"),
		[]string{"7:8 /while: the condition is never true; remove the literal false"},
	},
	{
		"field never a time",
		withEdits("while: state.eta > since"),
		[]string{"7:8 /while: state.eta is text or a number in an event, never a time; write date(state.eta)"},
	},
	{
		"field never a time in if",
		withEdits("resolve: {event: a, key: event.id, if: event.at < date(event.by)}"),
		[]string{"4:40 /resolve/if: event.at is text or a number in an event, never a time; write date(event.at)"},
	},
	{
		"field plus a duration",
		withEdits("recheck: state.eta + minutes(10)"),
		[]string{"7:10 /recheck: state.eta is text or a number in an event, to which no duration can be added; write date(state.eta) or duration(state.eta)"},
	},
	{
		"field never a duration",
		withEdits("while: hours(3) < state.age"),
		[]string{"7:8 /while: state.age is text or a number in an event, never a duration; write duration(state.age) or hours(state.age)"},
	},
	{
		"time equals a field",
		withEdits("while: since == state.at"),
		[]string{"7:8 /while: state.at is text or a number in an event, never a time; write date(state.at)"},
	},
	{
		"recheck is a number",
		withEdits("recheck: 5 * 5"),
		[]string{"7:10 /recheck: recheck must be a time, not a number; write event.placed_at or date(…)"},
	},
	{
		"recheck is a duration",
		withEdits("recheck: hours(3)"),
		[]string{"7:10 /recheck: recheck must be a time, not a duration; write event.placed_at or date(…)"},
	},
	{
		"recheck is a condition",
		withEdits("recheck: state.a == 1"),
		[]string{"7:10 /recheck: recheck must be a time, not true or false; write event.placed_at or date(…)"},
	},
	{
		"recheck reads step",
		withEdits("recheck: step"),
		[]string{`7:10 /recheck: "step" can't be read here, only event, key, since, state (at character 1)`},
	},
	{
		"recheck empty",
		withEdits(`recheck: " "`),
		[]string{"7:10 /recheck: the expression is empty; write one or remove the field"},
	},
	{
		"since is a number",
		withEdits("trigger: {event: orders.created, key: event.id, since: 5 + 5}"),
		[]string{"3:56 /trigger/since: since must be a time, not a number; write event.placed_at or date(…)"},
	},
	{
		"since reads key",
		withEdits("trigger: {event: orders.created, key: event.id, since: since}"),
		[]string{`3:56 /trigger/since: "since" can't be read here, only event (at character 1)`},
	},
	{
		"job outside of text",
		withEdits("while: job.count > 3"),
		[]string{`7:8 /while: "job" can't be read here, only event, key, since, state (at character 1)`},
	},
	{
		"job in a label",
		withEdits(`labels: {a: "{{job.count}}"}`),
		[]string{`7:13 /labels/a: {{job.count}}: "job" can't be read here, only event, key, since, state, step (at character 1)`},
	},
	{
		"job has no such field",
		withEdits(`escalate: [{after: 3h, text: "{{job.cout}}"}]`),
		[]string{`5:30 /escalate/0/text: {{job.cout}}: unknown field of job "cout"; did you mean "count"? (at character 5)`},
	},
	{
		"job has no such field by far",
		withEdits(`escalate: [{after: 3h, text: "{{job.colour}}"}]`),
		[]string{`5:30 /escalate/0/text: {{job.colour}}: unknown field of job "colour"; the fields here are count, rule, since, step, turn, turns (at character 5)`},
	},
	{
		"job count is a number",
		withEdits(`escalate: [{after: 3h, text: "{{job.count == 'x'}}"}]`),
		[]string{"5:30 /escalate/0/text: {{job.count == 'x'}}: == does not apply to a number and text; write the number in quotes to compare texts, or remove the quotes to compare numbers (at character 11)"},
	},
	{
		"after is a number of hours",
		withEdits("escalate: [{after: 3 * hours(event.n)}]"),
		[]string{`5:20 /escalate/0/after: "3 * hours(event.n)" is not a duration; write a number with a unit, such as "90s", "15m", "1h30m" or "7d"`},
	},
	{
		"after is a field",
		withEdits("escalate: [{after: event.sla}]"),
		[]string{"5:20 /escalate/0/after: event.sla is text or a number, not a duration; write duration(event.sla) or hours(event.sla)"},
	},
	{
		"after is a number",
		withEdits("escalate: [{after: event.sla * 2}]"),
		[]string{"5:20 /escalate/0/after: after must be a duration, not a number; write hours(…) or minutes(…) around it"},
	},
	{
		"at is a number of fields",
		withEdits("escalate: [{at: event.due / 1000}]"),
		[]string{"5:17 /escalate/0/at: at must be a time, not a number; write event.placed_at or date(…)"},
	},
	{
		"after is an instant",
		withEdits("escalate: [{after: date(event.due)}]"),
		[]string{"5:20 /escalate/0/after: after must be a duration, not a time; write 3h, hours(event.sla_hours) or duration(event.sla)"},
	},
	{
		"after reads the state",
		withEdits("escalate: [{after: hours(state.sla)}]"),
		[]string{`5:20 /escalate/0/after: "state" can't be read here: a step's time is fixed when the wait begins; use recheck for what changes (at character 7)`},
	},
	{
		"after is a constant",
		withEdits("escalate: [{after: hours(3)}]"),
		[]string{"5:20 /escalate/0/after: the expression reads nothing, so after is always the same; write the duration out, such as after: 3h"},
	},
	{
		"after of one road",
		withEdits(`escalate: [{after: "event.vip ? hours(1) : event.sla"}]`),
		[]string{"5:20 /escalate/0/after: event.sla is text or a number, not a duration; write duration(event.sla) or hours(event.sla)"},
	},
	{
		"after a list",
		withEdits("escalate: [{after: [3h]}]"),
		[]string{`5:13 /escalate/0/after: expected a duration such as "15m", not a list`},
	},
	{
		"after without a value",
		withEdits("escalate: [{after: }]"),
		[]string{"5:13 /escalate/0/after: the field has no value; set one or remove the field"},
	},
	{
		"at reads the state",
		withEdits("escalate: [{at: date(state.due)}]"),
		[]string{`5:17 /escalate/0/at: "state" can't be read here: a step's time is fixed when the wait begins; use recheck for what changes (at character 6)`},
	},
	{
		"at is a duration",
		withEdits("escalate: [{at: hours(3)}]"),
		[]string{"5:17 /escalate/0/at: at must be a time, not a duration; write event.placed_at or date(…)"},
	},
	{
		"at is a time of day",
		withEdits(`escalate: [{at: "09:00"}]`),
		[]string{`5:17 /escalate/0/at: "09:00" is a time of day, which only a rule with a schedule can use; write an instant such as date(event.due_at) - hours(1)`},
	},
	{
		"at is a number",
		withEdits("escalate: [{at: 9}]"),
		[]string{`5:17 /escalate/0/at: 9 is a number here, not an expression; write one that reads a field, such as event.n`},
	},
	{
		"at empty",
		withEdits(`escalate: [{at: ""}]`),
		[]string{"5:17 /escalate/0/at: the expression is empty; write one or remove the field"},
	},
	{
		"at of a calendar",
		withEdits("escalate: [{at: date(event.due), of: office}]"),
		[]string{"5:38 /escalate/0/of: of counts a span, but at is an instant; write within, or after instead of at"},
	},
	{
		"after and every",
		withEdits("escalate: [{after: 3h, every: 1h, times: 3}]"),
		[]string{"5:12 /escalate/0: after, at and every exclude each other; keep one of them"},
	},
	{
		"times without every",
		withEdits("escalate: [{after: 3h, times: 3}]"),
		[]string{"5:31 /escalate/0/times: times needs every; write every: instead of after"},
	},
	{
		"times without anything",
		withEdits("escalate: [{times: 3}]"),
		[]string{"5:12 /escalate/0/every: times needs every; write every: 24h, or remove times"},
	},
	{
		"times of at",
		withEdits("escalate: [{at: date(event.due), times: 3}]"),
		[]string{"5:41 /escalate/0/times: times needs every; write every: instead of at"},
	},
	{
		"times zero",
		withEdits("escalate: [{every: 1h, times: 0}]"),
		[]string{`5:31 /escalate/0/times: expected a whole number from 1, such as 3, not "0"`},
	},
	{
		"times too many",
		withEdits("escalate: [{every: 1m, times: 1001}]"),
		[]string{"5:31 /escalate/0/times: 1001 is not between 1 and 1000"},
	},
	{
		"turns too many",
		withEdits("escalate: [{every: 1m, times: 600}, {every: 1m, times: 600}]"),
		[]string{"5:1 /escalate: 1200 steps including repetitions, the most is 1000; lower times"},
	},
	{
		"every of zero",
		withEdits("escalate: [{after: 1h}, {every: 0s, times: 3}]"),
		[]string{"5:33 /escalate/1/every: times needs every; write every: 24h, or remove times"},
	},
	{
		"every without a unit",
		withEdits("escalate: [{after: 1h}, {every: 24, times: 3}]"),
		[]string{`5:33 /escalate/1/every: 24 has no unit; write "24s", "24m" or "24h"`},
	},
	{
		"every computed",
		withEdits("escalate: [{after: 1h}, {every: hours(event.n), times: 3}]"),
		[]string{`5:33 /escalate/1/every: "hours(event.n)" is not a duration; write a number with a unit, such as "90s", "15m", "1h30m" or "7d"`},
	},
	{
		"every beyond the horizon",
		withEdits("escalate: [{after: 1h}, {every: 1d, times: 40}]"),
		[]string{"5:33 /escalate/1/every: the last of 40 turns comes after 40d1h, which is beyond the horizon, 30d; raise guards.horizon or shorten it"},
	},
	{
		"every far beyond the horizon",
		withEdits("escalate: [{every: 9y, times: 1000}]"),
		[]string{"5:20 /escalate/0/every: the last of 1000 turns comes after more than 3650d, which is beyond the horizon, 30d; raise guards.horizon or shorten it"},
	},
	{
		"every past the next",
		withEdits("escalate: [{after: 1h}, {every: 24h, times: 3}, {after: 2d}]"),
		[]string{"5:57 /escalate/2/after: 2d is not after the step before, 3d1h; order the steps by their times"},
	},
	{
		"every of a calendar past the next",
		withEdits("escalate: [{after: 8h, of: office}, {after: 4h, of: office}]"),
		[]string{"5:45 /escalate/1/after: 4h is not after the step before, 8h; order the steps by their times"},
	},
	{
		"office hours past the next",
		withEdits("escalate: [{after: 8h, of: office}, {after: 8h}]"),
		[]string{"5:45 /escalate/1/after: 8h is not after the step before, 8h; order the steps by their times"},
	},
	{
		"calendar name",
		withEdits(`escalate: [{after: 3h, of: The Office, within: ""}]`),
		[]string{
			`5:28 /escalate/0/of: "The Office" is not a name; write 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit, such as office`,
			"5:48 /escalate/0/within: the text is empty; write one or remove the field",
		},
	},
	{
		"calendar as list",
		withEdits("escalate: [{after: 3h, within: [office]}]"),
		[]string{"5:24 /escalate/0/within: expected text, not a list"},
	},
	{
		"severity of several",
		withEdits("escalate: [{after: 1h, severity: warn}, {after: 2h, severity: [error]}]"),
		[]string{
			`5:34 /escalate/0/severity: "warn" is not a severity; write one of info, warning, error, critical`,
			"5:53 /escalate/1/severity: expected text, not a list",
		},
	},
	{
		"text of too many parts",
		withEdits(`escalate: [{after: 3h, text: "{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}{{key}}"}]`),
		[]string{"5:30 /escalate/0/text: the text has more than 64 expressions; make it shorter"},
	},
	{
		"text as number",
		withEdits("escalate: [{after: 3h, text: 5}]"),
		[]string{`5:30 /escalate/0/text: 5 is a number here, not text; quote it: "5"`},
	},
	{
		"step unknown",
		withEdits("escalate: [{afer: 3h}]"),
		[]string{
			"5:12 /escalate/0/after: the step has no time; write after, at or every, such as after: 3h",
			`5:13 /escalate/0/afer: unknown field "afer"; did you mean "after"?`,
		},
	},
	{
		"catch_up as text",
		withEdits("catch_up: skip"),
		[]string{"7:11 /catch_up: expected a mapping with the fields after, do, not text"},
	},
	{
		"catch_up do",
		withEdits("catch_up: {do: skp}"),
		[]string{`7:16 /catch_up/do: "skp" is not a value of catch_up.do; did you mean "skip"?`},
	},
	{
		"catch_up do far",
		withEdits("catch_up: {do: nothing}"),
		[]string{`7:16 /catch_up/do: "nothing" is not a value of catch_up.do; write one of run, skip, expire, all`},
	},
	{
		"catch_up below the slot",
		withEdits("catch_up: {after: 1m}"),
		[]string{"7:19 /catch_up/after: 1m is not between the slot, 15m, and 365d"},
	},
	{
		"catch_up zero",
		withEdits("catch_up: {after: 0, do: skip}"),
		[]string{"7:19 /catch_up/after: 0s is not between the slot, 15m, and 365d"},
	},
	{
		"catch_up too late",
		withEdits("catch_up: {after: 2y}"),
		[]string{"7:19 /catch_up/after: 730d is not between the slot, 15m, and 365d"},
	},
	{
		"catch_up unknown",
		withEdits("catch_up: {afer: 1h}"),
		[]string{`7:12 /catch_up/afer: unknown field "afer"; did you mean "after"?`},
	},
	{
		"early too long",
		withEdits("early: 2d"),
		[]string{"7:8 /early: 2d is not between 0 and 1d"},
	},
	{
		"early without a unit",
		withEdits("early: 30"),
		[]string{`7:8 /early: 30 has no unit; write "30s", "30m" or "30h"`},
	},
	{
		"again",
		withEdits("again: restrat"),
		[]string{`7:8 /again: "restrat" is not a value of again; did you mean "restart"?`},
	},
	{
		"again far",
		withEdits("again: no"),
		[]string{`7:8 /again: "no" is not a value of again; write one of keep, restart`},
	},
	{
		"again as number",
		withEdits("again: 1"),
		[]string{`7:8 /again: expected one of keep, restart, not a number`},
	},
	{
		"interval too long",
		withEdits("guards: {interval: 2d}"),
		[]string{"7:20 /guards/interval: 2d is not between 0 and 1d"},
	},
	{
		"jitter too long",
		withEdits("guards: {jitter: 2d}"),
		[]string{"7:18 /guards/jitter: 2d is not between 0 and 1d"},
	},
	{
		"interval without a unit",
		withEdits("guards: {interval: 30}"),
		[]string{`7:20 /guards/interval: 30 has no unit; write "30s", "30m" or "30h"`},
	},
	{
		"retries longer than a step",
		withEdits("escalate: [{after: 1h}, {after: 90m}]", "guards: {interval: 10m, attempts: 4}"),
		[]string{"7:1 /guards: 4 attempts may take 1h10m, but checks are only 30m apart; lower attempts, interval, jitter or timeout"},
	},
	{
		"retries with jitter",
		withEdits("escalate: [{after: 1h}, {every: 10m, times: 3}]", "guards: {interval: 1m, attempts: 3, jitter: 4m}"),
		[]string{"7:1 /guards: 3 attempts may take 11m, but checks are only 10m apart; lower attempts, interval, jitter or timeout"},
	},
	{
		"retries of a lookup",
		withEdits("escalate: [{after: 10s}, {after: 20s}]", "lookup: {kv: {source: shop, bucket: orders}}", "enabled: false"),
		[]string{"1:1 /guards: 3 attempts may take 17s, but checks are only 10s apart; lower attempts, interval, jitter or timeout"},
	},
	{
		"retries just as long as a step",
		withEdits("escalate: [{after: 1h}, {after: 70m}]", "guards: {interval: 10m, attempts: 2}"),
		[]string{"7:1 /guards: 2 attempts may take 10m, but checks are only 10m apart; lower attempts, interval, jitter or timeout"},
	},
	{
		"retries without end",
		withEdits("escalate: [{after: 1h}, {after: 2h}]", "guards: {interval: 1h, attempts: 100}"),
		[]string{"7:1 /guards: 100 attempts may take more than 3650d, but checks are only 1h apart; lower attempts, interval, jitter or timeout"},
	},
	{
		"max_checks for turns",
		withEdits("escalate: [{after: 1h}, {every: 24h, times: 20}]", "guards: {max_checks: 21}"),
		[]string{"7:22 /guards/max_checks: 21 checks are fewer than the 22 that the steps and the end of the hold take; write 22 or more"},
	},
	{
		"max_checks not a number",
		withEdits("guards: {max_checks: none}"),
		[]string{`7:22 /guards/max_checks: expected a whole number from 1, such as 3, not "none"`},
	},
	{
		"shape as text",
		withEdits("trigger: {event: orders.created, key: event.id, shape: text}"),
		[]string{"3:56 /trigger/shape: expected a mapping of field names to kinds, not text; write: shape: {id: text, total: number}"},
	},
	{
		"shape kind",
		withEdits("trigger: {event: orders.created, key: event.id, shape: {id: txt}}"),
		[]string{`3:61 /trigger/shape/id: "txt" is not a kind; did you mean "text"?`},
	},
	{
		"shape kind far",
		withEdits("trigger: {event: orders.created, key: event.id, shape: {id: varchar}}"),
		[]string{`3:61 /trigger/shape/id: "varchar" is not a kind; write one of text, number, boolean, time, object, list, any`},
	},
	{
		"shape kind number",
		withEdits("trigger: {event: orders.created, key: event.id, shape: {id: 5}}"),
		[]string{`3:61 /trigger/shape/id: "5" is not a kind; write one of text, number, boolean, time, object, list, any`},
	},
	{
		"shape kind nothing",
		withEdits("trigger: {event: orders.created, key: event.id, shape: {id: }}"),
		[]string{"3:57 /trigger/shape/id: the field has no value; set one or remove the field"},
	},
	{
		"shape list of two",
		withEdits("trigger: {event: orders.created, key: event.id, shape: {id: text, items: [text, number]}}"),
		[]string{"3:67 /trigger/shape/items: a list in a shape has one item, the kind of its items; write [text], or list for items of any kind"},
	},
	{
		"shape list of none",
		withEdits("trigger: {event: orders.created, key: event.id, shape: {id: text, items: []}}"),
		[]string{"3:67 /trigger/shape/items: a list in a shape has one item, the kind of its items; write [text], or list for items of any kind"},
	},
	{
		"shape nested kind",
		withEdits("trigger: {event: orders.created, key: event.id, shape: {id: text, customer: {name: tex}}}"),
		[]string{`3:84 /trigger/shape/customer/name: "tex" is not a kind; did you mean "text"?`},
	},
	{
		"shape empty",
		withEdits("trigger: {event: orders.created, key: event.id, shape: {}}"),
		[]string{"3:49 /trigger/shape: the shape is empty; remove it, or write object for an object with any fields"},
	},
	{
		"shape of an empty object",
		withEdits("trigger: {event: orders.created, key: event.id, shape: {id: text, customer: {}}}"),
		[]string{"3:67 /trigger/shape/customer: the shape is empty; remove it, or write object for an object with any fields"},
	},
	{
		"shape twice",
		withEdits(`trigger: {event: orders.created, key: event.id, shape: {id: text, "id": text}}`),
		[]string{`3:67 : not YAML: mapping key "id" already defined at [3:57]`},
	},
	{
		"field not in the shape",
		withEdits("trigger: {event: orders.created, key: event.id, if: event.totl > 0, shape: {id: text, total: number}}"),
		[]string{`3:53 /trigger/if: event.totl: its shape has no field "totl"; did you mean "total"?`},
	},
	{
		"field far from the shape",
		withEdits("trigger: {event: orders.created, key: event.nr, shape: {id: text, total: number}}"),
		[]string{`3:39 /trigger/key: event.nr: its shape has no field "nr", only id, total`},
	},
	{
		"field not in a nested shape",
		withEdits("trigger: {event: orders.created, key: event.customer.nam, shape: {customer: {name: text}}}"),
		[]string{`3:39 /trigger/key: event.customer.nam: its shape has no field "nam"; did you mean "name"?`},
	},
	{
		"field not in an item's shape",
		withEdits(`trigger: {event: orders.created, key: event.id, if: "any(event.items, .prise > 3)", shape: {id: text, items: [{price: number}]}}`),
		[]string{`3:53 /trigger/if: event.items[].prise: its shape has no field "prise"; did you mean "price"?`},
	},
	{
		"shape text with number",
		withEdits("trigger: {event: orders.created, key: event.id, if: event.total > 0, shape: {id: text, total: text}}"),
		[]string{"3:53 /trigger/if: event.total is used as a number here, but trigger.shape declares text"},
	},
	{
		"shape number with text",
		withEdits(`trigger: {event: orders.created, key: event.id, if: event.total == "0", shape: {id: text, total: number}}`),
		[]string{"3:53 /trigger/if: event.total is used as text here, but trigger.shape declares a number"},
	},
	{
		"shape boolean counted",
		withEdits("trigger: {event: orders.created, key: event.id, if: event.paid > 0, shape: {id: text, paid: boolean}}"),
		[]string{"3:53 /trigger/if: event.paid is used as a number here, but trigger.shape declares true or false"},
	},
	{
		"shape list as object",
		withEdits("trigger: {event: orders.created, key: event.items.id, shape: {items: list}}"),
		[]string{"3:39 /trigger/key: event.items is used as an object here, but trigger.shape declares a list"},
	},
	{
		"shape object as list",
		withEdits(`trigger: {event: orders.created, key: "event.customer[0]", shape: {customer: object}}`),
		[]string{"3:39 /trigger/key: event.customer is used as a list here, but trigger.shape declares an object"},
	},
	{
		"shape text as date",
		withEdits("trigger: {event: orders.created, key: event.id, shape: {id: text, due: boolean}}", "escalate: [{at: date(event.due)}]"),
		[]string{"5:17 /escalate/0/at: event.due is used as a time here, but trigger.shape declares true or false"},
	},
	{
		"shape of the state",
		withEdits("trigger: {event: orders.created, key: event.id, shape: {id: text, status: text}}", "while: state.status == 5"),
		[]string{"7:8 /while: state.status is used as a number here, but trigger.shape declares text"},
	},
	{
		"shape of the state with updates",
		withEdits("trigger: {event: orders.created, key: event.id, shape: {id: text}}", "update: {event: orders.changed, key: event.id, shape: {id: text, eta: time}}", `while: state.et == "x"`),
		[]string{`8:8 /while: state.et: its shape has no field "et"; did you mean "eta"?`},
	},
	{
		"shape differs",
		withEdits("resolve: [{event: a, key: event.id, if: event.x == 1, shape: {id: text, x: number}}, {event: a, key: event.id, shape: {id: text}}]"),
		[]string{"4:112 /resolve/1/shape: the shape differs from that of the same event at resolve[0]; declare it once"},
	},
	{
		"shape in a resolve",
		withEdits(`resolve: {event: a, key: event.id, if: event.x == "1", shape: {id: text, x: number}}`),
		[]string{"4:40 /resolve/if: event.x is used as text here, but resolve.shape declares a number"},
	},
	{
		"text here and number there",
		withEdits("trigger: {event: orders.created, key: event.id, if: event.total > 0}", `while: event.total == "none"`),
		[]string{"7:8 /while: event.total is taken for text here and for a number in trigger.if; it can't be both, so convert one side with string(), int() or float()"},
	},
	{
		"text and number at once",
		withEdits(`trigger: {event: orders.created, key: event.id, if: event.total > 0 and event.total != "none"}`),
		[]string{"3:53 /trigger/if: event.total is taken for a number and for text; it can't be both, so convert one side with string(), int() or float()"},
	},
	{
		"text here and truth there",
		withEdits(`update: {event: orders.changed, key: event.id, if: event.paid == "yes"}`, "while: not state.paid"),
		[]string{"8:8 /while: state.paid is taken for true or false here and for text in update.if; it can't be both"},
	},
	{
		"number in an item and text in another",
		withEdits(`while: any(state.items, .n > 3) and all(state.items, .n == "x")`),
		[]string{"7:8 /while: state.items[].n is taken for a number and for text; it can't be both, so convert one side with string(), int() or float()"},
	},
	{
		"list here and object there",
		withEdits(`while: state.items[0] == "x" and state.items.first == "x"`),
		[]string{"7:8 /while: state.items is taken for a list and for an object; it can't be both"},
	},
	{
		"list here and text there",
		withEdits(`while: 'any(state.items, # == "x") and state.items startsWith "y"'`),
		[]string{"7:8 /while: state.items is taken for a list and for text; it can't be both"},
	},
	{
		"state and event differ",
		withEdits("trigger: {event: orders.created, key: event.id, if: event.status == 5}", `while: state.status in ["OPEN", "NEW"]`),
		[]string{"7:8 /while: state.status is taken for text here and for a number in trigger.if; it can't be both, so convert one side with string(), int() or float()"},
	},
	{
		"the same event twice",
		withEdits(`resolve: [{event: a, key: event.id, if: event.x > 1}, {event: a, key: event.id, if: event.x == "1"}]`),
		[]string{"4:85 /resolve/1/if: event.x is taken for text here and for a number in resolve[0].if; it can't be both, so convert one side with string(), int() or float()"},
	},
	{
		"default of another kind",
		withEdits(`while: (state.n ?? "") == "x" and state.n > 3`),
		[]string{"7:8 /while: state.n is taken for text and for a number; it can't be both, so convert one side with string(), int() or float()"},
	},
	{
		"text in words and a span",
		withEdits(`while: state.sla == "gold"`, `labels: {a: "{{hours(event.sla)}}"}`),
		[]string{"8:13 /labels/a: event.sla is taken for a number here and for text in while; it can't be both, so convert one side with string(), int() or float()"},
	},
	{
		"date of text and a number",
		withEdits(`while: date(state.at) > since and state.at != "never" and state.at > 5`),
		[]string{"7:8 /while: state.at is taken for text and for a number; it can't be both, so convert one side with string(), int() or float()"},
	},
	{
		"date of a truth",
		withEdits("while: state.due and date(state.due) > since"),
		[]string{"7:8 /while: state.due is taken for a time and for true or false; it can't be both"},
	},
	{
		"constant condition of a pause without an end",
		withEdits("pause: {event: orders.held, key: event.id, if: 'true'}"),
		[]string{`7:48 /pause/if: the condition reads nothing, so it is always the same; remove the condition and name the event that ends the pause, such as until: orders.released, or compare a field that changes, such as event.status == "ON_HOLD"`},
	},
	{
		"constant condition of a pause with an end",
		withEdits("pause: {event: orders.held, key: event.id, if: 'true', until: orders.released}"),
		[]string{"7:48 /pause/if: the condition reads nothing, so it is always the same; compare a field, such as event.total > 0, or remove the condition"},
	},
	{
		"constant condition of the end of a pause",
		withEdits("pause: {event: orders.held, key: event.id, until: {event: orders.released, if: 'true'}}"),
		[]string{"7:80 /pause/until/if: the condition reads nothing, so it is always the same; compare a field, such as event.total > 0, or remove the condition"},
	},
	{
		"constant condition of a resolve by the trigger's event",
		withEdits("resolve: {event: orders.created, key: event.id, if: 'true'}"),
		[]string{"4:53 /resolve/if: the condition reads nothing, so it is always the same; compare a field, such as event.total > 0. Without a condition, each event that triggers a job would also resolve it"},
	},
	{
		"constant condition of a resolve by another event",
		withEdits("resolve: {event: orders.shipped, key: event.id, if: 'true'}"),
		[]string{"4:53 /resolve/if: the condition reads nothing, so it is always the same; compare a field, such as event.total > 0, or remove the condition"},
	},
	{
		"constant condition of an update by the trigger's event",
		withEdits("update: {event: orders.created, key: event.id, if: 'true'}"),
		[]string{"7:52 /update/if: the condition reads nothing, so it is always the same; compare a field, such as event.total > 0, or remove the condition"},
	},
	{
		"constant condition of a trigger",
		withEdits("trigger: {event: orders.created, key: event.id, if: 'true'}"),
		[]string{"3:53 /trigger/if: the condition reads nothing, so it is always the same; compare a field, such as event.total > 0, or remove the condition"},
	},
	{
		"constant condition of a heartbeat",
		withEdits("trigger: {heartbeat: {event: a, key: event.id, every: 10m, if: 'true'}}"),
		[]string{"3:64 /trigger/heartbeat/if: the condition reads nothing, so it is always the same; compare a field, such as event.total > 0, or remove the condition"},
	},
	{
		"constant condition of a schedule",
		withEdits(`trigger: {schedule: "@daily"}`, "while: 1 < 2"),
		[]string{"7:8 /while: the condition reads nothing, so it is always the same; compare a field, such as state.total > 0, or remove the condition"},
	},
	{
		"pause that ends as it begins",
		withEdits("pause: {event: orders.held, key: event.id, until: orders.held}"),
		[]string{"7:51 /pause/until/event: every event that ends the pause begins one, so the pause would never end; name another event, such as until: orders.released"},
	},
	{
		"pause that all its ends begin",
		withEdits("pause: {event: orders.*, key: event.id, until: orders.released}"),
		[]string{"7:48 /pause/until/event: every event that ends the pause begins one, so the pause would never end; name another event, such as until: orders.released"},
	},
	{
		"pause without key, with an end",
		withEdits("pause: {event: orders.held, until: orders.released}"),
		[]string{"7:1 /pause/key: the key is missing; write an expression for the entity of the event, such as key: event.id"},
	},
	{
		"step with a condition",
		withEdits("escalate: [{after: 3h, if: event.total > 5}]"),
		[]string{"5:24 /escalate/0/if: a step has a time and no condition; write the condition of the whole rule as while, beside escalate, or a time that depends on the event, such as after: hours(event.sla_hours)"},
	},
	{
		"step with a while",
		withEdits("escalate: [{after: 3h, while: event.total > 5}]"),
		[]string{`5:24 /escalate/0/while: "while" is a field of the rule, beside escalate; move it there`},
	},
	{
		"a duration of milliseconds in an expression",
		withEdits("escalate: [{at: date(event.due) - 500ms}]"),
		[]string{`5:17 /escalate/0/at: "500ms" is not a number; in an expression write duration("500ms") (at character 22)`},
	},
	{
		"a duration of two units in an expression",
		withEdits("escalate: [{at: date(event.due) + 1h30m}]"),
		[]string{`5:17 /escalate/0/at: "1h30m" is not a number; in an expression write duration("1h30m") (at character 20)`},
	},
	{
		"a duration with a fraction in an expression",
		withEdits("while: date(event.due) + 2.5h > since"),
		[]string{`7:8 /while: "2.5h" is not a number; in an expression write hours(2.5) (at character 22)`},
	},
	{
		"at is a duration as after has it",
		withEdits("escalate: [{at: 2h}]"),
		[]string{`5:17 /escalate/0/at: "2h" is a duration, but at is an instant; write after: 2h`},
	},
	{
		"at is a duration before something",
		withEdits("escalate: [{at: -1h30m}]"),
		[]string{`5:17 /escalate/0/at: "-1h30m" is a duration, but at is an instant; write one such as date(event.due_at) - duration("1h30m")`},
	},
	{
		"at is a duration of zero",
		withEdits("escalate: [{at: 0s}]"),
		[]string{`5:17 /escalate/0/at: "0s" is a duration, but at is an instant; write one such as date(event.due_at) - seconds(0)`},
	},
	{
		"at of a schedule is a duration",
		withEdits(`trigger: {schedule: "@daily"}`, "escalate: [{at: 2h}]"),
		[]string{`5:17 /escalate/0/at: "2h" is a duration, but at is a time of day; write after: 2h, or at: "09:00"`},
	},
	{
		"text without quotes",
		withEdits("while: event.status == OPEN"),
		[]string{`7:8 /while: unknown name "OPEN"; write "OPEN" for a text, or event.OPEN for a field (at character 17)`},
	},
	{
		"text without quotes in a list",
		withEdits("while: event.status in [NEW]"),
		[]string{`7:8 /while: unknown name "NEW"; write "NEW" for a text, or event.NEW for a field (at character 18)`},
	},
	{
		"text without quotes, near a function",
		withEdits("while: event.delivery == late"),
		[]string{`7:8 /while: unknown name "late"; write "late" for a text, or event.late for a field (at character 19)`},
	},
	{
		"field of a wrong name compared",
		withEdits("while: event.a == stat.b"),
		[]string{`7:8 /while: unknown name "stat"; did you mean "state"? (at character 12)`},
	},
	{
		"open quote",
		withEdits("while: event.status == 'OPEN"),
		[]string{`7:8 /while: the quote at character 17 is not closed; write ' at the end of the text, or quote the whole expression if it contains " #", where YAML begins a comment`},
	},
	{
		"open quote after others",
		withEdits(`while: event.a == "it's" and event.b == "x`),
		[]string{`7:8 /while: the quote at character 34 is not closed; write " at the end of the text, or quote the whole expression if it contains " #", where YAML begins a comment`},
	},
	{
		"open quote in a text",
		withEdits(`escalate: [{after: 3h, text: "order {{ 'OPEN }}"}]`),
		[]string{`5:30 /escalate/0/text: {{'OPEN}}: the quote at character 1 is not closed; write ' at the end of the text, or quote the whole expression if it contains " #", where YAML begins a comment`},
	},
	{
		"JSONPath",
		withEdits("trigger: {event: orders.created, key: $.order.id}"),
		[]string{`3:39 /trigger/key: unknown name "$" (at character 1); write "event.order.id" instead of "$.order.id"`},
	},
	{
		"shell variable",
		withEdits(`trigger: {event: orders.created, key: "${id}"}`),
		[]string{`3:39 /trigger/key: unexpected token Bracket("{") (at character 2); write "event.id" instead of "${id}"`},
	},
	{
		"field of a Go template",
		withEdits(`escalate: [{after: 3h, text: "order {{ .key }}"}]`),
		[]string{`5:30 /escalate/0/text: {{.key}}: unexpected token Operator(".") (at character 1); write "key" instead of ".key"`},
	},
	{
		"field of a Go template in an expression",
		withEdits("while: event.a == .id"),
		[]string{`7:8 /while: unexpected token Operator(".") (at character 12); write "event.id" instead of ".id"`},
	},
	{
		"braces in an expression",
		withEdits(`while: "{{ .key }} == {{id}}"`),
		[]string{`7:8 /while: "{{" begins an expression within a text, but the whole field is an expression; write it without braces: key == event.id`},
	},
	{
		"unequal of SQL",
		withEdits("while: event.a <> 3"),
		[]string{`7:8 /while: unexpected token Operator(">") (at character 10); write "!=" instead of "<>"`},
	},
	{
		"unequal of JavaScript",
		withEdits("while: event.a !== 3"),
		[]string{`7:8 /while: unexpected token Operator("=") (at character 11); write "!=" instead of "!=="`},
	},
	{
		"equal of JavaScript",
		withEdits("while: event.a === 3"),
		[]string{`7:8 /while: unexpected token Operator("=") (at character 11); write "==" instead of "==="`},
	},
	{
		"operator as a function",
		withEdits(`while: startswith(event.a, "x")`),
		[]string{`7:8 /while: unknown name "startswith" (at character 1); write event.a startsWith "x" instead of startswith(event.a, "x")`},
	},
	{
		"matches as a function",
		withEdits(`while: matches(event.a, "x.*")`),
		[]string{`7:8 /while: unexpected token Operator("matches") (at character 1); write event.a matches "x.*" instead of matches(event.a, "x.*")`},
	},
	{
		"contains as a function",
		withEdits(`while: contains(event.a, event.b)`),
		[]string{`7:8 /while: unexpected token Operator("contains") (at character 1); write "event.a contains event.b" instead of "contains(event.a, event.b)"`},
	},
	{
		"instant with a text",
		withEdits(`while: since > "2026-01-01"`),
		[]string{`7:8 /while: > does not apply to an instant and text; write the text as date("2026-03-02T10:00:00Z") (at character 7)`},
	},
	{
		"instant with a number",
		withEdits(`while: since + 3 > date("2026-01-01T00:00:00Z")`),
		[]string{`7:8 /while: + does not apply to an instant and a number; write the number as a duration, such as hours(3) (at character 7)`},
	},
	{
		"text with a constant",
		withEdits(`while: '"1" > 2'`),
		[]string{`7:8 /while: > does not apply to text and a number; write the number in quotes to compare texts, or remove the quotes to compare numbers (at character 5)`},
	},
	{
		"null",
		withEdits("while: event.a == null"),
		[]string{`7:8 /while: unknown name "null" (at character 12); write "nil" instead of "null"`},
	},
	{
		"is null",
		withEdits("while: event.a is null"),
		[]string{`7:8 /while: unexpected token Identifier("is") (at character 9); write "== nil" instead of "is null"`},
	},
	{
		"is not null",
		withEdits("while: event.a IS NOT NULL"),
		[]string{`7:8 /while: unexpected token Identifier("IS") (at character 9); write "!= nil" instead of "IS NOT NULL"`},
	},
	{
		"exists",
		withEdits("while: exists(event.a)"),
		[]string{`7:8 /while: unknown name "exists" (at character 1); write "event.a != nil" instead of "exists(event.a)"`},
	},
	{
		"AND",
		withEdits("while: event.a == 1 AND event.b == 2"),
		[]string{`7:8 /while: unexpected token Identifier("AND") (at character 14); write "and" instead of "AND"`},
	},
	{
		"OR",
		withEdits("while: event.a == 1 OR event.b == 2"),
		[]string{`7:8 /while: unexpected token Identifier("OR") (at character 14); write "or" instead of "OR"`},
	},
	{
		"NOT",
		withEdits("while: NOT event.a"),
		[]string{`7:8 /while: unexpected token Identifier("event") (at character 5); write "not" instead of "NOT"`},
	},
	{
		"one ampersand",
		withEdits("while: event.a == 1 & event.b == 2"),
		[]string{`7:8 /while: unexpected token Operator("&") (at character 14); write "and" instead of "&"`},
	},
	{
		"true of Python",
		withEdits("while: event.a == True"),
		[]string{`7:8 /while: unknown name "True" (at character 12); write "true" instead of "True"`},
	},
	{
		"IN",
		withEdits("while: event.a IN ['x']"),
		[]string{`7:8 /while: unexpected token Identifier("IN") (at character 9); write "in" instead of "IN"`},
	},
	{
		"list in parentheses",
		withEdits("while: event.a in ('x', 'y')"),
		[]string{`7:8 /while: unexpected token Operator(",") (at character 16); write in ['x', 'y'] instead of in ('x', 'y')`},
	},
	{
		"between",
		withEdits("while: event.a between 1 and 2"),
		[]string{`7:8 /while: unexpected token Identifier("between") (at character 9); write "event.a >= 1 and event.a <= 2" instead of "event.a between 1 and 2"`},
	},
	{
		"tilde",
		withEdits("while: event.a =~ '^x'"),
		[]string{`7:8 /while: unexpected token Operator("=") (at character 9); write "matches" instead of "=~"`},
	},
	{
		"like with a beginning",
		withEdits("while: event.a like 'ab%'"),
		[]string{`7:8 /while: unexpected token Identifier("like") (at character 9); write startsWith 'ab' instead of like 'ab%'`},
	},
	{
		"like with an end",
		withEdits("while: event.a LIKE '%ab'"),
		[]string{`7:8 /while: unexpected token Identifier("LIKE") (at character 9); write endsWith 'ab' instead of LIKE '%ab'`},
	},
	{
		"like with a part",
		withEdits("while: event.a not like '%ab%'"),
		[]string{`7:8 /while: unexpected token Identifier("like") (at character 13); write contains 'ab' instead of like '%ab%'`},
	},
	{
		"like with a pattern",
		withEdits("while: event.a like 'a_b%c'"),
		[]string{`7:8 /while: unexpected token Identifier("like") (at character 9); write "matches, contains, startsWith or endsWith" instead of "like"`},
	},
}
