package document

// Lookup is the query to a source at each check. One of its fields is set.
type Lookup struct {
	SQL  *SQLLookup  `json:"sql,omitempty"`
	HTTP *HTTPLookup `json:"http,omitempty"`
	NATS *NATSLookup `json:"nats,omitempty"`
	KV   *KVLookup   `json:"kv,omitempty"`
}

// SourceName returns the name of the lookup's source; empty: none.
func (l *Lookup) SourceName() string {
	switch {
	case l == nil:
		return ""
	case l.SQL != nil:
		return l.SQL.Source
	case l.HTTP != nil:
		return l.HTTP.Source
	case l.NATS != nil:
		return l.NATS.Source
	case l.KV != nil:
		return l.KV.Source
	}
	return ""
}

// SourceAt returns the pointer to the name of the source.
func (l *Lookup) SourceAt() string {
	switch {
	case l.SQL != nil:
		return "/lookup/sql/source"
	case l.HTTP != nil:
		return "/lookup/http/source"
	case l.NATS != nil:
		return "/lookup/nats/source"
	}
	return "/lookup/kv/source"
}

// SQLLookup is one row of a database.
type SQLLookup struct {
	Source string   `json:"source"`
	Query  string   `json:"query"`
	Params []string `json:"params,omitempty"` // expressions for $1, $2 and so on; none: the key
}

// HTTPLookup is a JSON document that a GET returns.
type HTTPLookup struct {
	Source string `json:"source"`
	Path   string `json:"path"`             // a template
	Absent []int  `json:"absent,omitempty"` // statuses that mean that the entity does not exist
}

// NATSLookup is a JSON document that a service returns.
type NATSLookup struct {
	Source  string `json:"source"`
	Subject string `json:"subject"` // a template
}

// KVLookup is a JSON document in a JetStream bucket.
type KVLookup struct {
	Source string `json:"source"`
	Bucket string `json:"bucket"`
	Key    string `json:"key,omitempty"` // a template; empty: the key
}
