package rules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"deadman/rules/bodies"

	"deadman/checks"
)

// previewLookup returns the given result at every check of a preview, or the first answer of the source. A preview is
// played by one goroutine.
type previewLookup struct {
	checks.Finder
	queried bool            // the source was queried
	known   *checks.Finding // nil: not queried yet
}

// newPreviewLookup gives the checks of a rule the same result each time; nil if the rule has no lookup.
func newPreviewLookup(r *Rule, given json.RawMessage, skipReason string) (*previewLookup, error) {
	if r.question == nil {
		if given != nil {
			return nil, fmt.Errorf("%w: the rule has no lookup; remove found", ErrPreview)
		}
		return nil, nil
	}
	f := &previewLookup{Finder: r.engine.Finder}
	switch found := bodies.New(given); {
	case given == nil && skipReason != "":
		f.known = &checks.Finding{Err: errors.New(skipReason)}
	case given == nil:
	case string(given) == "null":
		f.known = &checks.Finding{}
	default:
		if err := found.CheckFound(); err != nil {
			return nil, fmt.Errorf("%w: found: %w; write an object, or null for no such entity", ErrPreview, err)
		}
		f.known = &checks.Finding{Value: given}
	}
	r.engine.Finder = f
	return f, nil
}

var errSourceBusy = errors.New("it is busy with checks")

// Enter needs no place: Find takes one from the source, once.
func (f *previewLookup) Enter() bool { return true }

// Find queries the source once.
func (f *previewLookup) Find(ctx context.Context, all []checks.Check) []checks.Finding {
	if f.known == nil {
		f.queried, f.known = true, &checks.Finding{Err: errSourceBusy}
		if f.Finder.Enter() {
			*f.known = f.Finder.Find(ctx, all[:1])[0]
		}
	}
	found := make([]checks.Finding, len(all))
	for i := range found {
		found[i] = *f.known
	}
	return found
}

// result returns the result. An undetermined result is an error: the preview would show checks that fail.
func (f *previewLookup) result() (*PreviewLookup, error) {
	switch {
	case f.known == nil:
		return nil, nil
	case f.known.Err != nil:
		return nil, fmt.Errorf("%w: the result of %s is unknown (%w); give the lookup result, such as {\"status\": \"UNSHIPPED\"}, or null for no such entity",
			ErrPreview, f.Source(), f.known.Err)
	}
	l := &PreviewLookup{Source: f.Source(), Queried: f.queried, Found: f.known.Value}
	if l.Found == nil {
		l.Found = json.RawMessage("null")
	}
	return l, nil
}
