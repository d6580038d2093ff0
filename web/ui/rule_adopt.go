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

// adopting asks for confirmation before a rule from files is converted to one managed in the UI.
func (c client) adopting(name string) (confirmation, error) {
	known, err := c.listed(name)
	return confirmation{
		Title: "Take rule " + name + " over?", At: rulePath(name), Form: []field{{"do", "adopt"}, {"version", fmt.Sprint(known.Version)}},
		Says: "It stays as it is, and is changed here from then on. Take it out of its file, too: where that is applied again, as at the start of a node with --rules, the file has the rule back, as it says there.",
		Do:   "Take it over", Keep: "Leave it to its files", Back: rulePath(name),
	}, err
}

// adopt saves a rule unchanged and without a bundle, if its version is still the given one.
func (c client) adopt(name, version string) error {
	path := rulePath(name)
	text, err := c.yaml(path)
	if err != nil {
		return err
	}
	header := http.Header{"Content-Type": {yamlType}, "If-Match": {`"` + version + `"`}}
	a, err := c.ask(http.MethodPut, path, url.Values{"adopt": {"true"}}, header, []byte(text))
	if err == nil {
		err = a.read("PUT "+path, nil)
	}
	if problem := new(web.Problem); errors.As(err, &problem) && problem.Status == http.StatusPreconditionFailed {
		return &web.Problem{Status: problem.Status, Title: "The rule was not taken over", Detail: "Its files were applied again meanwhile. Look at it, and take it over if you still want to."}
	}
	return err
}
