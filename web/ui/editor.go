package ui

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"deadman/rules/document"

	"github.com/go-chi/chi/v5"

	"deadman/rules"
	"deadman/web"
)

// editorView is the editor of a rule.
type editorView struct {
	permissions
	Name    string // empty: a new rule
	Version int32  // the version being edited
	Bundle  string // the rule's bundle; empty: edited in the UI
	SavedBy string // author of the newest version
	Opened  int32  // older version opened for editing; 0: the newest
	Text    string
	Trial   previewForm
	Sample  *sample // sample of a new rule; nil: none

	saved    string            // the saved text
	document document.Document // the saved document

	Errors   []web.ProblemDetail
	Refused  string // why saving failed; empty: not tried, or Errors has the errors
	Taken    string // existing rule with the new rule's name; empty: none
	Overtook *conflictView
}

// Unsaved reports whether the text differs from the saved one.
func (v editorView) Unsaved() bool { return v.Text != v.saved }

// ReadOnlyName reports whether this visitor can't change the rule here.
func (v editorView) ReadOnlyName() bool { return v.Bundle != "" || !v.Change }

// OfFolder reports whether a node reads the rule from its folder of rule files.
func (v editorView) OfFolder() bool { return isOfFolder(v.Bundle, v.SavedBy) }

// Adopt reports whether the visitor may convert the rule to one managed in the UI.
func (v editorView) Adopt() bool { return v.adopts(v.Bundle, v.SavedBy) }

// NextVersion is the version that saving creates.
func (v editorView) NextVersion() int32 { return v.Version + 1 }

// conflictView is another user's version, saved while the rule was edited.
type conflictView struct {
	Version int32
	By      string
	Text    string
	Theirs  []diffLine // their changes
	Yours   []diffLine // changes of saving now to their version
	Unknown string     // why Yours is missing; empty: it is known
}

// editorPages serves the editor of rules.
type editorPages struct{ *UI }

func (u editorPages) newRule(c client, r *http.Request) (v view, err error) {
	e := editorView{Sample: u.sampleNamed(r.URL.Query().Get("from"))}
	if e.permissions, err = c.may(); err != nil {
		return v, err
	}
	if e.Sample != nil {
		e.Text, e.saved, e.Trial.Event = e.Sample.text, e.Sample.text, e.Sample.eventAt(u.Now())
		if strings.ContainsAny(e.Sample.listens, "*>") {
			e.Trial.Subject = e.Sample.subject
		}
	}
	return view{Title: "New rule", Still: true, Body: e}, nil
}

func (u editorPages) editRule(c client, r *http.Request) (view, error) {
	name := chi.URLParam(r, "name")
	v, err := editorClient{c}.edited(name)
	if err != nil {
		return view{}, err
	}
	v.Trial.example(v.document)
	if old := versionOf(r.URL.Query().Get("version"), 0); old > 0 && old != v.Version {
		v.Opened = old
		v.Text, err = c.yaml(fmt.Sprintf("%s/versions/%d", rulePath(name), old))
		v.saved = v.Text // saved, as that version
	}
	return view{Title: v.Name, Body: v, Still: true}, err
}

// editorClient reads and saves the rule in the editor.
type editorClient struct{ client }

// edited reads a rule for the editor.
func (c editorClient) edited(name string) (editorView, error) {
	v := editorView{Name: name}
	var err error
	if v.permissions, err = c.may(); err != nil {
		return v, err
	}
	known, err := c.listed(name)
	if err != nil {
		return v, err
	}
	v.Version, v.Bundle, v.SavedBy, v.Trial.Subjects = known.Version, known.Bundle, known.SavedBy, known.Subjects
	if v.Text, err = c.yaml(rulePath(name)); err != nil {
		return v, err
	}
	v.saved = v.Text
	err = c.begun(&v)
	return v, err
}

const yamlType = "application/yaml"

// maxForm is the largest form of the editor, in bytes.
const maxForm = 4 << 20

// saveRule saves the edited text if the rule's version is unchanged, or shows a preview of it.
func (u editorPages) saveRule(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	v := editorView{Name: chi.URLParam(r, "name"), Text: strings.ReplaceAll(r.PostFormValue("text"), "\r\n", "\n"), Trial: trialOf(r)}
	version, err := strconv.ParseInt(r.PostForm.Get("version"), 10, 32)
	if err != nil {
		u.fail(w, r, &web.Problem{Status: http.StatusBadRequest, Title: "Incomplete form", Detail: "Open the rule again."})
		return
	}
	v.Version = int32(version)
	c := client{u.api, r}
	if err := (editorClient{c}).around(&v); err != nil {
		u.fail(w, r, err)
		return
	}
	if r.PostFormValue("do") == "try" {
		v.Trial.Answer = editorClient{c}.tryText(v.Text, v.Trial, u.UI)
		u.render(w, r, http.StatusOK, "editor", view{Title: "Not saved yet", Body: v}, "")
		return
	}
	change, err := editorClient{c}.save(v)
	problem := new(web.Problem)
	switch {
	case err == nil:
		action := "saved"
		if !change.Changed && !change.TextChanged {
			action = "kept"
		}
		http.Redirect(w, r, withFlash(rulePath(change.Rule.Name), action), http.StatusSeeOther)
		return
	case !errors.As(err, &problem):
		u.fail(w, r, err)
		return
	case problem.Status == http.StatusPreconditionFailed && v.Name != "":
		if v, err = (editorClient{c}).overtaken(v); err != nil {
			u.fail(w, r, err)
			return
		}
	case problem.Type == web.RuleConflict.URN() && v.Name == "" && nameIn(v.Text) != "":
		v.Taken = nameIn(v.Text)
	default:
		v.Errors = problem.Errors
		if len(v.Errors) == 0 {
			v.Refused = problem.Detail
		}
	}
	u.render(w, r, problem.Status, "editor", view{Title: "Not saved", Body: v}, "")
}

// nameIn returns the name of the single rule in a text, or an empty string.
func nameIn(text string) string {
	documents, err := rules.Parse([]byte(text), "")
	if err != nil || len(documents) != 1 {
		return ""
	}
	return documents[0].Name
}

// around adds the permissions, the saved text and the recent trigger events to v.
func (c editorClient) around(v *editorView) (err error) {
	if v.permissions, err = c.may(); err != nil || v.Name == "" {
		return err
	}
	known, err := c.listed(v.Name)
	if err != nil {
		return err
	}
	v.Bundle, v.SavedBy, v.Trial.Subjects = known.Bundle, known.SavedBy, known.Subjects
	if v.saved, err = c.yaml(rulePath(v.Name)); err != nil {
		return err
	}
	return c.begun(v)
}

// begun adds the saved document and the recent trigger events of the rule to v.
func (c editorClient) begun(v *editorView) (err error) {
	if err = c.get(rulePath(v.Name), nil, &v.document); err == nil {
		v.Trial.Recent, err = c.recent(v.Name, v.document)
	}
	return err
}

func (c editorClient) save(v editorView) (change web.RuleChange, err error) {
	method, path, header := http.MethodPost, "/rules", http.Header{"Content-Type": {yamlType}}
	if v.Name != "" {
		method, path = http.MethodPut, rulePath(v.Name)
		header.Set("If-Match", fmt.Sprintf(`"%d"`, v.Version))
	}
	a, err := c.send(method, path, nil, header, []byte(v.Text))
	if err == nil {
		err = a.decode(path, &change)
	}
	return change, err
}

// overtaken adds a conflicting newer version to v. Saving again replaces that version.
func (c editorClient) overtaken(v editorView) (editorView, error) {
	now, err := c.edited(v.Name)
	if err != nil {
		return v, err
	}
	o := &conflictView{Version: now.Version, Text: now.Text}
	newest, err := versionClient(c).versions(v.Name, 1)
	if err != nil {
		return v, err
	}
	if len(newest) > 0 {
		o.By = newest[0].SavedBy
	}
	if o.Theirs, err = versionClient(c).diff(v.Name, v.Version, now.Version); err != nil {
		return v, err
	}
	var change web.RuleChange
	a, err := c.send(http.MethodPut, rulePath(v.Name), url.Values{"dry_run": {"true"}}, http.Header{"Content-Type": {yamlType}}, []byte(v.Text))
	if err == nil {
		err = a.decode(rulePath(v.Name), &change)
	}
	if err != nil {
		o.Unknown = problemText(err)
	}
	o.Yours = diffLines(change.Diff)
	v.Version, v.Overtook = now.Version, o
	return v, nil
}

// tryText previews an unsaved rule. It returns nil if the text is empty.
func (c editorClient) tryText(text string, t previewForm, u *UI) *previewResult {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	rule, err := json.Marshal(text)
	if err != nil {
		return &previewResult{Error: err.Error()}
	}
	return c.try("/rules/preview", t, u.Now(), func(request web.PreviewRequest) any {
		return web.UnsavedPreviewRequest{Rule: rule, PreviewRequest: request}
	})
}

// try answers with the preview of an unsaved rule, as a fragment of the editor.
func (u editorPages) try(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	result := editorClient{client{u.api, r}}.tryText(r.PostFormValue("text"), trialOf(r), u.UI)
	u.fragment(w, r, "editor", "tried", result)
}
