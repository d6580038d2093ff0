package calendars

import (
	"fmt"
	"time"

	"deadman/internal/configfile"
)

// holidays are the days on which a calendar is closed from midnight to midnight.
type holidays struct {
	dated  map[date]bool
	yearly map[annual]bool
}

// annual is a day of every year; 29 February exists in leap years only.
type annual struct {
	month time.Month
	day   int
}

func (h holidays) on(d date) bool {
	if h.dated[d] {
		return true
	}
	if len(h.yearly) == 0 {
		return false
	}
	_, month, day := d.civil().Date()
	return h.yearly[annual{month, day}]
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
	return years
}

// readHolidays reads days such as "2026-12-25", and yearly ones such as "12-25".
func readHolidays(v configfile.Value) holidays {
	h := holidays{dated: make(map[date]bool), yearly: make(map[annual]bool)}
	readWords(v, "2026-12-25", h.add)
	if count := len(h.dated) + len(h.yearly); count > MaxHolidays {
		v.Problem("there are %d holidays, and a calendar may have %d; remove those of past years", count, MaxHolidays)
	}
	return h
}

// add parses and adds a holiday.
func (h holidays) add(word string) error {
	if t, err := time.Parse("2006-01-02", word); err == nil && t.Year() >= 1970 {
		return addUnique(h.dated, dateOf(t.Date()), word)
	}
	if t, err := time.Parse("2006-01-02", "2000-"+word); err == nil { // a leap year
		return addUnique(h.yearly, annual{t.Month(), t.Day()}, word)
	}
	return fmt.Errorf(`%q is not a day from 1970 on; write a date such as "2026-12-25", or "12-25" for every year`, clip(word))
}

func addUnique[K comparable](set map[K]bool, k K, word string) error {
	if set[k] {
		return fmt.Errorf("%s is here twice; keep one", word)
	}
	set[k] = true
	return nil
}
