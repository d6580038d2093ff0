// Package notify turns alerts into messages for people: it routes them, gathers them, and
// hands them to channels until those have taken them.
package notify

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"deadman/alerts"
	"deadman/rules"
)

// Bounds of a file of channels, and what a route does that does not say.
const (
	MaxChannels = 100
	MaxRoutes   = 500

	defaultWait    = 10 * time.Second
	maxWait        = time.Hour
	defaultPerHour = 60
	maxPerHour     = 3600
)

// Config is the channels and routes of a file.
type Config struct {
	Channels []Spec // by name
	Routes   []Route
}

// Spec is how a file describes a channel, with its secrets.
type Spec struct {
	Name   string
	Kind   Kind
	URL    string
	Secret string
}

// Route says which alerts go to which channels, and how they are gathered.
type Route struct {
	Name     string // "route 3" where the file has no name for the third
	Match    alerts.Match
	Severity []string // any of them; nil: all
	To       []string // names of channels
	Continue bool     // the routes after it are asked too
	GroupBy  []string // fields whose values the alerts of one message have in common
	Wait     time.Duration
	PerHour  int
}

// takes reports whether a route is for an alert.
func (r Route) takes(a alerts.Alert) bool {
	return (r.Severity == nil || slices.Contains(r.Severity, string(a.Severity))) && r.Match.Has(a)
}

// topic is what the alert has in common with others of its message.
func (r Route) topic(a alerts.Alert) string {
	parts := make([]string, len(r.GroupBy))
	for i, name := range r.GroupBy {
		parts[i] = name + "=" + a.Field(name)
	}
	return strings.Join(parts, " ")
}

// Load reads the file at path. The error is Problems and holds all of them, unless the file
// cannot be read at all.
func Load(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, err
	}
	return Parse(data, path)
}

// Parse reads a file of channels and routes. Files that it names are read too; their names are
// relative to its folder.
func Parse(data []byte, file string) (Config, error) {
	var c Config
	r := reader{dir: filepath.Dir(file)}
	if document := r.document(data); document != nil {
		var routes ast.Node
		r.fields(document, "",
			known{"channels", func(n ast.Node, field string) { r.channels(n, field, &c) }},
			known{"routes", func(n ast.Node, _ string) { routes = n }})
		if routes != nil { // they name channels
			r.routes(routes, "routes", &c)
		}
	}
	if err := r.problems.orNil(file); err != nil {
		return Config{}, err
	}
	return c, nil
}

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

const nameHint = "write 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit"

func (r *reader) channels(n ast.Node, field string, c *Config) {
	r.each(n, field, "a name for each channel", func(name string, key *token.Token, value ast.Node, field string) {
		if !namePattern.MatchString(name) {
			r.problem(key, field, "%q is not a name; %s", name, nameHint)
		}
		c.Channels = append(c.Channels, r.channel(name, key, value, field))
	})
	if len(c.Channels) > MaxChannels {
		r.problem(start(n), field, "there are %d channels, and the limit is %d; leave out those that no route uses", len(c.Channels), MaxChannels)
	}
	slices.SortFunc(c.Channels, func(a, b Spec) int { return strings.Compare(a.Name, b.Name) })
}

func (r *reader) channel(name string, key *token.Token, n ast.Node, field string) Spec {
	before := len(r.problems)
	s := Spec{Name: name}
	var kind, urlFile string
	r.fields(n, field,
		known{"kind", r.text(&kind)}, known{"url", r.text(&s.URL)},
		known{"url_file", func(n ast.Node, field string) { r.text(&urlFile)(n, field); s.URL = r.secret(n, field, urlFile) }},
		known{"secret_file", func(n ast.Node, field string) {
			var file string
			r.text(&file)(n, field)
			s.Secret = r.secret(n, field, file)
		}})
	if len(r.problems) > before {
		return s
	}
	s.Kind = Kind(kind)
	if problem := s.check(urlFile != ""); problem != "" {
		r.problem(key, field, "%s", problem)
	}
	return s
}

// secret is what a file holds, without the white space around it.
func (r *reader) secret(n ast.Node, field, file string) string {
	if file == "" {
		return "" // said already
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(r.dir, file)
	}
	data, err := os.ReadFile(file)
	text := strings.TrimSpace(string(data))
	switch {
	case err != nil:
		r.problem(start(n), field, "%v; name a file that the node can read", err)
	case text == "" || len(text) > 8<<10 || strings.ContainsAny(text, "\n\x00"):
		r.problem(start(n), field, "%s does not hold one line of up to 8192 bytes; write the secret into it, and nothing else", file)
	}
	return text
}

func (r *reader) routes(n ast.Node, field string, c *Config) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		r.problem(start(n), field, `expected a list; begin each route with "- "`)
		return
	}
	if len(list.Values) > MaxRoutes {
		r.problem(start(n), field, "there are %d routes, and the limit is %d; match more with one, by * or by labels", len(list.Values), MaxRoutes)
		return
	}
	names := make(map[string]bool)
	for i, item := range list.Values {
		field := fmt.Sprintf("%s[%d]", field, i)
		route := r.route(item, field, i, c.Channels)
		if names[route.Name] {
			r.problem(start(item), field+".name", "another route is %q already; take another name", route.Name)
		}
		names[route.Name] = true
		c.Routes = append(c.Routes, route)
	}
}

func (r *reader) route(n ast.Node, field string, i int, channels []Spec) Route {
	route := Route{
		Name: fmt.Sprintf("route %d", i+1), Match: alerts.Match{}, GroupBy: []string{"rule"}, Wait: defaultWait, PerHour: defaultPerHour,
	}
	var groupBy []string
	pattern := func(name string) func(ast.Node, string) {
		return func(n ast.Node, field string) {
			var s string
			r.text(&s)(n, field)
			route.Match[name] = s
		}
	}
	r.fields(n, field,
		known{"name", r.text(&route.Name)}, known{"rule", pattern("rule")}, known{"entity", pattern("entity")},
		known{"severity", func(n ast.Node, field string) {
			r.texts(&route.Severity)(n, field)
			r.severities(n, field, route.Severity)
		}},
		known{"labels", func(n ast.Node, field string) {
			r.each(n, field, "a pattern for each label", func(name string, key *token.Token, value ast.Node, field string) {
				if slices.Contains(alerts.Fields, name) {
					r.problem(key, field, "%q is a field of every alert and not a label; the routes know %s", name, "rule, entity and severity")
				}
				pattern(name)(value, field)
			})
		}},
		known{"to", func(n ast.Node, field string) { r.texts(&route.To)(n, field); r.knows(n, field, route.To, channels) }},
		known{"continue", r.flag(&route.Continue)},
		known{"group_by", func(n ast.Node, field string) {
			if list, ok := n.(*ast.SequenceNode); !ok || len(list.Values) > 0 { // [] is one message for all
				r.texts(&groupBy)(n, field)
			}
			route.GroupBy = groupBy
		}},
		known{"group_wait", r.span(&route.Wait, maxWait)},
		known{"max_per_hour", r.number(&route.PerHour, maxPerHour)})
	if route.To == nil {
		r.problem(start(n), field, "to is missing; name at least one channel")
	}
	return route
}

func (r *reader) severities(n ast.Node, field string, given []string) {
	for _, s := range given {
		if !alerts.Severity(s).Valid() {
			r.problem(start(n), field, "%q is no severity; there are info, warning, error and critical", s)
		}
	}
}

// knows refuses channels that are not there.
func (r *reader) knows(n ast.Node, field string, to []string, channels []Spec) {
	names := make(map[string]bool)
	for _, c := range channels {
		names[c.Name] = true
	}
	for _, name := range to {
		if names[name] || name == "" {
			continue
		}
		hint := "describe it under channels"
		if near := rules.Nearest(name, slices.Sorted(maps.Keys(names))); near != "" {
			hint = "did you mean " + near + "?"
		}
		r.problem(start(n), field, "there is no channel %q; %s", name, hint)
	}
}
