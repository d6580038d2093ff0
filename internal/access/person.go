package access

import (
	"encoding/json"
	"slices"
	"strings"
)

// The authenticators of a person. The audit log shows them before the person's name, followed by a colon; no token
// name contains a colon.
const (
	ByProxy = "proxy" // a trusted proxy, for each request
	ByOIDC  = "oidc"  // an OpenID provider, at login
)

// Person is a user authenticated by a proxy or a provider, without a token.
type Person struct {
	By      string   `json:"by"` // ByProxy or ByOIDC
	Name    string   `json:"name"`
	Issuer  string   `json:"issuer,omitzero"`  // of the provider
	Subject string   `json:"subject,omitzero"` // permanent id at the provider
	Groups  []string `json:"groups,omitzero"`  // without duplicates
}

// String returns the person as an actor: "oidc:ann@example.org".
func (p Person) String() string { return p.By + ":" + p.Name }

// ID returns a unique id, even for persons with the same name: "oidc:https://id.example.org#1234". No token has it.
func (p Person) ID() string {
	if p.By == ByOIDC {
		return p.By + ":" + p.Issuer + "#" + p.Subject
	}
	return p.String()
}

// WritePerson encodes a person as JSON for a store.
func WritePerson(p Person) (string, error) {
	text, err := json.Marshal(p)
	return string(text), err
}

// ReadPerson decodes the text of WritePerson. A text that can't be decoded becomes a person without permissions.
func ReadPerson(text string) Person {
	var p Person
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil || decoder.More() {
		return Person{}
	}
	return p
}

// Grant holds the permissions of users in some groups.
type Grant struct {
	Groups []string
	Token  TokenRequest // without a name and an expiry
}

// Grants are the permissions of users. The first grant with one of a user's groups applies.
type Grants []Grant

// Prefixes returns the prefixes of the grants, without duplicates.
func (gs Grants) Prefixes() []string {
	var all []string
	for _, grant := range gs {
		if p := grant.Token.Prefix; p != "" && !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// Tokens returns the grants as tokens that are not stored.
func (gs Grants) Tokens() []Token {
	all := make([]Token, len(gs))
	for i, g := range gs {
		all[i] = g.token()
	}
	return all
}

func (g Grant) token() Token {
	return Token{Scopes: g.Token.Scopes, Prefix: g.Token.Prefix, Given: g.Token.Bounds}
}

// Of returns a person's permissions as a token that is not stored. ok is false for a person without a grant.
func (gs Grants) Of(p Person) (t Token, ok bool) {
	at := slices.IndexFunc(gs, func(g Grant) bool {
		return slices.ContainsFunc(g.Groups, func(group string) bool { return slices.Contains(p.Groups, group) })
	})
	if at < 0 {
		return Token{}, false
	}
	t = gs[at].token()
	t.ID, t.Name = p.ID(), p.String()
	return t, true
}

func whoIs(name string) string {
	if isPerson(name) {
		return name
	}
	return "the token " + name
}

// isPerson reports whether a name belongs to a person.
func isPerson(name string) bool {
	by, _, _ := strings.Cut(name, ":")
	return by == ByProxy || by == ByOIDC
}
