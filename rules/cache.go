package rules

import "sync"

// compiledMost is the default memory of compiled rules, in bytes.
const compiledMost = 1 << 30

// ruleCache bounds the memory of compiled versions. A version that is evicted is compiled again when it is needed.
// Eviction follows the CLOCK algorithm: the cache examines the oldest entry, and spares it once if it was used since it
// was added or last examined. It is safe for concurrent use.
type ruleCache struct {
	most int64 // bytes; set before it is used

	mu     sync.Mutex
	held   []cached // in the order of examination
	weight int64    // of held, in bytes
}

// cached is a compiled version, and the memory that it takes, in bytes.
type cached struct {
	version *version
	weight  int64
}

// add adds a compiled version, and evicts others if all of them together exceed the limit. The version itself stays,
// regardless of its weight.
func (c *ruleCache) add(v *version, weight int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for left := 2 * len(c.held); left > 0 && len(c.held) > 0 && c.weight+weight > c.most; left-- {
		oldest := c.held[0]
		c.held = c.held[1:]
		if oldest.version.used.Swap(false) {
			c.held = append(c.held, oldest)
			continue
		}
		c.weight -= oldest.weight
		oldest.version.form.Store(nil)
	}
	c.held = append(c.held, cached{v, weight})
	c.weight += weight
}
