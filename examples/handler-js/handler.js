// A handler of deadman in JavaScript. Usage: node handler.js [NATS URL]
// It connects as the NATS user handlers, with the secret in the node's data folder.
import { readFileSync } from "node:fs";
import { connect } from "@nats-io/transport-node";
import { Svcm } from "@nats-io/services";

const secret = readFileSync(`${process.env.DEADMAN_DATA_DIR ?? "deadman-data"}/nats-users/handlers`, "utf8").trim();
const nc = await connect({ servers: process.argv[2] ?? "nats://127.0.0.1:4222", user: "handlers", pass: secret });
const service = await new Svcm(nc).add({ name: "shipping", version: "1.0.0", queue: "handlers" });

service.addEndpoint("shipping", {
  subject: "deadman.handlers.shipping",
  handler: (err, msg) => {
    if (err) return console.error(err);
    try {
      msg.respond(JSON.stringify(shipping(msg.json())));
    } catch (e) {
      msg.respondError(500, e.message); // undetermined: the check is repeated, then reported
    }
  },
});
await nc.flush();
console.log("the handler answers");

// shipping raises three alerts about a late order, an hour apart. Alerts of expensive orders are critical.
function shipping(check) {
  const total = check.state.total;
  if (typeof total !== "number") throw new Error(`order ${check.key} has no total`);
  const late = {
    step: `hour-${check.step}`,
    severity: total > 1000 ? "critical" : "warning",
    text: `order ${check.key} over ${total.toFixed(2)} not shipped since ${check.since}`,
  };
  const step = check.step + 1;
  if (step === 3) return { outcome: "exhausted", step, alerts: [late] };
  const next = new Date(Date.parse(check.slot) + 3600e3).toISOString();
  return { next, step, alerts: [late] };
}

process.on("SIGTERM", () => nc.drain());
