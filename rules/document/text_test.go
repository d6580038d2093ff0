package document

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTextsOfDocuments(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"one":                       {"# why\nname: a # here\n\nentity: b\n", []string{"# why\nname: a # here\n\nentity: b\n"}},
		"no end of the last line":   {"name: a", []string{"name: a\n"}},
		"blank lines around":        {"\n\nname: a\n\n\n", []string{"name: a\n"}},
		"Windows line ends":         {"# why\r\nname: a\r\n", []string{"# why\r\nname: a\n"}},
		"several":                   {"# a\nname: a\n---\n# b\nname: b\n---\nname: c # c\n", []string{"# a\nname: a\n", "# b\nname: b\n", "name: c # c\n"}},
		"a header first":            {"---\n# a\nname: a\n", []string{"# a\nname: a\n"}},
		"a comment before a header": {"# all\n---\nname: a\n", []string{"name: a\n"}},
		"an end":                    {"name: a\n...\n---\nname: b\n", []string{"name: a\n", "name: b\n"}},
		"on the line of its header": {"--- {name: a}\n", []string{""}},
		"a header inside of a text": {"name: a\ndescription: |\n  x\n  ---\n  y\n", []string{"name: a\ndescription: |\n  x\n  ---\n  y\n"}},
		"JSON":                      {`{"name": "a"}`, []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			parsed, _ := Read([]byte(c.text))
			var got []string
			for _, p := range parsed {
				got = append(got, p.Text)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("texts (-want +got):\n%s", diff)
			}
		})
	}
}
