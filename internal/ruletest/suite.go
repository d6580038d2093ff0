package ruletest

import (
	"fmt"
	"slices"
	"strings"

	"deadman/internal/calendars"
	"deadman/rules"
	"deadman/rules/document"
)

// Suite is a file of tests with its rules.
type Suite struct {
	File
	Documents []document.Document
	Known     calendars.Set // nil: none
}

// Load reads a file of tests, its rules and its calendars. known are the calendars of a file that names none; nil: there are
// none. An error in one of the files is configfile.Problems or document.Problems; then the suite has what was read before.
func Load(path string, known calendars.Set, read func(path string) ([]byte, error)) (*Suite, error) {
	s := &Suite{Known: known}
	data, err := read(path)
	if err != nil {
		return s, err
	}
	if s.File, err = Read(data, path); err != nil {
		return s, err
	}
	if s.Calendars != "" {
		if data, err = read(s.Calendars); err != nil {
			return s, document.Problems{{File: path, Pointer: "/calendars", Message: err.Error()}}
		}
		if s.Known, err = calendars.Parse(data, s.Calendars); err != nil {
			return s, err
		}
	}
	for _, file := range s.Rules {
		if err := s.loadRules(file, read); err != nil {
			return s, err
		}
	}
	return s, nil
}

// loadRules adds the rules of a file.
func (s *Suite) loadRules(file string, read func(path string) ([]byte, error)) error {
	wrong := func(field, message string) error {
		return document.Problems{{File: s.Path, Pointer: field, Message: message}}
	}
	data, err := read(file)
	if err != nil {
		return wrong("/rules", err.Error()+"; name the files of the rules with rules: [FILE, …]")
	}
	docs, err := rules.ParseAgainst(data, file, s.Known)
	if err != nil {
		return err
	}
	for _, d := range docs {
		if slices.ContainsFunc(s.Documents, func(other document.Document) bool { return other.Name == d.Name }) {
			return wrong("/rules", fmt.Sprintf("two rules are named %s; name only one of their files", d.Name))
		}
		if used := d.CalendarNames(); s.Known == nil && len(used) > 0 {
			return wrong("/calendars", fmt.Sprintf("rule %s uses the calendars %s; name their file with calendars, or with --calendars", d.Name, strings.Join(used, ", ")))
		}
		s.Documents = append(s.Documents, d)
	}
	return nil
}
