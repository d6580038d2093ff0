package access_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/access"
	"deadman/internal/store/storetest"
	"deadman/internal/subjects"
)

var ann = access.Person{By: access.ByOIDC, Name: "ann@example.org", Issuer: "https://id.example.org", Subject: "1", Groups: []string{"staff", "sre"}}

// A session of a person needs no token, is not usable as one, and ends 12 hours after the login regardless of use.
func TestSessionOfPerson(t *testing.T) {
	c := newClock()
	k := access.NewTokens(open(t, storetest.DataDir(t)), c.Now)
	s, secret, err := k.Admit(t.Context(), ann, "192.0.2.7", "Firefox")
	if err != nil || s.ExpiresAt.Sub(s.CreatedAt) != access.PersonMost {
		t.Fatalf("%+v, %v", s, err)
	}
	checkDenied(t, k, secret)
	resume := func(want bool) {
		t.Helper()
		got, token, err := k.Resume(t.Context(), secret)
		if want != (err == nil) || token.ID != "" || want && cmp.Diff(&ann, got.Person) != "" {
			t.Errorf("%+v %+v, %v", got, token, err)
		}
	}
	resume(true)
	for range 23 {
		c.advance(31 * time.Minute)
		resume(true)
	}
	c.advance(access.PersonMost - 23*31*time.Minute - time.Microsecond)
	resume(true)
	c.advance(time.Microsecond)
	resume(false)

	_, secret, err = k.Admit(t.Context(), ann, "", "")
	if err != nil {
		t.Fatal(err)
	}
	resume(true)
	all, err := k.Sessions(t.Context())
	if err != nil || len(all) != 1 || all[0].LastUsedAt.Before(all[0].CreatedAt) {
		t.Fatalf("%+v, %v", all, err)
	}
	if err := k.EndSession(t.Context(), all[0].ID); err != nil {
		t.Error(err)
	}
	resume(false)
	entries, _, err := k.Audit(t.Context(), access.AuditFilter{Action: "session.create"})
	want := access.Actor{Name: "oidc:ann@example.org", TokenID: "oidc:https://id.example.org#1", Addr: "192.0.2.7"}
	if err != nil || len(entries) != 2 || entries[1].Actor != want {
		t.Errorf("the audit has %+v, %v", entries, err)
	}
}

// The first grant with one of a person's groups applies; a person without such a group has no permissions.
func TestGrants(t *testing.T) {
	grants := access.Grants{
		{Groups: []string{"admins", "sre"}, Token: access.TokenRequest{Scopes: []access.Scope{access.OnCall}}},
		{Groups: []string{"staff"}, Token: access.TokenRequest{Scopes: []access.Scope{access.Rules}, Prefix: "acme-", Bounds: access.Bounds{Subjects: subjects.List{"acme.>"}}}},
	}
	for _, c := range []struct {
		groups []string
		want   access.Scope // empty: none
	}{
		{[]string{"staff", "sre"}, access.OnCall}, {[]string{"staff"}, access.Rules}, {nil, ""}, {[]string{"SRE"}, ""}, {[]string{"sre "}, ""}, {[]string{""}, ""}, {[]string{"admins,sre"}, ""}, {[]string{"*"}, ""},
	} {
		p := ann
		p.Groups = c.groups
		token, ok := grants.Of(p)
		if ok != (c.want != "") || ok && (!slices.Equal(token.Scopes, []access.Scope{c.want}) || token.Name != "oidc:ann@example.org" || !token.Live(time.Now())) {
			t.Errorf("%q may %+v, %v", c.groups, token, ok)
		}
	}
	p := ann
	p.Groups = []string{"staff"}
	token, _ := grants.Of(p)
	if b := token.Bounds(); b == nil || b.MayRead("acme.x") != nil || b.MayRead("other.x") == nil || b.MayPublish("acme.x") == nil || token.May(access.Rules, "other") {
		t.Errorf("the bounds are %+v", b)
	}
	if _, ok := access.Grants(nil).Of(ann); ok {
		t.Error("without grants there is access")
	}
}

// A person is never confused with a token, the node, or a person of another authenticator.
func TestUsersAreDistinct(t *testing.T) {
	same := map[string]string{}
	for name, p := range map[string]access.Person{
		"a": {By: access.ByOIDC, Name: "ann", Issuer: "https://a.example", Subject: "1"},
		"b": {By: access.ByOIDC, Name: "ann", Issuer: "https://a.example", Subject: "2"},
		"c": {By: access.ByOIDC, Name: "ann", Issuer: "https://b.example", Subject: "1"},
		"d": {By: access.ByProxy, Name: "ann"},
		"e": {By: access.ByProxy, Name: "https://a.example#1"},
		"f": {By: access.ByProxy, Name: access.Loopback},
		"g": {By: access.ByOIDC, Name: access.NodeItself},
	} {
		if before, twice := same[p.ID()]; twice {
			t.Errorf("%s and %s are %s", before, name, p.ID())
		}
		same[p.ID()] = name
		if p.String() == access.Loopback || p.String() == access.NodeItself {
			t.Errorf("%s is %s", name, p)
		}
		k := access.NewTokens(open(t, storetest.DataDir(t)), time.Now)
		if _, _, err := k.Create(t.Context(), access.TokenRequest{Name: p.String(), Scopes: []access.Scope{access.Read}}); err == nil {
			t.Errorf("a token is named %s", p)
		}
	}
}

// An invalid text in the store is a person without permissions.
func TestReadPerson(t *testing.T) {
	text, err := access.WritePerson(ann)
	if got := access.ReadPerson(text); err != nil || cmp.Diff(ann, got) != "" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"", "null x", `{"by": "oidc", "name": "ann", "more": 1}`, `{"by": "oidc"} {}`, `[]`} {
		if got := access.ReadPerson(text); got.By != "" {
			t.Errorf("%q is %+v", text, got)
		}
	}
}
