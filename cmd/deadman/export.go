package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	futurejobs "deadman/future_jobs"
	"deadman/web"
)

// The formats of exports. They are the endings of their files.
const (
	formatJSONLines = "jsonl"
	formatCSV       = "csv"
	formatParquet   = "parquet"
)

// export is a command that writes all pages of a list of the API to a file. T is an item of the list, and R the row of a
// table: a struct of texts, numbers and times whose parquet tags name the columns.
type export[T, R any] struct {
	listing listing[T]
	things  string // such as ended jobs
	row     func(context.Context, *client, T) (R, error)
	kept    func(web.RetentionReport) (seconds float64, deleted *bool) // the shortest period, and whether rows were deleted
}

func (e export[T, R]) command(io *cli) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "export FILE", Short: "Write " + e.things + " to a file as JSON lines, CSV or Parquet, newest first",
		Long: `Writes all ` + e.things + ` that match the filters to a file, the newest first. The ending of the file sets
the format: .jsonl for the documents of the API, one a line; .csv or .parquet for a table. - writes to
the standard output. The file appears once it is complete. If retention may have deleted a part of the
range, the command says from which time on the file is complete.`,
		Args: exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			query, err := filterQuery(io, cmd, e.listing.filters)
			if err != nil {
				return err
			}
			format, err := exportFormat(args[0], format)
			if err != nil {
				return err
			}
			return e.run(cmd.Context(), io, args[0], format, query)
		},
	}
	for _, f := range e.listing.filters {
		f.add(io, cmd)
	}
	textFlagVar(cmd.Flags(), &format, "format", "string", "", "format: jsonl, csv or parquet (default: the ending of the file)")
	complete(cmd, "format", completeWords(formatJSONLines, formatCSV, formatParquet))
	return cmd
}

// exportFormat returns the format of a file, or that of the flag if it is set.
func exportFormat(file, flag string) (string, error) {
	formats := []string{formatJSONLines, formatCSV, formatParquet}
	if flag != "" {
		return flag, checkOneOf("format", flag, formats)
	}
	ending := strings.TrimPrefix(filepath.Ext(file), ".")
	if ending == "" || checkOneOf("format", ending, formats) != nil {
		return "", usage("%s has no known ending; name the file with .jsonl, .csv or .parquet, or set --format", file)
	}
	return ending, nil
}

func (e export[T, R]) run(ctx context.Context, io *cli, file, format string, query url.Values) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	out, err := createFile(io.out, file)
	if err != nil {
		return err
	}
	defer out.discard()
	w := newTableWriter[R](format, out)
	query.Set("limit", strconv.Itoa(futurejobs.MaxLimit))
	rows := 0
	for {
		page, _, err := get[web.Page[json.RawMessage]](ctx, c, e.listing.path, query)
		if err != nil {
			return err
		}
		for _, item := range page.Items {
			if err := e.write(ctx, c, out, w, item); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
		rows += len(page.Items)
		if query.Set("cursor", page.Next); page.Next == "" {
			break
		}
	}
	if w != nil {
		err = w.close()
	}
	if err == nil {
		_, err = out.complete()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if _, err = fmt.Fprintf(io.err, "%s %s written to %s\n", humanize.Comma(int64(rows)), e.things, cmp.Or(map[string]string{stdStream: "the standard output"}[file], sanitize(file))); err != nil {
		return err
	}
	return e.reportDeleted(ctx, io, c, query)
}

// after returns the parameter of the beginning of the range.
func (e export[T, R]) after() string {
	for _, f := range e.listing.filters {
		if strings.HasSuffix(f.parameter, "after") {
			return f.parameter
		}
	}
	return ""
}

// reportDeleted prints from which time on the export is complete, if retention may have deleted a part of its range.
func (e export[T, R]) reportDeleted(ctx context.Context, io *cli, c *client, query url.Values) error {
	periods := url.Values{"periods_only": {"true"}}
	if rule := query.Get("rule"); rule != "" {
		periods.Set("rule", rule)
	}
	report, _, err := get[web.RetentionReport](ctx, c, "/retention", periods)
	if err != nil {
		_, err = fmt.Fprintf(io.err, "unknown: whether retention has deleted a part of the range (%s)\n", sanitize(err.Error()))
		return err
	}
	seconds, deleted := e.kept(report)
	since := report.At.Add(-time.Duration(seconds * float64(time.Second)))
	after, err := time.Parse(time.RFC3339Nano, query.Get(e.after()))
	switch {
	case seconds == 0, deleted != nil && !*deleted, err == nil && !after.Before(since):
		return nil
	case deleted == nil:
		_, err = fmt.Fprintf(io.err, "unknown: whether retention has deleted %s of the range from before %s\n", e.things, io.exact(since))
		return err
	}
	_, err = fmt.Fprintf(io.err, "incomplete: retention deletes %s from before %s; those of the range are missing in part or all\n", e.things, io.exact(since))
	return err
}

// write writes an item: to the table, or without one as a line.
func (e export[T, R]) write(ctx context.Context, c *client, out io.Writer, w tableWriter[R], item json.RawMessage) error {
	if w == nil {
		_, err := out.Write(append(item, '\n'))
		return err
	}
	var v T
	if err := json.Unmarshal(item, &v); err != nil {
		return err
	}
	row, err := e.row(ctx, c, v)
	if err != nil {
		return err
	}
	return w.write(row)
}
