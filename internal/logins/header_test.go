package logins_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/access"
	"deadman/internal/logins"
)

func TestPersonOfHeader(t *testing.T) {
	const user, groups = "X-Forwarded-User", "X-Forwarded-Groups"
	many := make([]string, logins.MaxGroups+1)
	for i := range many {
		many[i] = fmt.Sprint("g", i)
	}
	for _, c := range []struct {
		separator string
		headers   [][2]string
		want      *access.Person
		refused   string
	}{
		{",", nil, nil, ""},
		{",", [][2]string{{groups, "sre"}}, nil, ""}, // groups without a person
		{",", [][2]string{{user, ""}, {groups, "sre"}}, nil, ""},
		{",", [][2]string{{user, " \t"}, {groups, "sre"}}, nil, ""},
		{",", [][2]string{{user, "ann"}}, &access.Person{Name: "ann"}, ""},
		{",", [][2]string{{"x-forwarded-user", " ann "}, {"x-forwarded-groups", "sre"}}, &access.Person{Name: "ann", Groups: []string{"sre"}}, ""},
		// Surrounding spaces, empty names, duplicates, and capital letters, which make another group.
		{",", [][2]string{{user, "ann"}, {groups, " sre ,,oncall,\tsre,SRE, , sre"}}, &access.Person{Name: "ann", Groups: []string{"sre", "oncall", "SRE"}}, ""},
		{"|", [][2]string{{user, "ann"}, {groups, "a,b|c d"}}, &access.Person{Name: "ann", Groups: []string{"a,b", "c d"}}, ""},
		{";", [][2]string{{user, "ann"}, {groups, "sre,oncall"}}, &access.Person{Name: "ann", Groups: []string{"sre,oncall"}}, ""},
		{",", [][2]string{{user, "ann"}, {groups, "a\u200bb,s\u202ere,ok," + strings.Repeat("x", 257)}}, &access.Person{Name: "ann", Groups: []string{"ok"}}, ""},
		{",", [][2]string{{user, "ann"}, {groups, "sre\u00a0,\u3000sre,\u0085sre,ok"}}, &access.Person{Name: "ann", Groups: []string{"ok"}}, ""}, // not blanks of HTTP
		{",", [][2]string{{user, "ann\u00a0"}, {groups, "sre"}}, nil, "cannot be printed"},
		// One header of the client and one of the proxy.
		{",", [][2]string{{user, "root"}, {user, "ann"}}, nil, "is sent 2 times"},
		{",", [][2]string{{user, "ann"}, {groups, "sre"}, {groups, "staff"}}, nil, "is sent 2 times"},
		{",", [][2]string{{user, "a\u202enn"}}, nil, "cannot be printed"},
		{",", [][2]string{{user, "a\xffnn"}}, nil, "cannot be printed"},
		{",", [][2]string{{user, strings.Repeat("a", 129)}}, nil, "129 bytes"},
		{",", [][2]string{{user, "ann"}, {groups, strings.Join(many, ",")}}, nil, "more than 1000 groups"},
	} {
		h, header := logins.Header{Name: user, Groups: groups, Separator: c.separator}, http.Header{}
		for _, one := range c.headers {
			header.Add(one[0], one[1])
		}
		if c.want != nil {
			c.want.By = access.ByProxy
		}
		got, err := h.PersonOf(header)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%.200v (-want +got):\n%s", c.headers, diff)
		}
		if (c.refused != "") != errors.Is(err, logins.ErrPerson) || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%.200v: %v, want %q", c.headers, err, c.refused)
		}
	}
}
