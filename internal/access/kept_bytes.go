package access

import "deadman/alerts"

// answerSize is the size of a kept answer beyond its body, in bytes: its key, its headers, and the row.
const answerSize = 512

// KeepAlert implements futurejobs.Quotas.
func (q *Quotas) KeepAlert(a *alerts.Alert) {
	meters := q.current.Load().of(LimitKeptAlertBytes, a.Rule)
	if len(a.Event)+len(a.State) > 0 {
		for _, m := range meters {
			if m.used[atKeptAlertBytes].Load() >= m.limits[LimitKeptAlertBytes] {
				m.refused[atKeptAlertBytes].Add(1)
				a.BodiesOverQuota = true
			}
		}
	}
	if a.BodiesOverQuota {
		a.Event, a.State = nil, nil
	}
	for _, m := range meters {
		m.spend(SpentKeptAlertBytes, a.StreamSize())
	}
}

// DropAlert implements futurejobs.Quotas.
func (q *Quotas) DropAlert(a *alerts.Alert) {
	for _, m := range q.current.Load().of(LimitKeptAlertBytes, a.Rule) {
		m.spend(SpentKeptAlertBytes, -a.StreamSize())
	}
}

// MayKeepAnswer returns an error if the quotas of a tenant's prefix have no room for another answer. An empty prefix has
// no quota.
func (q *Quotas) MayKeepAnswer(prefix string) error {
	for _, m := range q.current.Load().of(LimitKeptAnswerBytes, prefix) {
		if limit := m.limits[LimitKeptAnswerBytes]; m.used[atKeptAnswerBytes].Load() >= limit {
			m.refused[atKeptAnswerBytes].Add(1)
			return m.ExceededTo(prefix, LimitKeptAnswerBytes, limit)
		}
	}
	return nil
}

// KeepAnswer counts an answer whose body has that many bytes.
func (q *Quotas) KeepAnswer(prefix string, bytes int) {
	for _, m := range q.current.Load().of(LimitKeptAnswerBytes, prefix) {
		m.spend(SpentKeptAnswerBytes, answerSize+int64(bytes))
	}
}

// KeepPingBody reports whether the quotas of a rule have room for another body in the log of pings, and counts it then.
func (q *Quotas) KeepPingBody(rule string, bytes int) bool {
	meters := q.current.Load().of(LimitKeptPingBytes, rule)
	for _, m := range meters {
		if m.used[atKeptPingBytes].Load() >= m.limits[LimitKeptPingBytes] {
			m.refused[atKeptPingBytes].Add(1)
			return false
		}
	}
	for _, m := range meters {
		m.bodies.Add(int64(bytes)) // grows first, as learnPingBytes expects
		m.used[atKeptPingBytes].Add(int64(bytes))
	}
	return true
}

// CountPingBodies marks the beginning of the database's count of the log of pings for Learn. All bodies that were kept
// before have to be in the database when it counts. The count is of the rules that begin with a text.
func (q *Quotas) CountPingBodies(text string) {
	q.learning.Lock()
	defer q.learning.Unlock()
	for _, m := range q.current.Load().within(text) {
		m.bodies.Store(0)
	}
}

// MayCapture returns an error if the quotas of a tenant's prefix allow it fewer captured subjects. An empty prefix has no
// quota.
func (q *Quotas) MayCapture(prefix string, subjects int) error {
	for _, m := range q.current.Load().of(LimitSubjects, prefix) {
		if limit := m.limits[LimitSubjects]; int64(subjects) > limit {
			return m.ExceededTo(prefix, LimitSubjects, limit)
		}
	}
	return nil
}
