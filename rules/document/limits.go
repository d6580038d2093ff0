package document

import (
	"fmt"
	"regexp"
	"time"

	"deadman/alerts"
)

// Limits of a document.
const (
	MaxSize        = 256 << 10 // bytes of a text of rules
	MaxSteps       = 32
	MaxTurns       = 1000 // steps, with every repetition of a step counted
	MaxResolves    = 32   // also of updates, and of pauses
	MaxLabels      = 32
	MaxDescription = 4 << 10  // bytes
	MaxExpression  = 4 << 10  // bytes
	MaxKey         = 512      // bytes of the key of an entity
	MaxKeys        = 1000     // keys that a trigger names
	MaxNeed        = 10_000   // members of a set that ends a job
	MaxQuery       = 16 << 10 // bytes
	MaxParams      = 32
	MaxLabel       = 256 // bytes
	MaxChecks      = 10_000
	MaxAttempts    = 100
	MaxDuration    = Duration(3650 * 24 * time.Hour)

	maxRules = 2000 // in a text
)

var tooManyRules = fmt.Sprintf("a text may hold %d rules, and this one holds more; split it", maxRules)

// Forms of names.
var (
	NamePattern   = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)
	EntityPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	BucketPattern = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,255}$`) // as JetStream accepts
)

// NameForm is the form of NamePattern in a sentence.
const NameForm = "1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit"

// Severities are the Severities of steps, the mildest first.
var Severities = []string{string(alerts.Info), string(alerts.Warning), string(alerts.Error), string(alerts.Critical)}
