package logins

import (
	"fmt"
	"strings"

	"deadman/internal/access"
)

// claims are what a provider says of a person.
type claims map[string]any

// find is the claim of a name or, where there is none of it, of a path with dots such as realm_access.roles.
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

// texts is a claim that is a text or a list of texts.
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

// person is whom the claims are about.
func (p *Provider) person(c claims, subject string) (access.Person, error) {
	value, _ := c.find(p.nameClaim)
	name, ok := value.(string)
	if !ok {
		return access.Person{}, fmt.Errorf("%w: the provider sends no text as the claim %s; name another one with oidc.name, or ask for a scope that brings it", ErrPerson, p.nameClaim)
	}
	if wrong := wrongText(name, MaxName); wrong != "" {
		return access.Person{}, fmt.Errorf("%w: the claim %s is no name: %s", ErrPerson, p.nameClaim, wrong)
	}
	// Some providers leave the claim out where it is false.
	if verified := c[verifiedClaim]; p.nameClaim == emailClaim && verified != true && verified != "true" {
		return access.Person{}, fmt.Errorf("%w: the provider does not say that it verified the address %s (email_verified); have it do so, or name another claim with oidc.name", ErrPerson, name)
	}
	if wrong := wrongText(subject, maxSubject); wrong != "" {
		return access.Person{}, fmt.Errorf("%w: the claim sub is none: %s", ErrPerson, wrong)
	}
	value, _ = c.find(p.groupsClaim)
	named, err := texts(value)
	if err != nil {
		return access.Person{}, fmt.Errorf("%w: the claim %s is no list of groups: %w", ErrPerson, p.groupsClaim, err)
	}
	groups, err := groupsOf(named)
	if err != nil {
		return access.Person{}, err
	}
	return access.Person{By: access.ByOIDC, Name: name, Issuer: p.issuer, Subject: subject, Groups: groups}, nil
}
