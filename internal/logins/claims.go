package logins

import (
	"fmt"
	"strings"
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

// addMissing adds the claims of names, or of dotted paths, that c lacks and more has.
func (c claims) addMissing(more claims, names ...string) {
	for _, name := range names {
		if _, has := c.find(name); has {
			continue
		}
		if v, has := more.find(name); has {
			c[name] = v
		}
	}
}

// haveText reports whether the claim of a name is this text. A claim that is no text, such as a list, equals none.
func (c claims) haveText(name string, v any) bool {
	own, isText := c[name].(string)
	other, are := v.(string)
	return isText && are && own == other
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
