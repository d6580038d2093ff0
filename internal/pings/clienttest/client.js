// Sends all signals of healthchecks-io-client to a node. Usage: node client.js BASE UUID.
"use strict";
const { HealthChecksPingClient } = require("healthchecks-io-client");

async function main(baseUrl, uuid) {
  const client = new HealthChecksPingClient({ uuid, baseUrl, returnResponse: true });
  const answers = [
    await client.start(),
    await client.success("backed up 42 files"),
    await client.fail("the disk is full"),
    await client.success(),
  ];
  if (answers.some((answer) => answer !== "OK")) {
    throw new Error(`the answers are ${JSON.stringify(answers)}`);
  }
  const stranger = new HealthChecksPingClient({ uuid: "07c2f548-9850-4b27-af5d-6c9dc157ec02", baseUrl });
  const refused = await stranger.success().then(() => undefined, (err) => err);
  if (refused?.statusCode !== 404) {
    throw new Error(`a ping with an unknown UUID returns ${refused}`);
  }
}

main(process.argv[2], process.argv[3]).catch((err) => {
  console.error(err);
  process.exitCode = 1;
});
