package sources

import (
	"time"

	"deadman/internal/configfile"
)

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
