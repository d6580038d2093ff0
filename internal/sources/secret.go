package sources

import (
	"os"

	"deadman/internal/configfile"
)

// url is the URL that is in a file or in the environment. It may hold a password, and is
// never in the file of sources.
func (r reader) url(v configfile.Value, fields map[string]configfile.Value) string {
	return r.secret(v, fields["url_file"], fields["url_env"])
}

// secret is what a file or a variable of the environment holds, of which v names one.
func (r reader) secret(v, file, env configfile.Value) string {
	switch {
	case file.Present() && env.Present():
		env.ProblemAtName("%s is there, too; keep one of the two", file.Name)
	case file.Present():
		return file.Secret(os.ReadFile)
	case env.Present():
		return env.Variable(r.env)
	case !v.HasProblem():
		v.ProblemAtName("%s is missing; name a file that holds it, or with %s a variable of the environment", file.Name, env.Name)
	}
	return ""
}
