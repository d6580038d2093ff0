package hooks

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Bounds of a file of hooks.
const (
	MaxSize  = 64 << 10 // bytes
	MaxHooks = 100
)

// Problem is one thing that is wrong with a file of hooks.
type Problem struct {
	File         string
	Line, Column int // from 1
	Message      string
}

func (p Problem) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
}

// Problems is all that is wrong, in the order of the file. It is an error.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Parse reads a file of hooks, in YAML; file is its name. The secrets are elsewhere: see
// Hook.Keep. The error is Problems and holds all of them, unless the file is not YAML at all:
// then the first place where it is not.
func Parse(data []byte, file string) (Set, error) {
	r := reader{file: file, set: make(Set)}
	if len(data) > MaxSize {
		return nil, Problems{{file, 1, 1, fmt.Sprintf("the file has %d bytes, and the limit is %d", len(data), MaxSize)}}
	}
	parsed, err := parser.ParseBytes(bytes.TrimPrefix(data, []byte("\ufeff")), 0)
	if err != nil {
		return nil, Problems{r.unreadable(err)}
	}
	for i, d := range parsed.Docs {
		if i > 0 {
			r.problem(d, "the file holds one document; write it without ---")
		} else if d.Body != nil {
			r.document(d.Body)
		}
	}
	if len(r.problems) > 0 {
		slices.SortStableFunc(r.problems, func(a, b Problem) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
		return nil, r.problems
	}
	return r.set, nil
}

// reader notes what is wrong while it reads.
type reader struct {
	file     string
	set      Set
	problems Problems
}

func (r *reader) problem(n ast.Node, format string, args ...any) {
	p := Problem{File: r.file, Line: 1, Column: 1, Message: fmt.Sprintf(format, args...)}
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 {
		n = m.Values[0].Key
	}
	if tk := n.GetToken(); tk != nil {
		p.Line, p.Column = tk.Position.Line, tk.Position.Column
	}
	r.problems = append(r.problems, p)
}

func (r *reader) unreadable(err error) Problem {
	var syntax yaml.Error
	if errors.As(err, &syntax) && syntax.GetToken() != nil {
		at := syntax.GetToken().Position
		return Problem{r.file, at.Line, at.Column, "not YAML: " + syntax.GetMessage()}
	}
	return Problem{r.file, 1, 1, "not YAML: " + err.Error()}
}

// fields are the values of a mapping by their names, of which only some are known.
func (r *reader) fields(n ast.Node, known ...string) map[string]ast.Node {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		r.problem(n, "expected the fields %s", strings.Join(known, ", "))
		return nil
	}
	found := make(map[string]ast.Node)
	for _, v := range values {
		name := v.Key.GetToken().Value
		if slices.Contains(known, name) {
			found[name] = v.Value
			continue
		}
		r.problem(v.Key, "unknown field %q; the fields here are %s", name, strings.Join(known, ", "))
	}
	return found
}

func (r *reader) document(n ast.Node) {
	list := r.fields(n, "hooks")["hooks"]
	if list == nil {
		return
	}
	sequence, ok := list.(*ast.SequenceNode)
	switch {
	case !ok:
		r.problem(list, "hooks is a list; begin each with a dash")
	case len(sequence.Values) > MaxHooks:
		r.problem(list, "there are %d hooks, and the limit is %d", len(sequence.Values), MaxHooks)
	default:
		for _, one := range sequence.Values {
			r.hook(one)
		}
	}
}

var hookName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// hook reads one hook. That anybody is believed has to be said in so many words.
func (r *reader) hook(n ast.Node) {
	fields := r.fields(n, "name", "subject", "scheme", "secret_file")
	if fields == nil {
		return
	}
	h := &Hook{
		Name: r.text(n, fields, "name"), Subject: r.text(n, fields, "subject"), Scheme: Scheme(r.text(n, fields, "scheme")),
	}
	if h.Name != "" && !hookName.MatchString(h.Name) {
		r.problem(fields["name"], "%q is not a name; write 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit", h.Name)
	}
	if r.set[h.Name] != nil {
		r.problem(fields["name"], "there are two hooks %s; names are different", h.Name)
	}
	if why := wrongSubject(h.Subject); h.Subject != "" && why != "" {
		r.problem(fields["subject"], "%q cannot be published on: %s", h.Subject, why)
	}
	if h.Scheme != "" && provers[h.Scheme] == nil {
		r.problem(fields["scheme"], "there is no scheme %q; write stripe, github, standard or none", h.Scheme)
	}
	switch file := fields["secret_file"]; {
	case h.Scheme != None:
		h.SecretFile = r.text(n, fields, "secret_file")
	case file != nil:
		r.problem(file, "the scheme none has no secret; leave secret_file out, or name another scheme")
	}
	r.set[h.Name] = h
}

// text is a field that has to be there.
func (r *reader) text(n ast.Node, fields map[string]ast.Node, name string) string {
	value := fields[name]
	if value == nil {
		r.problem(n, "%s is missing", name)
		return ""
	}
	text, ok := value.(*ast.StringNode)
	if !ok || text.Value == "" {
		r.problem(value, "%s is not a text", name)
		return ""
	}
	return text.Value
}

// wrongSubject says why nothing can be published on a subject, or "".
func wrongSubject(subject string) string {
	const longest = 512
	switch head, _, _ := strings.Cut(subject, "."); {
	case len(subject) > longest:
		return fmt.Sprintf("it has %d bytes, and the limit is %d", len(subject), longest)
	case strings.HasPrefix(head, "$") || head == "_INBOX" || head == "deadman":
		return "subjects that begin so are not for events"
	case strings.ContainsFunc(subject, func(c rune) bool { return c <= ' ' || c == 0x7f }):
		return "it has a space or a control character"
	}
	for part := range strings.SplitSeq(subject, ".") {
		switch part {
		case "":
			return "a part between its dots is empty"
		case "*", ">":
			return "it is a wildcard; name one subject"
		}
	}
	return ""
}
