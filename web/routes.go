package web

import (
	"context"

	"deadman/internal/access"
)

const apiPath = "/api/v1"

// Route is an operation in the API's index.
type Route struct {
	Method  string `json:"method" example:"GET"`
	Path    string `json:"path" doc:"With names of parts in braces." example:"/api/v1/jobs"`
	Summary string `json:"does"`
}

// Index is the answer at the API's root.
type Index struct {
	Version string  `json:"version,omitempty" doc:"Of the program."`
	Routes  []Route `json:"routes" nullable:"false"`
}

// group is the operations on one kind of resource.
type group interface {
	register(all *operations)
}

// registerAll registers all operations, in the order of the documentation.
func registerAll(all *operations, o Options, beats *heartbeatCounts) {
	for _, g := range groups(all, o, beats) {
		g.register(all)
	}
	index := func(context.Context, *nothing) (Index, error) {
		return Index{Version: o.Version, Routes: all.routes}, nil
	}
	at := operation{ID: "get-index", Tag: tagNode, Method: "GET", Summary: "list the operations of the API", Scope: access.Read, Reach: reachPublic, Hidden: true}
	register(all, at, withBody(index))
	at.Path = "/"
	register(all, at, withBody(index))
	all.relaxSchemas()
	describeAlerts(all.huma.OpenAPI().Components.Schemas)
	describeOutcomes(all.huma.OpenAPI().Components.Schemas)
}

// groups returns the groups of operations, each in the file of its noun.
func groups(all *operations, o Options, beats *heartbeatCounts) []group {
	retention := &retentionAPI{o.Retention, o.Now}
	trials, quotas := newTrials(), &quotaAPI{o.Quotas, o.Now}
	view := &jobView{o.Catalog, o.Now}
	counts, bulk := newRuleJobCounts(o), newBulkTurns()
	alerts := &alertAPI{o.Lists, view, o.Mutes, &alertStreamAPI{all.responder, o.Wire}}
	return []group{
		&ruleAPI{o.Rules, &ruleFolders{o.Rules}, counts, quotas, &lintAPI{o.Rules, trials}, retention, newSaves(), o.Now},
		&ruleResumeAPI{o.Rules},
		&ruleVersionAPI{o.Rules},
		&calendarAPI{o.Calendars, newSaves(), o.Now},
		&statisticsAPI{o.Rules, o.Rules, o.Lists, o.Now},
		&tickAPI{o.Lists, o.Rules},
		&previewAPI{o.Rules, trials, o.Channels, o.Now},
		&replayAPI{o.Rules, o.Replays, newReplayPermits()},
		&pingAddressAPI{o.Pings, o.Rules, o.PublicURL},
		&badgeAPI{o.Heartbeats, o.Rules, o.PublicURL},
		&schemaAPI{o.Schemas},
		&scheduleAPI{o.Lists, o.Rules, o.Schedules, bulk},
		&jobAPI{o.Lists, view, &jobActionAPI{o.JobActions, view, newManualChecks(), o.Now}, &bulkAPI{o.JobActions, bulk}, counts, o.Now},
		&heartbeatAPI{o.Heartbeats, o.Catalog, o.Rules, beats, counts, o.Now},
		&slotAPI{o.Catalog, o.Loads, o.Now},
		&entityAPI{o.Lists, o.JobActions, alerts, view},
		&forgetAPI{o.Forgetter},
		retention,
		&historyAPI{o.Lists},
		newOutcomeAPI(o),
		alerts,
		&alertGroupAPI{o.Lists, o.Rules, o.Now},
		&acknowledgeAPI{o.Lists, o.Acks, view, o.Now},
		&filterActionAPI{o.Lists, o.JobActions, o.Now},
		&republishAPI{o.Outbox},
		&channelAPI{o.Channels, o.Keeper, o.AckLinks, o.Rules}, &stepChannelAPI{o.Rules, o.Lists, o.Channels},
		&streamAPI{o.Streams},
		&sourceAPI{o.Sources, o.Keeper},
		&outageAPI{o.Lists},
		&handlerAPI{o.Handlers, o.Keeper},
		&muteAPI{o.Mutes, &muteCounter{o.Lists, o.Rules, o.Now}, o.Now},
		&eventAPI{o.Wire, o.Catalog, quotas, make(chan struct{}, matchedAtOnce), o.Log, o.Now},
		&deadLetterAPI{o.Lists},
		&deadLetterActionAPI{o.Letters},
		&nodeAPI{o.Lists, o.Now},
		&tokenAPI{o.Keeper, quotas, o.Now},
		&selfAPI{quotas},
		&sessionAPI{o.Keeper},
		quotas,
		&auditAPI{o.Keeper},
	}
}
