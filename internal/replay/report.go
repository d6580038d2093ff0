package replay

import (
	_ "embed"
	"html/template"
	"io"
	"time"

	"github.com/dustin/go-humanize"

	"deadman/rules/document"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

//go:embed report.html
var reportText string

// ChartTemplates defines the templates replay-timeline and replay-histogram, which draw a Chart in SVG.
//
//go:embed charts.html
var ChartTemplates string

var reportTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"comma": humanize.Comma, "took": DurationText, "counts": Counts, "percent": PercentOf, "share": Percent,
	"date": func(at time.Time) string { return at.UTC().Format(time.DateOnly) },
	"time": func(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 MST") },
}).Parse(reportText + ChartTemplates))

// WriteReport writes the summary as a page of HTML that needs no other file: the alerts over time, the table of the rules, and
// for each rule how long its jobs took until they were resolved, with the steps.
func (s *Summary) WriteReport(to io.Writer) error {
	r := report{Summary: s, Severities: severities, Timeline: s.Timeline().Chart()}
	for _, rule := range s.Rules {
		r.Charts = append(r.Charts, rule.Histogram().Chart(rule.Name, rule.Caption()))
	}
	return reportTemplate.Execute(to, r)
}

// report is the data of the page.
type report struct {
	*Summary
	Severities []alerts.Severity
	Timeline   *Chart
	Charts     []*Chart
}

var severities = []alerts.Severity{alerts.Info, alerts.Warning, alerts.Error, alerts.Critical}

// DurationText returns seconds as a duration with two units at most; - if they are nil.
func DurationText(seconds *float64) string {
	if seconds == nil {
		return "-"
	}
	took, unit := time.Duration(*seconds*float64(time.Second)), time.Second
	switch {
	case took >= futurejobs.Day:
		unit = time.Hour
	case took >= time.Hour:
		unit = time.Minute
	}
	return document.Duration(took.Round(unit)).String()
}
