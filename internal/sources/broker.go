package sources

import "deadman/internal/configfile"

func (r reader) nats(s *Spec, v configfile.Value) {
	s.NATS = &NATS{}
	fields := v.Fields("url_file", "url_env", "creds_file")
	if v.HasProblem() || v.Empty() {
		return // it is the node's own connection
	}
	s.NATS.URL, s.NATS.Creds = r.url(v, fields), fields["creds_file"].Path()
}
