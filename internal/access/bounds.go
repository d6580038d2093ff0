package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"deadman/internal/subjects"
)

// ErrOutside means that a token or a person, or a rule saved by them, exceeded their bounds.
var ErrOutside = errors.New("out of the token's bounds")

// Bounds lists the subjects, sources and handlers that a token may use, directly and through its rules. A nil list
// allows all, and an empty one none. A nil *Bounds allows all.
type Bounds struct {
	Token    string        `json:"token,omitzero"`    // name of the token or person
	Prefix   string        `json:"-"`                 // of the token; not stored with a rule
	Subjects subjects.List `json:"subjects,omitzero"` // readable by its rules
	Publish  subjects.List `json:"publish,omitzero"`  // allowed for its publishing, emits of its rules and requests of its lookups
	Sources  []string      `json:"sources,omitzero"`  // allowed for its lookups: names, or prefixes followed by "*"
	Handlers []string      `json:"handlers,omitzero"` // allowed for its rules, in the form of Sources
}

// MayRead returns an error for a subject pattern outside the readable subjects.
func (b *Bounds) MayRead(pattern string) error {
	if b == nil || b.Subjects == nil || b.Subjects.Cover(pattern) {
		return nil
	}
	return b.refuse("read", "the subject", pattern, "subjects", "--subject", b.Subjects)
}

// MayPublish returns an error for a subject or subject pattern outside the publishable subjects.
func (b *Bounds) MayPublish(pattern string) error {
	if b == nil || b.Publish == nil || b.Publish.Cover(pattern) {
		return nil
	}
	return b.refuse("publish on", "the subject", pattern, "publish", "--publish", b.Publish)
}

// MayQuery returns an error for a source outside the bounds.
func (b *Bounds) MayQuery(source string) error {
	if b == nil || b.Sources == nil || names(b.Sources, source) {
		return nil
	}
	return b.refuse("query", "the source", source, "sources", "--source", b.Sources)
}

// MayCall returns an error for a handler outside the bounds.
func (b *Bounds) MayCall(handler string) error {
	if b == nil || b.Handlers == nil || names(b.Handlers, handler) {
		return nil
	}
	return b.refuse("call", "the handler", handler, "handlers", "--handler", b.Handlers)
}

// names reports whether the list contains the name, or a matching prefix followed by "*".
func names(list []string, name string) bool {
	return slices.ContainsFunc(list, func(one string) bool {
		prefix, open := strings.CutSuffix(one, "*")
		return one == name || open && strings.HasPrefix(name, prefix)
	})
}

// maxShown bounds the part of a list shown in an error, in bytes.
const maxShown = 300

// refuse returns an error with the request, the bound and a remedy. It discloses only data of the request and the
// token.
func (b *Bounds) refuse(verb, kind, what, list, flag string, allowed []string) error {
	has := strings.Join(allowed, ", ")
	switch {
	case has == "":
		has = "none"
	case len(has) > maxShown:
		has = strings.ToValidUTF8(has[:maxShown], "") + "…"
	}
	remedy := "ask for a token made with " + flag
	if isPerson(b.Token) {
		remedy = "ask for more " + list + " for your group in the login file"
	}
	return fmt.Errorf("%s may not %s %s %.300q, which is %w (%s: %s); leave it out, or %s", whoIs(b.Token), verb, kind, what, ErrOutside, list, has, remedy)
}

// Equal reports whether two bounds allow the same, regardless of their tokens.
func (b *Bounds) Equal(c *Bounds) bool {
	if b == nil || c == nil {
		return b == c
	}
	same := func(x, y []string) bool { return (x == nil) == (y == nil) && slices.Equal(x, y) }
	return same(b.Subjects, c.Subjects) && same(b.Publish, c.Publish) && same(b.Sources, c.Sources) && same(b.Handlers, c.Handlers)
}

// lists returns the lists of the bounds.
func (b Bounds) lists() [][]string { return [][]string{b.Subjects, b.Publish, b.Sources, b.Handlers} }

// given reports whether any list is non-nil.
func (b Bounds) given() bool {
	return slices.ContainsFunc(b.lists(), func(l []string) bool { return l != nil })
}

// OrNil returns the bounds, or nil if all lists are nil.
func (b Bounds) OrNil() *Bounds {
	if !b.given() {
		return nil
	}
	return &b
}

// String returns the bounds as one line, "subjects acme.>; publish none; …", without the nil lists.
func (b *Bounds) String() string {
	if b == nil {
		return ""
	}
	var parts []string
	for i, list := range b.lists() {
		if list == nil {
			continue
		}
		has := strings.Join(list, ", ")
		if has == "" {
			has = "none"
		}
		parts = append(parts, listNames[i]+" "+has)
	}
	return strings.Join(parts, "; ")
}

// listNames are the displayed names of the lists, in their order.
var listNames = []string{"subjects", "publish", "sources", "handlers"}

// WriteBounds encodes bounds as JSON for a store.
func WriteBounds(b *Bounds) (string, error) {
	text, err := json.Marshal(b)
	return string(text), err
}

// ReadBounds decodes the text of WriteBounds. A text that can't be decoded, for example with a list unknown to this
// program, becomes bounds that allow nothing.
func ReadBounds(text string) *Bounds {
	b := &Bounds{}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(b); err != nil || decoder.More() {
		return &Bounds{Token: "whose bounds cannot be read", Subjects: subjects.List{}, Publish: subjects.List{}, Sources: []string{}, Handlers: []string{}}
	}
	return b
}

// orNone returns the list, or an empty one for nil.
func orNone[L ~[]string](l L) L {
	if l == nil {
		return L{}
	}
	return l
}

type boundsKey struct{}

// Within returns a context with the bounds of its actions.
func Within(ctx context.Context, b *Bounds) context.Context {
	return context.WithValue(ctx, boundsKey{}, b)
}

// BoundsOf returns the bounds of a context; nil: none.
func BoundsOf(ctx context.Context) *Bounds {
	b, _ := ctx.Value(boundsKey{}).(*Bounds)
	return b
}

// PrefixOf returns the prefix of a context's token; empty: it has none.
func PrefixOf(ctx context.Context) string {
	if b := BoundsOf(ctx); b != nil {
		return b.Prefix
	}
	return ""
}
