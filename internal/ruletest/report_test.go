package ruletest_test

import (
	"bytes"
	"encoding/xml"
	"strings"
	"testing"

	"deadman/internal/ruletest"
)

// A JUnit file has the counts and the attributes that CI servers read, and texts that are no XML.
func TestJUnit(t *testing.T) {
	var r ruletest.Report
	failed := ruletest.Failure{Line: 7, Message: "1 alert missing", Diff: &ruletest.Diff{
		Columns: []string{"at", "text"}, Lines: []ruletest.DiffLine{{Sign: "-", Cells: map[string]string{"at": "3h", "text": "<a> & \x01"}}},
	}}
	r.Add(ruletest.FileResult{File: "shop/late.test.yaml", Tests: []ruletest.Result{
		{Name: `a "late" order`, Line: 3, Seconds: 0.25}, {Name: "b", Line: 6, Seconds: 0.5, Failures: []ruletest.Failure{failed}},
	}})
	r.Add(ruletest.FileResult{File: "wrong.test.yaml", Problems: []string{"wrong.test.yaml:1:1: tests is missing", "more"}})
	var out bytes.Buffer
	if err := r.WriteJUnit(&out); err != nil {
		t.Fatal(err)
	}
	type testcase struct {
		Name      string  `xml:"name,attr"`
		Classname string  `xml:"classname,attr"`
		File      string  `xml:"file,attr"`
		Line      int     `xml:"line,attr"`
		Time      float64 `xml:"time,attr"`
		Failure   *struct {
			Message string `xml:"message,attr"`
			Type    string `xml:"type,attr"`
			Text    string `xml:",chardata"`
		} `xml:"failure"`
		Error *struct {
			Message string `xml:"message,attr"`
		} `xml:"error"`
	}
	type counts struct {
		Tests    int     `xml:"tests,attr"`
		Failures int     `xml:"failures,attr"`
		Errors   int     `xml:"errors,attr"`
		Time     float64 `xml:"time,attr"`
	}
	var read struct {
		XMLName xml.Name `xml:"testsuites"`
		counts
		Suites []struct {
			counts
			Name  string     `xml:"name,attr"`
			Cases []testcase `xml:"testcase"`
		} `xml:"testsuite"`
	}
	decoder := xml.NewDecoder(bytes.NewReader(out.Bytes()))
	if err := decoder.Decode(&read); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if want := (counts{3, 1, 1, 0.75}); read.counts != want || len(read.Suites) != 2 || read.Suites[0].counts != (counts{2, 1, 0, 0.75}) || read.Suites[1].counts != (counts{1, 0, 1, 0}) {
		t.Fatalf("%+v", read)
	}
	first, second := read.Suites[0].Cases[0], read.Suites[0].Cases[1]
	if first.Name != `a "late" order` || first.Classname != "shop/late" || first.File != "shop/late.test.yaml" || first.Line != 3 || first.Time != 0.25 || first.Failure != nil {
		t.Errorf("%+v", first)
	}
	if second.Failure == nil || second.Failure.Message != "1 alert missing" || second.Failure.Type == "" || !strings.Contains(second.Failure.Text, "shop/late.test.yaml:7: 1 alert missing") ||
		!strings.Contains(second.Failure.Text, "- 3h  <a> & \ufffd") {
		t.Errorf("%+v", second.Failure)
	}
	if e := read.Suites[1].Cases[0].Error; e == nil || e.Message != "wrong.test.yaml:1:1: tests is missing" {
		t.Errorf("%+v", read.Suites[1].Cases)
	}
}
