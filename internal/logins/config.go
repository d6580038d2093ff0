// Package logins finds out who people are that have no token: by the headers of a proxy that operators trust, or by an OpenID
// provider. What they may is granted to their groups.
package logins

import (
	"errors"
	"os"
	"strings"
	"time"

	"deadman/internal/access"
	"deadman/internal/configfile"
)

// Bounds of a login file.
const (
	MaxGrants = 200
	maxGroups = 100 // of a grant
)

// Config is how people log in, and what they may.
type Config struct {
	Header *Header   // nil: no proxy names people
	OIDC   *Provider // nil: there is no provider
	Grants access.Grants
}

// Options are what a file is read with.
type Options struct {
	Env func(name string) string // what a variable of the environment holds
	Now func() time.Time
}

// Load reads the login file at path. The error is configfile.Problems and holds all of them, unless the file cannot be read at all.
func Load(path string, o Options) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(data, path, o)
}

// Parse reads a login file, in YAML, and the secret that it names, in a file beside it or in the environment.
func Parse(data []byte, file string, o Options) (*Config, error) {
	c := &Config{}
	given := false
	err := configfile.Read(data, file, func(v configfile.Value) {
		given = true
		fields := v.Fields("header", "oidc", "groups")
		if fields == nil {
			return
		}
		if header := fields["header"]; header.Present() {
			c.Header = readHeader(header)
		}
		if oidc := fields["oidc"]; oidc.Present() {
			c.OIDC = readProvider(oidc, o)
		}
		if c.Header == nil && c.OIDC == nil && !v.HasProblem() {
			v.Problem("it does not say how people log in; write header, oidc or both")
		}
		c.Grants = readGrants(fields["groups"].Require("write what people in which groups may; nobody else gets in"))
	})
	if err == nil && !given {
		err = configfile.Problems{{File: file, Line: 1, Column: 1, Message: "the file is empty; write header or oidc, and groups"}}
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// readGrants reads the list of what groups may.
func readGrants(v configfile.Value) access.Grants {
	var grants access.Grants
	seen := make(map[string]string)
	items := v.List("grant")
	switch {
	case v.Present() && !v.HasProblem() && len(items) == 0:
		v.Problem("the list is empty, and so nobody gets in; write what people in which groups may")
	case len(items) > MaxGrants:
		v.Problem("there are %d grants, and the limit is %d; put groups that may the same into one", len(items), MaxGrants)
		return nil
	}
	for _, item := range items {
		fields := item.Fields("group", "scopes", "prefix", "subjects", "publish", "sources", "handlers")
		if fields == nil {
			continue
		}
		g := access.Grant{Groups: readGroups(fields["group"], item.Field, seen), Wish: readWish(fields)}
		if item.HasProblem() {
			continue
		}
		wish, err := g.Wish.Granted()
		var wrong access.Problems
		if errors.As(err, &wrong) {
			for _, p := range wrong {
				place(fields, p.Field, item).ProblemAtName("%s", p.Message)
			}
		}
		g.Wish = wish
		grants = append(grants, g)
	}
	return grants
}

// readGroups is the groups of a grant; seen is where groups were granted something before.
func readGroups(v configfile.Value, at string, seen map[string]string) []string {
	v = v.Require("name the group, or a list of groups")
	if !v.Present() {
		return nil
	}
	groups := v.Texts()
	if len(groups) > maxGroups {
		v.Problem("there are %d groups, and the limit is %d; make two grants of them", len(groups), maxGroups)
	}
	for _, group := range groups {
		if wrong := wrongText(group, MaxGroup); group != "" && wrong != "" {
			v.Problem("%.70q is not the name of a group: %s", group, wrong)
		}
		if before, twice := seen[group]; twice && group != "" {
			v.Problem("%s has the group %.70q already, and the first grant of a group decides; keep one", before, group)
		}
		seen[group] = at
	}
	return groups
}

// readWish is what a grant allows, as for a token. A list that is absent is nil, and one with nothing in it is empty.
func readWish(fields map[string]configfile.Value) access.TokenRequest {
	w := access.TokenRequest{Prefix: textOf(fields["prefix"])}
	for _, item := range fields["scopes"].Require("give at least one of read, events, oncall, rules and admin").List("scope") {
		w.Scopes = append(w.Scopes, access.Scope(item.Text()))
	}
	w.Bounds = access.Bounds{
		Subjects: listOf(fields["subjects"]), Publish: listOf(fields["publish"]), Sources: listOf(fields["sources"]), Handlers: listOf(fields["handlers"]),
	}
	return w
}

func textOf(v configfile.Value) string {
	if !v.Present() {
		return ""
	}
	return v.Text()
}

func listOf(v configfile.Value) []string {
	if !v.Present() {
		return nil
	}
	list := []string{}
	for _, item := range v.List("entry") {
		list = append(list, item.Text())
	}
	return list
}

// place is where a problem with a wish stands in the file.
func place(fields map[string]configfile.Value, field string, otherwise configfile.Value) configfile.Value {
	name, _, _ := strings.Cut(field, "[")
	at, ok := fields[name]
	if !ok || !at.Present() {
		return otherwise
	}
	for _, item := range at.List("entry") {
		if strings.HasSuffix(item.Field, field) {
			return item
		}
	}
	return at
}
