package alerts

// Of an alert that the node says about itself, and of no job.
const (
	OwnRule   = "deadman" // no rule can have this name
	OwnRuleID = 0
	OwnEntity = "node"
)
