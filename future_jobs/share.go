package futurejobs

import "fmt"

// shareBytes is how many bytes the rules of a tenant may write into jobs for one event.
const shareBytes = 4 << 20

// share counts what the rules of tenants write of the event that is played. The effects of an event follow each other.
type share struct {
	event *Event
	by    map[string]int // bytes by tenant
}

// afford counts so many bytes of the event of an effect that are to be written into a job. Where the rules of the tenant would write too
// many together it returns why they are not written.
func (u *usage) afford(e Effect, bytes int64) error {
	rule := u.find(e.Rule)
	if rule == nil || rule.tenant == "" || e.Event == nil {
		return nil
	}
	if u.share.event != e.Event {
		u.share.event = e.Event
		clear(u.share.by)
	}
	if u.share.by[rule.tenant]+int(bytes) > shareBytes {
		return fmt.Errorf("the rules %s* together write at most %d bytes of one event into jobs, and others of them have done so; "+
			"have fewer rules keep the event, or publish a smaller one; a retry of this dead letter is for this rule alone", rule.tenant, shareBytes)
	}
	if u.share.by == nil {
		u.share.by = make(map[string]int)
	}
	u.share.by[rule.tenant] += int(bytes)
	return nil
}
