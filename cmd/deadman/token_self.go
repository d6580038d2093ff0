package main

import (
	"strings"

	"github.com/spf13/cobra"

	"deadman/web"
)

func (p *program) showSelf(cmd *cobra.Command, _ []string) error {
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
	s.line("token", "%s", self.Name)
	if self.Open {
		s.line("node", "open: it asks nobody for a token")
	}
	s.line("may", "%s", strings.Join(self.Scopes, ", "))
	s.line("rules", "%s*", self.Prefix)
	return s.end()
}
