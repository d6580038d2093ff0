package server

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"deadman/alerts"
	"deadman/internal/periodic"
	"deadman/internal/store"
	"deadman/rules"
	"deadman/rules/document"
	"deadman/web"
)

// ruleFolder is the folder of rule files that a node applies when it starts and on SIGHUP. A refused file is in the log, a failed
// condition and an alert: the rules in it watch nothing, or watch as an earlier version says.
type ruleFolder struct {
	path      string // empty: none
	registry  *rules.Registry
	every     time.Duration // between two looks at the alert
	now       func() time.Time
	store     *store.Store
	noteAlert func(alerts.Alert, bool, error) error
	log       *slog.Logger

	written alerts.Status // of the alert, as last written by this node; empty: not written; used by Run alone

	mu       sync.Mutex
	problems document.Problems // of the last application
}

// apply applies the folder. Refused rules are logged, and the others apply. The error is of the folder, the database or the broker.
func (f *ruleFolder) apply(ctx context.Context) error {
	if f.path == "" {
		return nil
	}
	report, err := f.registry.ApplyDir(ctx, f.path)
	if err != nil {
		return fmt.Errorf("apply the rules in %s: %w", f.path, err)
	}
	f.mu.Lock()
	f.problems = report.Problems
	f.mu.Unlock()
	f.log.Info("rules applied", "folder", f.path, "saved", len(report.Saved), "unchanged", len(report.Unchanged), "refused", report.Refused)
	if len(report.Others) > 0 {
		f.log.Warn("rules are in force whose files are not in the folder any more; delete them if they are not needed", "rules", report.Others)
	}
	return nil
}

// refused returns the problems of the last application.
func (f *ruleFolder) refused() document.Problems {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.problems
}

// Run writes the alert about refused files until ctx ends.
func (f *ruleFolder) Run(ctx context.Context) error {
	if f.path == "" {
		return nil
	}
	return periodic.Run(ctx, f.every, f.log, "rule files", f.step)
}

// step opens or closes the alert after a change. Nodes with folders of the same name share it.
func (f *ruleFolder) step(ctx context.Context) error {
	r := f.alert()
	if r.Status == f.written {
		return nil
	}
	if err := f.noteAlert(f.store.ReportState(ctx, r)); err != nil {
		return err
	}
	f.written = r.Status
	return nil
}

// problemsMost bounds the problems in the text of the alert.
const problemsMost = 3

func (f *ruleFolder) alert() alerts.SystemAlert {
	r := alerts.SystemAlert{Topic: "rule-files/" + filepath.Base(f.path), Step: "refused", Status: alerts.Resolved, Severity: alerts.Error, Since: f.now()}
	problems := f.refused()
	if len(problems) == 0 {
		r.Text = "all rule files apply"
		return r
	}
	texts := make([]string, 0, problemsMost)
	for _, p := range problems[:min(len(problems), problemsMost)] {
		texts = append(texts, p.Error())
	}
	r.Status, r.Count = alerts.Firing, len(problems)
	r.Text = fmt.Sprintf("%d problems in the rule files of a node; these rules are not in force as written: %s. Correct the files, and send the node SIGHUP", len(problems), strings.Join(texts, "; "))
	return r
}

// conditions returns the condition of the folder, if there is one. Only the log and the alert have the problems themselves.
func (f *ruleFolder) conditions() []web.Condition {
	if f.path == "" {
		return nil
	}
	var files []string
	for _, p := range f.refused() {
		files = append(files, filepath.Base(p.File))
	}
	slices.Sort(files)
	if files = slices.Compact(files); len(files) == 0 {
		return []web.Condition{{Name: "rule_files", OK: true, Detail: "no file of the folder of rules is refused"}}
	}
	return []web.Condition{{Name: "rule_files", Detail: "refused: " + strings.Join(files, ", ") + "; their rules are not in force as written. The log has the reasons; correct the files and send SIGHUP"}}
}
