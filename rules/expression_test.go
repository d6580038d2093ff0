package rules

import (
	"slices"
	"strings"
	"testing"
	"time"

	"deadman/rules/bodies"
	"deadman/rules/document"
)

const sample = `{
	"text": "UNSHIPPED", "empty": "", "null": null, "yes": true, "no": false,
	"int": 5, "float": 1.50, "long": 12345678901234567890, "beyond53": 9007199254740993, "exponent": 1e3,
	"items": [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}, {"sku": "c", "n": 3}], "tags": ["x", "y"],
	"deep": {"er": {"est": "z"}}, "at": "2026-01-01T10:00:00Z", "seconds": 1767261600, "odd name": 1
}`

func sampleScope(t testing.TB) scope {
	t.Helper()
	b := bodies.New([]byte(sample))
	return scope{
		event: b, state: b, key: "k", since: time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC), step: "primary",
		turn: 2, turns: 3, count: 4, rule: "late", wild: []string{"a", "b.c"},
	}
}

// TestConditions pins the results of conditions: + is true, - is false, anything else a part of the error. The first
// sign is for while, the second for if, if they differ.
func TestConditions(t *testing.T) {
	for source, want := range map[string][2]string{
		`event.text == "UNSHIPPED"`:                  {"+"},
		`event.text != "UNSHIPPED"`:                  {"-"},
		`event.int == 5`:                             {"+"},
		`event.int == 5.0`:                           {"+"},
		`event.float == 1.5`:                         {"+"},
		`event.exponent == 1000`:                     {"+"},
		`event.beyond53 == 9007199254740993`:         {"+"},
		`event.beyond53 == 9007199254740992`:         {"-"},
		`event.long == event.long`:                   {"+"},
		`event.long == event.int`:                    {"-"},
		`event.long == 1.5`:                          {"a long number and a number are never equal"},
		`event.long > 1`:                             {"a long number > a number"},
		`event.yes`:                                  {"+"},
		`!event.yes`:                                 {"-"},
		`event.yes and event.int > 4`:                {"+"},
		`event.no or event.int > 5`:                  {"-"},
		`event.missing`:                              {"not a missing value"},
		`event.null`:                                 {"not a missing value"},
		`!event.missing`:                             {"missing or null"},
		`event.missing and event.yes`:                {"missing or null"},
		`event.text`:                                 {"not text"},
		`event.int`:                                  {"not a number"},
		`event.missing == "x"`:                       {"missing or null", "-"},
		`event.missing != "x"`:                       {"missing or null", "+"},
		`event.null == "x"`:                          {"missing or null", "-"},
		`event.missing in ["x"]`:                     {"missing or null", "-"},
		`event.missing == nil`:                       {"+"},
		`event.text != nil`:                          {"+"},
		`(event.missing ?? "x") == "x"`:              {"+"},
		`event.missing ?? false`:                     {"-"},
		`event.missing > 5`:                          {"a missing value > a number"},
		`event.missing.deeper == 1`:                  {"missing or null"},
		`event.missing?.deeper == nil`:               {"+"},
		`event.deep.er.est == "z"`:                   {"+"},
		`event["odd name"] == 1`:                     {"+"},
		`event.int == "5"`:                           {"a number and text are never equal"},
		`"5" != event.int`:                           {"text and a number are never equal"},
		`event.yes == "true"`:                        {"true or false and text are never equal"},
		`event.int < "6"`:                            {"a number < text"},
		`event.text in ["SHIPPED", "UNSHIPPED"]`:     {"+"},
		`event.text not in ["SHIPPED", "UNSHIPPED"]`: {"-"},
		`event.int in [1, 2]`:                        {"-"},
		`event.int in ["1"]`:                         {"a number and text are never equal"},
		`event.text in [1, 2]`:                       {"text and a number are never equal"},
		`"x" in event.tags`:                          {"+"},
		`"text" in event`:                            {"+"},
		`"x" in event.missing`:                       {"missing or null"},
		`"x" in event.int`:                           {`the right side of "in" must be a list`},
		`event.items == event.tags`:                  {"a list can't be compared"},
		`event.deep == "x"`:                          {"an object can't be compared"},
		`any(event.items, .n > 2)`:                   {"+"},
		`all(event.items, .n > 2)`:                   {"-"},
		`count(event.items, .sku == "a") == 1`:       {"+"},
		`sum(event.items, .n) == 6`:                  {"+"},
		`any(event.missing, .n > 2)`:                 {"!"},
		`len(event.items) == 3`:                      {"+"},
		`event.items[1].sku == "b"`:                  {"+"},
		`event.items[9].sku == "b"`:                  {"index out of range"},
		`event.text + "!" == "UNSHIPPED!"`:           {"+"},
		`event.text + event.int == "UNSHIPPED5"`:     {`"+" joins text with text only`},
		`event.text startsWith "UN"`:                 {"+"},
		`event.text matches "^UN.*D$"`:               {"+"},
		`trim(" x ") + event.empty == "x"`:           {"+"},
		`date(event.at) == date("2026-01-01 10:00")`: {"is not an instant"},
		`date(event.at) == date(event.seconds)`:      {"+"},
		`date(event.at) + hours(1) > date(event.at)`: {"+"},
		`date(event.at) + days(0.5) == date(event.at) + duration("12h")`: {"+"},
		`date(event.at) == event.at`:                                     {"event.at is text or a number in an event, never a time; write date(event.at)"},
		`date(event.text) == date(event.at)`:                             {"is not an instant"},
		`date(event.missing) == date(event.at)`:                          {"a missing value is not an instant"},
		`date(event.int * 1000000000000) == date(1)`:                     {"milliseconds"},
		`duration(event.text) > hours(1)`:                                {"is not a duration"},
		`hours(event.text) > hours(1)`:                                   {"a number is wanted, not text"},
		`event.int % 0 == 1`:                                             {"divide by zero"},
		`int(event.text) == 1`:                                           {"invalid"},
		`(event.int > 4 ? event.text : "") != ""`:                        {"+"},
	} {
		for i, d := range []exprEnv{inWhile, inIf} {
			sign := want[i]
			if sign == "" {
				sign = want[0]
			}
			if got := evaluateText(t, source, d); !sameText(got, sign) {
				t.Errorf("%s (lenient %v): got %q, want %q", source, d.lenient, got, sign)
			}
		}
	}
}

func sameText(got, want string) bool {
	switch want {
	case "+", "-":
		return got == want
	case "!":
		return got != "+" && got != "-"
	}
	return strings.Contains(got, want)
}

// evaluateText returns the result of a condition, "+", "-" or an error.
func evaluateText(t *testing.T, source string, d exprEnv) string {
	x, err := compileExpression(source, d)
	if err != nil {
		return err.Error()
	}
	is, err := x.holds(sampleScope(t))
	switch {
	case err != nil:
		return err.Error()
	case is:
		return "+"
	}
	return "-"
}

func TestKeys(t *testing.T) {
	for _, c := range []struct{ source, body, want string }{
		{`event.id`, `{"id": "a"}`, "a"},
		{`event.id`, `{"id": 1234}`, "1234"},
		{`event.id`, `{"id": 1.50}`, "1.50"},
		{`event.id`, `{"id": 1e3}`, "1e3"},
		{`event.id`, `{"id": 9007199254740993}`, "9007199254740993"},
		{`event.id`, `{"id": 12345678901234567890123}`, "12345678901234567890123"},
		{`event.id`, `{"id": -0}`, "-0"},
		{`event.id`, `{"id": "a", "id": "b"}`, "b"},
		{`event.a + "/" + event.b`, `{"a": "x", "b": 7}`, "x/7"},
		{`string(event.id)`, `{"id": 1.50}`, "1.50"},
		{`int(event.id) % 10`, `{"id": 17}`, "7"},
		{`"all"`, ``, "all"},
		{`event.id ?? event.nr`, `{"nr": 4}`, "4"},
		{`event.id`, `{"id": "ä/ ü"}`, "ä/ ü"},
		{`event.id`, `{"id": "` + strings.Repeat("x", document.MaxKey) + `"}`, strings.Repeat("x", document.MaxKey)},

		{`event.id`, `{"id": "` + strings.Repeat("x", document.MaxKey+1) + `"}`, "! the key has 513 bytes, the most is 512"},
		{`event.id`, `{}`, "! key event.id: expected text or a number, not a missing value"},
		{`event.id`, `{"id": null}`, "! key event.id: expected text or a number, not a missing value"},
		{`event.id`, `{"id": true}`, "! key event.id: expected text or a number, not true or false"},
		{`event.id`, `{"id": {"a": 1}}`, "! key event.id: expected text or a number, not an object"},
		{`event.id`, `{"id": ""}`, "! the key is empty"},
		{`event.id`, `{"id": "a\u0000"}`, `! the key holds a NUL character ("\u0000")`},
		{`event.id`, `{"id": "\ud800"}`, "! the key holds a character that can't be read (U+FFFD)"},
		{`event.id`, `[1]`, "!"},
		{`event.id`, `"x"`, "!"},
		{`event.id`, `7`, "!"},
		{`event.id`, ``, "! the event has no body"},
		{`event.id`, `{"id": 1`, "! the body is not JSON"},
		{`event.id`, `{"id": 1} {"id": 2}`, "! the body is not JSON"},
		{`event.id`, "{\"id\": \"\xff\"}", "! the body is not UTF-8 text"},
		{`event.id`, `{"id": 1, "x": ` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, "! the body is nested deeper than 64 levels"},
		{`event.id`, `{"id": "` + strings.Repeat("x", bodies.MaxBytes) + `"}`, "! the body has 262154 bytes, the most is 262144"},
	} {
		x, err := compileExpression(c.source, inKey)
		if err != nil {
			t.Fatal(err)
		}
		got, err := x.keyOf(scope{event: bodies.New([]byte(c.body))})
		if err != nil {
			got = "! " + err.Error()
		}
		if got != c.want && !(c.want == "!" && err != nil) {
			t.Errorf("%s of %.60s: got %q, want %q", c.source, c.body, got, c.want)
		}
	}
}

// TestNumberOutOfRange checks that a number out of every range makes the body unreadable.
func TestNumberOutOfRange(t *testing.T) {
	x, err := compileExpression(`event.id > 1`, inIf)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = x.holds(scope{event: bodies.New([]byte(`{"id": 1e999}`))}); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("got %v", err)
	}
}

func TestInstants(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for source, want := range map[string]any{
		`"2026-01-02T12:00:00Z"`:           noon,
		`"2026-01-02T13:00:00+01:00"`:      noon,
		`"2026-01-02T12:00:00.0000019Z"`:   noon.Add(2 * time.Microsecond),
		`"2026-01-02T12:00:00"`:            noon,
		`"2026-01-02 12:00:00"`:            noon,
		`"2026-01-02"`:                     noon.Add(-12 * time.Hour),
		`date("2026-01-02") + hours(12)`:   noon,
		`date(event.ms / 1000)`:            noon.Add(250 * time.Millisecond),
		`"soon"`:                           "is not an instant",
		`"1969-01-01"`:                     "not between 1970 and 9999",
		`event.ms`:                         "for seconds since 1970 write date(…)",
		`date(event.ms)`:                   "milliseconds",
		`event.missing`:                    "not a missing value",
		`date("9999-12-31") + days(36500)`: "not between 1970 and 9999",
	} {
		x, err := compileExpression(source, inSince)
		var got time.Time
		if err == nil {
			got, err = x.instant(scope{event: bodies.New([]byte(`{"ms": 1767355200250}`))})
		}
		switch want := want.(type) {
		case time.Time:
			if err != nil || !got.Equal(want) || got.Location() != time.UTC {
				t.Errorf("%s: got %v, %v, want %v", source, got, err, want)
			}
		case string:
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, %v, want %q", source, got, err, want)
			}
		}
	}
}

func TestTemplates(t *testing.T) {
	for source, want := range map[string]string{
		"plain":                              "plain",
		"{{key}} waits since {{since}}":      "k waits since 2026-01-01T10:00:00Z",
		"{{ event.int * 2 }}{{event.float}}": "101.5",
		"{{event.deep}} {{event.tags}}":      `{"er":{"est":"z"}} ["x","y"]`,
		"{{event.long}}":                     "12345678901234567890",
		"{{step}}: {{event.missing}}!":       "primary: {{event.missing: missing}}!",
		"{{event.a.b}}":                      "{{event.a.b: a value is missing or null where one is needed}}",
		`{{event.text + "}}"}} }}`:           "UNSHIPPED}} }}",
		"{{hours(26)}}":                      "1d2h",
		"{{event.yes ? 'a' : 'b'}}":          "a",

		"{{job.rule}} {{job.step}} {{job.turn}}/{{job.turns}} {{job.count}}": "late primary 2/3 4",
		"{{job.since == since}} {{job.count + 1}}":                           "true 5",
	} {
		x, err := compileTemplate(source, inText)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got := x.render(sampleScope(t)); got != want {
			t.Errorf("%s: got %q, want %q", source, got, want)
		}
	}
}

// TestWildcards checks that the tokens that a subject's wildcards match can be read if the event is at hand.
func TestWildcards(t *testing.T) {
	for _, c := range []struct{ pattern, subject, source, want string }{
		{"orders.*", "orders.x", `wildcard(1)`, "x"},
		{"*.orders.*", "eu.orders.x", `wildcard(2) + "/" + wildcard(1)`, "x/eu"},
		{"orders.>", "orders.x.y.z", `wildcard(1)`, "x.y.z"},
		{"orders.*.>", "orders.x.y.z", `wildcard(1) + " " + wildcard(2)`, "x y.z"},
		{"orders.*", "orders.7", `wildcard(1) + event.id`, "75"},
	} {
		x, err := compileExpression(c.source, inKey.withSubject(c.pattern))
		if err != nil {
			t.Errorf("%s: %v", c.source, err)
			continue
		}
		if !x.wild {
			t.Errorf("%s does not say that it reads the subject", c.source)
		}
		got, err := x.keyOf(scope{event: bodies.New([]byte(`{"id": 5}`)), wild: wildcards(c.pattern, c.subject)})
		if err != nil || got != c.want {
			t.Errorf("%s of %s in %s: got %q, %v, want %q", c.source, c.subject, c.pattern, got, err, c.want)
		}
	}
	x, err := compileExpression(`wildcard(1) == "a"`, inIf.withSubject("orders.*"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.holds(scope{}); err == nil || !strings.Contains(err.Error(), "no such token") {
		t.Errorf("without a subject: %v", err)
	}
}

func TestSpans(t *testing.T) {
	for source, want := range map[string]any{
		`hours(event.int)`:                           5 * time.Hour,
		`minutes(event.float) * 2`:                   3 * time.Minute,
		`duration(event.sla)`:                        36 * time.Hour,
		`event.yes ? hours(1) : hours(2)`:            time.Hour,
		`event.missing == "x" ? hours(1) : hours(2)`: 2 * time.Hour,
		`date(event.at) - since`:                     time.Duration(0),
		`since - date(event.seconds) - hours(1)`:     -time.Hour,
		`key == "k" ? hours(1) : hours(2)`:           time.Hour,
		`hours(event.missing)`:                       "a number is wanted, not a missing value",
		`event.no ? hours(1) : nil`:                  "after event.no ? hours(1) : nil: expected a duration, not a missing value",
		`duration(event.text)`:                       "is not a duration",
	} {
		x, err := compileExpression(source, inAfter)
		var got time.Duration
		if err == nil {
			s := sampleScope(t)
			s.event = bodies.New([]byte(strings.Replace(sample, "{", `{"sla": "1d12h", `, 1)))
			got, err = x.span(s)
		}
		switch want := want.(type) {
		case time.Duration:
			if err != nil || got != want {
				t.Errorf("%s: got %s, %v, want %s", source, got, err, want)
			}
		case string:
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %s, %v, want %q", source, got, err, want)
			}
		}
	}
}

func TestRecheck(t *testing.T) {
	at := time.Date(2026, 1, 1, 10, 10, 0, 0, time.UTC)
	for source, want := range map[string]any{
		`date(state.at) + minutes(10)`:                     at,
		`state.missing == nil ? nil : date(state.missing)`: time.Time{},
		`state.missing`: time.Time{},
		`state.text`:    "is not an instant",
		`state.int`:     "recheck state.int: expected an instant as text, not a number",
	} {
		x, err := compileExpression(source, inRecheck)
		var got time.Time
		if err == nil {
			got, err = x.instantOrNone(sampleScope(t))
		}
		switch want := want.(type) {
		case time.Time:
			if err != nil || !got.Equal(want) {
				t.Errorf("%s: got %s, %v, want %s", source, got, err, want)
			}
		case string:
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %s, %v, want %q", source, got, err, want)
			}
		}
	}
}

func TestNeeds(t *testing.T) {
	for source, want := range map[string]any{
		`3`: 3, `len(state.items)`: 3, `event.int`: 5, `event.exponent`: 1000, `event.int / 5`: 1, `min(event.int, 2)`: 2,
		`event.float`:          "1.5 is not a whole number between 1 and 10000",
		`event.int - 5`:        "0 is not between 1 and 10000",
		`event.beyond53`:       "is not between 1 and 10000",
		`event.exponent * 1e9`: "is not a whole number between 1 and 10000",
		`event.text`:           "need event.text: expected a number, not text",
		`event.missing`:        "need event.missing: expected a number, not a missing value",
	} {
		x, err := compileExpression(source, inNeed)
		var got int
		if err == nil {
			got, err = x.whole(sampleScope(t))
		}
		switch want := want.(type) {
		case int:
			if err != nil || got != want {
				t.Errorf("%s: got %d, %v, want %d", source, got, err, want)
			}
		case string:
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %d, %v, want %q", source, got, err, want)
			}
		}
	}
}

// TestUses pins the kinds that an expression assumes for the fields that it reads.
func TestUses(t *testing.T) {
	for source, want := range map[string]string{
		`event.a == "x"`:                              "event object, event.a, event.a text",
		`event.a > 3`:                                 "event object, event.a, event.a number",
		`3 <= event.a`:                                "event object, event.a, event.a number",
		`event.a == event.b`:                          "event object, event.a, event.b",
		`not event.a`:                                 "event object, event.a, event.a boolean",
		`-event.a == 1`:                               "event object, event.a, event.a number",
		`event.a.b.c == true`:                         "event object, event.a, event.a object, event.a.b, event.a.b object, event.a.b.c, event.a.b.c boolean",
		`event["a b"] in ["x", 1]`:                    "event object, event.a b, event.a b number, event.a b text",
		`event.a?.b == "x"`:                           "event object, event.a, event.a object, event.a.b, event.a.b text",
		`event.a[0].b == 1`:                           "event object, event.a, event.a list, event.a[], event.a[] object, event.a[].b, event.a[].b number",
		`event.a[-1] == 1`:                            "event object, event.a, event.a list, event.a[], event.a[] number",
		`any(event.a, # > 1)`:                         "event object, event.a, event.a list, event.a[] number",
		`any(event.a, any(.b, #.c == "x"))`:           "event object, event.a, event.a list, event.a[] object, event.a[].b, event.a[].b list, event.a[].b[] object, event.a[].b[].c, event.a[].b[].c text",
		`first(event.a).b == 1`:                       "event object, event.a, event.a list, event.a[] object, event.a[].b, event.a[].b number",
		`filter(event.a, .n > 1)[0].m == "x"`:         "event object, event.a, event.a list, event.a[], event.a[] object, event.a[].m, event.a[].m text, event.a[].n, event.a[].n number",
		`sum(event.a, .n) > 1`:                        "event object, event.a, event.a list, event.a[] object, event.a[].n, event.a[].n number",
		`(event.a ?? "") == "x"`:                      "event object, event.a, event.a text",
		`(event.a ?? event.b) > 5`:                    "event object, event.a, event.a number, event.b, event.b number",
		`(event.c ? event.a : event.b) > 5`:           "event object, event.a, event.a number, event.b, event.b number, event.c, event.c boolean",
		`date(event.a) > date(event.b)`:               "event object, event.a, event.a time, event.b, event.b time",
		`event.a startsWith "x" and event.b * 2 == 4`: "event object, event.a, event.a text, event.b, event.b number",
		`string(event.a) == "x" and len(event.b) > 2`: "event object, event.a, event.b",
		`type(event.a) == "int"`:                      "event object, event.a, event.a any",
		`get(event, "a") == 1`:                        "event.a number",
		`event[event.name] == 1`:                      "event object, event.name",
		`event.a == nil`:                              "event object, event.a",
	} {
		x, err := compileExpression(source, inIf)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		var found []string
		for _, u := range x.uses {
			found = append(found, strings.TrimSpace(u.String()+" "+string(u.kind)))
		}
		slices.Sort(found)
		if got := strings.Join(slices.Compact(found), ", "); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", source, got, want)
		}
	}
}

func TestLongTextIsCut(t *testing.T) {
	x, err := compileTemplate("{{event.t}}{{event.t}}", inText)
	if err != nil {
		t.Fatal(err)
	}
	got := x.render(scope{event: bodies.New([]byte(`{"t": "` + strings.Repeat("ä", 3000) + `"}`))})
	if len(got) > maxText || !strings.HasSuffix(got, "ä…") {
		t.Errorf("%d bytes, ending in %q", len(got), got[len(got)-10:])
	}
}

// TestHostile checks that expressions that multiply on the event are stopped soon: in a tenth of a second, or a few
// under the race detector. Without a bound these run for minutes to ages.
func TestHostile(t *testing.T) {
	list := `{"l": [` + strings.Repeat("1,", 100_000) + `1], "s": "x"}`
	text := `{"l": [` + strings.Repeat(`"x",`, 20_000) + `"x"], "s": "` + strings.Repeat("y", 100_000) + `"}`
	for _, c := range []struct{ source, body string }{
		{`any(event.l, any(event.l, # == 2))`, list},
		{`all(event.l, all(event.l, all(event.l, # == 1)))`, list},
		{`any(event.l, # + 7 in event.l)`, list},
		{`any(event.l, event.s contains #)`, text},
		{`any(event.l, event.s matches "(y+)+z")`, text},
		{`any(event.l, len(event.s) == 3)`, text},
		{`any(event.l, lower(event.s) == #)`, text},
		{`len(map(event.l, map(event.l, #))) > 0`, list},
		{`len(split(event.s, "")) > 0 and len(map(event.l, split(event.s, ""))) > 0`, text},
		{`event.s + event.s == ""`, text},
		{`count(map(event.l, event.l), any(#, # == 2)) > 0`, list},
	} {
		x, err := compileExpression(c.source, inWhile)
		if err != nil {
			t.Errorf("%s: %v", c.source, err)
			continue
		}
		b := bodies.New([]byte(c.body))
		begin := time.Now()
		_, err = x.holds(scope{event: b})
		if took := time.Since(begin); took > 30*time.Second {
			t.Errorf("%s took %s (%v)", c.source, took, err)
		}
		if err == nil {
			t.Errorf("%s came to an end", c.source)
		}
	}
}

// TestManyRoutes checks that a value that may come from many fields is not followed to all of them.
func TestManyRoutes(t *testing.T) {
	const levels = 16
	source := "any(event.a, " + strings.Repeat("any(event.z ? #.x : #.y, ", levels) + "true" + strings.Repeat(")", levels+1)
	x, err := compileExpression(source, inWhile)
	if err != nil {
		t.Fatal(err)
	}
	if len(x.uses) > maxUses*maxNodes {
		t.Errorf("it has %d uses", len(x.uses))
	}
}

// TestHostileSource checks that a source too deep or too long for the compiler is refused before it.
func TestHostileSource(t *testing.T) {
	for _, source := range []string{
		strings.Repeat("(", 1_000_000), strings.Repeat("[", 4000), strings.Repeat("-", 4000) + "1",
		strings.Repeat("not ", 1000) + "event.a", strings.Repeat("!", 4000) + "event.a",
		strings.Repeat("event.a?event.b:", 250) + "event.c", "event" + strings.Repeat(".a", 2000),
		strings.Repeat("1+", 2000) + "1", "event.a matches '" + strings.Repeat("(a{100}){100}", 5) + "'",
		strings.Repeat("any(event.a, ", 30) + "true" + strings.Repeat(")", 30), "\xff", "\x00", "event.a == `",
		strings.Repeat("{a:", 30), "#", ".", "event.", "event..a", "$", "event | any", "let", "if", "{", "]", "event[", "1..", "any(", "any(event)",
	} {
		begin := time.Now()
		if _, err := compileExpression(source, inWhile); err == nil && !strings.HasPrefix(source, "any(event.a") {
			t.Errorf("%.40q compiled", source)
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("%.40q took %s", source, took)
		}
	}
}
