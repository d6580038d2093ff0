package ui

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"deadman/web"
)

// maxSuggestions bounds the suggestions for a field.
const maxSuggestions = 10

// suggestions returns values for a field of a filter as JSON: names of rules and entities that contain a text, those
// that begin with it first, and keys of pending jobs that begin with it. The field find has rules and keys.
func (u *UI) suggestions(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	c, text := suggestionClient{client{u.api, r}}, q.Get("text")
	var values []string
	var err error
	if fits(text) {
		switch q.Get("field") {
		case "rule":
			values, err = c.names(text, func(r web.Rule) string { return r.Name })
		case "entity":
			values, err = c.names(text, func(r web.Rule) string { return r.Entity })
		case "key":
			values, err = c.keys(text, q)
		case "find":
			values, err = c.found(text, q)
		default:
			err = invalidAction("Suggestions have the fields rule, entity, key and find.")
		}
	}
	if err != nil {
		u.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(append([]string{}, values...)) // an error means the browser left
}

// suggestionClient reads suggestions.
type suggestionClient struct{ client }

// found suggests rules and keys for a text that is not empty.
func (c suggestionClient) found(text string, q url.Values) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	names, err := c.names(text, func(r web.Rule) string { return r.Name })
	if err != nil {
		return nil, err
	}
	keys, err := c.keys(text, q)
	return slices.Concat(names[:min(len(names), maxSuggestions/2)], keys), err
}

// names returns the first names of rules that contain a text; those that begin with it come first.
func (c suggestionClient) names(text string, nameOf func(web.Rule) string) ([]string, error) {
	all, _, err := c.allRules(url.Values{"text": {text}})
	if err != nil {
		return nil, err
	}
	var begins, contains []string
	for _, r := range all {
		name := nameOf(r)
		switch at := strings.Index(strings.ToLower(name), strings.ToLower(text)); {
		case at == 0:
			begins = append(begins, name)
		case at > 0:
			contains = append(contains, name)
		}
	}
	slices.Sort(begins)
	slices.Sort(contains)
	names := slices.Concat(slices.Compact(begins), slices.Compact(contains))
	return names[:min(len(names), maxSuggestions)], nil
}

// keys returns the first keys of pending jobs that begin with a text.
func (c suggestionClient) keys(text string, q url.Values) ([]string, error) {
	if text = strings.TrimSuffix(text, "*"); text == "" {
		return nil, nil
	}
	query := url.Values{"key_prefix": {text}, "limit": {strconv.Itoa(2 * maxSuggestions)}}
	for _, name := range []string{"rule", "entity"} {
		if value := strings.TrimSpace(q.Get(name)); value != "" {
			query.Set(name, value)
		}
	}
	var page web.Page[web.Job]
	if err := c.get("/jobs", query, &page); err != nil {
		return nil, err
	}
	var keys []string
	for _, j := range page.Items {
		keys = append(keys, j.Key)
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	return keys[:min(len(keys), maxSuggestions)], nil
}
