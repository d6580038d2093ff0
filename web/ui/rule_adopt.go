package ui

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"deadman/web"
)

// isOfFolder reports whether a node reads a rule from its folder of rule files: it saves in the name of the bundle.
func isOfFolder(bundle, savedBy string) bool { return bundle != "" && bundle == savedBy }

// adopts reports whether the visitor may take a rule over from its files; those of a node's folder are the operator's.
func (m permissions) adopts(bundle, savedBy string) bool {
	return m.Change && bundle != "" && (m.Admin || !isOfFolder(bundle, savedBy))
}

// adopting asks whether a rule that is kept in files is to be changed here from then on.
func (c client) adopting(name string) (confirmation, error) {
	known, err := c.listed(name)
	return confirmation{
		Title: "Take rule " + name + " over?", At: rulePath(name), Form: []field{{"do", "adopt"}, {"version", fmt.Sprint(known.Version)}},
		Says: "It stays as it is, and is changed here from then on. Take it out of its file, too: where that is applied again, as at the start of a node with --rules, the file has the rule back, as it says there.",
		Do:   "Take it over", Keep: "Leave it to its files", Back: rulePath(name),
	}, err
}

// adopt saves a rule as it is, of no bundle, if it is still at the version that somebody looked at.
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
