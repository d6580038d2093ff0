package main

import (
	"strings"

	"github.com/spf13/cobra"

	"deadman/web"
)

func (p *cli) showSelf(cmd *cobra.Command, _ []string) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	self, raw, err := get[web.Self](cmd.Context(), c, "/tokens/self", nil)
	if err != nil {
		return err
	}
	if p.output == asJSON {
		return writeJSON(p.out, raw)
	}
	s := newSheet(p)
	if self.Login == "" {
		s.line("token", "%s", self.Name)
	} else {
		s.line("person", "%s", self.Name)
	}
	if self.Open {
		s.line("node", "open: it asks nobody for a token")
	}
	s.line("may", "%s", strings.Join(self.Scopes, ", "))
	s.line("rules", "%s*", self.Prefix)
	s.uses(self.Bounds)
	s.quota(self.Quota)
	return s.end()
}

// uses prints a line for each kind of bound.
func (s *keyValues) uses(b web.Bounds) {
	for _, list := range []struct {
		name string
		has  []string
	}{{"subjects", b.Subjects}, {"publish", b.Publish}, {"sources", b.Sources}, {"handlers", b.Handlers}} {
		switch {
		case list.has == nil:
		case len(list.has) == 0:
			s.line(list.name, "none")
		default:
			s.line(list.name, "%s", strings.Join(list.has, ", "))
		}
	}
}
