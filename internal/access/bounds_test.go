package access_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/access"
)

func TestTokenWithPrefixUsesItsGrants(t *testing.T) {
	k := newTokens(t)
	w := newRequest("acme", "rules events")
	w.Prefix = "acme-*"
	w.Bounds = access.Bounds{
		Subjects: []string{"acme.>", "shared.*", "acme.>"}, Publish: []string{"acme.out.*"}, Sources: []string{"acme-*", "shop"},
	}
	_, secret := create(t, k, w)
	token, err := k.Authenticate(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	b := token.Bounds()
	for _, c := range []struct {
		what string
		may  func(string) error
		yes  string
		no   string
	}{
		{"read", b.MayRead, "acme.> acme.a.b shared.* shared.x", "> *.a orders.created shared.> shared.a.b acme"},
		{"publish", b.MayPublish, "acme.out.x acme.out.*", "acme.out.> acme.in.x orders.shipped"},
		{"query", b.MayQuery, "shop acme-db acme-", "shopping acme other"},
		{"call", b.MayCall, "", "acme-x shipping"},
	} {
		for _, what := range strings.Fields(c.yes) {
			if err := c.may(what); err != nil {
				t.Errorf("%s %s: %v", c.what, what, err)
			}
		}
		for _, what := range strings.Fields(c.no) {
			err := c.may(what)
			if !errors.Is(err, access.ErrOutside) || !strings.Contains(err.Error(), "the token acme may not") || !strings.Contains(err.Error(), "--") {
				t.Errorf("%s %s: %v, want what, bound and remedy", c.what, what, err)
			}
		}
	}
	if want := "subjects acme.>, shared.*; publish acme.out.*; sources acme-*, shop; handlers none"; b.String() != want {
		t.Errorf("it may use %q, want %q", b, want)
	}
}

// A token with a prefix may use nothing that it was not given.
func TestTokenWithPrefixAloneMayUseNothing(t *testing.T) {
	b := access.Token{Name: "acme", Prefix: "acme-"}.Bounds()
	for what, err := range map[string]error{
		"read": b.MayRead("acme.a"), "publish": b.MayPublish("acme.a"), "query": b.MayQuery("acme-db"), "call": b.MayCall("acme-x"),
	} {
		if !errors.Is(err, access.ErrOutside) {
			t.Errorf("%s: %v, want ErrOutside", what, err)
		}
	}
}

// A token without a prefix is bound only by the lists given to it.
func TestTokenWithoutPrefixUsesUnboundObjects(t *testing.T) {
	if b := (access.Token{Name: "all"}).Bounds(); b != nil || b.MayRead(">") != nil || b.MayPublish("x") != nil || b.MayQuery("x") != nil || b.MayCall("x") != nil {
		t.Errorf("it is bound by %v", b)
	}
	b := access.Token{Name: "shop", Given: access.Bounds{Publish: []string{"shop.>"}}}.Bounds()
	if b.MayRead("orders.>") != nil || b.MayQuery("x") != nil || b.MayPublish("orders.created") == nil || b.MayPublish("shop.a") != nil {
		t.Errorf("it is bound by %v", b)
	}
}

func TestBadBoundsMakeNoToken(t *testing.T) {
	k := newTokens(t)
	many := make([]string, 101)
	for i := range many {
		many[i] = "a"
	}
	for want, b := range map[string]access.Bounds{
		"subjects[0]: ":    {Subjects: []string{"a..b"}},
		"publish[1]: ":     {Publish: []string{"a", "deadman.alerts.>"}},
		"sources[0]: ":     {Sources: []string{"*x"}},
		"handlers[0]: ":    {Handlers: []string{"A"}},
		"there are 101":    {Sources: many},
		"before its end; ": {Subjects: []string{">.a"}},
	} {
		w := newRequest("n", "rules")
		w.Bounds = b
		var problems access.Problems
		if _, _, err := k.Create(t.Context(), w); !errors.As(err, &problems) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", b, err, want)
		}
	}
	w := newRequest("n", "admin")
	w.Bounds.Sources = []string{"shop"}
	if _, _, err := k.Create(t.Context(), w); err == nil || !strings.Contains(err.Error(), "leave admin out") {
		t.Errorf("a bound admin: %v", err)
	}
	if tokens, err := k.List(t.Context()); err != nil || len(tokens) != 0 {
		t.Errorf("there are %v, %v", tokens, err)
	}
}

func TestBoundsAreKept(t *testing.T) {
	b := &access.Bounds{Token: "acme", Subjects: []string{"a.>"}, Publish: []string{}}
	text, err := access.WriteBounds(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b, access.ReadBounds(text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, bad := range []string{"", "x", "[]", `{"subjects":"a"}`, `{"channels":[]}`, `{} {}`} {
		b := access.ReadBounds(bad)
		if b.MayRead("a") == nil || b.MayPublish("a") == nil || b.MayQuery("a") == nil || b.MayCall("a") == nil {
			t.Errorf("%q leaves %v", bad, b)
		}
	}
}

func TestBoundsAreEqualWhereTheyLeaveSame(t *testing.T) {
	var none *access.Bounds
	a := &access.Bounds{Token: "a", Subjects: []string{"a.>"}}
	if !none.Equal(nil) || none.Equal(a) || a.Equal(none) || !a.Equal(&access.Bounds{Token: "b", Subjects: []string{"a.>"}}) ||
		a.Equal(&access.Bounds{Subjects: []string{"a.>"}, Publish: []string{}}) || a.Equal(&access.Bounds{Subjects: []string{"b.>"}}) {
		t.Error("bounds are compared wrongly")
	}
}
