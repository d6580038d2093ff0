package configfile_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/configfile"
)

// boatConfig is the content of the test files, with every kind of value.
type boatConfig struct {
	Name    string
	Crew    []string
	Afloat  bool
	Oars    int
	Watch   time.Duration
	Flag    string // the path of a file
	Key     string // a secret
	Ballast map[string]string
	Stops   []string
}

func read(text string) (boatConfig, error) {
	var b boatConfig
	err := configfile.Read([]byte(text), "harbour/boat.yaml", func(v configfile.Value) {
		fields := v.Fields("name", "crew", "afloat", "oars", "watch", "flag_file", "key_file", "ballast", "stops")
		b = boatConfig{
			Name: fields["name"].Require("paint one on").Text(), Crew: fields["crew"].Texts(), Afloat: fields["afloat"].Bool(),
			Oars: fields["oars"].Number(2, 8), Watch: fields["watch"].Duration(4*time.Hour, 12*time.Hour),
			Flag: fields["flag_file"].Path(), Key: fields["key_file"].Secret(readAnchorage), Ballast: map[string]string{},
		}
		if ballast := fields["ballast"]; ballast.Present() {
			for _, e := range ballast.Entries("what it is, and where") {
				b.Ballast[e.Name] = e.Text()
				if wrong := configfile.CheckName(e.Name); wrong != "" {
					e.ProblemAtName("%s", wrong)
				}
			}
		}
		for _, stop := range fields["stops"].List("stop") {
			b.Stops = append(b.Stops, stop.Fields("port")["port"].Require("name a port").Text())
		}
	})
	return b, err
}

// readAnchorage has a few files.
func readAnchorage(path string) ([]byte, error) {
	files := map[string]string{
		"harbour/key": " opensesame \n", "/key": "absolute", "harbour/two": "one\ntwo", "harbour/blank": "\n",
		"harbour/long": strings.Repeat("x", 8<<10+1),
	}
	if text, ok := files[path]; ok {
		return []byte(text), nil
	}
	return nil, fmt.Errorf("open %s: there is no such file", path)
}

func TestRead(t *testing.T) {
	nothing := map[string]string{}
	for text, want := range map[string]boatConfig{
		"name: Argo": {Name: "Argo", Oars: 2, Watch: 4 * time.Hour, Ballast: nothing},
		"\ufeffname: |-\r\n  Argo\r\ncrew: jason\r\nwatch: 0\r\n": {Name: "Argo", Crew: []string{"jason"}, Oars: 2, Ballast: nothing},
		`{"name": "Argo", "key_file": "/key", "flag_file": "/flag"}`: {
			Name: "Argo", Oars: 2, Watch: 4 * time.Hour, Flag: "/flag", Key: "absolute", Ballast: nothing,
		},
		"# a boat\n---\nname: Argo\ncrew: [jason, heracles]\nafloat: true\noars: 8\nwatch: 12h\nflag_file: ../flag\nkey_file: key\nballast: {lead: keel}\nstops:\n- port: Iolcus\n- {port: Colchis}\n---\n# nothing\n": {
			Name: "Argo", Crew: []string{"jason", "heracles"}, Afloat: true, Oars: 8, Watch: 12 * time.Hour, Flag: "flag", Key: "opensesame",
			Ballast: map[string]string{"lead": "keel"}, Stops: []string{"Iolcus", "Colchis"},
		},
		"name: Argo\nstops: []\nballast: {}\n#" + strings.Repeat("#", configfile.MaxSize-34): {Name: "Argo", Oars: 2, Watch: 4 * time.Hour, Ballast: nothing},
		"# no document is no boat\n": {},
		"":                           {},
	} {
		got, err := read(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%.60q: %v (-want +got)\n%s", text, err, diff)
		}
	}
}

// A missing or superfluous part of a file is reported at its place, with the remedy.
func TestAllProblemsAreReported(t *testing.T) {
	const fields = "name, crew, afloat, oars, watch, flag_file, key_file, ballast, stops"
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"no mapping", "boat\n", []string{`1:1: expected a mapping with the fields ` + fields + `, not text`}},
		{"an unknown field", "name: a\nnmae: b\nsail: c\n", []string{
			`2:1: nmae: unknown field "nmae"; did you mean "name"?`,
			`3:1: sail: unknown field "sail"; the fields here are ` + fields,
		}},
		{"an unknown field without value", "name: a\nsail:\n", []string{`2:1: sail: unknown field "sail"; the fields here are ` + fields}},
		{"a long name", "name: a\n" + strings.Repeat("x", 50) + ": b\n", []string{
			`2:1: ` + strings.Repeat("x", 39) + `…: unknown field "` + strings.Repeat("x", 39) + `…"; the fields here are ` + fields,
		}},
		{"a field twice", "name: a\nname: [b]\n", []string{`2:1: name: "name" is here twice; keep one`}},
		{"no value", "name:\noars: ~\n", []string{
			`1:1: name: the value is missing; write one, or leave the field out`,
			`2:1: oars: the value is missing; write one, or leave the field out`,
		}},
		{"an explicit key", "? name\n: a\n", []string{`1:1: a "?" key is not supported; write "name: value"`}},
		{"a merge", "name: a\n<<: {oars: 2}\n", []string{`2:1: <<: unknown field "<<"; the fields here are ` + fields}},
		{"missing", "oars: 2\n", []string{`1:1: name is missing; paint one on`}},
		{"missing in a list", "name: a\nstops:\n- {}\n- port: b\n- boat\n", []string{
			`3:3: stops[0]: port is missing; name a port`,
			`5:3: stops[2]: expected a mapping with the fields port, not text`,
		}},
		{"no list", "name: a\nstops: {port: b}\n", []string{`2:8: stops: expected a list, not a mapping; begin each stop with "- "`}},

		{"text", "name: 7\ncrew: [a, 7.5, a, '', true, *c, !x b]\n", []string{
			`1:7: name: expected text, not a number; put it in quotes`,
			`2:11: crew[1]: expected text, not a number; put it in quotes`,
			`2:16: crew[2]: "a" is here twice; keep one`,
			`2:19: crew[3]: the text has 0 bytes; write 1 to 512`,
			`2:23: crew[4]: expected text, not a boolean; put it in quotes`,
			`2:29: crew[5]: expected text, not a YAML alias; put it in quotes`,
			`2:33: crew[6]: expected text, not a YAML tag; put it in quotes`,
		}},
		{"long text", "name: " + strings.Repeat("x", 513), []string{`1:7: name: the text has 513 bytes; write 1 to 512`}},
		{"an anchor", "name: &n a\n", []string{`1:7: name: expected text, not a YAML anchor; put it in quotes`}},
		{"no texts", "name: a\ncrew: []\n", []string{`2:7: crew: the list is empty; add an entry, or leave the field out`}},
		{"a flag", "name: a\nafloat: maybe\n", []string{`2:9: afloat: expected true or false, not text`}},
		{"no number", "name: a\noars: two\n", []string{`2:7: oars: expected a whole number from 1 to 8`}},
		{"a low number", "name: a\noars: 0\n", []string{`2:7: oars: expected a whole number from 1 to 8`}},
		{"a high number", "name: a\noars: 9\n", []string{`2:7: oars: expected a whole number from 1 to 8`}},
		{"a negative number", "name: a\noars: -1\n", []string{`2:7: oars: expected a whole number from 1 to 8`}},
		{"a duration without unit", "name: a\nwatch: 30\n", []string{`2:8: watch: expected a duration with a unit, such as 30s or 5m, not a number`}},
		{"no duration", "name: a\nwatch: long\n", []string{`2:8: watch: "long" is not a duration; write a number with a unit, such as "90s", "15m", "1h30m" or "7d"`}},
		{"a long duration", "name: a\nwatch: 12h1ms\n", []string{`2:8: watch: 12h1ms is not within 0s and 12h`}},
		{"names", "name: a\nballast: {Lead: b, " + strings.Repeat("x", 64) + ": c}\n", []string{
			`2:11: ballast.Lead: "Lead" is not a name; write 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit`,
			`2:20: ballast.` + strings.Repeat("x", 39) + `…: "` + strings.Repeat("x", 39) + `…" is not a name; write 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit`,
		}},
		{"no entries", "name: a\nballast: lead\n", []string{`2:10: ballast: expected a mapping with what it is, and where, not text`}},

		{"no secret", "name: a\nkey_file: none\n", []string{`2:11: key_file: open harbour/none: there is no such file; name a file that the node can read`}},
		{"two secrets", "name: a\nkey_file: two\n", []string{`2:11: key_file: harbour/two is not a single line of up to 8192 bytes; write only the secret into it`}},
		{"a blank secret", "name: a\nkey_file: blank\n", []string{`2:11: key_file: harbour/blank is not a single line of up to 8192 bytes; write only the secret into it`}},
		{"a long secret", "name: a\nkey_file: long\n", []string{`2:11: key_file: harbour/long is not a single line of up to 8192 bytes; write only the secret into it`}},
		{"a secret in the file", "name: a\nkey_file: {value: opensesame}\n", []string{`2:11: key_file: expected text, not a mapping; put it in quotes`}},

		{"two documents", "name: a\n---\nname: b\n", []string{`3:1: the file must have one document only; remove ---`}},
		{"not YAML", "name: a: b\n", []string{`1:7: not YAML: mapping value is not allowed in this context; a value with ": " in it has to be quoted, or the indent is wrong`}},
		{"half a list", "crew: [", []string{`1:7: not YAML: sequence end token ']' not found`}},
		{"not text", "name:\n  é\xff: x\n", []string{`2:4: byte 0xff is not part of UTF-8 text; save the file as UTF-8`}},
		{"a zero byte", "name: \x00\n", []string{`1:7: byte 0x00 is not part of UTF-8 text; save the file as UTF-8`}},
		{"carriage returns", "name: |\n " + strings.Repeat("\r", 250_000), []string{`2:2: a carriage return without a line feed after it; end lines with a line feed`}},
		{"too large", strings.Repeat("#", configfile.MaxSize+1), []string{`1:1: the file is larger than the limit of 262144 bytes; make it smaller`}},
		{"too deep", strings.Repeat("[", 20_000), []string{`1:33: nested deeper than 32 levels; nothing here needs such depth`}},
		{"too deep in lists", strings.Repeat("- ", 20_000), []string{`1:65: nested deeper than 32 levels; nothing here needs such depth`}},
		{"too deep in keys", strings.Repeat("? ", 20_000), []string{`1:65: nested deeper than 32 levels; nothing here needs such depth`}},
		{"too far in", "name:\n" + strings.Repeat(" ", 200) + "a: b\n", []string{`2:201: this line is indented by more than 128 columns; nothing here needs such depth`}},
	} {
		_, err := read(c.text)
		var problems configfile.Problems
		if !errors.As(err, &problems) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var want []string
		for _, line := range c.want {
			want = append(want, "harbour/boat.yaml:"+line)
		}
		if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
		if strings.Contains(err.Error(), "opensesame") {
			t.Errorf("%s: the error contains a secret", c.name)
		}
	}
}

// The indent of a block text does not count as nesting.
func TestBlockTextIsNotDeep(t *testing.T) {
	got, err := read("name: |\n" + strings.Repeat(" ", 200) + "Argo\n")
	if err != nil || got.Name != "Argo\n" {
		t.Errorf("%q, %v", got.Name, err)
	}
}

// A problem of a part is a problem of the whole, and of nothing else.
func TestHasProblem(t *testing.T) {
	var wrong []string
	err := configfile.Read([]byte("ab: {b: [1]}\na: {b: [x]}\n"), "", func(v configfile.Value) {
		for _, e := range v.Entries("names") {
			list := e.Fields("b")["b"]
			list.Texts()
			for _, one := range []configfile.Value{e, list} {
				if one.HasProblem() {
					wrong = append(wrong, one.Field)
				}
			}
		}
		if !v.HasProblem() {
			t.Error("the whole is not wrong")
		}
	})
	if !slices.Equal(wrong, []string{"ab", "ab.b"}) || err == nil || err.Error() != "1:10: ab.b[0]: expected text, not a number; put it in quotes" {
		t.Errorf("%q are wrong: %v", wrong, err)
	}
}

// FuzzRead checks that no text crashes the process, and that every problem has a place within the text.
func FuzzRead(f *testing.F) {
	f.Add("name: Argo\ncrew: [jason, heracles]\nafloat: true\noars: 8\nwatch: 12h\nflag_file: f\nkey_file: key\nballast: {lead: keel}\nstops: [{port: a}]\n")
	f.Add("? name\n: &b [*b, <<]\n---\n- |\n  x")
	f.Add("?\n? [a]\nname: {<<: *a}\nstops:\n-\n- ? b")
	f.Add("crew: [,]\nballast: {? , a: !!null }\n\"\": ''\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, err := read(text)
		if err == nil {
			return
		}
		var problems configfile.Problems
		if !errors.As(err, &problems) || len(problems) == 0 {
			t.Fatalf("%T: %v", err, err)
		}
		for _, p := range problems {
			if p.Line < 1 || p.Line > strings.Count(text, "\n")+1 || p.Column < 1 || p.Message == "" || p.File == "" {
				t.Errorf("%+v", p)
			}
		}
	})
}

// The fields of a mapping are limited at every place; lists, comments, texts and other documents do not count.
func TestFieldsAreBounded(t *testing.T) {
	many := strings.Repeat
	for name, c := range map[string]struct {
		text string
		fits bool
	}{
		"of the document":     {many("a:\n", configfile.MaxFields+1), false},
		"as many as may be":   {many("a:\n", configfile.MaxFields), true},
		"of a field":          {"a:\n" + many("  b: 1\n", configfile.MaxFields+1), false},
		"of an item":          {"- a: 1\n" + many("  b: 1\n", configfile.MaxFields+1), false},
		"between blocks":      {many("a:\n  b: 1\n", configfile.MaxFields+1), false},
		"of several fields":   {many("a:\n"+many("  b: 1\n", configfile.MaxFields/2), 4), true},
		"of several items":    {many("- a: 1\n  b: 1\n", configfile.MaxFields), true},
		"items":               {"a:\n" + many("- b\n", 3*configfile.MaxFields), true},
		"of a text":           {"a: |\n" + many("  b: 1\n", 3*configfile.MaxFields), true},
		"comments":            {many("# a\n", 3*configfile.MaxFields) + "a: 1\n", true},
		"of other documents":  {many("---\n"+many("a: 1\n", configfile.MaxFields/2), 4), true},
		"items of a document": {many("- a: 1\n", 3*configfile.MaxFields), true},
	} {
		t.Run(name, func(t *testing.T) {
			if _, p := configfile.Tokens([]byte(c.text)); (p == nil) != c.fits {
				t.Errorf("problem: %v", p)
			}
		})
	}
}
