package ui

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"deadman/web"
)

// isOfFolder reports whether a node reads a rule from its folder of rule files. Such a rule is saved by its bundle.
func isOfFolder(bundle, savedBy string) bool { return bundle != "" && bundle == savedBy }

// adopts reports whether the visitor may convert a rule from files to one managed in the UI. A rule of a node's
// folder needs the admin scope.
func (m permissions) adopts(bundle, savedBy string) bool {
	return m.Change && bundle != "" && (m.Admin || !isOfFolder(bundle, savedBy))
}

// adoptionClient takes rules of a folder over.
type adoptionClient struct{ client }

// adopting asks for confirmation before a rule from files is converted to one managed in the UI.
func (c adoptionClient) adopting(name string) (confirmation, error) {
	known, err := c.listed(name)
	return confirmation{
		Title: "Convert rule " + name + " to UI-managed?", At: rulePath(name), Form: []field{{"do", "adopt"}, {"version", fmt.Sprint(known.Version)}},
		Text: "The rule stays unchanged and is managed here from now on. Remove it from its file, too: the next apply of the file, also at the start of a node with --rules, makes the rule file-managed again.",
		Do:   "Convert", Keep: "Keep file-managed", Back: rulePath(name),
	}, err
}

// adopt saves a rule unchanged and without a bundle, if its version is still the given one.
func (c adoptionClient) adopt(name, version string) error {
	path := rulePath(name)
	text, err := c.yaml(path)
	if err != nil {
		return err
	}
	header := http.Header{"Content-Type": {yamlType}, "If-Match": {`"` + version + `"`}}
	a, err := c.send(http.MethodPut, path, url.Values{"adopt": {"true"}}, header, []byte(text))
	if err == nil {
		err = a.decode("PUT "+path, nil)
	}
	if problem := new(web.Problem); errors.As(err, &problem) && problem.Status == http.StatusPreconditionFailed {
		return &web.Problem{Status: problem.Status, Title: "The rule was not converted", Detail: "Its files were applied in the meantime. Review the rule and convert it again if needed."}
	}
	return err
}
