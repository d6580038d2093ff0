package sources

import (
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"deadman/checks/lookup"
	"deadman/internal/configfile"
)

// Bounds of a file of sources.
const (
	MaxSources = 100

	maxConcurrency = 64
	maxWaiting     = 1000
	maxRate        = 1_000_000
	maxOpenAfter   = 1000
	maxOpenFor     = time.Hour
)

// Load reads the file at path; env is what a variable of the environment holds. The error is configfile.Problems and holds all of them, unless the
// file cannot be read at all.
func Load(path string, env func(name string) string) ([]Spec, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(data, path, env)
}

// Parse reads a file of sources, in YAML, and the secrets that it names, in files beside it or
// in the environment. The specs are in order of their names.
func Parse(data []byte, file string, env func(name string) string) ([]Spec, error) {
	var specs []Spec
	r := reader{env}
	err := configfile.Read(data, file, func(v configfile.Value) {
		named := v.Fields("sources")["sources"]
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
			named.Problem("there are %d sources, and the limit is %d; leave out those that no rule names", len(specs), MaxSources)
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

// kinds are how the kinds of sources are read, as a file writes them.
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
	fields := v.Fields("postgres", "sqlite", "http", "nats", "concurrency", "waiting", "rate", "open_after", "open_for")
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
		v.ProblemAtName("it does not say what it is; write postgres, sqlite, http or nats into it")
	case len(is) > 1:
		v.ProblemAtName("it is %s at once; keep one, and give the other a name of its own", strings.Join(is, " and "))
	}
	return s
}

// readLimits is the limits of a source; what is left out is the default.
func readLimits(fields map[string]configfile.Value) lookup.Limits {
	return lookup.Limits{
		Concurrency: fields["concurrency"].Number(0, maxConcurrency), Waiting: fields["waiting"].Number(0, maxWaiting),
		Rate: float64(fields["rate"].Number(0, maxRate)), OpenAfter: fields["open_after"].Number(0, maxOpenAfter),
		OpenFor: span(fields["open_for"], 0, maxOpenFor),
	}
}

// span is the duration that v is, over 0 and up to most; without v it is otherwise.
func span(v configfile.Value, otherwise, most time.Duration) time.Duration {
	d := v.Duration(otherwise, most)
	if d == 0 && v.Present() && !v.HasProblem() {
		v.Problem("0s is no time to do anything in; write more, or leave it out")
	}
	return d
}

func (r reader) nats(s *Spec, v configfile.Value) {
	s.NATS = &NATS{}
	fields := v.Fields("url_file", "url_env", "creds_file")
	if v.HasProblem() || v.Empty() {
		return // it is the node's own connection
	}
	s.NATS.URL, s.NATS.Creds = r.url(v, fields), fields["creds_file"].Path()
}

const (
	defaultStatement = 2 * time.Second
	maxStatement     = time.Minute
)

func (r reader) postgres(s *Spec, v configfile.Value) {
	fields := v.Fields("url_file", "url_env", "statement_timeout")
	s.Postgres = &Postgres{URL: r.url(v, fields), StatementTimeout: span(fields["statement_timeout"], defaultStatement, maxStatement)}
}

func (reader) sqlite(s *Spec, v configfile.Value) {
	s.SQLite = &SQLite{Path: v.Fields("path")["path"].Require("name the file of the database").Path()}
}

// Kind is what a source is.
type Kind string

// The kinds.
const (
	KindPostgres Kind = "postgres"
	KindSQLite   Kind = "sqlite"
	KindHTTP     Kind = "http"
	KindNATS     Kind = "nats"
)

// Kind is what the source is; empty: the spec does not say.
func (s Spec) Kind() Kind {
	switch {
	case s.Postgres != nil:
		return KindPostgres
	case s.SQLite != nil:
		return KindSQLite
	case s.HTTP != nil:
		return KindHTTP
	case s.NATS != nil:
		return KindNATS
	}
	return ""
}

// Postgres is a database that is only read.
type Postgres struct {
	URL              string        // secret
	StatementTimeout time.Duration // of one query; 0: 2 s
}

// SQLite is a database file that is only read.
type SQLite struct {
	Path string
}

// HTTP is a service that answers GETs with JSON.
type HTTP struct {
	Base    *url.URL          // scheme, host and the beginning of the path
	Headers map[string]string // secret
	// Allow are addresses beyond public ones that the host may resolve to, such as 10.0.0.0/8.
	// Loopback, private, link-local and metadata addresses are refused without it.
	Allow []netip.Prefix
	CA    []byte // PEM; nil: the system's
}

// NATS is the node's own connection, or another one.
type NATS struct {
	URL   string // secret; empty: the node's own
	Creds string // a file
}

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
