package sources

import (
	"os"
	"strings"

	"deadman/papers"
)

// maxSecret is the most bytes of a secret in the environment.
const maxSecret = 8 << 10

// url is the URL that is in a file or in the environment. It may hold a password, and is
// never in the file of sources.
func (r reader) url(v papers.Value, fields map[string]papers.Value) string {
	return r.secret(v, fields["url_file"], fields["url_env"])
}

// secret is what a file or a variable of the environment holds, of which v names one.
func (r reader) secret(v, file, env papers.Value) string {
	switch {
	case file.Given() && env.Given():
		env.ProblemAtName("%s is there, too; keep one of the two", file.Name)
	case file.Given():
		return file.Secret(os.ReadFile)
	case env.Given():
		return r.variable(env)
	case !v.Wrong():
		v.ProblemAtName("%s is missing; name a file that holds it, or with %s a variable of the environment", file.Name, env.Name)
	}
	return ""
}

// variable is what the variable holds that v names.
func (r reader) variable(v papers.Value) string {
	name := v.Text()
	if name == "" {
		return ""
	}
	value := strings.TrimSpace(r.env(name))
	switch {
	case value == "":
		v.Problem("%s is not set in the environment of the node; set it before the node starts", name)
		return ""
	case len(value) > maxSecret || strings.ContainsAny(value, "\n\x00"):
		v.Problem("%s does not hold one line of up to %d bytes; set it to the secret, and nothing else", name, maxSecret)
		return ""
	}
	return value
}
