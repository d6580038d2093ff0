package logins

import (
	"fmt"
	"strings"

	"deadman/internal/access"
)

// claims are the claims of a provider about a person.
type claims map[string]any

// find returns the claim of a name or, if it does not exist, of a dotted path such as realm_access.roles.
func (c claims) find(name string) (any, bool) {
	if v, ok := c[name]; ok && v != nil {
		return v, true
	}
	head, rest, deeper := strings.Cut(name, ".")
	inner, ok := c[head].(map[string]any)
	if !deeper || !ok {
		return nil, false
	}
	return claims(inner).find(rest)
}

// texts returns a claim that is a text or a list of texts.
func texts(v any) ([]string, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return []string{v}, nil
	case []any:
		all := make([]string, 0, len(v))
		for _, one := range v {
			text, ok := one.(string)
			if !ok {
				return nil, fmt.Errorf("it has a %T among its entries", one)
			}
			all = append(all, text)
		}
		return all, nil
	}
	return nil, fmt.Errorf("it is a %T", v)
}

// person returns the person of the claims.
func (p *Provider) person(c claims, subject string) (access.Person, error) {
	value, _ := c.find(p.nameClaim)
	name, ok := value.(string)
	if !ok {
		return access.Person{}, fmt.Errorf("%w: the claim %s of the provider is missing or no text; name another claim with oidc.name, or request a scope that includes it", ErrPerson, p.nameClaim)
	}
	if wrong := wrongText(name, MaxName); wrong != "" {
		return access.Person{}, fmt.Errorf("%w: the claim %s is not a valid name: %s", ErrPerson, p.nameClaim, wrong)
	}
	// Some providers omit the claim if it is false.
	if verified := c[verifiedClaim]; p.nameClaim == emailClaim && verified != true && verified != "true" {
		return access.Person{}, fmt.Errorf("%w: the provider did not verify the address %s (email_verified); verify it there, or name another claim with oidc.name", ErrPerson, name)
	}
	if wrong := wrongText(subject, maxSubject); wrong != "" {
		return access.Person{}, fmt.Errorf("%w: the claim sub is invalid: %s", ErrPerson, wrong)
	}
	value, _ = c.find(p.groupsClaim)
	named, err := texts(value)
	if err != nil {
		return access.Person{}, fmt.Errorf("%w: the claim %s is not a list of groups: %w", ErrPerson, p.groupsClaim, err)
	}
	groups, err := groupsOf(named)
	if err != nil {
		return access.Person{}, err
	}
	return access.Person{By: access.ByOIDC, Name: name, Issuer: p.issuer, Subject: subject, Groups: groups}, nil
}
