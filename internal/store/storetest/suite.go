package storetest

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/rules"
)

// Open opens a store on a new database that is dropped at the end of the test.
type Open func(tb testing.TB) *store.Store

// behaviours are the tests of all behaviour that the rest of deadman relies on.
var behaviours = map[string]func(*testing.T, *fixture){
	"due/order":             dueInOrder,
	"due/room":              dueInTheRoomOfAnother,
	"due/buffers":           dueTouchesPages,
	"due/walk":              dueAfterTheWalk,
	"due/not":               dueWithoutRules,
	"due/of":                dueOfRules,
	"due/horizon":           dueUpToAnInstant,
	"due/bytes":             dueByBytes,
	"settle/reschedule":     settleReschedules,
	"settle/together":       settleReschedulesTogether,
	"settle/end":            settleEnds,
	"settle/said":           settleSays,
	"settle/rev":            settleLosesToAChange,
	"settle/epoch":          settleLosesToATakeover,
	"settle/expired":        settleLosesToTheClock,
	"settle/rules":          settleStandsWhileRulesAreSaved,
	"outage/deletion":       deletionWaitsForTheEndOfAnOutage,
	"settle/older":          olderNodesFenceAllRules,
	"settle/moved":          settleLeavesOutRulesThatMoved,
	"settle/many":           settleMany,
	"settle/unsayable":      settleRefusesWhatCannotBeSaid,
	"settle/immutable":      firstCheckNeverChanges,
	"lease/take":            leasesAreTakenOnce,
	"lease/renew":           leasesAreRenewed,
	"lease/release":         leasesAreReleased,
	"lease/reclaim":         leasesAreReclaimed,
	"lease/node":            nodesBeat,
	"lease/free":            leasesAreFreed,
	"time/back":             futureIsPutBack,
	"time/marks":            marksOfTheFutureGoBack,
	"time/corrected":        timeIsCorrected,
	"shift/steps":           stepsAreFollowedOnce,
	"shift/jobs":            jobsAreShiftedOnce,
	"apply/start":           applyStarts,
	"apply/end":             applyEnds,
	"apply/born":            applyBornAndEnded,
	"apply/again":           applyStartsAgainAfterAnEnd,
	"apply/meet":            applyMeetsWhatIsThere,
	"apply/race":            applyIsRacedOnce,
	"apply/bulk":            bulksBeginWhatIsNew,
	"apply/rules":           applyLosesToRulesOfItsStream,
	"apply/hand/rules":      applyByHandLosesToItsRules,
	"apply/hold":            applyHoldsChangesOff,
	"tick/hold":             ticksHoldChangesOff,
	"apply/known":           applyLosesToACursor,
	"apply/keys":            applyTakesAnyKey,
	"apply/bodies":          applyTakesAnyBody,
	"apply/update":          updatesLeaveTheCheckAlone,
	"apply/pause":           pausesStopTheTime,
	"apply/paused":          pausedJobsEnd,
	"apply/restart":         restartsBeginAnew,
	"apply/hand":            handsChangeJobs,
	"apply/beat":            beatsPutOff,
	"apply/beats":           beatsOfASlotAreOneWrite,
	"apply/set":             setsGather,
	"apply/letter":          newsThatFailAreLetters,
	"apply/deed":            deedsAreAudited,
	"quota/keep":            quotasAreKept,
	"quota/rules":           rulesAreCounted,
	"quota/jobs":            jobsAreBounded,
	"quota/jobs_at_once":    jobsAtOnceAreBounded,
	"quota/job_bytes":       bytesOfJobsAreBounded,
	"quota/turned_away":     endsOfTurnedAwayAreRemembered,
	"quota/retry":           retriesMeetEnds,
	"quota/again":           alertsArePublishedAgain,
	"quota/use":             useOfQuotasIsKept,
	"quota/withhold":        alertsAreWithheld,
	"quota/letters":         lettersAreCappedByTenant,
	"quota/letter_room":     bodiesOfLettersHaveRoom,
	"quota/letter_number":   lettersAreBounded,
	"quota/letter_ends":     summarizedJobsAreForgotten,
	"quota/letter_failed":   roomOfLettersIsGivenBack,
	"quota/letter_tenant":   lettersOfTenantsAreCapped,
	"quota/letter_half":     bodiesLeaveHalfToOthers,
	"quota/early":           earlyIsCappedByTenant,
	"apply/unknown action":  unknownActionsAreRefused,
	"apply/acknowledge":     alertsAreAcknowledged,
	"apply/unacknowledged":  newWaitsAreNotAcknowledged,
	"early/end":             earlyEndsAreRemembered,
	"early/members":         earlyMembersAreRemembered,
	"early/forgotten":       earlyIsForgotten,
	"early/capped":          earlyIsCapped,
	"early/race":            earlyIsRacedOnce,
	"early/kept":            keptTriggersAreRemembered,
	"early/ends":            endsAreRememberedApart,
	"early/changes":         changesAreRemembered,
	"cursor/open":           cursorsOpenOnce,
	"cursor/read":           cursorsAreMarkedForward,
	"cursor/reset":          cursorsAreReset,
	"cursor/lost":           lossesAreReportedOnce,
	"cursor/ticks":          ticksHaveCursors,
	"apply/lapse":           startsLapse,
	"apply/due":             dueWaitsAreLookedAtFirst,
	"cursor/hear":           streamsAreHeardForward,
	"node/beside":           othersAreSeen,
	"load/past":             loadsAddUp,
	"load/planned":          plannedJobsAreCounted,
	"load/prune":            loadsAreForgotten,
	"rule/save":             rulesAreSaved,
	"rule/prune":            versionsArePruned,
	"rule/changes":          changesAreLoadedAlone,
	"rule/behind":           rulesBeginBehindWhatWasApplied,
	"rule/entity":           rulesKeepTheirEntity,
	"rule/version":          rulesAreSavedOverTheVersionMeant,
	"rule/pause":            rulesArePaused,
	"rule/halt":             rulesAreHalted,
	"rule/delete":           rulesAreDeleted,
	"rule/name":             namesComeBack,
	"rule/silence":          deletedRulesSayNothing,
	"rule/jobs":             jobsOfARuleAreWalked,
	"rule/audit":            changesOfRulesAreAudited,
	"rebind/back":           streamsGoBackForWhatIsNew,
	"rebind/begin":          streamsBeginWhereTheyAreBound,
	"rebind/ahead":          streamsStayWhereTheyAreBehind,
	"rebind/conflict":       rebindsLoseToChanges,
	"rebind/race":           rebindsLoseToEachOther,
	"idempotency/once":      requestsAreDoneOnce,
	"idempotency/forget":    requestsAreForgotten,
	"idempotency/outcome":   requestsAreCarriedOutOnce,
	"outbox/turns":          outboxTakesTurns,
	"outbox/without":        outboxLeavesOut,
	"outbox/cut":            outboxIsSentInParts,
	"outbox/two":            outboxIsMarkedByTwo,
	"outbox/late":           outboxIsMarkedLate,
	"outbox/decisions":      outboxKeepsTheOrderOfDecisions,
	"own/conclude":          concludes,
	"remark/stands":         remarksStand,
	"remark/changes":        remarksOnChanges,
	"outbox/republish":      alertsAreRepublished,
	"outbox/parts":          alertsAreRepublishedInParts,
	"outbox/again":          alertsAreRepublishedInOrder,
	"outbox/nodes":          alertsArePutBackOnceByTwo,
	"outbox/left":           alertsArePutBackBesideWhatIsLeft,
	"outbox/published":      outboxForgets,
	"list/jobs":             jobsAreListed,
	"list/filter":           jobsAreFiltered,
	"list/moving":           jobsAreListedWhileTheyMove,
	"list/history":          historyIsListed,
	"list/outcomes":         historyIsFiltered,
	"list/alerts":           alertsAreListed,
	"list/severities":       alertsAreFiltered,
	"list/open":             alertsAreOpen,
	"list/outages":          outagesAreOpenAlerts,
	"list/large":            largeBodiesAreLeftOut,
	"list/large_letters":    largeLettersAreLeftOut,
	"list/rules":            jobsAreCountedByRule,
	"list/keys":             jobsAreFoundByTheirKeys,
	"list/far":              jobsAreListedThatAreFar,
	"list/ends":             endsAreCounted,
	"list/cursor":           cursorsBelongToTheirList,
	"letter/bytes":          lettersKeepTheirBytes,
	"letter/list":           lettersAreListed,
	"letter/capped":         lettersAreCapped,
	"letter/reasons":        lettersAreCounted,
	"letter/retry":          lettersAreTriedOnce,
	"letter/again":          lettersStayWhereTheyAreRefused,
	"letter/split":          lettersOfAllRulesAreSplit,
	"letter/drop":           lettersAreDropped,
	"outage/open":           outagesOpenOnce,
	"outage/end":            outagesEndOnce,
	"outage/count":          outagesCountWithinABound,
	"outage/list":           outagesAreListed,
	"outage/fence":          outagesNeedTheFence,
	"check/once":            checksBeginOnce,
	"retention/prune":       retentionPrunes,
	"retention/unpublished": retentionKeepsWhatIsUnpublished,
	"token/keep":            tokensAreKept,
	"token/name":            tokensHaveNamesOfTheirOwn,
	"token/expire":          tokensLoseTheirNamesWhenTheyExpire,
	"token/race":            tokensAreRacedOnce,
	"token/revoke":          tokensAreRevoked,
	"token/govern":          tokensGovernEveryNode,
	"token/touch":           tokensAreTouchedForward,
	"session/keep":          sessionsAreKept,
	"session/person":        sessionsOfPeopleAreKept,
	"session/end":           sessionsAreEnded,
	"session/token":         sessionsEndWithTheirToken,
	"session/touch":         sessionsAreTouchedForward,
	"session/forget":        sessionsAreForgotten,
	"audit/who":             auditSaysWho,
	"audit/filter":          auditIsFiltered,
	"audit/page":            auditIsPaged,
	"audit/prune":           auditIsPruned,
	"ping/address":          addressesAreMadeOnce,
	"ping/race":             addressesAreRacedOnce,
	"ping/rotate":           addressesTakeTurns,
	"ping/share":            addressesAreShared,
	"ping/deleted":          addressesGoWithTheirRule,
	"ping/log":              pingsAreLogged,
	"ping/forget":           pingsAreForgotten,
	"ping/bodies":           bodiesAreForgotten,
	"progress/advance":      progressIsMadeOnce,
	"progress/still":        progressStandsStill,
	"progress/swept":        shardsAreSwept,
	"progress/late":         lateJobsAreCounted,
	"progress/overdue":      overdueJobsAreFound,
	"gauges":                gaugesCount,
	"time/microseconds":     timesAreExact,
	"trail/grow":            trailsGrow,
	"trail/stay":            trailsStay,
	"trail/history":         trailsGoToHistory,
	"trail/lists":           trailsAreNotListed,
	"trail/text":            trailsTakeAnyText,
	"trail/effects":         trailsTellOfEffects,
	"origin/kept":           originsAreKept,
	"origin/repeat":         alertsThatAreThereStay,
	"restore/mark":          theMarkMoves,
	"restore/back":          unknownAlertsGoBackToTheirJobs,
	"restore/close":         unknownAlertsAreClosed,
	"restore/rule":          unknownAlertsOfOtherRulesAreClosed,
	"balance/random":        balanceHolds,
	"notice/news":           newsIsThereWhileSomebodyListens,
	"notice/send":           messagesAreSent,
	"notice/close":          closingsFollow,
	"notice/order":          noRuleIsBehindAnother,
	"notice/forget":         messagesAreGivenUp,
	"mute/end":              mutesEnd,
}

// Run runs the suite.
func Run(t *testing.T, open Open) {
	for name, test := range behaviours {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newFixture(t, open(t)))
		})
	}
}

// fixture is a store with a rule, and a node that holds all its shards.
type fixture struct {
	*store.Store
	t    *testing.T
	rule *futurejobs.Rule
	held []futurejobs.HeldShard
	set  int64     // the rule set's revision
	at   time.Time // a slot, a day from now
}

// me is the node that holds the shards.
const me = "me"

func newFixture(t *testing.T, s *store.Store) *fixture {
	w := &fixture{Store: s, t: t}
	w.at = must[time.Time](t)(s.Now(t.Context())).Add(futurejobs.Day).Truncate(time.Minute)
	w.rule = w.save("order-unshipped", "order")
	w.held = w.takeAll(me, time.Hour)
	return w
}

func (w *fixture) ctx() context.Context { return w.t.Context() }

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (w *fixture) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// save saves a rule and updates the fixture's revision of the rule set.
func (w *fixture) save(name, entity string) *futurejobs.Rule {
	w.t.Helper()
	saved := must[rules.RuleVersion](w.t)(w.Save(w.ctx(), rules.RuleVersion{
		Name: name, Entity: entity, Document: []byte(`{"name":"` + name + `"}`),
		Reads: []rules.StreamBinding{{Subject: "orders.created", Stream: "ORDERS", From: 7}},
	}, rules.AnyVersion))
	w.set = must[int64](w.t)(w.Revision(w.ctx()))
	return &futurejobs.Rule{
		ID: saved.RuleID, Version: saved.Version, Name: name, Entity: entity,
		Grid: futurejobs.Grid(time.Minute), MaxSeverity: alerts.Critical,
	}
}

func (w *fixture) takeAll(node string, d time.Duration) []futurejobs.HeldShard {
	w.t.Helper()
	var held []futurejobs.HeldShard
	for _, l := range must[[]futurejobs.Lease](w.t)(w.Leases(w.ctx())) {
		got, ok, err := w.Take(w.ctx(), node, l.HeldShard, d)
		if err != nil || !ok {
			w.t.Fatalf("take shard %d: %v, %v", l.Shard, ok, err)
		}
		held = append(held, got.HeldShard)
	}
	return held
}

// slot returns the first slot of the fixture's jobs.
func (w *fixture) slot() time.Time { return w.at }

func (w *fixture) ref(rule *futurejobs.Rule, key string) futurejobs.Ref {
	return futurejobs.Ref{Shard: futurejobs.ShardOf(rule.Entity, key, w.Shards()), RuleID: rule.ID, Key: key}
}

// job returns a job for key, due at first.
func (w *fixture) job(rule *futurejobs.Rule, key string, first time.Time) futurejobs.Job {
	return futurejobs.Job{
		Ref: w.ref(rule, key), Version: rule.Version, Since: first.Add(-time.Hour), FirstCheckAt: first,
		Event: json.RawMessage(`{"id":"` + strconv.Itoa(len(key)) + `"}`),
	}
}

// begins returns the effect that starts a job.
func begins(rule *futurejobs.Rule, j futurejobs.Job) futurejobs.Effect {
	return futurejobs.Effect{Rule: rule, Ref: j.Ref, Action: futurejobs.Start{Job: j}}
}

// starting returns the effect that starts a job for key, due at first.
func (w *fixture) starting(rule *futurejobs.Rule, key string, first time.Time) futurejobs.Effect {
	return begins(rule, w.job(rule, key, first))
}

// ending returns the effect that ends the job of key with a closing alert.
func (w *fixture) ending(rule *futurejobs.Rule, key string) futurejobs.Effect {
	return futurejobs.Effect{Rule: rule, Ref: w.ref(rule, key), Action: itHappened}
}

// itHappened ends a job with a closing alert.
var itHappened = futurejobs.End{Outcome: "resolved", Close: func(futurejobs.Job) alerts.Draft {
	return alerts.Draft{Status: alerts.Resolved, Severity: alerts.Info, Text: "it happened"}
}}

// byHand applies effects without a stream.
func (w *fixture) byHand(effects ...futurejobs.Effect) futurejobs.ApplyResult {
	w.t.Helper()
	return must[futurejobs.ApplyResult](w.t)(w.Apply(w.ctx(), futurejobs.EffectBatch{RuleSet: w.set, Effects: effects}))
}

// start starts jobs for keys, all due at first.
func (w *fixture) start(first time.Time, keys ...string) {
	w.t.Helper()
	effects := make([]futurejobs.Effect, len(keys))
	for i, key := range keys {
		effects[i] = w.starting(w.rule, key, first)
	}
	if got := w.byHand(effects...); got.Created != len(keys) {
		w.t.Fatalf("created %d jobs of %d", got.Created, len(keys))
	}
}

// all returns all pending jobs, in due order.
func (w *fixture) all() []futurejobs.Job {
	w.t.Helper()
	return must[[]futurejobs.Job](w.t)(w.Due(w.ctx(), futurejobs.DueQuery{
		Walks: w.walks(), Until: w.slot().AddDate(1, 0, 0), Limit: 100_000,
	}))
}

// walks returns cursors at the start of all shards.
func (w *fixture) walks() []futurejobs.ShardCursor {
	walks := make([]futurejobs.ShardCursor, w.Shards())
	for i := range walks {
		walks[i] = futurejobs.ShardCursor{Shard: int16(i), ID: math.MinInt64}
	}
	return walks
}

// one returns the pending job of a key.
func (w *fixture) one(key string) futurejobs.Job {
	w.t.Helper()
	for _, j := range w.all() {
		if j.Key == key {
			return j
		}
	}
	w.t.Fatalf("no job for %q", key)
	return futurejobs.Job{}
}

// later returns the decision to check again at next, with an alert.
func (w *fixture) later(j futurejobs.Job, next time.Time) futurejobs.Decision {
	slot := j.NextCheckAt
	j.NextCheckAt, j.CheckCount, j.Step = next, j.CheckCount+1, j.Step+1
	return w.saying(futurejobs.Decision{Job: j}, slot)
}

// over returns the decision that ends j, with an alert.
func (w *fixture) over(j futurejobs.Job) futurejobs.Decision {
	j.CheckCount++
	return w.saying(futurejobs.Decision{Job: j, Outcome: "exhausted", Reason: "the last step was taken"}, j.NextCheckAt)
}

var place atomic.Int64

// saying adds an alert to a decision.
func (w *fixture) saying(d futurejobs.Decision, slot time.Time) futurejobs.Decision {
	now := must[time.Time](w.t)(w.Now(w.ctx()))
	a := alerts.Alert{
		ID: alerts.Decision{
			JobID: d.Job.ID, CreatedAt: d.Job.CreatedAt, Check: d.Job.CheckCount, Status: alerts.Firing,
			StepIndex: int(place.Add(1)), At: slot,
		}.ID(),
		Rule: w.rule.Name, RuleVersion: int(d.Job.Version), Entity: w.rule.Entity, Key: d.Job.Key,
		DecidedAt: now, Shard: d.Job.Shard, RuleID: d.Job.RuleID,
		Detail: alerts.Detail{
			Draft: alerts.Draft{Status: alerts.Firing, Severity: alerts.Warning, Step: "primary", Text: "it waits"},
			Since: d.Job.Since, Slot: slot, CheckCount: d.Job.CheckCount, Event: d.Job.Event,
		},
	}
	d.Alerts = append(d.Alerts, a)
	d.Job.Alerts = append(d.Job.Alerts[:len(d.Job.Alerts):len(d.Job.Alerts)], a.ID)
	return d
}

// settlement returns a settlement by the node that holds all shards.
func (w *fixture) settlement(decisions ...futurejobs.Decision) futurejobs.Settlement {
	st := futurejobs.Settlement{Held: w.held, RuleSet: w.set}
	for i := range decisions {
		st.Decisions = append(st.Decisions, &decisions[i])
	}
	return st
}

func (w *fixture) settle(decisions ...futurejobs.Decision) futurejobs.Settled {
	w.t.Helper()
	return must[futurejobs.Settled](w.t)(w.Settle(w.ctx(), w.settlement(decisions...)))
}

// unpublished returns all unpublished alerts.
func (w *fixture) unpublished() []alerts.Alert {
	w.t.Helper()
	shards := make([]int16, w.Shards())
	for i := range shards {
		shards[i] = int16(i)
	}
	return must[[]alerts.Alert](w.t)(w.Unpublished(w.ctx(), shards, 100_000, nil))
}

// ended returns the whole history, newest first.
func (w *fixture) ended() []futurejobs.EndedJob {
	w.t.Helper()
	return pages(w.t, futurejobs.Filter{Limit: futurejobs.MaxLimit}, w.History)
}

// list is a list method of the store.
type list[T any] func(context.Context, futurejobs.Filter) (futurejobs.Page[T], error)

// pages reads a list to its end.
func pages[T any](t *testing.T, f futurejobs.Filter, l list[T]) []T {
	t.Helper()
	var items []T
	for {
		page := must[futurejobs.Page[T]](t)(l(t.Context(), f))
		items = append(items, page.Items...)
		if page.Next == "" {
			return items
		}
		f.Cursor = page.Next
	}
}
