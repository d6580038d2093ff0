package calendars

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rickar/cal/v2"
	"github.com/rickar/cal/v2/ar"
	"github.com/rickar/cal/v2/at"
	"github.com/rickar/cal/v2/au"
	"github.com/rickar/cal/v2/be"
	"github.com/rickar/cal/v2/bg"
	"github.com/rickar/cal/v2/br"
	"github.com/rickar/cal/v2/ca"
	"github.com/rickar/cal/v2/ch"
	"github.com/rickar/cal/v2/cz"
	"github.com/rickar/cal/v2/de"
	"github.com/rickar/cal/v2/dk"
	"github.com/rickar/cal/v2/ecb"
	"github.com/rickar/cal/v2/es"
	"github.com/rickar/cal/v2/fr"
	"github.com/rickar/cal/v2/gb"
	"github.com/rickar/cal/v2/gr"
	"github.com/rickar/cal/v2/hr"
	"github.com/rickar/cal/v2/ie"
	"github.com/rickar/cal/v2/it"
	"github.com/rickar/cal/v2/jp"
	"github.com/rickar/cal/v2/lt"
	"github.com/rickar/cal/v2/lv"
	"github.com/rickar/cal/v2/mw"
	"github.com/rickar/cal/v2/nc"
	"github.com/rickar/cal/v2/nl"
	"github.com/rickar/cal/v2/no"
	"github.com/rickar/cal/v2/nz"
	"github.com/rickar/cal/v2/pl"
	"github.com/rickar/cal/v2/ro"
	"github.com/rickar/cal/v2/ru"
	"github.com/rickar/cal/v2/se"
	"github.com/rickar/cal/v2/si"
	"github.com/rickar/cal/v2/sk"
	"github.com/rickar/cal/v2/ua"
	"github.com/rickar/cal/v2/us"
	"github.com/rickar/cal/v2/za"
)

// regions are the lists of public holidays by region: a country, or a country and a part of it.
var regions = map[string][]*cal.Holiday{
	"ar":     ar.Holidays,
	"at":     at.Holidays,
	"au-act": au.HolidaysACT,
	"au-nsw": au.HolidaysNSW,
	"au-nt":  au.HolidaysNT,
	"au-qld": au.HolidaysQLD,
	"au-sa":  au.HolidaysSA,
	"au-tas": au.HolidaysTAS,
	"au-vic": au.HolidaysVIC,
	"au-wa":  au.HolidaysWA,
	"be":     be.Holidays,
	"bg":     bg.Holidays,
	"br":     br.Holidays,
	"ca":     ca.Holidays,
	"ch":     ch.Holidays,
	"ch-ag":  ch.HolidaysAG,
	"ch-ai":  ch.HolidaysAI,
	"ch-ar":  ch.HolidaysAR,
	"ch-be":  ch.HolidaysBE,
	"ch-bl":  ch.HolidaysBL,
	"ch-bs":  ch.HolidaysBS,
	"ch-fr":  ch.HolidaysFR,
	"ch-ge":  ch.HolidaysGE,
	"ch-gl":  ch.HolidaysGL,
	"ch-gr":  ch.HolidaysGR,
	"ch-ju":  ch.HolidaysJU,
	"ch-lu":  ch.HolidaysLU,
	"ch-ne":  ch.HolidaysNE,
	"ch-nw":  ch.HolidaysNW,
	"ch-ow":  ch.HolidaysOW,
	"ch-sg":  ch.HolidaysSG,
	"ch-sh":  ch.HolidaysSH,
	"ch-so":  ch.HolidaysSO,
	"ch-sz":  ch.HolidaysSZ,
	"ch-tg":  ch.HolidaysTG,
	"ch-ti":  ch.HolidaysTI,
	"ch-ur":  ch.HolidaysUR,
	"ch-vd":  ch.HolidaysVD,
	"ch-vs":  ch.HolidaysVS,
	"ch-zg":  ch.HolidaysZG,
	"ch-zh":  ch.HolidaysZH,
	"cz":     cz.Holidays,
	"de":     de.Holidays,
	"de-bb":  de.HolidaysBB,
	"de-be":  de.HolidaysBE,
	"de-bw":  de.HolidaysBW,
	"de-by":  de.HolidaysBY,
	"de-hb":  de.HolidaysHB,
	"de-he":  de.HolidaysHE,
	"de-hh":  de.HolidaysHH,
	"de-mv":  de.HolidaysMV,
	"de-ni":  de.HolidaysNI,
	"de-nw":  de.HolidaysNW,
	"de-rp":  de.HolidaysRP,
	"de-sh":  de.HolidaysSH,
	"de-sl":  de.HolidaysSL,
	"de-sn":  de.HolidaysSN,
	"de-st":  de.HolidaysST,
	"de-th":  de.HolidaysTH,
	"dk":     dk.Holidays,
	"ecb":    ecb.Holidays,
	"es":     es.Holidays,
	"fr":     fr.Holidays,
	"gb":     gb.Holidays,
	"gr":     gr.Holidays,
	"hr":     hr.Holidays,
	"ie":     ie.Holidays,
	"it":     it.Holidays,
	"jp":     jp.Holidays,
	"lt":     lt.Holidays,
	"lv":     lv.Holidays,
	"mw":     mw.Holidays,
	"nc":     nc.Holidays,
	"nl":     nl.Holidays,
	"no":     no.Holidays,
	"nz":     nz.Holidays,
	"pl":     pl.Holidays,
	"ro":     ro.Holidays,
	"ru":     ru.Holidays,
	"se":     se.Holidays,
	"si":     si.Holidays,
	"sk":     sk.Holidays,
	"ua":     ua.Holidays,
	"us":     us.Holidays,
	"za":     za.Holidays,
}

// MaxRegions is the maximum number of regions of a calendar.
const MaxRegions = 5

// Regions returns the names of the regions with public holidays, sorted.
func Regions() []string { return slices.Sorted(maps.Keys(regions)) }

// NamedDay is a public holiday.
type NamedDay struct {
	Day  time.Time // its midnight in UTC
	Name string
}

// RegionHolidays returns the public holidays of a region in a year, in order; none if the region is unknown. A holiday that
// is observed on another day is there with both days.
func RegionHolidays(region string, year int) (days []NamedDay) {
	found := holidaysOf(region, year)
	for _, d := range slices.Sorted(maps.Keys(found)) {
		days = append(days, NamedDay{d.civil(), found[d]})
	}
	return days
}

// The years whose public holidays are known: of others the laws are unknown, too.
const (
	firstRegionYear = 1970
	lastRegionYear  = 2300
)

// regionYear is a region and a year.
type regionYear struct {
	region string
	year   int
}

// regionDays are the days of regions that were computed, by regionYear.
var regionDays sync.Map

// holidaysOf returns the names of the public holidays of a region in a year, by day.
func holidaysOf(region string, year int) map[date]string {
	if year < firstRegionYear || year > lastRegionYear {
		return nil
	}
	key := regionYear{region, year}
	if known, is := regionDays.Load(key); is {
		return known.(map[date]string)
	}
	isPublic := func(h *cal.Holiday) bool { return h.Type != cal.ObservanceReligious && h.Type != cal.ObservanceOther }
	days := make(map[date]string)
	for y := year - 1; y <= year+1; y++ { // a day of January may be observed in December
		for _, h := range regions[region] {
			actual, observed := h.Calc(y)
			if isPublic(h) && observed.Year() == year && !observed.Equal(actual) {
				days[dateOf(observed.Date())] = h.Name + " (observed)"
			}
		}
	}
	for _, h := range regions[region] {
		if actual, _ := h.Calc(year); isPublic(h) && actual.Year() == year {
			days[dateOf(actual.Date())] = h.Name
		}
	}
	regionDays.Store(key, days)
	return days
}
