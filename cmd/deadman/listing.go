package main

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	futurejobs "deadman/future_jobs"
	"deadman/web"
)

// listing is a command that shows a list of the API.
type listing[T any] struct {
	short   string
	path    string
	filters [][2]string // names of parameters, with what they do
	none    string      // said when the list is empty
	header  []string
	row     func(*program, T) []cell
}

func (l listing[T]) command(p *program) *cobra.Command {
	given := make(map[string]*string)
	var limit int
	cmd := &cobra.Command{Use: "list", Short: l.short, Args: exactly(), RunE: func(cmd *cobra.Command, _ []string) error {
		query := url.Values{}
		for name, value := range given {
			if *value != "" {
				query.Set(name, *value)
			}
		}
		if cmd.Flags().Changed("limit") {
			if limit < 1 || limit > futurejobs.MaxLimit {
				return usage("--limit is %d; it takes a whole number from 1 to %d", limit, futurejobs.MaxLimit)
			}
			query.Set("limit", strconv.Itoa(limit))
		}
		return l.run(cmd, p, query)
	}}
	for _, f := range append(l.filters, [2]string{"cursor", "where the last page ended"}) {
		given[f[0]] = cmd.Flags().String(flagOf(f[0]), "", f[1])
	}
	cmd.Flags().IntVar(&limit, "limit", 50, "at most so many, up to 500")
	return cmd
}

func (l listing[T]) run(cmd *cobra.Command, p *program, query url.Values) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	page, raw, err := get[web.Page[T]](cmd.Context(), c, l.path, query)
	if err != nil {
		return err
	}
	if p.output == asJSON {
		return writeJSON(p.out, raw)
	}
	if len(page.Items) == 0 {
		_, err := fmt.Fprintln(p.out, l.none)
		return err
	}
	t := newTable(p.out, p.palette, l.header...)
	for _, item := range page.Items {
		t.row(l.row(p, item)...)
	}
	if err := t.fit(terminalWidth(p.out)).end(); err != nil {
		return err
	}
	if page.Next != "" {
		_, err = fmt.Fprintf(p.err, "there are more; go on with --cursor %s\n", plain(page.Next))
	}
	return err
}

// The filters that several lists have.
var (
	byRule   = [2]string{"rule", "of this rule only"}
	byEntity = [2]string{"entity", "of this kind of thing only"}
	byKey    = [2]string{"key", "of this key only"}
)
