package ui

import (
	"bytes"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"deadman/alerts"
	"deadman/docs"
	"deadman/web"
)

// docsAt is the path of the documentation.
const docsAt = web.ManualPath

// manualIndex is the file of the first page.
const manualIndex = "README.md"

// manualPages serves the documentation of the node's version.
type manualPages struct{ *UI }

// manualView is a page of the documentation, or the results of a search.
type manualView struct {
	Content template.HTML
	Query   string
	Found   []manualHit // the first sections with Query
	Total   int         // number of sections with Query
}

// manualPath returns the address of a file of the documentation.
func manualPath(name string) string {
	if name == manualIndex {
		return docsAt
	}
	return docsAt + "/" + strings.TrimSuffix(name, ".md")
}

// page serves a page, or the results of a search.
func (u manualPages) page(_ client, r *http.Request) (view, error) {
	v := manualView{Query: strings.TrimSpace(r.URL.Query().Get("q"))}
	if v.Query != "" {
		var err error
		if v.Found, v.Total, err = searchManual(v.Query); err != nil {
			return view{}, err
		}
		return view{Title: "Documentation", Body: v, Still: true}, nil
	}
	name := manualIndex
	if at := chi.URLParam(r, "*"); at != "" {
		name = at + ".md"
	}
	content, err := fs.ReadFile(docs.Files, name)
	if err != nil {
		return view{}, &web.Problem{Status: http.StatusNotFound, Title: "No such page of the documentation", Detail: "This version has no page with this address. Search the documentation."}
	}
	rendered, title, err := renderManual(name, content)
	if err != nil {
		return view{}, fmt.Errorf("page %s of the documentation: %w", name, err)
	}
	v.Content = rendered
	return view{Title: title, Body: v, Still: true}, nil
}

// picture serves a picture of a page.
func (u manualPages) picture(w http.ResponseWriter, r *http.Request) {
	name := "pictures/" + chi.URLParam(r, "*")
	content, err := fs.ReadFile(docs.Files, name)
	if err != nil {
		u.fail(w, r, &web.Problem{Status: http.StatusNotFound, Title: "No such picture"})
		return
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_, _ = w.Write(content) // an error means the browser left
}

// markdown renders pages. Raw HTML is left out.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.GFM),
	goldmark.WithParserOptions(parser.WithAutoHeadingID(), parser.WithASTTransformers(util.Prioritized(manualLinks{}, 0))),
)

// manualFile is the key of the file name in the context of a parser.
var manualFile = parser.NewContextKey()

// renderManual renders a file, and returns its title.
func renderManual(name string, content []byte) (template.HTML, string, error) {
	ctx := parser.NewContext(parser.WithIDs(make(anchors)))
	ctx.Set(manualFile, name)
	root := markdown.Parser().Parse(text.NewReader(content), parser.WithContext(ctx))
	var out bytes.Buffer
	if err := markdown.Renderer().Render(&out, content, root); err != nil {
		return "", "", err
	}
	title, _, _ := strings.Cut(string(content), "\n")
	return template.HTML(out.String()), strings.TrimPrefix(title, "# "), nil //nolint:gosec // a file of the program, without raw HTML
}

// anchors are the anchors of a page, made from its headings as GitHub does.
type anchors map[string]bool

// Generate implements parser.IDs.
func (a anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	anchor := alerts.Anchor(string(value))
	for n, first := 1, anchor; a[anchor]; n++ {
		anchor = fmt.Sprintf("%s-%d", first, n)
	}
	a[anchor] = true
	return []byte(anchor)
}

// Put implements parser.IDs.
func (a anchors) Put(value []byte) { a[string(value)] = true }

// manualLinks turns links between files into links between pages. A link to a file that is not part of the documentation
// becomes its text.
type manualLinks struct{}

// Transform implements parser.ASTTransformer.
func (manualLinks) Transform(root *ast.Document, _ text.Reader, ctx parser.Context) {
	name, _ := ctx.Get(manualFile).(string)
	var foreign []*ast.Link
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the walker returns no error
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			at, ok := manualTarget(name, string(n.Destination))
			if n.Destination = []byte(at); !ok {
				foreign = append(foreign, n)
			}
		case *ast.Image:
			at, _ := manualTarget(name, string(n.Destination))
			n.Destination = []byte(at)
		}
		return ast.WalkContinue, nil
	})
	for _, link := range foreign {
		parent := link.Parent()
		for child := link.FirstChild(); child != nil; {
			next := child.NextSibling()
			parent.InsertBefore(parent, link, child)
			child = next
		}
		parent.RemoveChild(parent, link)
	}
}

// manualTarget returns the address that a link in a file leads to; false if this is no address of a node or the internet.
func manualTarget(name, target string) (string, bool) {
	to, err := url.Parse(target)
	if err != nil || to.Scheme != "" || to.Path == "" || strings.HasPrefix(to.Path, "/") {
		return target, err == nil
	}
	file := path.Join(path.Dir(name), to.Path)
	if path.Ext(file) == "" { // a folder
		file = path.Join(file, manualIndex)
	}
	if _, err := fs.Stat(docs.Files, file); err != nil {
		return target, false
	}
	at := docsAt + "/" + file
	if path.Ext(file) == ".md" {
		at = manualPath(file)
	}
	if to.Fragment != "" {
		at += "#" + to.Fragment
	}
	return at, true
}
