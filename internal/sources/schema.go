package sources

import (
	"github.com/invopop/jsonschema"

	"deadman/internal/configfile"
)

var fileFields = configfile.Table{
	{Name: "sources", Form: configfile.NamedForm(sourceForm(), MaxSources), Text: "The sources, by name."},
}

var sourceFields = configfile.Table{
	{Name: string(KindPostgres), Form: postgresFields.Object("url_file", "url_env"), Text: "A Postgres database for read-only queries."},
	{Name: string(KindSQLite), Form: sqliteFields.Object(), Text: "An SQLite file for read-only queries."},
	{Name: string(KindHTTP), Form: httpFields.Object(), Text: "A service that answers GET requests with JSON."},
	{Name: string(KindNATS), Form: natsFields.Object(), Text: "NATS: {} for the connection of the node, or a connection of its own."},
	{Name: "concurrency", Form: configfile.NumberForm(1, maxConcurrency), Text: "Batches at once. Default: 4."},
	{Name: "waiting", Form: configfile.NumberForm(1, maxWaiting), Text: "Batches in the queue. Default: 8."},
	{Name: "rate", Form: configfile.NumberForm(1, maxRate), Text: "Keys a second, on average and at once. Default: no limit."},
	{Name: "open_after", Form: configfile.NumberForm(1, maxOpenAfter), Text: "Failures in a row before the source is suspended. Default: 5."},
	{Name: "open_for", Form: configfile.DurationForm(), Text: "Duration of the suspension before one batch tries again, up to 1h. Default: 10s."},
}

const (
	urlFileText = "File with the URL, on one line; a relative path starts at the folder of this file."
	urlEnvText  = "Environment variable of the node with the URL, in place of url_file."
)

var postgresFields = configfile.Table{
	{Name: "url_file", Form: configfile.TextForm(), Text: urlFileText},
	{Name: "url_env", Form: configfile.TextForm(), Text: urlEnvText},
	{Name: "statement_timeout", Form: configfile.DurationForm(), Text: "Time limit of one query, up to 1m. Default: 2s."},
}

var sqliteFields = configfile.Table{
	{Name: "path", Form: configfile.TextForm(), Required: true, Text: "File of the database; a relative path starts at the folder of this file."},
}

var natsFields = configfile.Table{
	{Name: "url_file", Form: configfile.TextForm(), Text: urlFileText},
	{Name: "url_env", Form: configfile.TextForm(), Text: urlEnvText},
	{Name: "creds_file", Form: configfile.TextForm(), Text: "Credentials file of the connection."},
}

var httpFields = configfile.Table{
	{Name: "url", Form: configfile.TextForm(), Required: true, Text: "Base URL that the paths of rules are appended to."},
	{Name: "headers", Form: configfile.HeadersForm(headerFields.Object("file", "env")), Text: "Headers of each request, by name; their values are secrets."},
	{Name: "allow", Form: configfile.TextsForm(), Text: "Addresses that are not public and that the host may have, such as 10.0.0.0/8."},
	{Name: "ca_file", Form: configfile.TextForm(), Text: "Certificates of the authority of the service, as PEM. Default: those of the system."},
}

var headerFields = configfile.Table{
	{Name: "file", Form: configfile.TextForm(), Text: "File with the value, on one line."},
	{Name: "env", Form: configfile.TextForm(), Text: "Environment variable of the node with the value, in place of file."},
}

// sourceForm is the form of a source: it has one kind.
func sourceForm() *jsonschema.Schema {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k.kind)
	}
	return sourceFields.Object(names...)
}

// Schema returns the JSON Schema (2020-12) of a sources file, for editors.
func Schema() ([]byte, error) {
	return configfile.Schema(fileFields.Object(), "sources", "Sources of deadman for lookups")
}
