package bus

// UnlessThere is the first half of PublishTick.
var UnlessThere = (*TickPublisher).tickMessage
