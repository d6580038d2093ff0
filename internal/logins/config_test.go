package logins_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/access"
	"deadman/internal/logins"
	"deadman/internal/subjects"
)

func parse(t *testing.T, text string) (*logins.Config, error) {
	t.Helper()
	return logins.Parse([]byte(text), filepath.Join(t.TempDir(), "login.yaml"), logins.Options{
		Env: func(name string) string { return map[string]string{"SECRET": " s3cret \n"}[name] }, Now: time.Now,
	})
}

const fullConfig = `header: {name: x-forwarded-user, groups: X-Forwarded-Groups, separator: "|"}
oidc:
  issuer: https://id.example.org/realms/main
  title: Example
  client_id: deadman
  client_secret_env: SECRET
  scopes: [email, groups]
  name: preferred_username
  groups: realm_access.roles
groups:
  - {group: [sre, platform], scopes: [admin]}
  - group: acme
    scopes: [rules, oncall]
    prefix: acme-*
    subjects: [acme.>]
    publish: []
`

func TestLoginFileIsRead(t *testing.T) {
	c, err := parse(t, fullConfig)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(logins.Header{Name: "X-Forwarded-User", Groups: "X-Forwarded-Groups", Separator: "|"}, *c.Header); diff != "" {
		t.Error(diff)
	}
	if c.OIDC.Title() != "Example" || c.OIDC.Issuer() != "https://id.example.org/realms/main" {
		t.Errorf("%q %q", c.OIDC.Title(), c.OIDC.Issuer())
	}
	want := access.Grants{
		{Groups: []string{"sre", "platform"}, Token: access.TokenRequest{Scopes: []access.Scope{access.Admin}}},
		{Groups: []string{"acme"}, Token: access.TokenRequest{
			Scopes: []access.Scope{access.OnCall, access.Rules}, Prefix: "acme-", Bounds: access.Bounds{Subjects: subjects.List{"acme.>"}, Publish: subjects.List{}},
		}},
	}
	if diff := cmp.Diff(want, c.Grants); diff != "" {
		t.Errorf("grants (-want +got):\n%s", diff)
	}
}

func TestLoginFileIsRefused(t *testing.T) {
	const oidc = "oidc: {issuer: https://id.example.org, client_id: deadman}\n"
	const grants = "groups: [{group: sre, scopes: [read]}]\n"
	for text, wants := range map[string][]string{
		"":                               {"login.yaml:1:1: the file is empty"},
		grants:                           {"1:1: the login method is missing"},
		oidc:                             {"groups is missing; write the scopes of groups"},
		oidc + "groups: []\n":            {"2:9: groups: the list is empty"},
		oidc + "groups: {sre: [read]}\n": {`groups: expected a list`},
		"odic: {}\n" + grants:            {`1:1: odic: unknown field "odic"; did you mean "oidc"?`},
		"oidc: {issuer: http://id.example.org, client_id: x}\n" + grants:                                               {"1:16: oidc.issuer:", "is not https"},
		"oidc: {issuer: id.example.org, client_id: x}\n" + grants:                                                      {"write the full URL"},
		"oidc: {issuer: https://a@id.example.org, client_id: x}\n" + grants:                                            {"write the full URL"},
		"oidc: {issuer: https://id.example.org}\n" + grants:                                                            {"oidc: client_id is missing"},
		"oidc: {issuer: https://id.example.org, client_id: x, client_secret: y}\n" + grants:                            {`unknown field "client_secret"`},
		"oidc: {issuer: https://id.example.org, client_id: x, client_secret_env: NONE}\n" + grants:                     {"NONE is not set"},
		"oidc: {issuer: https://id.example.org, client_id: x, client_secret_file: none}\n" + grants:                    {"oidc.client_secret_file:", "name a file that the node can read"},
		"oidc: {issuer: https://id.example.org, client_id: x, client_secret_file: a, client_secret_env: B}\n" + grants: {"keep one of the two"},
		"oidc: {issuer: https://id.example.org, client_id: x, ca_file: none}\n" + grants:                               {"oidc.ca_file:"},
		"oidc: {issuer: https://id.example.org, client_id: x, scopes: [email profile]}\n" + grants:                     {"is not a scope"},
		"header: {name: X-User}\n" + grants:                                                                            {"header: groups is missing"},
		"header: {groups: X-Groups}\n" + grants:                                                                        {"header: name is missing"},
		"header: {name: X-User, groups: x-user}\n" + grants:                                                            {"use a separate header for groups"},
		"header: {name: authorization, groups: X-Groups}\n" + grants:                                                   {"header.name: Authorization has another meaning"},
		"header: {name: X-Forwarded-For, groups: X-Groups}\n" + grants:                                                 {"has another meaning"},
		"header: {name: 'X User', groups: X-Groups}\n" + grants:                                                        {"is not the name of a header"},
		"header: {name: X-User, groups: X-Groups, separator: a}\n" + grants:                                            {"is not a separator"},
		oidc + "groups: [{scopes: [read]}]\n":                                                                          {"2:10: groups[0]: group is missing"},
		oidc + "groups: [{group: sre}]\n":                                                                              {"groups[0]: scopes is missing"},
		oidc + "groups: [{group: sre, scopes: []}]\n":                                                                  {"groups[0].scopes: there is none"},
		oidc + "groups: [{group: sre, scopes: [read, adm]}]\n":                                                         {`2:38: groups[0].scopes[1]: "adm" is not one of`, "did you mean admin?"},
		oidc + "groups: [{group: ' sre', scopes: [read]}]\n":                                                           {"begins or ends with a space"},
		oidc + "groups: [{group: sre, scopes: [rules], prefix: '*'}]\n":                                                {`groups[0].prefix: "*" is all rules`},
		oidc + "groups: [{group: sre, scopes: [admin], subjects: [a]}]\n":                                              {"admin without a prefix may make tokens without bounds"},
		oidc + "groups: [{group: sre, scopes: [rules], subjects: [a..b]}]\n":                                           {"groups[0].subjects[0]"},
		oidc + "groups: [{group: sre, scopes: [rules], name: x}]\n":                                                    {`unknown field "name"`},
		oidc + "groups: [{group: a, scopes: [read]}, {group: [b, a], scopes: [admin]}]\n":                              {`groups[0] has the group "a" already`},
		oidc + "groups:\n" + strings.Repeat("- {group: g, scopes: [read]}\n", 201):                                     {"the limit is 200"},
	} {
		c, err := parse(t, text)
		if err == nil || c != nil {
			t.Errorf("%q is taken: %+v", text, c)
			continue
		}
		for _, want := range wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q:\n%v\nwants %s", text, err, want)
			}
		}
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
}

func TestSecretOfLoginIsInFile(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"secret":     "s3cret\n",
		"login.yaml": "oidc: {issuer: https://id.example.org, client_id: x, client_secret_file: secret}\ngroups: [{group: a, scopes: [read]}]\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := logins.Load(filepath.Join(folder, "login.yaml"), logins.Options{Now: time.Now}); err != nil {
		t.Error(err)
	}
}
