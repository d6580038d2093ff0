package sources

import (
	"errors"
	"fmt"
	"slices"

	"deadman/checks"
	"deadman/checks/lookup"
)

// errNotAsked is of a key about which nobody was asked.
var errNotAsked = errors.New("the source was not asked about it")

// unknown is what is found before anybody is asked. A finding without a value and an error says that there is no such
// entity: a key that no answer reaches must not be taken for that.
func unknown(asks []lookup.KeyQuery) []checks.Finding {
	return slices.Repeat([]checks.Finding{{Err: errNotAsked}}, len(asks))
}

// errNoAnswer is of a source that said nothing at all in the time that it had.
var errNoAnswer = errors.New("nothing was answered in time")

// finish says of the keys that are not answered that the time was over. Where none is, why is an
// error of the source; where some are, it goes on from there the next time.
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
	err := fmt.Errorf("the time was over when %d of %d keys were answered; make the question quicker (has its column an index?) or guards.timeout longer", count, len(found))
	for i := range found {
		if !answered(i) {
			found[i] = checks.Finding{Err: err}
		}
	}
	return nil
}

// wrapSourceKind says that a source can't be asked in the way that it is.
func wrapSourceKind(is, way string) error {
	return fmt.Errorf("%w: the source is %s; ask it with %s", lookup.ErrQuestion, is, way)
}
