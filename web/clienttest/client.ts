// A client whose types are generated from /openapi.json goes once through the life of a rule
// and a job. It is compiled strictly, so that what the description says is checked before
// anything is sent; and what the node answers is checked here.
//
//   node built/client.js <address of the node> <token>

import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Schemas = components["schemas"];
type JSONTypes = "application/json" | "application/problem+json";

const [, , address, token] = process.argv;
const api = createClient<paths, JSONTypes>({ baseUrl: address, headers: { Authorization: `Bearer ${token}` } });

declare const process: { argv: string[]; exitCode?: number };

function equal<T>(what: string, got: T, want: T): void {
  const [a, b] = [JSON.stringify(got), JSON.stringify(want)];
  if (a !== b) throw new Error(`${what}: got ${a}, want ${b}`);
}

/** ok is the body of a good answer with the status. */
function ok<T>(what: string, answer: { data?: T; error?: unknown; response: Response }, status: number): T {
  if (answer.response.status !== status || answer.error !== undefined || (answer.data === undefined && status !== 204)) {
    throw new Error(`${what}: ${answer.response.status} ${JSON.stringify(answer.error)}`);
  }
  return answer.data as T;
}

/** refused is the problem that an answer is. */
function refused(what: string, answer: { error?: Schemas["Problem"]; response: Response }, status: number, type: string): Schemas["Problem"] {
  const p = answer.error;
  if (p === undefined || answer.response.status !== status || p.type !== `urn:deadman:problem:${type}`) {
    throw new Error(`${what}: ${answer.response.status} ${JSON.stringify(p)}, want ${status} ${type}`);
  }
  return p;
}

const rule: Schemas["RuleDocument"] = {
  name: "parcel-lost",
  entity: "parcel",
  trigger: { event: "parcels.sent", key: "event.id" },
  resolve: { event: "parcels.arrived", key: "event.id" },
  escalate: [{ after: "2h", step: "primary", severity: "warning", text: "parcel {{key}} has not arrived" }],
};

async function rules(): Promise<void> {
  const made = await api.POST("/api/v1/rules", { body: rule });
  equal("created", ok("create", made, 201).rule.version, 1);
  equal("etag", made.response.headers.get("etag"), '"1"');
  refused("create again", await api.POST("/api/v1/rules", { body: rule }), 409, "rule-conflict");

  const path = { name: "parcel-lost" };
  const replace = (etag: string) =>
    api.PUT("/api/v1/rules/{name}", { params: { path, header: { "If-Match": etag } }, body: { ...rule, description: "Where is it?" } });
  const replaced = ok("replace", await replace('"1"'), 200);
  equal("replaced", [replaced.changed, replaced.created, replaced.rule.version], [true, false, 2]);
  refused("replace the version before", await replace('"1"'), 412, "rule-conflict");

  const shown = ok("show", await api.GET("/api/v1/rules/{name}", { params: { path } }), 200);
  equal("description", shown.description, "Where is it?");
  const yaml = await api.GET("/api/v1/rules/{name}", { params: { path }, headers: { Accept: "application/yaml" }, parseAs: "text" });
  if (!ok<unknown>("as YAML", yaml, 200)?.toString().includes("description: Where is it?")) throw new Error("as YAML: it is not");

  const versions = ok("versions", await api.GET("/api/v1/rules/{name}/versions", { params: { path } }), 200);
  equal("versions", versions.items.map((v) => v.version), [2, 1]);
  const diff = ok("diff", await api.GET("/api/v1/rules/{name}/diff", { params: { path, query: { from: 1, to: 2 } } }), 200);
  if (!diff.diff.includes("+description: Where is it?")) throw new Error(`diff: ${diff.diff}`);

  const at = "2026-01-31T09:00:00Z";
  const preview = ok("preview", await api.POST("/api/v1/rules/{name}/preview", { params: { path }, body: { event: { at, data: { id: "7" } } } }), 200);
  equal("preview", preview.lines.filter((l) => l.kind === "alert").map((l) => [l.at, l.step, l.text])[0], [
    "2026-01-31T11:00:00Z", "primary", "parcel 7 has not arrived",
  ]);
  const wrong = { ...rule, name: "wrong", escalate: [] } as Schemas["RuleDocument"];
  const lint = ok("lint", await api.POST("/api/v1/rules/lint", { body: wrong }), 200);
  equal("lint", [lint.valid, lint.problems[0]?.pointer], [false, "/escalate"]);
  refused("a wrong rule", await api.POST("/api/v1/rules", { body: wrong }), 422, "rule-invalid");
  const paused = ok("pause", await api.POST("/api/v1/rules/{name}/pause", { params: { path } }), 200);
  if (paused.paused_at === undefined) throw new Error("pause: it is not paused");
  equal("resume", ok("resume", await api.POST("/api/v1/rules/{name}/resume", { params: { path } }), 200).paused_at, undefined);
}

async function jobs(): Promise<void> {
  const create = (key: string) =>
    api.POST("/api/v1/jobs", { params: { header: { "Idempotency-Key": `job-${key}` } }, body: { rule: "parcel-lost", key, event: { id: key } } });
  for (const key of ["1", "2", "a/b"]) {
    equal(`job ${key}`, ok(`create ${key}`, await create(key), 201).status, "waiting");
  }
  const again = await create("1");
  ok("create again", again, 201);
  equal("replayed", again.response.headers.get("idempotent-replayed"), "true");

  const keys: string[] = [];
  for (let cursor: string | undefined = ""; cursor !== undefined; ) {
    const query: { rule: string; limit: number; cursor?: string } = { rule: "parcel-lost", limit: 2, ...(cursor && { cursor }) };
    const page: Schemas["PageJob"] = ok("list", await api.GET("/api/v1/jobs", { params: { query } }), 200);
    keys.push(...page.items.map((j) => j.key));
    cursor = page.next;
  }
  equal("pages", keys.sort(), ["1", "2", "a/b"]);
  const p = refused("a wrong limit", await api.GET("/api/v1/jobs", { params: { query: { limit: 501 } } }), 400, "bad-request");
  equal("where", p.errors?.[0]?.location, "query.limit");

  const path = { rule: "parcel-lost", key: "a/b" };
  equal("the key is escaped", ok("show", await api.GET("/api/v1/jobs/{rule}/{key}", { params: { path } }), 200).key, "a/b");
  equal("look", ok("look", await api.POST("/api/v1/jobs/{rule}/{key}/check", { params: { path } }), 200).ended, false);
  const until = "2999-01-01T00:00:00Z";
  equal("snooze", ok("snooze", await api.POST("/api/v1/jobs/{rule}/{key}/snooze", { params: { path }, body: { until } }), 200).next_check_at, until);
  ok("cancel", await api.DELETE("/api/v1/jobs/{rule}", { params: { path: { rule: path.rule }, query: { key: path.key } } }), 204);
  refused("cancel again", await api.DELETE("/api/v1/jobs/{rule}/{key}", { params: { path } }), 404, "not-found");
  const entity = { entity: "parcel", key: "1" };
  equal("cancel all", ok("cancel all", await api.DELETE("/api/v1/entities/{entity}/{key}/jobs", { params: { path: entity } }), 200).cancelled, 1);
  equal("entity", ok("entity", await api.GET("/api/v1/entities/{entity}/{key}", { params: { path: entity } }), 200).history.items[0]?.outcome, "cancelled");
  const history = ok("history", await api.GET("/api/v1/history", { params: { query: { outcome: "cancelled", rule: "parcel-lost" } } }), 200);
  equal("history", history.items.map((j) => j.key).sort(), ["1", "a/b"]);
}

async function others(): Promise<void> {
  const taken = ok("event", await api.POST("/api/v1/events/{subject}", { params: { path: { subject: "parcels.sent" } }, body: { id: "9" } }), 202);
  equal("event", [taken.stream, taken.seq], ["DEADMAN_EVENTS", 1]);
  equal("alerts", ok("alerts", await api.GET("/api/v1/alerts", { params: { query: { severity: "warning" } } }), 200).items, []);
  equal("letters", ok("letters", await api.GET("/api/v1/dead-letters"), 200).items, []);
  equal("nodes", ok("nodes", await api.GET("/api/v1/nodes"), 200).items, []);

  const wish = { name: "ci", scopes: ["events"], expires: "90d" };
  const made = ok("token", await api.POST("/api/v1/tokens", { body: wish }), 201);
  const ci = createClient<paths, JSONTypes>({ baseUrl: address, headers: { Authorization: `Bearer ${made.secret}` } });
  refused("what it has no scope for", await ci.GET("/api/v1/jobs"), 403, "forbidden");
  ok("revoke", await api.DELETE("/api/v1/tokens/{id}", { params: { path: { id: made.id } } }), 204);
  refused("what is revoked", await ci.GET("/api/v1/jobs"), 401, "unauthorized");
  const audit = ok("audit", await api.GET("/api/v1/audit", { params: { query: { action: "token.*", limit: 1 } } }), 200);
  equal("audit", audit.items[0]?.object, "token/ci");
  ok("delete", await api.DELETE("/api/v1/rules/{name}", { params: { path: { name: "parcel-lost" }, header: { "If-Match": '"2"' } } }), 204);
}

try {
  await rules();
  await jobs();
  await others();
  console.log("the client is done");
} catch (err) {
  console.error(err instanceof Error ? err.message : err);
  process.exitCode = 1;
}
