package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/periodic"
	"deadman/internal/store"
	"deadman/rules"
	"deadman/rules/document"
	"deadman/web"
)

// ruleFolder is the folder of rule files that a node applies when it starts and on SIGHUP. A refused file is in the log, a failed
// condition and an alert: the rules in it watch nothing, or watch as an earlier version says. A rule that the folder of another
// node replaced is in the log and a failed condition (decision 121).
type ruleFolder struct {
	path      string // empty: none
	registry  *rules.Registry
	every     time.Duration // between two looks at the alert
	now       func() time.Time
	store     *store.Store
	noteAlert func(alerts.Alert, bool, error) error
	log       *slog.Logger

	written alerts.SystemAlert // the alert, as last written by this node; zero: not written; used by Run alone

	applying sync.Mutex // held by an application, and by a comparison with the rules in force

	mu       sync.Mutex
	problems document.Problems   // of the last application
	applied  []rules.AppliedRule // by the last application
	replaced []replacedRule      // of applied, by the folders of other nodes
}

// replacedRule is a rule of the folder that the folder of another node replaced.
type replacedRule struct {
	rules.AppliedRule
	version int32  // of the other node
	by      string // the other node and its file; empty: not read
}

// apply applies the folder. Refused rules are logged, and the others apply. The error is of the folder, the database or the broker.
func (f *ruleFolder) apply(ctx context.Context) error {
	if f.path == "" {
		return nil
	}
	f.applying.Lock()
	defer f.applying.Unlock()
	report, err := f.registry.ApplyDir(ctx, f.path)
	if err != nil {
		return fmt.Errorf("apply the rules in %s: %w", f.path, err)
	}
	f.mu.Lock()
	f.problems, f.applied, f.replaced = report.Problems, report.Applied, nil
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

// overwritten returns the rules that the folders of other nodes replaced.
func (f *ruleFolder) overwritten() []replacedRule {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.replaced
}

// Run writes the alert about refused files, and compares the folder with the rules in force, until ctx ends.
func (f *ruleFolder) Run(ctx context.Context) error {
	if f.path == "" {
		return nil
	}
	return periodic.Run(ctx, f.every, f.log, "rule files", func(ctx context.Context) error {
		return errors.Join(f.step(ctx), f.compare(ctx))
	})
}

// compare finds the rules in force that the folder of another node applied over those of this folder. The changes of a person
// are none.
func (f *ruleFolder) compare(ctx context.Context) error {
	f.applying.Lock()
	defer f.applying.Unlock()
	all, err := f.registry.List(ctx)
	if err != nil {
		return err
	}
	newest := make(map[string]rules.RuleVersion, len(all))
	for _, l := range all {
		newest[l.Name] = l.RuleVersion
	}
	known := f.overwritten()
	var found []replacedRule
	for _, a := range f.applied {
		s, exists := newest[a.Name]
		if !exists || !a.IsReplacedBy(s) {
			continue
		}
		r := replacedRule{AppliedRule: a, version: s.Version}
		if i := slices.IndexFunc(known, func(k replacedRule) bool { return k.Name == a.Name && k.version == s.Version }); i >= 0 {
			r.by = known[i].by
		} else if len(found) < problemsMost {
			if r.by, err = f.savedBy(ctx, s); err != nil {
				return err
			}
			f.log.Warn("the folder of rules of another node replaced a rule of this node's folder; give all nodes the same files",
				"rule", a.Name, "version", s.Version, "by", r.by, "node", NodeName(), "file", a.File)
		}
		found = append(found, r)
	}
	f.mu.Lock()
	f.replaced = found
	f.mu.Unlock()
	return nil
}

// savedBy returns the node and the file that a version comes from, by the audit log.
func (f *ruleFolder) savedBy(ctx context.Context, s rules.RuleVersion) (string, error) {
	entries, _, err := f.store.Audit(ctx, access.AuditFilter{Action: string(access.RuleSave), Object: "rule/" + s.Name, Limit: 1})
	if err != nil {
		return "", fmt.Errorf("read who saved rule %s: %w", s.Name, err)
	}
	if len(entries) == 1 && strings.HasPrefix(entries[0].Detail, fmt.Sprintf("version %d; ", s.Version)) {
		if _, origin, named := strings.Cut(entries[0].Detail, "; node "); named {
			return "node " + origin, nil
		}
	}
	return "another node", nil // of a version that names none
}

// step opens or closes the alert after a change. An alert about other problems is closed first, also one of this node
// before a restart. Nodes with folders of the same name share the alert.
func (f *ruleFolder) step(ctx context.Context) error {
	r := f.alert()
	if r.Status == f.written.Status && r.Text == f.written.Text {
		return nil
	}
	if r.Status == alerts.Firing {
		if err := f.closeOutdated(ctx, r); err != nil {
			return err
		}
	}
	if err := f.noteAlert(f.store.ReportState(ctx, r)); err != nil {
		return err
	}
	f.written = r
	return nil
}

// closeOutdated closes the open alert of the folder if its text is another one.
func (f *ruleFolder) closeOutdated(ctx context.Context, r alerts.SystemAlert) error {
	all, err := f.store.FiringSystemAlerts(ctx)
	if err != nil {
		return err
	}
	for _, open := range all {
		if open.Topic != r.Topic || open.Step != r.Step {
			continue
		}
		listed, err := f.store.Alert(ctx, open.Alert(time.Time{}).ID)
		switch {
		case errors.Is(err, futurejobs.ErrNotFound): // retention deleted it
		case err != nil:
			return err
		case listed.Text == r.Text:
			continue
		}
		r.Status, r.Count, r.Text = alerts.Resolved, 0, "the next alert has other problems of rule files, of this folder or of that of another node"
		return f.noteAlert(f.store.CloseSystemAlert(ctx, r))
	}
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
	number := "a problem"
	if r.Count > 1 {
		number = fmt.Sprintf("%d problems", r.Count)
	}
	r.Text = fmt.Sprintf("%s in the rule files of a node; these rules are not in force as written: %s. Correct the files, and send the node SIGHUP", number, strings.Join(texts, "; "))
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
	files = slices.Compact(files)
	switch replaced := f.overwritten(); {
	case len(files) > 0:
	case len(replaced) > 0:
		return []web.Condition{{Name: "rule_files", Detail: replacedText(replaced)}}
	default:
		return []web.Condition{{Name: "rule_files", OK: true, Detail: "no file of the folder of rules is refused, or replaced by another node"}}
	}
	return []web.Condition{{Name: "rule_files", Detail: "refused: " + strings.Join(files, ", ") + "; their rules are not in force as written. The log and the alert of the folder have the reasons; correct the files and send SIGHUP"}}
}

// replacedText names the first rules that other nodes replaced, with both nodes and files.
func replacedText(replaced []replacedRule) string {
	texts := make([]string, 0, problemsMost)
	for _, r := range replaced[:min(len(replaced), problemsMost)] {
		texts = append(texts, fmt.Sprintf("rule %s: version %d, of %s, replaced that of node %s, file %s", r.Name, r.version, cmp.Or(r.by, "another node"), NodeName(), r.File))
	}
	if more := len(replaced) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return "the folder of another node replaced rules of this node's folder: " + strings.Join(texts, "; ") + ". Give all nodes the same files, and send each SIGHUP"
}
