package faults_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// hostile draws rules and events designed to exhaust a node's memory and time.
type hostile struct {
	random *rand.Rand
	beyond bool // the current rule exceeds the limits of patterns
}

func newHostile(seed, of uint64) *hostile { return &hostile{random: rand.New(rand.NewPCG(seed, of))} }

func (h *hostile) pick(all ...string) string { return all[h.random.IntN(len(all))] }

func (h *hostile) upTo(n int) int { return h.random.IntN(n + 1) }

// subject returns one of the few subjects of the rules.
func (h *hostile) subject() string { return fmt.Sprintf("acme.s%d", h.random.IntN(3)) }

// pattern returns an expensive regular expression: by its text or by its size.
func (h *hostile) pattern() string {
	if h.beyond {
		one := h.pick("x{0,1000}[yw]", "(x{0,30}y?){0,30}", "((x{10}){10}){10}", `(\\PL?){50}`, "x{0,100}")
		return strings.Repeat(one, 1+h.upTo(40)) + h.pick("z", "$", "", "(")
	}
	return strings.Repeat(h.pick("(x+x+)+", "x{0,50}", "(x{0,30}y?){0,3}", `\\PL?`, `[\\pL\\pN]`, "(?i)[a-z]{0,20}", ".*x", "(a|b|c|d)*"), 1+h.upTo(1)) + h.pick("z", "$", "")
}

// expression returns an expensive expression for a field of a rule.
func (h *hostile) expression(place string) string {
	list := h.pick("event.list", "event.nested", "values(event)", "values(event.map)", "[event.t, 2, 3, event.s, 5, event.id, 7, 8, 9]")
	made := h.pick(
		"# == 1", "event.s == event.t", "upper(event.s) == event.t", `event.s matches "`+h.pattern()+`"`, "any("+list+", # == 2)",
		"event.s in event.list", "len(string(event)) > 1", "len(map(event.list, event.s + event.t)) > 1", `trim(event.s) == ""`,
		"count(event.list, any(event.list, # == 3)) > 1", "len(split(event.s, event.t)) > 1", "max(event.list) == 1", "event.s < event.t",
		"len(string(map(event.list, event.s))) > 3", "len(filter(values(event), string(#) == event.s)) > 1",
	)
	switch place {
	case "if", "while":
		return h.pick("count("+list+", "+made+") > 1", "any("+list+", "+made+")", `event.s matches "`+h.pattern()+`"`,
			`event.s matches "`+h.pattern()+`" or event.t matches "`+h.pattern()+`"`, "len(map("+list+", event.s + event.t)) > 0")
	case "key":
		return h.pick("event.id", "string(event.id)", "event.s", "event.id + event.id")
	case "after":
		return h.pick("hours(count("+list+", "+made+"))", "seconds(1 + len(event.list))", "minutes(len(event.s))")
	}
	return h.pick("map("+list+", event.s)", "event", "string(event)", "map("+list+", map("+list+", event.s + event.t))", "event.s + event.t", "state", "count("+list+", "+made+")")
}

func (h *hostile) watches(n int) []any {
	var all []any
	for range n {
		w := map[string]any{"event": h.pick(h.subject(), "acme.*"), "key": h.expression("key"), "if": h.expression("if")}
		all = append(all, w)
	}
	return all
}

// template returns a template of up to most bytes.
func (h *hostile) template(limit int) string {
	text := "{{event.id}}"
	for range h.upTo(h.random.IntN(60)) {
		if one := "{{" + h.expression("text") + "}}"; len(text)+len(one) <= limit {
			text += one
		}
	}
	return text
}

// rule returns a rule with one of a few names. Some rules are invalid.
func (h *hostile) rule() map[string]any {
	h.beyond = h.random.IntN(5) == 0
	trigger := map[string]any{"event": h.pick(h.subject(), "acme.>"), "key": h.expression("key")}
	if h.random.IntN(2) == 0 {
		trigger["if"] = h.expression("if")
	}
	step := map[string]any{"text": h.template(4 << 10), "severity": "info"}
	if h.random.IntN(3) == 0 {
		step["every"], step["times"] = "1s", 1+h.upTo(900)
	} else {
		step["after"] = h.pick("1s", "1m", h.expression("after"))
	}
	labels := map[string]any{}
	for i := range h.upTo(h.random.IntN(33)) {
		labels[fmt.Sprintf("l%d", i)] = h.template(256)
	}
	rule := map[string]any{
		"name": fmt.Sprintf("acme-%d", h.random.IntN(8)), "entity": "spy", "trigger": trigger, "slot": "1s", "hold": "0s",
		"escalate": []any{step}, "labels": labels, "guards": map[string]any{"max_checks": 1000},
	}
	for _, field := range []string{"update", "resolve"} {
		if n := h.upTo(h.random.IntN(33)); n > 0 {
			rule[field] = h.watches(n)
		}
	}
	if h.random.IntN(2) == 0 {
		rule["while"] = h.expression("while")
	}
	if h.random.IntN(3) == 0 {
		rule["again"] = "restart"
	}
	return rule
}

// text returns a rules file, or another text that is expensive to parse.
func (h *hostile) text() []byte {
	switch h.random.IntN(6) {
	case 0:
		return []byte(strings.Repeat(h.pick("[", "{\"a\":", "- ", "? a\n", "a: 1\n", "--- a\n", "&a [*a,", "k: |\n "), 1+h.upTo(60_000)))
	case 1: // many rules
		var all []string
		for range 1 + h.upTo(20) {
			if text, err := json.Marshal(h.rule()); err == nil {
				all = append(all, string(text))
			}
		}
		return []byte(strings.Join(all, "\n---\n"))
	}
	text, err := json.Marshal(h.rule())
	if err != nil {
		return nil
	}
	return text
}

// value returns the body of an event, up to about most bytes.
func (h *hostile) value(limit int) map[string]any {
	half := max(1, h.upTo(limit)/2)
	v := map[string]any{"id": fmt.Sprint(h.random.IntN(50)), "s": "x", "t": "x", "list": []int{1, 2, 3}, "map": map[string]int{}, "nested": [][]int{{1}}}
	switch h.random.IntN(6) {
	case 0:
		v["s"], v["t"] = strings.Repeat(h.pick("x", " ", "y"), half), strings.Repeat("x", half)
	case 1:
		v["list"] = make([]int, half)
	case 2:
		v["list"] = make([]struct{}, half*2/3)
	case 3:
		fields := make(map[string]int)
		for i := range half / 8 {
			fields[fmt.Sprint(i)] = i
		}
		v["map"] = fields
	case 4:
		nested := make([][]int, half/2)
		for i := range nested {
			nested[i] = []int{}
		}
		v["nested"], v["list"] = nested, nested
	case 5:
		v["list"], v["s"] = make([]int, half/2), strings.Repeat("x", half)
	}
	return v
}

// body returns an encoded event. Some are not readable by a rule.
func (h *hostile) body() []byte {
	switch h.random.IntN(8) {
	case 0:
		return []byte(strings.Repeat("[", 1+h.upTo(100_000)))
	case 1:
		return []byte(`{"id": ` + strings.Repeat("9", 1+h.upTo(200_000)) + `}`)
	}
	text, err := json.Marshal(h.value(250_000))
	if err != nil {
		return nil
	}
	return text
}
