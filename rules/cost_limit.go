package rules

import "errors"

// costMeter bounds what one evaluation may cost. Its unit is a round: the body of a predicate
// once, which takes about a tenth of a microsecond.
type costMeter struct {
	left int // rounds
	size int // bytes that the expression can read
}

// What one evaluation may cost: enough to walk the longest list that the bodies can hold a
// few times, and some loops within loops of a small one.
const (
	leastRounds   = 20_000
	roundsPerByte = 1
)

var errTooExpensive = errors.New("the expression takes too long on this event: its loops multiply")

// most is how many rounds an evaluation may take by itself.
func (m *costMeter) most() int { return leastRounds + roundsPerByte*m.size }

func (m *costMeter) charge(rounds int) error {
	if m.left -= rounds; m.left < 0 {
		return errTooExpensive
	}
	return nil
}

// measure pays for what is about to be read, a round for so many bytes.
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

// weigh pays for all that a value holds, as what writes it out has to: a list may hold one long text a thousand times,
// which takes the room of one until then.
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
