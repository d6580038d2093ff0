package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"deadman/internal/calendars"
	"deadman/web"
)

func newCalendarCmd(io *cli) *cobra.Command {
	cmd := group("calendar", "Apply, list and delete calendars")
	addURL(cmd.PersistentFlags(), io)
	cmd.AddCommand(newCalendarApplyCmd(io), newCalendarListCmd(io), newCalendarGetCmd(io), newCalendarVersionsCmd(io), newCalendarDeleteCmd(io), newCalendarHolidaysCmd(io))
	return cmd
}

func newCalendarListCmd(io *cli) *cobra.Command {
	return listing[web.Calendar]{
		short: "List calendars, by name", path: "/calendars",
		none:   "no calendars; save some with deadman calendar apply",
		drop:   []string{"by", "saved", "version"},
		header: []string{"calendar", "zone", "now", "opens", "version", "source", "saved", "by", "rules"},
		row: func(io *cli, c web.Calendar) []cell {
			state := colouredCell(dim, "closed")
			switch {
			case c.Problem != "":
				state = colouredCell(red, "unreadable")
			case c.Open:
				state = colouredCell(green, "open")
			}
			return []cell{
				colouredCell(bold, c.Name), cellOf(c.Zone), state, relativeCell(io, c.OpensAt, ""), calendarVersionCell(c), cellOf(c.Source),
				relativeCell(io, c.SavedAt, ""), cellOf(c.SavedBy), cellOf(strings.Join(c.Rules, " ")),
			}
		},
	}.command(io)
}

// calendarVersionCell formats the version of a calendar. A calendar of a file has none.
func calendarVersionCell(c web.Calendar) cell {
	if c.Version == 0 {
		return cellOf("")
	}
	return numberCell(c.Version)
}

func newCalendarGetCmd(io *cli) *cobra.Command {
	var schema *bool
	cmd := &cobra.Command{
		Use: "get CALENDAR", Short: "Print a calendar as a calendars file, or as JSON with -o json", Args: exactly("CALENDAR"), ValidArgsFunction: completeCalendar(io),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := io.client()
			if err != nil {
				return err
			}
			got, raw, err := get[web.Calendar](cmd.Context(), c, calendarPath(args[0]), nil)
			if err != nil {
				return err
			}
			return io.write(raw, func() error {
				text := plainLines(calendars.FileOf(got.Name, got.Document))
				if *schema {
					if text, err = withSchemaLine(cmd.Context(), io, c, "calendars", text); err != nil {
						return err
					}
				}
				_, err := fmt.Fprint(io.out, text)
				return err
			})
		},
	}
	schema = addSchemaLine(cmd.Flags())
	return cmd
}

func calendarPath(name string) string { return "/calendars/" + url.PathEscape(name) }

func newCalendarVersionsCmd(io *cli) *cobra.Command {
	cmd := listing[web.CalendarVersion]{
		use: "versions", short: "List the last versions of a calendar, newest first", args: []string{"CALENDAR"},
		of:     func(args []string) string { return calendarPath(args[0]) + "/versions" },
		none:   "no versions",
		header: []string{"version", "saved", "time", "by"},
		row: func(io *cli, v web.CalendarVersion) []cell {
			return []cell{numberCell(v.Version), cellOf(io.relative(v.SavedAt)), cellOf(io.exact(v.SavedAt)), cellOf(v.SavedBy)}
		},
	}.command(io)
	cmd.ValidArgsFunction = completeCalendar(io)
	return cmd
}

func newCalendarDeleteCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete CALENDAR", Short: "Delete a calendar that no rule uses", Args: exactly("CALENDAR"), ValidArgsFunction: completeCalendar(io),
	}
	yes := addYes(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := io.client()
		if err != nil {
			return err
		}
		if err := io.confirm(*yes, fmt.Sprintf("Delete calendar %s?", args[0])); err != nil {
			return err
		}
		if _, err := c.request(cmd.Context(), http.MethodDelete, calendarPath(args[0]), nil, nil, nil); err != nil {
			return err
		}
		return io.report(map[string]string{"calendar": args[0], "outcome": "deleted"}, "deleted: calendar %s\n", sanitize(args[0]))
	}
	return cmd
}

func newCalendarApplyCmd(io *cli) *cobra.Command {
	var more []string
	var dryRun bool
	cmd := &cobra.Command{
		Use: "apply FILE|-...", Short: "Save the calendars of files on the node",
		Long: `Saves the calendars of files on the node, in the format of the file of serve --calendars. A changed
calendar is a new version, and is in force on all nodes within about a second. All files are
validated first; if one is invalid, no calendar is changed.`,
		Example:           `  deadman calendar apply calendars.yaml --dry-run`,
		ValidArgsFunction: completeFiles("yaml", "yml"),
		RunE: func(cmd *cobra.Command, args []string) error {
			args = append(args, more...)
			if len(args) == 0 {
				return usage("%s requires files", commandName(cmd))
			}
			return applyCalendars(cmd.Context(), io, args, dryRun)
		},
	}
	cmd.Flags().StringArrayVarP(&more, "file", "f", nil, "file of calendars, like an argument; can be repeated")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show the changes without applying them")
	complete(cmd, "file", completeFiles("yaml", "yml"))
	return cmd
}

// calendarTexts reads the texts of all calendars of files.
func calendarTexts(io *cli, files []string) (map[string]string, error) {
	texts, from := make(map[string]string), make(map[string]string)
	for _, file := range files {
		data, err := readRules(io, ruleFile{path: file})
		if err == context.Canceled { //nolint:errorlint // it is not wrapped, and says that the run was interrupted
			return nil, err
		}
		if err != nil {
			return nil, usageError{err}
		}
		found, err := calendars.Texts(data, ruleFile{path: file}.name())
		if err != nil {
			return nil, err
		}
		for name, text := range found {
			if other, twice := from[name]; twice {
				return nil, usage("calendar %s is in %s and in %s; keep one", name, other, file)
			}
			texts[name], from[name] = text, file
		}
	}
	if len(texts) == 0 {
		return nil, usage("the files have no calendars; write them below calendars:")
	}
	return texts, nil
}

// applyCalendars saves calendars. Before the first is saved, the node has accepted all in a dry run.
func applyCalendars(ctx context.Context, io *cli, files []string, dryRun bool) error {
	texts, err := calendarTexts(io, files)
	if err != nil {
		return err
	}
	c, err := io.client()
	if err != nil {
		return err
	}
	var changes []web.CalendarChange
	for _, dry := range []bool{true, false} {
		if dryRun && !dry {
			break
		}
		changes = nil
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			change, err := putCalendar(ctx, c, name, texts[name], dry)
			if err != nil {
				return err
			}
			changes = append(changes, change)
		}
	}
	if io.output == asJSON {
		return writeValue(io.out, changes)
	}
	for _, change := range changes {
		text := "unchanged"
		switch {
		case change.Changed && change.DryRun:
			text = "would be saved"
		case change.Changed:
			text = "saved"
		}
		if change.Calendar.Version > 0 && !(change.Changed && change.DryRun) {
			text += fmt.Sprintf(", version %d", change.Calendar.Version)
		}
		if n := len(change.Calendar.Rules); n > 0 {
			text += ", used by " + number(n, "rule")
		}
		if _, err := fmt.Fprintf(io.out, "calendar %s: %s\n", sanitize(change.Calendar.Name), text); err != nil {
			return err
		}
	}
	return nil
}

// putCalendar saves a calendar, or requests a dry run of it.
func putCalendar(ctx context.Context, c *client, name, text string, dryRun bool) (change web.CalendarChange, err error) {
	query := url.Values{}
	if dryRun {
		query.Set("dry_run", "true")
	}
	raw, err := c.request(ctx, http.MethodPut, calendarPath(name), query, []byte(text), http.Header{"Content-Type": {"application/yaml"}})
	if err != nil {
		return change, fmt.Errorf("calendar %s: %w", name, err)
	}
	err = json.Unmarshal(raw, &change)
	return change, err
}

// completeCalendar completes the name of a calendar.
func completeCalendar(io *cli) cobra.CompletionFunc {
	return completeNames(io, "/calendars", func(c web.Calendar) cobra.Completion {
		return cobra.CompletionWithDesc(sanitize(c.Name), sanitize(c.Zone))
	})
}
