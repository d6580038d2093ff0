package rules

import "errors"

// costMeter bounds the cost of one evaluation. Its unit is a round: one evaluation of the body of a predicate, about a
// tenth of a microsecond.
type costMeter struct {
	left int // rounds
	size int // bytes that the expression can read
}

// The limits of one evaluation: enough to walk the longest list that the bodies can hold a few times, and some nested
// loops over a small one.
const (
	leastRounds   = 20_000
	roundsPerByte = 1
)

var errTooExpensive = errors.New("the expression takes too long on this event: its loops multiply")

// most returns how many rounds an evaluation may take by itself.
func (m *costMeter) most() int { return leastRounds + roundsPerByte*m.size }

func (m *costMeter) charge(rounds int) error {
	if m.left -= rounds; m.left < 0 {
		return errTooExpensive
	}
	return nil
}

// measure pays for data about to be read, a round for each unit of bytes.
func (m *costMeter) measure(bytes int, v any) error {
	switch v := v.(type) {
	case string:
		return m.charge(len(v) / bytes)
	case []any:
		return m.charge(len(v))
	case map[string]any:
		return m.charge(m.size / bytes)
	}
	return nil
}

// weigh pays for the full contents of a value before it is written out: a list may hold one long text a thousand times,
// and take the memory of one until then.
func (m *costMeter) weigh(bytes int, v any) error {
	switch v := v.(type) {
	case string:
		return m.charge(1 + len(v)/bytes)
	case []any:
		for _, item := range v {
			if err := m.weigh(bytes, item); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, item := range v {
			if err := errors.Join(m.charge(len(name)/bytes), m.weigh(bytes, item)); err != nil {
				return err
			}
		}
	}
	return m.charge(1)
}
