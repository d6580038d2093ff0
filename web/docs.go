package web

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed docs.html
var docsHTML string

// apiDocsPath is the address of the API's page.
const apiDocsPath = ManualPath + "/api"

var docsTemplate = template.Must(template.New("docs").Parse(docsHTML))

// docsView is the data of the API's page. All of it comes from the OpenAPI description.
type docsView struct {
	Title   string
	Version string
	About   []string // paragraphs
	Parts   []docsPart
	Kinds   any
	Shapes  []docsShape
}

// docsPart is the operations of one tag.
type docsPart struct {
	*huma.Tag
	Operations []docsOperation
}

type docsOperation struct {
	*huma.Operation
	Scope     string
	Params    []docsField
	Body      string // an example; empty if the operation takes no body
	BodyTypes []docsType
	Answers   []docsAnswer
	Curl      string
}

type docsField struct {
	Name, In, Description string
	Type                  docsType
	Required              bool
	Values                string // permitted values; empty if any value of the type is
}

// docsType is a type as text, and the schema that it links to.
type docsType struct{ Text, Shape string }

type docsAnswer struct {
	Status, Description string
	Types               []docsType
}

type docsShape struct {
	Name, Description string
	Fields            []docsField
}

// docsPage serves the description of the API as a page.
type docsPage struct {
	*operations
}

// docs serves the API's description as a page that needs no network and no script.
func (a *docsPage) docs(w http.ResponseWriter, r *http.Request) {
	a.frame(w, r, PageContent{Name: "docs", Title: "The API", Status: http.StatusOK}, docsTemplate, a.view())
}

func (a *docsPage) view() docsView {
	described := a.huma.OpenAPI()
	view := docsView{
		Title: described.Info.Title, Version: described.Info.Version,
		About: strings.Split(described.Info.Description, "\n\n"), Kinds: kinds,
	}
	for _, tag := range described.Tags {
		view.Parts = append(view.Parts, docsPart{Tag: tag})
	}
	for _, route := range a.routes { // in the order of registration
		op := operationAt(described.Paths[route.Path], route.Method)
		i := slices.IndexFunc(view.Parts, func(p docsPart) bool { return slices.Contains(op.Tags, p.Name) })
		view.Parts[i].Operations = append(view.Parts[i].Operations, newDocsOperation(op))
	}
	shapes := described.Components.Schemas.Map()
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		if shape, ok := newDocsShape(name, shapes[name]); ok {
			view.Shapes = append(view.Shapes, shape)
		}
	}
	return view
}

func operationAt(p *huma.PathItem, method string) *huma.Operation {
	return map[string]*huma.Operation{
		http.MethodGet: p.Get, http.MethodPost: p.Post, http.MethodPut: p.Put, http.MethodDelete: p.Delete,
	}[method]
}

func newDocsOperation(op *huma.Operation) docsOperation {
	d := docsOperation{Operation: op}
	if o, ok := op.Metadata[metaKey].(operation); ok {
		d.Scope = string(o.Scope)
	}
	for _, p := range op.Parameters {
		d.Params = append(d.Params, newDocsField(p.Name, p.In, p.Description, p.Required, p.Schema))
	}
	if op.RequestBody != nil {
		d.BodyTypes = contentTypes(op.RequestBody.Content)
		d.Body = bodyExample(op)
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		answer := op.Responses[status]
		d.Answers = append(d.Answers, docsAnswer{Status: status, Description: answer.Description, Types: contentTypes(answer.Content)})
	}
	d.Curl = curl(op, d.Body)
	return d
}

func newDocsField(name, in, description string, required bool, s *huma.Schema) docsField {
	f := docsField{Name: name, In: in, Description: description, Required: required, Type: typeOf(s), Values: values(s)}
	if f.Description == "" {
		f.Description = s.Description
	}
	return f
}

// values describes the permitted values of a field.
func values(s *huma.Schema) string {
	if s.Items != nil {
		s = s.Items
	}
	if len(s.Enum) > 0 {
		all := make([]string, len(s.Enum))
		for i, v := range s.Enum {
			all[i] = fmt.Sprint(v)
		}
		return strings.Join(all, ", ")
	}
	switch least, most := bound(s.Minimum), bound(s.Maximum); {
	case least != "" && most != "":
		return least + " to " + most
	case least != "":
		return "from " + least
	}
	return ""
}

func bound(f *float64) string {
	if f == nil {
		return ""
	}
	return strconv.FormatFloat(*f, 'f', -1, 64)
}

func typeOf(s *huma.Schema) docsType {
	switch {
	case s == nil:
		return docsType{Text: "anything"}
	case s.Ref != "":
		name := strings.TrimPrefix(s.Ref, schemaPath)
		return docsType{Text: name, Shape: name}
	case s.Type == huma.TypeArray:
		item := typeOf(s.Items)
		return docsType{Text: "list of " + item.Text, Shape: item.Shape}
	case s.Type == "":
		return docsType{Text: "anything"}
	case s.Format != "" && s.Type == huma.TypeString:
		return docsType{Text: s.Format}
	}
	return docsType{Text: s.Type}
}

func contentTypes(content map[string]*huma.MediaType) []docsType {
	var all []docsType
	for _, kind := range slices.Sorted(maps.Keys(content)) {
		t := typeOf(content[kind].Schema)
		if t.Shape == "" {
			t.Text = kind
		}
		if !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return all
}

func newDocsShape(name string, s *huma.Schema) (docsShape, bool) {
	shape := docsShape{Name: name, Description: s.Description}
	if s.Extensions != nil {
		shape.Fields = looseFields(s.Extensions)
	}
	for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
		shape.Fields = append(shape.Fields, newDocsField(field, "", "", slices.Contains(s.Required, field), s.Properties[field]))
	}
	return shape, len(shape.Fields) > 0
}

// looseFields returns the fields of a schema that huma did not make.
func looseFields(schema map[string]any) []docsField {
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	var fields []docsField
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		p, _ := properties[name].(map[string]any)
		description, _ := p["description"].(string)
		kind, _ := p["type"].(string)
		t := docsType{Text: kind}
		if ref, ok := p["$ref"].(string); ok {
			t.Text = strings.TrimPrefix(ref, schemaPath)
			t.Shape = t.Text
		}
		if t.Text == "" {
			t.Text = "one of several"
		}
		fields = append(fields, docsField{Name: name, Description: description, Type: t, Required: slices.Contains(required, any(name))})
	}
	return fields
}

// bodyExample returns an example of the operation's body.
func bodyExample(op *huma.Operation) string {
	m := op.RequestBody.Content[jsonType]
	if yaml := op.RequestBody.Content[yamlType]; yaml != nil {
		text, _ := yaml.Example.(string)
		return text
	}
	if lines := op.RequestBody.Content[lineType]; lines != nil {
		text, _ := lines.Example.(string)
		return text
	}
	if m == nil {
		return ""
	}
	v := m.Example
	if o, ok := op.Metadata[metaKey].(operation); ok && v == nil {
		v = exampleOf(o, m.Schema, 0)
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return ""
	}
	return string(text)
}

// maxExample is the deepest nesting of an example.
const maxExample = 4

// exampleOf composes an example of a schema from the examples of its fields.
func exampleOf(o operation, s *huma.Schema, depth int) any {
	s = o.resolve(s)
	switch {
	case s == nil || depth > maxExample:
		return nil
	case len(s.Examples) > 0:
		return s.Examples[0]
	case s.Type == huma.TypeObject:
		v := make(map[string]any)
		for name, p := range s.Properties {
			if e := exampleOf(o, p, depth+1); e != nil {
				v[name] = e
			}
		}
		return v
	case s.Type == "": // anything
		return map[string]any{"id": "1234"}
	}
	return nil
}

// curl returns the shell command of a request.
func curl(op *huma.Operation, body string) string {
	path := op.Path
	var query []string
	for _, p := range op.Parameters {
		example := fmt.Sprint(exampleParam(p))
		switch {
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", example)
		case p.In == "query" && p.Required:
			query = append(query, p.Name+"="+strings.ReplaceAll(strings.ReplaceAll(example, "/", "%2F"), " ", "%20"))
		}
	}
	if len(query) > 0 {
		path += "?" + strings.Join(query, "&")
	}
	parts := []string{"curl"}
	if op.Method != http.MethodGet {
		parts = append(parts, "-X "+op.Method)
	}
	parts = append(parts, `-H "Authorization: Bearer $DEADMAN_TOKEN"`)
	switch {
	case body != "" && op.RequestBody.Content[yamlType] != nil:
		parts = append(parts, "-H 'Content-Type: "+yamlType+"' --data-binary @rule.yaml")
	case body != "" && op.RequestBody.Content[lineType] != nil:
		parts = append(parts, "-H 'Content-Type: "+lineType+"' --data-binary @jobs.ndjson")
	case body != "":
		parts = append(parts, "-H 'Content-Type: "+jsonType+"' -d @body.json")
	}
	return strings.Join(append(parts, "'http://localhost:8080"+path+"'"), " ")
}

func exampleParam(p *huma.Param) any {
	switch {
	case p.Example != nil:
		return p.Example
	case p.Schema != nil && len(p.Schema.Examples) > 0:
		return p.Schema.Examples[0]
	}
	return "…"
}
