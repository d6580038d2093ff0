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

// ErrOutside means that a token or a person, or a rule that they saved, wanted what is out of their bounds.
var ErrOutside = errors.New("out of the token's bounds")

// Bounds are the subjects, sources and handlers that a token may use by itself and by the rules that it saves. A nil list
// bounds nothing, and an empty one leaves nothing. A nil *Bounds bounds nothing at all.
type Bounds struct {
	Token    string        `json:"token,omitzero"`    // the name of the token, or a person
	Prefix   string        `json:"-"`                 // of the token; it is not kept with a rule
	Subjects subjects.List `json:"subjects,omitzero"` // that its rules may read
	Publish  subjects.List `json:"publish,omitzero"`  // that it may publish on, its rules may emit on, and its lookups may request on
	Sources  []string      `json:"sources,omitzero"`  // that its lookups may ask: names, or what names begin with and a "*"
	Handlers []string      `json:"handlers,omitzero"` // that its rules may call, as Sources
}

// MayRead refuses a pattern of subjects that is not within those that may be read.
func (b *Bounds) MayRead(pattern string) error {
	if b == nil || b.Subjects == nil || b.Subjects.Cover(pattern) {
		return nil
	}
	return b.refuse("read", "the subject", pattern, "subjects", "--subject", b.Subjects)
}

// MayPublish refuses a subject, or a pattern of subjects, that is not within those that may be published on.
func (b *Bounds) MayPublish(pattern string) error {
	if b == nil || b.Publish == nil || b.Publish.Cover(pattern) {
		return nil
	}
	return b.refuse("publish on", "the subject", pattern, "publish", "--publish", b.Publish)
}

// MayAsk refuses a source that may not be asked.
func (b *Bounds) MayAsk(source string) error {
	if b == nil || b.Sources == nil || names(b.Sources, source) {
		return nil
	}
	return b.refuse("ask", "the source", source, "sources", "--source", b.Sources)
}

// MayCall refuses a handler that may not be called.
func (b *Bounds) MayCall(handler string) error {
	if b == nil || b.Handlers == nil || names(b.Handlers, handler) {
		return nil
	}
	return b.refuse("call", "the handler", handler, "handlers", "--handler", b.Handlers)
}

// names reports whether one of the list is the name, or what it begins with and a "*".
func names(list []string, name string) bool {
	return slices.ContainsFunc(list, func(one string) bool {
		begin, open := strings.CutSuffix(one, "*")
		return one == name || open && strings.HasPrefix(name, begin)
	})
}

// maxShown bounds how much of a list an error shows, in bytes.
const maxShown = 300

// refuse names what was wanted, the bound and the remedy. It tells nothing of others: only what the request and the token have.
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

// Equal reports whether two bounds leave the same, whichever tokens they are of.
func (b *Bounds) Equal(c *Bounds) bool {
	if b == nil || c == nil {
		return b == c
	}
	same := func(x, y []string) bool { return (x == nil) == (y == nil) && slices.Equal(x, y) }
	return same(b.Subjects, c.Subjects) && same(b.Publish, c.Publish) && same(b.Sources, c.Sources) && same(b.Handlers, c.Handlers)
}

// lists are the bounds without the token's name.
func (b Bounds) lists() [][]string { return [][]string{b.Subjects, b.Publish, b.Sources, b.Handlers} }

// given reports whether one of the lists is there.
func (b Bounds) given() bool {
	return slices.ContainsFunc(b.lists(), func(l []string) bool { return l != nil })
}

// OrNil returns the bounds; nil where no list is there.
func (b Bounds) OrNil() *Bounds {
	if !b.given() {
		return nil
	}
	return &b
}

// String says what may be used, as a line for people: "subjects acme.>; publish none; …". What is not bound is left out.
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

// listNames are what people call the lists, in their order.
var listNames = []string{"subjects", "publish", "sources", "handlers"}

// WriteBounds is how a store keeps bounds: JSON.
func WriteBounds(b *Bounds) (string, error) {
	text, err := json.Marshal(b)
	return string(text), err
}

// ReadBounds reads what WriteBounds wrote of bounds. What cannot be read, as a list that this program does not know, leaves
// nothing.
func ReadBounds(text string) *Bounds {
	b := &Bounds{}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(b); err != nil || decoder.More() {
		return &Bounds{Token: "whose bounds cannot be read", Subjects: subjects.List{}, Publish: subjects.List{}, Sources: []string{}, Handlers: []string{}}
	}
	return b
}

// Bounds returns the bounds of the token; nil: it has none. A token with a prefix may use what was given to it and nothing
// else; one without is bound by the lists that were given to it.
func (t Token) Bounds() *Bounds {
	if t.Prefix == "" && !t.Given.given() {
		return nil
	}
	b := t.Given
	b.Token, b.Prefix = t.Name, t.Prefix
	if t.Prefix != "" {
		b.Subjects, b.Publish = orNone(b.Subjects), orNone(b.Publish)
		b.Sources, b.Handlers = orNone(b.Sources), orNone(b.Handlers)
	}
	return &b
}

// orNone is the list, or an empty one where it is not there.
func orNone[L ~[]string](l L) L {
	if l == nil {
		return L{}
	}
	return l
}

type boundsKey struct{}

// Within returns a context in which nothing out of the bounds is done.
func Within(ctx context.Context, b *Bounds) context.Context {
	return context.WithValue(ctx, boundsKey{}, b)
}

// BoundsOf returns the bounds within which things are done in a context; nil: there are none.
func BoundsOf(ctx context.Context) *Bounds {
	b, _ := ctx.Value(boundsKey{}).(*Bounds)
	return b
}
