package main

import (
	"errors"
	"os"
	"slices"

	"deadman/internal/replay"
)

// reportFile is the file of a report. It has another name until the report is written, so that a replay that fails keeps
// an older report.
type reportFile struct {
	path string
	file *os.File
}

// createReport creates the file of the report, before the replay: an impossible path is found at once. Without a report it
// returns nil. The caller calls discard.
func (v *replayRun) createReport() (*reportFile, error) {
	if v.report == "" {
		return nil, nil
	}
	if old, err := os.Stat(v.report); err == nil {
		if old.IsDir() {
			return nil, usage("--report %s is a folder; name a file", v.report)
		}
		for _, input := range slices.Concat([]string{v.events, v.lookups, v.calendars, v.old}, v.files) {
			if is, err := os.Stat(input); err == nil && os.SameFile(is, old) {
				return nil, usage("--report %s is an input of the replay; name another file", v.report)
			}
		}
	}
	_ = os.Remove(v.report + ".new") // of a replay that was killed
	file, err := os.OpenFile(v.report+".new", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, usage("--report: %w", err)
	}
	return &reportFile{v.report, file}, nil
}

// write writes the report, if one is requested.
func (f *reportFile) write(s *replay.Summary) error {
	if f == nil {
		return nil
	}
	if err := errors.Join(s.WriteReport(f.file), f.file.Close()); err != nil {
		return err
	}
	return os.Rename(f.file.Name(), f.path)
}

// discard removes the file if the report is not written.
func (f *reportFile) discard() {
	if f != nil {
		_ = f.file.Close()           // written or not wanted
		_ = os.Remove(f.file.Name()) // it has been renamed if it is written
	}
}
