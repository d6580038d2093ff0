package bus

// UnlessThere is the first half of Emit.
var UnlessThere = (*Bus).tickMessage
