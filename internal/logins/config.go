// Package logins identifies people without a token: by the headers of a trusted proxy, or by an OpenID provider. Their
// permissions are granted to their groups.
package logins

import (
	"errors"
	"strings"
	"time"

	"deadman/internal/access"
	"deadman/internal/configfile"
	"deadman/internal/operatorfiles"
)

// Limits of a login file.
const (
	MaxGrants = 200
	maxGroups = 100 // of a grant
)

// Config configures the login methods and the permissions of groups.
type Config struct {
	Header *Header   // nil: no proxy
	OIDC   *Provider // nil: no provider
	Grants access.Grants
}

// Options are the dependencies of reading a file.
type Options struct {
	Env func(name string) string // returns an environment variable
	Now func() time.Time
}

// Load reads the login file at path. The error is configfile.Problems with all problems, unless the file cannot be read
// at all.
func Load(path string, o Options) (*Config, error) {
	data, err := operatorfiles.Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(data, path, o)
}

// Parse reads a login file in YAML, and its secret from a file beside it or from the environment.
func Parse(data []byte, file string, o Options) (*Config, error) {
	c := &Config{}
	given := false
	err := configfile.Read(data, file, func(v configfile.Value) {
		given = true
		fields := v.In(fileFields)
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
			v.Problem("the login method is missing; write header, oidc or both")
		}
		c.Grants = readGrants(fields["groups"].Require("write the scopes of groups; users without a group are refused"))
	})
	if err == nil && !given {
		err = configfile.Problems{{File: file, Line: 1, Column: 1, Message: "the file is empty; write header or oidc, and groups"}}
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// readGrants reads the list of grants.
func readGrants(v configfile.Value) access.Grants {
	var grants access.Grants
	seen := make(map[string]string)
	items := v.List("grant")
	switch {
	case v.Present() && !v.HasProblem() && len(items) == 0:
		v.Problem("the list is empty, so all users are refused; write the scopes of groups")
	case len(items) > MaxGrants:
		v.Problem("there are %d grants, and the limit is %d; merge groups with the same scopes", len(items), MaxGrants)
		return nil
	}
	for _, item := range items {
		fields := item.In(grantFields)
		if fields == nil {
			continue
		}
		g := access.Grant{Groups: readGroups(fields["group"], item.Field, seen), Token: readRequest(fields)}
		if item.HasProblem() {
			continue
		}
		token, err := g.Token.Granted()
		var wrong access.Problems
		if errors.As(err, &wrong) {
			for _, p := range wrong {
				place(fields, p.Field, item).ProblemAtName("%s", p.Message)
			}
		}
		g.Token = token
		grants = append(grants, g)
	}
	return grants
}

// readGroups returns the groups of a grant; seen maps a group to the place of its earlier grant.
func readGroups(v configfile.Value, at string, seen map[string]string) []string {
	v = v.Require("name the group, or a list of groups")
	if !v.Present() {
		return nil
	}
	groups := v.Texts()
	if len(groups) > maxGroups {
		v.Problem("there are %d groups, and the limit is %d; split the grant", len(groups), maxGroups)
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

// readRequest returns the permissions of a grant, in the form of a token request. A missing list is nil, and an empty one
// is empty.
func readRequest(fields map[string]configfile.Value) access.TokenRequest {
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

// place returns the value in the file that a problem of a token request is about.
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
