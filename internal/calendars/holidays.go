package calendars

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"deadman/internal/configfile"
)

// holidays are the days on which a calendar is closed from midnight to midnight.
type holidays struct {
	dated   map[date]bool
	yearly  map[annual]bool
	regions []string // sorted
}

// annual is a day of every year; 29 February exists in leap years only.
type annual struct {
	month time.Month
	day   int
}

func (h holidays) on(d date) bool {
	if h.dated[d] || h.nameOf(d) != "" {
		return true
	}
	if len(h.yearly) == 0 {
		return false
	}
	_, month, day := d.civil().Date()
	return h.yearly[annual{month, day}]
}

// nameOf returns the name of a public holiday of the regions; empty: the day is none.
func (h holidays) nameOf(d date) string {
	if len(h.regions) == 0 {
		return ""
	}
	year := d.civil().Year()
	for _, region := range h.regions {
		if name := holidaysOf(region, year)[d]; name != "" {
			return name
		}
	}
	return ""
}

// years returns the years with dated holidays, and one of each of the fourteen kinds of years: a year begins on one of
// seven weekdays and is a leap year or not. A calendar that opens in each of these opens in every year.
func (h holidays) years() map[int]bool {
	years := make(map[int]bool)
	for y := 2000; y < 2028; y++ {
		years[y] = true
	}
	for d := range h.dated {
		years[d.civil().Year()] = true
	}
	for y := 2028; y < 2100 && len(h.regions) > 0; y++ { // Easter is on another day in each
		years[y] = true
	}
	return years
}

// readHolidays reads days such as "2026-12-25", yearly ones such as "12-25", and regions such as "de-by".
func readHolidays(v configfile.Value) holidays {
	h := holidays{dated: make(map[date]bool), yearly: make(map[annual]bool)}
	readWords(v, "2026-12-25", h.add)
	if count := len(h.dated) + len(h.yearly); count > MaxHolidays {
		v.Problem("there are %d holidays, and a calendar may have %d; remove those of past years", count, MaxHolidays)
	}
	if count := len(h.regions); count > MaxRegions {
		v.Problem("there are %d regions, and a calendar may have %d; define a calendar for each place", count, MaxRegions)
	}
	slices.Sort(h.regions)
	return h
}

// add parses and adds a holiday.
func (h *holidays) add(word string) error {
	if word != "" && unicode.IsLetter(rune(word[0])) {
		return h.addRegion(word)
	}

	if t, err := time.Parse("2006-01-02", word); err == nil && t.Year() >= 1970 {
		return addUnique(h.dated, dateOf(t.Date()), word)
	}
	if t, err := time.Parse("2006-01-02", "2000-"+word); err == nil { // a leap year
		return addUnique(h.yearly, annual{t.Month(), t.Day()}, word)
	}
	return fmt.Errorf(`%q is not a day from 1970 on; write a date such as "2026-12-25", or "12-25" for every year, or a region such as de-by`, clip(word))
}

// addRegion adds the public holidays of a region.
func (h *holidays) addRegion(word string) error {
	if _, is := regions[word]; !is {
		return fmt.Errorf("%q is not a region with known public holidays%s; deadman calendar holidays lists all", clip(word), nearRegions(word))
	}
	if slices.Contains(h.regions, word) {
		return fmt.Errorf("%s is here twice; keep one", word)
	}
	h.regions = append(h.regions, word)
	return nil
}

// nearRegions returns a question for the regions of the same country, or for the nearest region; empty: none is near.
func nearRegions(word string) string {
	country, _, _ := strings.Cut(strings.ToLower(word), "-")
	var near []string
	for _, r := range Regions() {
		if own, _, _ := strings.Cut(r, "-"); own == country {
			near = append(near, r)
		}
	}
	if one := configfile.Suggest(strings.ToLower(word), Regions()); len(near) == 0 && one != "" {
		near = []string{one}
	}
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(near, ", ") + "?"
}

func addUnique[K comparable](set map[K]bool, k K, word string) error {
	if set[k] {
		return fmt.Errorf("%s is here twice; keep one", word)
	}
	set[k] = true
	return nil
}
