package checks

// AtMostOnce is a Handler with effects of its own. That a check of it begins is written down
// before it does. One that was begun and not decided, as after a crash, is not begun again: the
// job ends as undetermined, and that is said. An error is not tried again either; the next look
// is at the next slot, as another check.
type AtMostOnce interface {
	Handler
	// AtMostOnce says nothing; having it is what counts.
	AtMostOnce()
}

// WithAtMostOnce makes a Handler one with effects of its own.
func WithAtMostOnce(h Handler) AtMostOnce { return atMostOnce{h} }

type atMostOnce struct{ Handler }

func (atMostOnce) AtMostOnce() {}
