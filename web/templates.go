package web

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
)

// frame answers with a page from a template of this package, in the layout of all pages.
func (a *api) frame(w http.ResponseWriter, r *http.Request, f PageContent, content *template.Template, view any) {
	if a.Pages == nil {
		a.fail(w, r, problem(http.StatusNotFound, "this node has no pages"))
		return
	}
	var out bytes.Buffer
	if err := content.Execute(&out, view); err != nil {
		a.fail(w, r, fmt.Errorf("page %s: %w", f.Name, err))
		return
	}
	f.Content = template.HTML(out.Bytes()) //nolint:gosec // the template has escaped what is not ours
	a.Pages.Frame(w, r, f)
}
