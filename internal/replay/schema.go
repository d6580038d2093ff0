package replay

import (
	"github.com/invopop/jsonschema"

	"deadman/internal/configfile"
)

var lookupFileFields = configfile.Table{
	{Name: "sources", Form: LookupsForm(configfile.TextForm()), Required: true, Text: "The answers of each source, by its name."},
}

var lookupSourceFields = lookupSourceTable(configfile.TextForm())

// lookupSourceTable has the fields of a source; from is the form of the time from which an answer holds.
func lookupSourceTable(from *jsonschema.Schema) configfile.Table {
	return configfile.Table{
		{Name: "answers", Form: configfile.OneOrListForm(answerTable(from).Object("found", "absent", "error", "unavailable"), 0), Text: "Given answers."},
		{Name: "events", Form: configfile.OneOrListForm(mappingFields.Object(), 0), Text: "Events of the replay that have records of the source."},
	}
}

var answerFields = answerTable(configfile.TextForm())

func answerTable(from *jsonschema.Schema) configfile.Table {
	return configfile.Table{
		{Name: "key", Form: scalarForm(), Text: "Key of the job. Default: all jobs."},
		{Name: "query", Form: configfile.OneOrListForm(scalarForm(), 0), Text: "Values of the query. Default: all queries."},
		{Name: "from", Form: from, Text: "Time from which the answer holds. Default: always."},
		{Name: "found", Form: &jsonschema.Schema{Type: "object"}, Text: "Record that the source finds."},
		{Name: "absent", Form: configfile.TrueForm(), Text: "true: the source has no record."},
		{Name: "error", Form: configfile.TextForm(), Text: "Error of the lookup."},
		{Name: "unavailable", Form: configfile.TextForm(), Text: "Reason why the source does not answer."},
	}
}

var mappingFields = configfile.Table{
	{Name: "event", Form: configfile.TextForm(), Required: true, Text: "Subject of the events, such as orders.changed."},
	{Name: "if", Form: scalarForm(), Text: "Condition that an event must meet. Default: all events."},
	{Name: "key", Form: scalarForm(), Text: "Expression of the key of the job."},
	{Name: "query", Form: configfile.OneOrListForm(scalarForm(), 0), Text: "Expressions of the values of the query."},
	{Name: "found", Form: scalarForm(), Text: "Expression of the record. Default: the event."},
	{Name: "absent", Form: configfile.TrueForm(), Text: "true: the event removes the record."},
}

// scalarForm is the form of a text, a number or a boolean.
func scalarForm() *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, {Type: "number"}, {Type: "boolean"}}}
}

// LookupsForm is the form of the answers of sources, as ReadLookups reads them; from is the form of the time from which an
// answer holds.
func LookupsForm(from *jsonschema.Schema) *jsonschema.Schema {
	s := lookupSourceTable(from).Object()
	s.AnyOf = []*jsonschema.Schema{{Required: []string{"answers"}}, {Required: []string{"events"}}}
	return configfile.NamedForm(s, 0)
}

// LookupsSchema returns the JSON Schema (2020-12) of a file of answers to lookups, for editors.
func LookupsSchema() ([]byte, error) {
	return configfile.Schema(lookupFileFields.Object(), "lookups", "Answers of sources to the lookups of a deadman replay")
}
