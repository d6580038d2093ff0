package main

import (
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"deadman/web"
)

func (p *cli) letterReasonsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "reasons", Short: "Count the dead letters by rule and reason, most letters first", Args: exactly()}
	for _, f := range letterFilters {
		f.add(p, cmd)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query := url.Values{}
		for _, f := range letterFilters {
			value, err := f.value(p, cmd)
			if err != nil {
				return err
			}
			if value != "" {
				query.Set(f.parameter, value)
			}
		}
		c, err := p.client()
		if err != nil {
			return err
		}
		counted, raw, err := get[web.DeadLetterReasons](cmd.Context(), c, "/dead-letters/reasons", query)
		if err != nil {
			return err
		}
		if p.output == asJSON {
			return writeJSON(p.out, raw)
		}
		return p.showLetterReasons(counted)
	}
	return cmd
}

func (p *cli) showLetterReasons(counted web.DeadLetterReasons) error {
	if len(counted.Items) == 0 {
		_, err := fmt.Fprintln(p.out, "no event was refused")
		return err
	}
	t := newTable(p.out, p.palette, "letters", "rule", "newest", "refused", "reason")
	for _, r := range counted.Items {
		t.row(sayNumber(r.Letters), cellOf(r.Rule), sayNumber(r.Newest), cellOf(web.Relative(r.At, p.now())), cellOf(r.Reason))
	}
	if err := t.fit(terminalWidth(p.out)).end(); err != nil {
		return err
	}
	if counted.More {
		_, err := fmt.Fprintf(p.err, "there are more; the newest %d were counted\n", counted.Letters)
		return err
	}
	return nil
}
