package webhooks

import (
	"fmt"
	"strings"
	"testing"
)

func TestHooksAreRead(t *testing.T) {
	set, err := Parse([]byte(`# whose webhooks are taken in
hooks:
  - name: payments
    subject: payments.stripe
    scheme: stripe
    secret_file: /run/secrets/stripe
  - {name: code, subject: code.pushed, scheme: github, secret_file: github.txt}
  - {name: open, subject: anything, scheme: none}
`), "etc/hooks.yaml")
	if err != nil || len(set) != 3 {
		t.Fatal(set, err)
	}
	if h := set["code"]; h.SecretFile != "etc/github.txt" {
		t.Errorf("the secret is in %s", h.SecretFile)
	}
	if h := set["payments"]; h.Name != "payments" || h.Subject != "payments.stripe" || h.Scheme != Stripe || h.SecretFile != "/run/secrets/stripe" {
		t.Errorf("%+v", h)
	}
	for _, nothing := range []string{"", "# nothing\n", "hooks: []\n", "\ufeffhooks: []"} {
		if set, err := Parse([]byte(nothing), "hooks.yaml"); err != nil || len(set) != 0 {
			t.Errorf("%q: %v, %v", nothing, set, err)
		}
	}
}

// All problems are reported at once, each with its place.
func TestAllProblemsAreReported(t *testing.T) {
	_, err := Parse([]byte(`hooks:
  - name: Payments
    subject: payments.*
    scheme: paypal
    secret: x
  - name: code
    subject: $JS.API
    scheme: github
  - {name: code, subject: deadman-a.alerts, scheme: none, secret_file: x}
  - shop
hook: {}
`), "hooks.yaml")
	want := `hooks.yaml:2:5: hooks[0]: secret_file is missing; name the file with the secret
hooks.yaml:2:11: hooks[0].name: "Payments" is not a name; write 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit
hooks.yaml:3:14: hooks[0].subject: "payments.*" has a wildcard; name one subject
hooks.yaml:4:13: hooks[0].scheme: unknown scheme "paypal"; write stripe, github, standard, slack, mattermost or none
hooks.yaml:5:5: hooks[0].secret: unknown field "secret"; the fields here are name, subject, scheme, secret_file
hooks.yaml:6:5: hooks[1]: secret_file is missing; name the file with the secret
hooks.yaml:7:14: hooks[1].subject: "$JS.API" belongs to the servers ("$…", "_INBOX…" and "deadman…"); name another subject
hooks.yaml:9:12: hooks[2].name: there are two hooks code; use unique names
hooks.yaml:9:27: hooks[2].subject: "deadman-a.alerts" belongs to the servers ("$…", "_INBOX…" and "deadman…"); name another subject
hooks.yaml:9:72: hooks[2].secret_file: the scheme none has no secret; leave secret_file out, or name another scheme
hooks.yaml:10:5: hooks[3]: expected a mapping with the fields name, subject, scheme, secret_file, not text
hooks.yaml:11:1: hook: unknown field "hook"; did you mean "hooks"?`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestInvalidFiles(t *testing.T) {
	many := "hooks:\n"
	for i := range MaxHooks + 1 {
		many += fmt.Sprintf("  - {name: h%d, subject: s, scheme: none}\n", i)
	}
	for text, wrong := range map[string]string{
		"hooks: {}":           "hooks: expected a list, not a mapping",
		"hooks: [{name: 7}]":  "hooks[0].name: expected text, not a number",
		"hooks: [{name: ''}]": "hooks[0].name: the text has 0 bytes",
		"hooks: [{subject: a, scheme: none}, {subject: b, scheme: none}]": "hooks[1]: name is missing",
		"hooks: []\nhooks: []": `2:1: hooks: "hooks" is here twice`,
		"- hooks":              "expected a mapping with the fields hooks",
		many:                   "there are 101 hooks, and the limit is 100",
		"hooks: [{name: a, subject: a.b, scheme: slack, secret_file: x}]":             "the scheme slack takes presses of buttons, which are no events; leave subject out",
		"hooks: [{name: a, scheme: mattermost, secret_file: x}]":                      "the scheme mattermost has no secret",
		"hooks: [{name: a, scheme: slack}]":                                           "secret_file is missing",
		"hooks: [{name: a, subject: a..b, scheme: none}]":                             "empty",
		"hooks: [{name: a, subject: a b, scheme: none}]":                              "space",
		"hooks: [{name: a, subject: " + strings.Repeat("a", 513) + ", scheme: none}]": "513 bytes",
	} {
		if _, err := Parse([]byte(text), "hooks.yaml"); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%.60s: %v, want %q", text, err, wrong)
		}
	}
}
