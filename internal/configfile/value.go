package configfile

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
	"github.com/prometheus/common/model"
)

// Value is a value of a file with its place. A value that is missing, or whose problem was reported, is empty: reading
// it returns the zero value without a further problem.
type Value struct {
	Name  string // of a mapping entry
	Field string // such as "routes[2].to"; empty: the file as a whole

	node ast.Node     // nil: no value
	key  ast.Node     // nil: not in a mapping
	at   *token.Token // first token, including the name
	file *openFile    // nil: problems are ignored
}

// Problem reports a problem with its remedy at the value.
func (v Value) Problem(format string, args ...any) {
	if v.node != nil {
		v.file.problem(start(v.node), v.Field, format, args...)
	}
}

// ProblemAtName reports a problem at the name of v.
func (v Value) ProblemAtName(format string, args ...any) {
	if v.file != nil {
		v.file.problem(v.at, v.Field, format, args...)
	}
}

// HasProblem reports whether v or a part of it has a problem.
func (v Value) HasProblem() bool {
	if v.file == nil {
		return true
	}
	for _, p := range v.file.problems {
		below, ok := strings.CutPrefix(p.Field, v.Field)
		if ok && (v.Field == "" || below == "" || below[0] == '.' || below[0] == '[') {
			return true
		}
	}
	return false
}

// Present reports whether v has a value.
func (v Value) Present() bool { return v.node != nil }

// Line returns the line of v in the file, from 1; 0: v is not in a file.
func (v Value) Line() int {
	if v.at == nil {
		return 0
	}
	return v.at.Position.Line
}

// Require returns v and reports a problem if it is missing; remedy tells the author what to write.
func (v Value) Require(remedy string) Value {
	if v.node == nil && v.file != nil {
		v.file.problem(v.at, v.Field, "%s is missing; %s", v.Name, remedy)
	}
	return v
}

// Key returns the name of v as a value with its place.
func (v Value) Key() Value {
	if v.key != nil {
		v.node = v.key
	}
	return v
}

// Kind returns the kind of v for messages: "a number".
func (v Value) Kind() string {
	switch n := v.node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode, *ast.LiteralNode:
		return "text"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.BoolNode:
		return "a boolean"
	case nil, *ast.NullNode:
		return "no value"
	default:
		return "a YAML " + n.Type().YAMLName()
	}
}

// IsMapping reports whether v is a mapping.
func (v Value) IsMapping() bool {
	_, ok := mapping(v.node)
	return ok
}

// Empty reports whether v is an empty list or mapping.
func (v Value) Empty() bool {
	values, mapping := mapping(v.node)
	list, ok := v.node.(*ast.SequenceNode)
	return mapping && len(values) == 0 || ok && len(list.Values) == 0
}

// List returns the items of v, which must be a list; what names an item in a problem.
func (v Value) List(what string) []Value {
	if _, ok := v.node.(*ast.SequenceNode); v.node != nil && !ok {
		v.Problem(`expected a list, not %s; begin each %s with "- "`, v.Kind(), what)
		return nil
	}
	return v.items()
}

// OneOrList returns the items of v, at least one; a single value is its only item.
func (v Value) OneOrList() []Value {
	if _, ok := v.node.(*ast.SequenceNode); v.node != nil && !ok {
		return []Value{v}
	}
	if v.Empty() {
		v.Problem("the list is empty; add an entry, or leave the field out")
	}
	return v.items()
}

func (v Value) items() []Value {
	list, ok := v.node.(*ast.SequenceNode)
	if !ok {
		return nil
	}
	items := make([]Value, len(list.Values))
	for i, n := range list.Values {
		items[i] = Value{Field: fmt.Sprintf("%s[%d]", v.Field, i), node: n, at: start(n), file: v.file}
	}
	return items
}

// Fields returns the values of a mapping by field name. Any other field is a problem. A missing field reads as an empty
// Value; use Require for required fields.
func (v Value) Fields(names ...string) map[string]Value {
	entries, ok := v.entries("the fields " + strings.Join(names, ", "))
	if !ok {
		return nil
	}
	fields := make(map[string]Value, len(names))
	for _, name := range names {
		fields[name] = Value{Name: name, Field: v.Field, at: v.at, file: v.file}
	}
	for _, e := range entries {
		if !slices.Contains(names, e.Name) {
			e.ProblemAtName("%s", UnknownName("field", e.Name, names))
			continue
		}
		fields[e.Name] = e.filled()
	}
	return fields
}

// Entries returns the entries of a mapping whose names are chosen by the author of the file. what names them in a
// problem: "a name for each channel".
func (v Value) Entries(what string) []Value {
	entries, _ := v.entries(what)
	var filled []Value
	for _, e := range entries {
		if e = e.filled(); e.Present() {
			filled = append(filled, e)
		}
	}
	return filled
}

// entries returns the entries of a mapping. A duplicate name is a problem.
func (v Value) entries(what string) (entries []Value, ok bool) {
	values, ok := mapping(v.node)
	if !ok {
		v.Problem("expected a mapping with %s, not %s", what, v.Kind())
		return nil, false
	}
	seen := make(map[string]bool)
	for _, n := range values {
		e := v.entry(n)
		if seen[e.Name] {
			e.ProblemAtName("%q is here twice; keep one", Truncate(e.Name, quoted))
			continue
		}
		seen[e.Name] = true
		entries = append(entries, e)
	}
	return entries, true
}

func (v Value) entry(n *ast.MappingValueNode) Value {
	key := n.Key.GetToken()
	if k, explicit := n.Key.(*ast.MappingKeyNode); explicit {
		v.file.problem(key, v.Field, `a "?" key is not supported; write "name: value"`)
		if k.Value == nil {
			return Value{}
		}
		return Value{Name: k.Value.GetToken().Value}
	}
	field := strings.TrimPrefix(v.Field+"."+Truncate(key.Value, quoted), ".")
	return Value{Name: key.Value, Field: field, node: n.Value, key: n.Key, at: key, file: v.file}
}

// filled returns v, or an empty Value if the file has no value there.
func (v Value) filled() Value {
	if _, null := v.node.(*ast.NullNode); null {
		v.ProblemAtName("the value is missing; write one, or leave the field out")
		return Value{}
	}
	return v
}

// RawText returns v as text of any length. The caller reports problems.
func (v Value) RawText() (text string, ok bool) {
	switch n := v.node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

// Text returns v as text of 1 to 512 bytes.
func (v Value) Text() string {
	text, ok := v.RawText()
	switch {
	case !ok:
		v.Problem("expected text, not %s; put it in quotes", v.Kind())
	case text == "" || len(text) > maxText:
		v.Problem("the text has %d bytes; write 1 to %d", len(text), maxText)
		return ""
	}
	return text
}

// Texts returns the texts of a list without duplicates; a single text needs no list.
func (v Value) Texts() []string {
	var texts []string
	for _, item := range v.OneOrList() {
		text := item.Text()
		if text != "" && slices.Contains(texts, text) {
			item.Problem("%q is here twice; keep one", text)
		}
		texts = append(texts, text)
	}
	return texts
}

// Bool returns v as a boolean.
func (v Value) Bool() bool {
	n, ok := v.node.(*ast.BoolNode)
	if !ok {
		v.Problem("expected true or false, not %s", v.Kind())
		return false
	}
	return n.Value
}

// Number returns v as a whole number from 1 to limit; otherwise is the default.
func (v Value) Number(otherwise, limit int) int {
	if n, ok := v.node.(*ast.IntegerNode); ok {
		if number, ok := n.Value.(uint64); ok && number >= 1 && number <= uint64(limit) {
			return int(number)
		}
	}
	v.Problem("expected a whole number from 1 to %d", limit)
	return otherwise
}

// Duration returns v as a duration up to limit; otherwise is the default.
func (v Value) Duration(otherwise, limit time.Duration) time.Duration {
	if n, ok := v.node.(*ast.IntegerNode); ok && n.Value == uint64(0) {
		return 0
	}
	text, ok := v.RawText()
	if !ok {
		v.Problem("expected a duration with a unit, such as 30s or 5m, not %s", v.Kind())
		return otherwise
	}
	d, err := ParseDuration(text)
	switch {
	case err != nil:
		v.Problem("%v", err)
	case d > limit:
		v.Problem("%s is not within 0s and %s", text, model.Duration(limit))
	default:
		return d
	}
	return otherwise
}

// Path returns v as a path, relative to the folder of the file.
func (v Value) Path() string {
	path := v.Text()
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(v.file.name), path)
}

// maxSecret is the maximum size of a secret in bytes.
const maxSecret = 8 << 10

// Secret returns the contents of the file named by v, without surrounding white space: a secret is never part of the
// file itself. read is operatorfiles.Read or similar.
func (v Value) Secret(read func(path string) ([]byte, error)) string {
	path := v.Path()
	if path == "" {
		return ""
	}
	data, err := read(path)
	secret := strings.TrimSpace(string(data))
	switch {
	case err != nil:
		v.Problem("%v; name a file that the node can read", err)
		return ""
	case secret == "" || len(secret) > maxSecret || strings.ContainsAny(secret, "\n\x00"):
		v.Problem("%s is not a single line of up to %d bytes; write only the secret into it", path, maxSecret)
		return ""
	}
	return secret
}

// Variable returns the environment variable named by v, without surrounding white space. env is os.Getenv or similar.
func (v Value) Variable(env func(name string) string) string {
	name := v.Text()
	if name == "" {
		return ""
	}
	value := strings.TrimSpace(env(name))
	switch {
	case value == "":
		v.Problem("%s is not set in the environment of the node; set it before the node starts", name)
		return ""
	case len(value) > maxSecret || strings.ContainsAny(value, "\n\x00"):
		v.Problem("%s is not a single line of up to %d bytes; set it to only the secret", name, maxSecret)
		return ""
	}
	return value
}

// Certificates returns the contents of the file named by v: CA certificates in PEM. read is operatorfiles.Read or similar.
func (v Value) Certificates(read func(path string) ([]byte, error)) []byte {
	path := v.Path()
	if path == "" {
		return nil
	}
	data, err := read(path)
	switch {
	case err != nil:
		v.Problem("%v; name a file that the node can read", err)
	case !x509.NewCertPool().AppendCertsFromPEM(data):
		v.Problem("%s has no certificate; write the CA certificates of the service into it, as PEM", path)
	}
	return data
}

// JSON returns v as JSON, with its fields in order and the digits of its numbers as they are written; nil: no value.
func (v Value) JSON() json.RawMessage {
	if v.node == nil {
		return nil
	}
	var w jsonWriter
	w.value(v)
	return w.text
}

// start returns the first token of a value.
func start(n ast.Node) *token.Token {
	if values, ok := mapping(n); ok && len(values) > 0 && n.GetToken().Type != token.MappingStartType {
		return values[0].Key.GetToken()
	}
	return n.GetToken()
}

// mapping returns the entries of a mapping.
func mapping(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}
