package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/configfile"
	"deadman/web"
)

// listing is a command that prints a list of the API.
type listing[T any] struct {
	use        string // default: list
	short      string
	args       []string                       // names of the arguments
	path       string                         // API path; of overrides it
	of         func(args []string) string     // path for the arguments; nil: path
	parameters func(args []string) url.Values // query parameters for the arguments; nil: none
	filters    []filter
	none       string // message for an empty list
	header     []string
	drop       []string // columns left out of a narrow terminal, the first one first
	room       int      // width that the last column keeps at the expense of others; 0: that of a text
	row        func(*cli, T) []cell
	order      func([]T)                                                // sorts the rows of a list of one page; nil: the order of the API
	above      func(*cli, []byte) error                                 // prints what the answer has beside the list; nil: nothing
	elsewhere  func(ctx context.Context, c *client, path string) string // hint after an empty list, or empty; nil: none
}

// filter is a query parameter of a list.
type filter struct {
	parameter string
	flag      string // default: the parameter's name
	does      string
	kind      filterKind
	values    []string // valid values; nil: any
}

// validValues is the annotation of a flag with its valid values.
const validValues = "valid values"

// filterKind is the type of a filter's value.
type filterKind int

const (
	filterText    filterKind = iota
	filterInstant            // a time in a human format
	filterFlag               // a boolean flag
	filterSpan               // a duration over 0
)

// Filters common to several lists.
var (
	byRule   = filter{parameter: "rule", does: "filter by rule"}
	byEntity = filter{parameter: "entity", does: "filter by entity"}
	byKey    = filter{parameter: "key", does: "filter by key"}
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
func (f filter) add(io *cli, cmd *cobra.Command) {
	if f.kind == filterFlag {
		cmd.Flags().Bool(f.name(), false, f.does)
		return
	}
	kind := "string"
	switch f.kind {
	case filterInstant:
		kind = "time"
	case filterSpan:
		kind = "duration"
	}
	textFlag(cmd.Flags(), f.name(), kind, "", f.does)
	switch {
	case f.values != nil:
		cmd.Flags().Lookup(f.name()).Annotations = map[string][]string{validValues: f.values}
		complete(cmd, f.name(), completeWords(f.values...))
	case f.parameter == byRule.parameter:
		complete(cmd, f.name(), completeRule(io))
	}
}

// checkOneOf returns an error unless the value of a flag is one of the valid ones.
func checkOneOf(flag, value string, valid []string) error {
	if slices.Contains(valid, value) {
		return nil
	}
	return usage("--%s is %q; it must be one of %s", flag, value, strings.Join(valid, ", "))
}

// instant parses the time of a flag; a span of --since counts back from now.
func (f filter) instant(io *cli, value string) (time.Time, error) {
	if f.name() == "since" {
		return io.sinceFlag(f.name(), value)
	}
	return io.instantFlag(f.name(), value, io.now())
}

// value returns the flag's value for the API. It is empty if the flag is not set.
func (f filter) value(io *cli, cmd *cobra.Command) (string, error) {
	value := cmd.Flags().Lookup(f.name()).Value.String()
	switch {
	case f.kind == filterFlag && value == "false":
		return "", nil
	case value != "" && f.values != nil:
		return value, checkOneOf(f.name(), value, f.values)
	case f.kind == filterInstant && value != "":
		at, err := f.instant(io, value)
		return at.UTC().Format(time.RFC3339Nano), err
	case f.kind == filterSpan:
		return value, checkSpan(f.name(), value)
	}
	return value, nil
}

// filterQuery returns the query parameters of the filters that are set.
func filterQuery(io *cli, cmd *cobra.Command, filters []filter) (url.Values, error) {
	query := url.Values{}
	var times []filter
	for _, f := range filters {
		value, err := f.value(io, cmd)
		if err != nil {
			return nil, err
		}
		if value == "" {
			continue
		}
		query.Set(f.parameter, value)
		if f.kind == filterInstant {
			times = append(times, f)
		}
	}
	if len(times) == 2 {
		return query, checkTimes(io, cmd, times[0], times[1])
	}
	return query, nil
}

// checkTimes returns an error if a time is not after the one before it.
func checkTimes(io *cli, cmd *cobra.Command, start, end filter) error {
	var times [2]time.Time
	for i, f := range []filter{start, end} {
		var err error
		if times[i], err = f.instant(io, cmd.Flags().Lookup(f.name()).Value.String()); err != nil {
			return err
		}
	}
	if times[1].After(times[0]) {
		return nil
	}
	return usage("--%s is %s, which is not after --%s, %s; swap them, or leave one out", end.name(), io.exact(times[1]), start.name(), io.exact(times[0]))
}

// newReportCmd makes a command with filters that requests one resource and prints it. query returns further
// parameters.
func newReportCmd[T any](io *cli, cmd *cobra.Command, path string, filters []filter, query func() url.Values, show func(*cli, T) error) *cobra.Command {
	for _, f := range filters {
		f.add(io, cmd)
	}
	cmd.Args = exactly()
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		parameters, err := filterQuery(io, cmd, filters)
		if err != nil {
			return err
		}
		maps.Copy(parameters, query())
		c, err := io.client()
		if err != nil {
			return err
		}
		v, raw, err := get[T](cmd.Context(), c, path, parameters)
		if err != nil {
			return err
		}
		return io.write(raw, func() error { return show(io, v) })
	}
	return cmd
}

func (l listing[T]) command(io *cli) *cobra.Command {
	l.filters = append(l.filters, filter{parameter: "cursor", does: "continue after the previous page"})
	cmd := &cobra.Command{
		Use: strings.Join(append([]string{cmp.Or(l.use, "list")}, l.args...), " "), Short: l.short, Args: exactly(l.args...),
		RunE: func(cmd *cobra.Command, args []string) error {
			query, err := l.query(io, cmd)
			if err != nil {
				return err
			}
			if l.parameters != nil {
				maps.Copy(query, l.parameters(args))
			}
			path := l.path
			if l.of != nil {
				path = l.of(args)
			}
			return l.run(cmd.Context(), io, path, query)
		},
	}
	for _, f := range l.filters {
		f.add(io, cmd)
	}
	cmd.Flags().Int("limit", 50, "maximum number of rows, up to 500")
	return cmd
}

func (l listing[T]) query(io *cli, cmd *cobra.Command) (url.Values, error) {
	query, err := filterQuery(io, cmd, l.filters)
	if err != nil {
		return nil, err
	}
	if cmd.Flags().Changed("limit") {
		limit, err := cmd.Flags().GetInt("limit")
		if err != nil {
			return nil, err
		}
		if limit < 1 || limit > futurejobs.MaxLimit {
			return nil, usage("--limit is %d; it must be a whole number from 1 to %d", limit, futurejobs.MaxLimit)
		}
		query.Set("limit", strconv.Itoa(limit))
	}
	return query, nil
}

func (l listing[T]) run(ctx context.Context, io *cli, path string, query url.Values) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	page, raw, err := get[web.Page[T]](ctx, c, path, query)
	if err != nil {
		return err
	}
	if io.output == asJSON {
		return writeJSON(io.out, raw)
	}
	if err := printSearched(io, raw); err != nil {
		return err
	}
	if l.above != nil {
		if err := l.above(io, raw); err != nil {
			return err
		}
	}
	if len(page.Items) == 0 {
		none := l.noneFor(query)
		if l.elsewhere != nil {
			none += l.elsewhere(ctx, c, path)
		}
		if page.Next != "" {
			none += " so far"
		}
		if _, err := fmt.Fprintln(io.out, none); err != nil {
			return err
		}
		if page.Next != "" {
			return printNext(io, page.Next)
		}
		return warnUnknownRule(ctx, io, c, query.Get(byRule.parameter))
	}
	if l.order != nil && page.Next == "" && !query.Has("cursor") {
		l.order(page.Items)
	}
	t := newTable(io.out, io.palette, l.header...)
	for _, item := range page.Items {
		t.row(l.row(io, item)...)
	}
	t.room = cmp.Or(l.room, t.room)
	left := t.drop(terminalWidth(io.out), l.drop)
	if err := t.fit(terminalWidth(io.out)).end(); err != nil {
		return err
	}
	printLeftOut(io, left)
	if page.Next != "" {
		return printNext(io, page.Next)
	}
	return nil
}

// warnUnknownRule warns that no rule has the name of a filter that matches nothing: it may be misspelled. Data of deleted rules
// is still listed, so it is no error.
func warnUnknownRule(ctx context.Context, io *cli, c *client, name string) error {
	if name == "" || name == alerts.SystemRule {
		return nil
	}
	names, err := getAllPages[web.Rule](ctx, c, "/rules", url.Values{})
	if err != nil {
		return err
	}
	var known []string
	for _, r := range names {
		if r.Name == name {
			return nil
		}
		known = append(known, r.Name)
	}
	hint := ""
	if near := configfile.Suggest(name, known); near != "" {
		hint = "; did you mean " + near + "?"
	}
	_, err = fmt.Fprintf(io.err, "no rule is named %s%s\n", sanitize(name), hint)
	return err
}

func printNext(io *cli, cursor string) error {
	_, err := fmt.Fprintf(io.err, "more results: continue with --cursor %s\n", sanitize(cursor))
	return err
}

// printSearched prints how much of a list was searched, if the answer tells it.
func printSearched(io *cli, raw []byte) error {
	var page struct{ Searched *web.Searched }
	if err := json.Unmarshal(raw, &page); err != nil || page.Searched == nil {
		return err
	}
	_, err := fmt.Fprintln(io.err, page.Searched.Text(humanize.Comma))
	return err
}

// noneFor returns the message for an empty list of a query.
func (l listing[T]) noneFor(query url.Values) string {
	narrowed := 0
	for _, f := range l.filters {
		if query.Has(f.parameter) {
			narrowed++
		}
	}
	noun, isPlain := strings.CutPrefix(l.none, "no ")
	noun, _, _ = strings.Cut(noun, ";")
	switch {
	case narrowed == 0 || !isPlain:
		return l.none
	case query.Get("open") == "true" && narrowed == 1:
		return "no open " + noun
	case query.Get("open") == "true":
		return "no open " + noun + " match these filters"
	}
	return "no " + noun + " match these filters"
}

// getAllPages reads all pages of a list.
func getAllPages[T any](ctx context.Context, c *client, path string, query url.Values) (all []T, err error) {
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
