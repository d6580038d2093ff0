package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// claim is a node's report, in its database row, that it cannot read a version of a rule, or puts its checks off.
type claim struct {
	RuleID   int32           `json:"rule_id"`
	Version  int32           `json:"version"`
	Rule     string          `json:"rule"`
	Severity alerts.Severity `json:"severity"` // highest known severity of the rule
	Reason   string          `json:"reason"`
	PutOff   bool            `json:"put_off,omitempty"` // the version can be read, and its checks are put off

	node string
}

// claimsOf returns the claimed versions, each with the claim of the first node that reports it. Rows in the format
// of another deadman version are ignored.
func claimsOf(nodes []futurejobs.Node) map[futurejobs.VersionRef]claim {
	all := make(map[futurejobs.VersionRef]claim)
	for _, n := range nodes {
		var claims []claim
		if n.Unreadable == "" || json.Unmarshal([]byte(n.Unreadable), &claims) != nil {
			continue
		}
		for _, c := range claims {
			made := futurejobs.VersionRef{RuleID: c.RuleID, Version: c.Version}
			if _, known := all[made]; !known {
				c.node = n.Name
				all[made] = c
			}
		}
	}
	return all
}

// unreadableOf returns the claims about unreadable versions.
func unreadableOf(claims map[futurejobs.VersionRef]claim) map[futurejobs.VersionRef]claim {
	maps.DeleteFunc(claims, func(_ futurejobs.VersionRef, c claim) bool { return c.PutOff })
	return claims
}

// reasonPutOff is the reason of put-off checks.
const reasonPutOff = "the rules of its tenant used up what their conditions may cost on this node"

// encodeClaims encodes the versions that a node cannot read, and those whose checks it puts off, for its database row.
func encodeClaims(ctx context.Context, unreadable []futurejobs.Unreadable, putOff []futurejobs.PutOff, catalog *rules.Catalog) string {
	var claims []claim
	for _, u := range unreadable {
		name, severity := catalog.About(ctx, u.RuleID, u.Version)
		claims = append(claims, claim{RuleID: u.RuleID, Version: u.Version, Rule: name, Severity: severity, Reason: fmt.Sprintf("%.500s", u.Reason)})
	}
	for _, p := range putOff {
		_, severity := catalog.About(ctx, p.RuleID, p.Version)
		claims = append(claims, claim{RuleID: p.RuleID, Version: p.Version, Rule: p.Rule, Severity: severity, Reason: reasonPutOff, PutOff: true})
	}
	if len(claims) == 0 {
		return ""
	}
	text, err := json.Marshal(claims)
	if err != nil {
		return "" // unreachable: numbers and strings
	}
	return string(text)
}

// names returns descriptions of the claimed versions, sorted.
func names(claims map[futurejobs.VersionRef]claim) []string {
	var all []string
	for made, c := range claims {
		all = append(all, fmt.Sprintf("version %d of rule %s", made.Version, c.Rule))
	}
	slices.Sort(all)
	return all
}

func versionTopic(rule string, version int32) string { return fmt.Sprintf("rule/%s/%d", rule, version) }

func cutVersion(topic string) (rule, version string) {
	at := strings.LastIndexByte(topic, '/')
	return strings.TrimPrefix(topic[:at], "rule/"), topic[at+1:]
}
