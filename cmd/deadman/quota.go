package main

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"deadman/internal/access"
	"deadman/web"
)

func newQuotaCmd(io *cli) *cobra.Command {
	cmd := group("quota", "List and set quotas of rule name prefixes")
	addURL(cmd.PersistentFlags(), io)
	cmd.AddCommand(
		listing[web.Quota]{
			short: "List quotas and their usage", path: "/quotas",
			drop:   []string{"set", "kept pings", "subjects", "schedules", "kept answers", "kept alerts", "alert bytes", "event bytes", "job bytes", "rule bytes"},
			none:   "no quotas: none is set, and no token has a prefix",
			header: []string{"prefix", "rules", "rule bytes", "subjects", "schedules", "jobs", "job bytes", "events", "event bytes", "alerts", "alert bytes", "kept alerts", "kept answers", "kept pings", "set"},
			row: func(io *cli, q web.Quota) []cell {
				row := []cell{colouredCell(bold, q.Prefix+"*")}
				for _, l := range q.Limits {
					row = append(row, quotaCell(l))
				}
				if q.SetAt.IsZero() {
					return append(row, dimCell("%s", "default"))
				}
				return append(row, cellOf(io.relative(q.SetAt)+" by "+q.SetBy))
			},
		}.command(io),
		newQuotaSetCmd(io), newQuotaDeleteCmd(io),
	)
	return cmd
}

// quotaCell formats the use of a limit.
func quotaCell(l web.QuotaLimit) cell {
	text := usedOf(l)
	if l.Refused > 0 {
		return colouredCell(red, fmt.Sprintf("%s, %d refused", text, l.Refused))
	}
	return cellOf(text)
}

// usedOf formats the use of a limit, such as "3 of 200".
func usedOf(l web.QuotaLimit) string {
	switch l.Name {
	case string(access.LimitEvents):
		return fmt.Sprintf("%d/s", l.Limit)
	case string(access.LimitEventBytes):
		return humanize.IBytes(uint64(max(0, l.Limit))) + "/s" //nolint:gosec // not below 0
	case string(access.LimitAlerts):
		return fmt.Sprintf("%d of %d/h", l.Used, l.Limit)
	case string(access.LimitAlertBytes), string(access.LimitRuleBytes), string(access.LimitJobBytes), string(access.LimitKeptAlertBytes), string(access.LimitKeptAnswerBytes),
		string(access.LimitKeptPingBytes):
		return fmt.Sprintf("%s of %s", humanize.IBytes(uint64(max(0, l.Used))), humanize.IBytes(uint64(l.Limit))) //nolint:gosec // not below 0
	}
	return fmt.Sprintf("%d of %d", l.Used, l.Limit)
}

// printQuota prints a line for each limit of a quota.
func printQuota(s *keyValues, q *web.Quota) {
	if q == nil {
		return
	}
	for _, l := range q.Limits {
		text := usedOf(l)
		if l.Refused > 0 {
			text += fmt.Sprintf("; %d refused, the last %s", l.Refused, s.io.relative(l.RefusedAt))
		}
		s.line(strings.ReplaceAll(l.Name, "_", " "), "%s", text)
	}
}

// limitFlag is a flag that sets a limit.
type limitFlag struct {
	what access.Limit
	text string
}

func (f limitFlag) name() string { return strings.ReplaceAll(string(f.what.Limited), "_", "-") }

// does returns the usage text of the flag. It has no backquotes, since pflag takes a backquoted name for the type of the flag.
func (f limitFlag) does() string {
	limit := fmt.Sprint(f.what.Default)
	switch {
	case f.what.Default == 0:
		limit = "a tenth of the stream limit"
	case f.what.Bytes:
		limit = humanize.IBytes(uint64(f.what.Default)) //nolint:gosec // not below 0
	}
	return fmt.Sprintf("maximum %s (default: %s)", strings.ReplaceAll(f.what.Unit, "`", ""), limit)
}

// value returns the limit, or nil if the flag is not set.
func (f limitFlag) value() (*int64, error) {
	if f.text == "" {
		return nil, nil //nolint:nilnil // it was not given
	}
	if f.what.Bytes {
		n, err := humanize.ParseBytes(f.text)
		if err != nil || n > math.MaxInt64 {
			return nil, usage("--%s is %q; it must be a size such as 64MiB", f.name(), f.text)
		}
		limit := int64(n) //nolint:gosec // checked above
		return &limit, nil
	}
	n, err := strconv.ParseInt(f.text, 10, 64)
	if err != nil || n < 0 {
		return nil, usage("--%s is %q; it must be a whole number, at least 0", f.name(), f.text)
	}
	return &n, nil
}

func newQuotaSetCmd(io *cli) *cobra.Command {
	flags := make([]*limitFlag, len(access.Limits))
	cmd := &cobra.Command{
		Use: "set PREFIX", Short: "Set the quota of a prefix; limits that are not given are reset to their defaults", Args: exactly("PREFIX"),
		Example: `  deadman quota set 'acme-*' --rules 50 --jobs 10000 --alert-bytes 64MiB`,
		RunE: func(cmd *cobra.Command, args []string) error {
			limits := make(map[string]int64)
			for _, f := range flags {
				limit, err := f.value()
				if err != nil {
					return err
				}
				if limit != nil {
					limits[string(f.what.Limited)] = *limit
				}
			}
			c, err := io.client()
			if err != nil {
				return err
			}
			q, raw, err := call[web.Quota](cmd.Context(), c, http.MethodPut, "/quotas/"+url.PathEscape(args[0]), nil, limits)
			if err != nil {
				return err
			}
			if io.output == asJSON {
				return writeJSON(io.out, raw)
			}
			s := newKeyValues(io)
			s.line("rules", "%s*", q.Prefix)
			printQuota(s, &q)
			return s.end()
		},
	}
	for i, l := range access.Limits {
		flags[i] = &limitFlag{what: l}
		cmd.Flags().StringVar(&flags[i].text, flags[i].name(), "", flags[i].does())
	}
	return cmd
}

func newQuotaDeleteCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "delete PREFIX", Short: "Delete the quota of a prefix", Args: exactly("PREFIX")}
	yes := addYes(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := io.client()
		if err != nil {
			return err
		}
		if err := io.confirm(*yes, fmt.Sprintf("Delete the quota of %s? The defaults apply while a token with this prefix exists.", args[0])); err != nil {
			return err
		}
		if _, err := c.request(cmd.Context(), http.MethodDelete, "/quotas/"+url.PathEscape(args[0]), nil, nil, nil); err != nil {
			return err
		}
		return io.report(map[string]string{"quota": args[0], "outcome": "deleted"}, "deleted: quota of %s\n", sanitize(args[0]))
	}
	return cmd
}
