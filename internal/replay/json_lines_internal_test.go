package replay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Parts of lines, and of lines that are nearly events.
var (
	lineNames  = []string{"subject", "time", "data", "id", "", "Subject", "DATA", `\u0064ata`, "specversion", "type", "data_base64", "\u017fubject", "é"}
	lineValues = []string{
		`"orders.created"`, `"2026-03-02T10:00:00Z"`, `"2026-03-02T10:00:00.1234567+02:00"`, `"2026-03-02T10:00:00"`, `"2026-13-02T10:00:00Z"`, `"0001-01-01T00:00:00Z"`,
		`{"id": "1"}`, `{"id":1.5e3,"list":[true,false,null]}`, "null", "1", `""`, `"a\u002eb"`, `"é"`, "\"\xff\"", `"eyJpZCI6IDF9"`, `"1.0"`, "{}", "[]", "{", `"`, "\"a\tb\"", "01",
	}
)

// A line in the usual form is parsed as any other line is.
func TestParsePlainAgreesWithParseLine(t *testing.T) {
	plain := 0
	rapid.Check(t, func(t *rapid.T) {
		line := `{"subject": "orders.created", "time": "2026-03-02T10:00:00Z"`
		if rapid.Bool().Draw(t, "without") {
			line = "{" + `"first":0`
		}
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			space := rapid.SampledFrom([]string{"", " ", "\t", "\v"}).Draw(t, "space")
			line += fmt.Sprintf(`,"%s"%s:%s%s`, rapid.SampledFrom(lineNames).Draw(t, "name"), space, space, rapid.SampledFrom(lineValues).Draw(t, "value"))
		}
		line += rapid.SampledFrom([]string{"}", "}", "}", "", "}}", ",}"}).Draw(t, "end")
		got, ok := NewJSONLines(strings.NewReader("")).parsePlain([]byte(line))
		if !ok {
			return
		}
		plain++
		want, err := parseLine([]byte(line))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("%s: %v (-parseLine +parsePlain):\n%s", line, err, diff)
		}
	})
	if plain == 0 {
		t.Error("no line has the usual form")
	}
	for _, line := range []string{`{"subject":"a.b","time":"2026-03-02T10:00:00Z","data":{"id":"1"}}`, `{"id":"1","time":"2026-03-02T10:00:00+01:00", "data":null,"subject":"a"}`} {
		if _, ok := NewJSONLines(strings.NewReader("")).parsePlain([]byte(line)); !ok {
			t.Errorf("%s has the usual form and is parsed the slow way", line)
		}
	}
}
