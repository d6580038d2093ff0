package sources

import (
	"errors"
	"fmt"
	"slices"

	"deadman/checks"
	"deadman/checks/lookup"
)

// errNotQueried is the error of a key that was not queried.
var errNotQueried = errors.New("the source was not queried for this key")

// unknown returns the initial findings, all with errNotQueried. A finding without a value and an error means that the
// entity does not exist, so unanswered keys must have an error.
func unknown(queries []lookup.KeyQuery) []checks.Finding {
	return slices.Repeat([]checks.Finding{{Err: errNotQueried}}, len(queries))
}

// errNoAnswer is the error of a source that did not answer in time.
var errNoAnswer = errors.New("no answer in time")

// finish sets a timeout error for the unanswered keys. If no key is answered, it returns why, an error of the source;
// otherwise the next attempt continues with the unanswered keys.
func finish(found []checks.Finding, answered func(i int) bool, why error) error {
	count := 0
	for i := range found {
		if answered(i) {
			count++
		}
	}
	if count == 0 {
		return why
	}
	err := fmt.Errorf("timeout after %d of %d keys; make the query faster (does its column have an index?) or increase guards.timeout", count, len(found))
	for i := range found {
		if !answered(i) {
			found[i] = checks.Finding{Err: err}
		}
	}
	return nil
}

// wrapSourceKind returns the error of a question for another kind of source.
func wrapSourceKind(is, way string) error {
	return fmt.Errorf("%w: the source is %s; query it with %s", lookup.ErrQuestion, is, way)
}
