package sources

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
