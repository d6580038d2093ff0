package ui

import (
	"net/http"
	"net/url"
	"strings"

	"deadman/web"
)

// encodeFormText escapes a text for a form field. Browsers turn a lone line break in a field into two characters, so
// that another job's key would come back. The escaped text has no line break.
func encodeFormText(text string) string { return url.PathEscape(text) }

// decodeFormText reverses encodeFormText.
func decodeFormText(text string) (string, error) {
	whole, err := url.PathUnescape(text)
	if err != nil {
		return "", &web.Problem{
			Status: http.StatusBadRequest, Title: "No action was taken",
			Detail: "The form contains an invalid name. Reload the page. In names, write % as %25.",
		}
	}
	return whole, nil
}

// decodeForm decodes the named fields of a form in place.
func decodeForm(form url.Values, names ...string) error {
	for _, name := range names {
		for i, text := range form[name] {
			whole, err := decodeFormText(text)
			if err != nil {
				return err
			}
			form[name][i] = whole
		}
	}
	return nil
}

// jobID returns the id of a job in forms.
func jobID(rule, key string) string { return rule + "/" + encodeFormText(key) }

// jobNamed parses the id of a job in a form.
func jobNamed(id string) (rule, key string, err error) {
	rule, key, _ = strings.Cut(id, "/")
	key, err = decodeFormText(key)
	return rule, key, err
}

// displayedJobID returns a job's id for display. An invalid id is returned unchanged.
func displayedJobID(id string) string {
	rule, key, err := jobNamed(id)
	if err != nil {
		return id
	}
	return rule + "/" + key
}
