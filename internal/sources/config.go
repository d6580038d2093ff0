package sources

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"deadman/checks/lookup"
	"deadman/internal/configfile"
	"deadman/internal/operatorfiles"
)

// The limits of a sources file.
const (
	MaxSources = 100

	maxConcurrency = 64
	maxWaiting     = 1000
	maxRate        = 1_000_000
	maxOpenAfter   = 1000
	maxOpenFor     = time.Hour
)

// Load reads the file at path; env resolves environment variables. The error is configfile.Problems with all
// problems, unless the file can't be read at all.
func Load(path string, env func(name string) string) ([]Spec, error) {
	data, err := operatorfiles.Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(data, path, env)
}

// Parse parses a YAML file of sources and reads its secrets, from files relative to it or from the environment. The
// specs are sorted by name.
func Parse(data []byte, file string, env func(name string) string) ([]Spec, error) {
	var specs []Spec
	r := reader{env}
	err := configfile.Read(data, file, func(v configfile.Value) {
		named := v.In(fileFields)["sources"]
		if !named.Present() {
			return
		}
		for _, one := range named.Entries("a name for each source") {
			if wrong := configfile.CheckName(one.Name); wrong != "" {
				one.ProblemAtName("%s", wrong)
			}
			specs = append(specs, r.spec(one))
		}
		if len(specs) > MaxSources {
			named.Problem("there are %d sources, and the limit is %d; remove those that no rule uses", len(specs), MaxSources)
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(specs, func(a, b Spec) int { return strings.Compare(a.Name, b.Name) })
	return specs, nil
}

// reader reads the sources of a file.
type reader struct {
	env func(name string) string
}

// kinds lists the kinds of sources with their readers, by the names used in a file.
var kinds = []struct {
	kind Kind
	read func(reader, *Spec, configfile.Value)
}{
	{KindPostgres, reader.postgres},
	{KindSQLite, reader.sqlite},
	{KindHTTP, reader.http},
	{KindNATS, reader.nats},
}

func (r reader) spec(v configfile.Value) Spec {
	fields := v.In(sourceFields)
	s := Spec{Name: v.Name, Limits: readLimits(fields)}
	if fields == nil {
		return s
	}
	var is []string
	for _, k := range kinds {
		if given := fields[string(k.kind)]; given.Present() {
			is = append(is, string(k.kind))
			k.read(r, &s, given)
		}
	}
	switch {
	case len(is) == 0 && !v.HasProblem():
		v.ProblemAtName("the kind of the source is missing; write postgres, sqlite, http or nats into it")
	case len(is) > 1:
		v.ProblemAtName("the source has several kinds, %s; keep one, and define the other under another name", strings.Join(is, " and "))
	}
	return s
}

// readLimits returns the limits of a source; a missing one is zero.
func readLimits(fields map[string]configfile.Value) lookup.Limits {
	return lookup.Limits{
		Concurrency: fields["concurrency"].Number(0, maxConcurrency), Waiting: fields["waiting"].Number(0, maxWaiting),
		Rate: float64(fields["rate"].Number(0, maxRate)), OpenAfter: fields["open_after"].Number(0, maxOpenAfter),
		OpenFor: span(fields["open_for"], 0, maxOpenFor),
	}
}

// span returns the duration of v, above 0 and at most most; otherwise is the default.
func span(v configfile.Value, otherwise, limit time.Duration) time.Duration {
	d := v.Duration(otherwise, limit)
	if d == 0 && v.Present() && !v.HasProblem() {
		v.Problem("the duration must be greater than 0s; write a longer one, or leave it out")
	}
	return d
}

func (r reader) nats(s *Spec, v configfile.Value) {
	s.NATS = &NATS{}
	fields := v.In(natsFields)
	if v.HasProblem() || v.Empty() {
		return // the node's own connection
	}
	s.NATS.URL, s.NATS.Creds = r.url(v, fields), fields["creds_file"].Path()
}

const (
	defaultStatement = 2 * time.Second
	maxStatement     = time.Minute
)

func (r reader) postgres(s *Spec, v configfile.Value) {
	fields := v.In(postgresFields)
	s.Postgres = &Postgres{URL: r.url(v, fields), StatementTimeout: span(fields["statement_timeout"], defaultStatement, maxStatement)}
}

func (reader) sqlite(s *Spec, v configfile.Value) {
	s.SQLite = &SQLite{Path: v.In(sqliteFields)["path"].Require("name the file of the database").Path()}
}

// Kind is the kind of a source.
type Kind string

// The kinds of sources.
const (
	KindPostgres Kind = "postgres"
	KindSQLite   Kind = "sqlite"
	KindHTTP     Kind = "http"
	KindNATS     Kind = "nats"
)

// Postgres is a Postgres database for read-only queries.
type Postgres struct {
	URL              string        // secret
	StatementTimeout time.Duration // of one query; 0: 2 s
}

// SQLite is an SQLite file for read-only queries.
type SQLite struct {
	Path string
}

// HTTP is a service that answers GET requests with JSON.
type HTTP struct {
	Base    *url.URL          // scheme, host and path prefix
	Headers map[string]string // secret
	// Allow lists non-public addresses that the host may resolve to, such as 10.0.0.0/8. Other loopback, private,
	// link-local and metadata addresses are rejected.
	Allow []netip.Prefix
	CA    []byte // PEM; nil: the system's CAs
}

// url returns the URL from a file or an environment variable. It may contain a password, so it is never in the
// sources file itself.
func (r reader) url(v configfile.Value, fields map[string]configfile.Value) string {
	return r.secret(v, fields["url_file"], fields["url_env"])
}

// secret returns the contents of a file or an environment variable; v must name exactly one.
func (r reader) secret(v, file, env configfile.Value) string {
	switch {
	case file.Present() && env.Present():
		env.ProblemAtName("%s is set, too; keep one of the two", file.Name)
	case file.Present():
		return file.Secret(operatorfiles.Read)
	case env.Present():
		return env.Variable(r.env)
	case !v.HasProblem():
		v.ProblemAtName("%s is missing; name a file with the secret, or with %s an environment variable", file.Name, env.Name)
	}
	return ""
}

func (r reader) http(s *Spec, v configfile.Value) {
	fields := v.In(httpFields)
	s.HTTP = &HTTP{
		Base: base(fields["url"].Require("write the base URL that the paths of rules are appended to")), Headers: r.headers(fields["headers"]),
		Allow: readAllow(fields["allow"]), CA: fields["ca_file"].Certificates(operatorfiles.Read),
	}
}

// headers returns the headers of a source. Their values are secrets.
func (r reader) headers(v configfile.Value) map[string]string {
	return configfile.ReadHeaders(v, func(one configfile.Value) (string, bool) {
		fields := one.In(headerFields)
		if fields == nil {
			return "", false
		}
		return r.secret(one, fields["file"], fields["env"]), true
	})
}
