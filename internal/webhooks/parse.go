package webhooks

import (
	"deadman/internal/configfile"
	"deadman/internal/subjects"
)

// MaxHooks is the maximum number of hooks in a file.
const MaxHooks = 100

// Parse parses a YAML file of hooks; file is its name. The secrets are loaded separately by Webhook.LoadSecrets. The
// error is configfile.Problems.
func Parse(data []byte, file string) (Set, error) {
	set := make(Set)
	err := configfile.Read(data, file, func(v configfile.Value) { set.read(v.In(fileFields)["hooks"]) })
	if err != nil {
		return nil, err
	}
	return set, nil
}

// readHook parses one hook. Accepting unsigned requests requires the explicit scheme none.
func readHook(fields map[string]configfile.Value) *Webhook {
	name, subject, scheme, secret := fields["name"], fields["subject"], fields["scheme"], fields["secret_file"]
	h := &Webhook{
		Name:   name.Require("write the name that its URL ends with").Text(),
		Scheme: Scheme(scheme.Require("write " + schemes).Text()),
	}
	if !h.IsButton() {
		h.Subject = subject.Require("write the subject that its events are published on").Text()
	} else if subject.Present() {
		subject.Problem("the scheme %s takes presses of buttons, which are no events; leave subject out", h.Scheme)
	}
	if wrong := configfile.CheckName(h.Name); h.Name != "" && wrong != "" {
		name.Problem("%s", wrong)
	}
	if err := subjects.CheckLiteral(h.Subject); h.Subject != "" && err != nil {
		subject.Problem("%s", err)
	}
	if h.Scheme != "" && verifiers[h.Scheme] == nil {
		scheme.Problem("unknown scheme %q; write %s", h.Scheme, schemes)
	}
	if !h.hasSecret() {
		secret.Problem("the scheme %s has no secret; leave secret_file out, or name another scheme", h.Scheme)
		return h
	}
	h.SecretFile = secret.Require("name the file with the secret").Path()
	return h
}

const schemes = "stripe, github, standard, slack, mattermost or none"
