package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"deadman/internal/calendars"
)

// publicHoliday is a day in the output of calendar holidays.
type publicHoliday struct {
	Day     string `json:"day"`
	Weekday string `json:"weekday"`
	Name    string `json:"name"`
}

// newCalendarHolidaysCmd lists the public holidays that calendars can name. It needs no node.
func newCalendarHolidaysCmd(io *cli) *cobra.Command {
	var year int
	cmd := &cobra.Command{
		Use: "holidays [REGION]", Short: "List the regions with public holidays, or those of a region in a year", Args: cobra.MaximumNArgs(1),
		Long: `Without a region it lists the regions whose public holidays a calendar can name, such as
holidays: [de-by]. With one it lists the holidays of a year. It needs no node.`,
		Example:           "  deadman calendar holidays\n  deadman calendar holidays de-by --year 2027",
		ValidArgsFunction: cobra.FixedCompletions(calendars.Regions(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return printRegions(io)
			}
			if !slices.Contains(calendars.Regions(), args[0]) {
				return usage("%q is not a region with known public holidays; see deadman calendar holidays", clip(args[0], 40))
			}
			if year == 0 {
				year = io.now().Year()
			}
			return printHolidays(io, args[0], year)
		},
	}
	cmd.Flags().IntVar(&year, "year", 0, "the year (default: this year)")
	return cmd
}

// printRegions prints a line for each country.
func printRegions(io *cli) error {
	regions := calendars.Regions()
	if io.output == asJSON {
		return writeValue(io.out, regions)
	}
	var line []string
	for i, region := range regions {
		line = append(line, region)
		country, _, _ := strings.Cut(region, "-")
		if i+1 < len(regions) && (regions[i+1] == country || strings.HasPrefix(regions[i+1], country+"-")) {
			continue
		}
		if _, err := fmt.Fprintln(io.out, strings.Join(line, " ")); err != nil {
			return err
		}
		line = nil
	}
	return nil
}

func printHolidays(io *cli, region string, year int) error {
	days := []publicHoliday{}
	for _, d := range calendars.RegionHolidays(region, year) {
		days = append(days, publicHoliday{d.Day.Format(time.DateOnly), d.Day.Weekday().String(), d.Name})
	}
	if io.output == asJSON {
		return writeValue(io.out, days)
	}
	if len(days) == 0 {
		_, err := fmt.Fprintf(io.out, "no public holidays of %s are known in %d\n", region, year)
		return err
	}
	t := newTable(io.out, io.palette, "day", "weekday", "name")
	for _, d := range days {
		t.row(cellOf(d.Day), cellOf(d.Weekday), cellOf(d.Name))
	}
	return t.fit(terminalWidth(io.out)).end()
}
