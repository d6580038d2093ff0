package ui

import (
	"net/http"
	"net/url"
	"strings"

	"deadman/web"
)

// encodeFormText is a text from outside as a form carries it. A browser makes two characters of a lone line
// break of a form's field, and then the key of another job is what comes back; here no break is left.
func encodeFormText(text string) string { return url.PathEscape(text) }

// decodeFormText is the text that a form carried.
func decodeFormText(text string) (string, error) {
	whole, err := url.PathUnescape(text)
	if err != nil {
		return "", &web.Problem{
			Status: http.StatusBadRequest, Title: "Nothing was done",
			Detail: "The form names something in a way that can't be read; load its page again. In names each % is written as %25.",
		}
	}
	return whole, nil
}

// decodeForm puts the texts that a form carried in the place of how it carried them.
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

// jobID names a job in forms.
func jobID(rule, key string) string { return rule + "/" + encodeFormText(key) }

// jobNamed is the job that a form names.
func jobNamed(id string) (rule, key string, err error) {
	rule, key, _ = strings.Cut(id, "/")
	key, err = decodeFormText(key)
	return rule, key, err
}

// jobSaid is a job that a form names, for people; what can't be read is said as it is.
func jobSaid(id string) string {
	rule, key, err := jobNamed(id)
	if err != nil {
		return id
	}
	return rule + "/" + key
}
