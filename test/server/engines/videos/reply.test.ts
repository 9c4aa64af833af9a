import { expect, test } from "vitest";
import { findAddressIn, findJob, readComplaints, wordsOf } from "../../../../src/server/engines/upstream/reply.ts";

test.each([
  ["an address again and again", "https://".repeat(110_000)],
  ["line breaks", "\n".repeat(900_000)],
  ["words of an unknown field", "extra_forbidden unknown ".repeat(40_000)],
  ["dots", `http://${".".repeat(900_000)}`],
])("an error of 900 kB is read at once: %s", (_, message) => {
  const detail = [{ loc: ["body"], msg: message, type: "x" }];
  const replies = [
    { error: { message } },
    { status: "failed", id: "1", error: message },
    { detail },
    { detail: message },
  ];
  for (const json of replies) {
    const reply = { status: 400, text: JSON.stringify(json), json };
    const start = performance.now();
    expect(wordsOf(reply).length).toBeLessThan(600);
    for (const text of readComplaints(reply)) expect(text.length).toBeLessThanOrEqual(4_000);
    findJob(reply);
    findAddressIn(reply);
    expect(performance.now() - start).toBeLessThan(100);
  }
});
