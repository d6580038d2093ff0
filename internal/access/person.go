package access

import (
	"encoding/json"
	"slices"
	"strings"
)

// Who vouches for a person. The audit has it before the person's name, with a colon between: no token has one in its name.
const (
	ByProxy = "proxy" // a trusted proxy, with each request
	ByOIDC  = "oidc"  // an OpenID provider, at the login
)

// Person is a person for whom a proxy or a provider vouches, and who has no token.
type Person struct {
	By      string   `json:"by"` // ByProxy or ByOIDC
	Name    string   `json:"name"`
	Issuer  string   `json:"issuer,omitzero"`  // of the provider
	Subject string   `json:"subject,omitzero"` // by which the provider knows the person, for good
	Groups  []string `json:"groups,omitzero"`  // each once
}

// String is the person as an actor: "oidc:ann@example.org".
func (p Person) String() string { return p.By + ":" + p.Name }

// ID tells the person from all others and from tokens, also where two have one name: "oidc:https://id.example.org#1234".
func (p Person) ID() string {
	if p.By == ByOIDC {
		return p.By + ":" + p.Issuer + "#" + p.Subject
	}
	return p.String()
}

// WritePerson is how a store keeps a person: JSON.
func WritePerson(p Person) (string, error) {
	text, err := json.Marshal(p)
	return string(text), err
}

// ReadPerson reads the text of WritePerson. A text that cannot be read is a person without rights.
func ReadPerson(text string) Person {
	var p Person
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil || decoder.More() {
		return Person{}
	}
	return p
}

// Grant is what people in some groups may.
type Grant struct {
	Groups []string
	Wish   TokenRequest // without a name and an end
}

// Grants are what people may. The first one decides of which a person is in one of the groups.
type Grants []Grant

// Prefixes are the prefixes of the grants, each once.
func (gs Grants) Prefixes() []string {
	var all []string
	for _, grant := range gs {
		if p := grant.Wish.Prefix; p != "" && !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// Of returns what a person may, as a token that is nowhere kept. A person in no group may nothing: ok is false.
func (gs Grants) Of(p Person) (t Token, ok bool) {
	at := slices.IndexFunc(gs, func(g Grant) bool {
		return slices.ContainsFunc(g.Groups, func(group string) bool { return slices.Contains(p.Groups, group) })
	})
	if at < 0 {
		return Token{}, false
	}
	w := gs[at].Wish
	return Token{ID: p.ID(), Name: p.String(), Scopes: w.Scopes, Prefix: w.Prefix, Given: w.Bounds}, true
}

// Alike reports whether two tokens allow the same.
func (t Token) Alike(other Token) bool {
	return slices.Equal(t.Scopes, other.Scopes) && t.Prefix == other.Prefix && t.Bounds().Equal(other.Bounds())
}

// Who is the holder as messages name them: "the token ci", or the person.
func (t Token) Who() string { return whoIs(t.Name) }

func whoIs(name string) string {
	if isPerson(name) {
		return name
	}
	return "the token " + name
}

// isPerson reports whether a name is a person's, and not a token's.
func isPerson(name string) bool {
	by, _, _ := strings.Cut(name, ":")
	return by == ByProxy || by == ByOIDC
}
