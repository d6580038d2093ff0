package sources

import (
	"errors"
	"fmt"

	"deadman/checks"
	"deadman/checks/lookup"
)

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

// otherKind says that a source can't be asked in the way that it is.
func otherKind(is, way string) error {
	return fmt.Errorf("%w: the source is %s; ask it with %s", lookup.ErrQuestion, is, way)
}
