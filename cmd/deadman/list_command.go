package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	futurejobs "deadman/future_jobs"
	"deadman/web"
)

// listing is a command that prints a list of the API.
type listing[T any] struct {
	use     string // default: list
	short   string
	args    []string                   // names of the arguments
	path    string                     // API path; of overrides it
	of      func(args []string) string // path for the arguments; nil: path
	filters []filter
	none    string // message for an empty list
	header  []string
	row     func(*cli, T) []cell
}

// filter is a query parameter of a list.
type filter struct {
	parameter string
	flag      string // default: the parameter's name
	does      string
	kind      filterKind
	values    []string // valid values; nil: any
}

// filterKind is the type of a filter's value.
type filterKind int

const (
	filterText    filterKind = iota
	filterInstant            // a time in a human format
	filterFlag               // a boolean flag
)

// Filters common to several lists.
var (
	byRule   = filter{parameter: "rule", does: "of this rule only"}
	byEntity = filter{parameter: "entity", does: "of this kind of thing only"}
	byKey    = filter{parameter: "key", does: "of this key only"}
)

// since and until return filters by a time. The parameter depends on the list.
func since(parameter, flag, does string) filter {
	return filter{parameter: parameter, flag: flag, does: does + " at or after this time (15:04, 2026-01-31T15:04:05Z, -2h)", kind: filterInstant}
}

func until(parameter, flag, does string) filter {
	return filter{parameter: parameter, flag: flag, does: does + " before this time", kind: filterInstant}
}

func (f filter) name() string { return cmp.Or(f.flag, strings.ReplaceAll(f.parameter, "_", "-")) }

// add adds the filter's flag to a command.
func (f filter) add(p *cli, cmd *cobra.Command) {
	if f.kind == filterFlag {
		cmd.Flags().Bool(f.name(), false, f.does)
		return
	}
	cmd.Flags().String(f.name(), "", f.does)
	switch {
	case f.values != nil:
		complete(cmd, f.name(), completeWords(f.values...))
	case f.parameter == byRule.parameter:
		complete(cmd, f.name(), p.completeRule)
	}
}

// value returns the flag's value for the API. It is empty if the flag is not set.
func (f filter) value(p *cli, cmd *cobra.Command) (string, error) {
	value := cmd.Flags().Lookup(f.name()).Value.String()
	switch {
	case f.kind == filterFlag && value == "false":
		return "", nil
	case f.kind == filterInstant && value != "":
		at, err := p.instantFlag(f.name(), value, p.now())
		return at.UTC().Format(time.RFC3339Nano), err
	}
	return value, nil
}

func (l listing[T]) command(p *cli) *cobra.Command {
	l.filters = append(l.filters, filter{parameter: "cursor", does: "where the last page ended"})
	cmd := &cobra.Command{
		Use: strings.Join(append([]string{cmp.Or(l.use, "list")}, l.args...), " "), Short: l.short, Args: exactly(l.args...),
		RunE: func(cmd *cobra.Command, args []string) error {
			query, err := l.query(p, cmd)
			if err != nil {
				return err
			}
			path := l.path
			if l.of != nil {
				path = l.of(args)
			}
			return l.run(cmd.Context(), p, path, query)
		},
	}
	for _, f := range l.filters {
		f.add(p, cmd)
	}
	cmd.Flags().Int("limit", 50, "at most so many, up to 500")
	return cmd
}

func (l listing[T]) query(p *cli, cmd *cobra.Command) (url.Values, error) {
	query := url.Values{}
	for _, f := range l.filters {
		value, err := f.value(p, cmd)
		if err != nil {
			return nil, err
		}
		if value != "" {
			query.Set(f.parameter, value)
		}
	}
	if cmd.Flags().Changed("limit") {
		limit, err := cmd.Flags().GetInt("limit")
		if err != nil {
			return nil, err
		}
		if limit < 1 || limit > futurejobs.MaxLimit {
			return nil, usage("--limit is %d; it takes a whole number from 1 to %d", limit, futurejobs.MaxLimit)
		}
		query.Set("limit", strconv.Itoa(limit))
	}
	return query, nil
}

func (l listing[T]) run(ctx context.Context, p *cli, path string, query url.Values) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	page, raw, err := get[web.Page[T]](ctx, c, path, query)
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
		_, err = fmt.Fprintf(p.err, "there are more; go on with --cursor %s\n", sanitize(page.Next))
	}
	return err
}

// every reads all pages of a list.
func every[T any](ctx context.Context, c *client, path string, query url.Values) (all []T, err error) {
	query.Set("limit", strconv.Itoa(futurejobs.MaxLimit))
	for {
		page, _, err := get[web.Page[T]](ctx, c, path, query)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Next == "" {
			return all, nil
		}
		query.Set("cursor", page.Next)
	}
}
