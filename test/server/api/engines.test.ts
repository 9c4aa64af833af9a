import { expect, test } from "vitest";
import { models as knownModels } from "../../../src/protocol/models.ts";
import { apiKey, baseUrl, bearer, createTestService, fakeEngine, otherKey, readError } from "../service.ts";

const ask = (key: string) => new Request(`${baseUrl}/engines`, { headers: bearer(key) });

test("all engines are checked at the same time; one that does not answer for 10 s counts as unusable", async () => {
  const models = ["my-wan"];
  const fails = () => Promise.reject(new Error("does not answer (ECONNREFUSED)"));
  const engines = [
    ...[fakeEngine({ name: "http://gpu-1", models, check: untilAborted }), fakeEngine({ check: untilAborted })],
    ...[fakeEngine({ name: "http://gpu-2", models, check: fails }), fakeEngine({ name: "http://gpu-3", models })],
  ];
  const { api, clock } = await createTestService({ engines });
  const asked = api(ask(apiKey));
  await clock.sleep(10_001);
  const isIn = { out_since: null, out_reason: null, draining: null };
  const silent = { kind: null, error: "no response within 10 s", ...isIn };
  expect(await (await asked).json()).toEqual({
    engines: [
      { engine: "http://gpu-1", models, ...silent },
      { engine: "fake", models: knownModels.map(({ id }) => id), ...silent },
      { engine: "http://gpu-2", models, kind: null, error: "does not answer (ECONNREFUSED)", ...isIn },
      { engine: "http://gpu-3", models, kind: "a fake", error: null, ...isIn },
    ],
  });
});

function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
}

test("only the owner can check the engines", async () => {
  const { api } = await createTestService();
  const reply = await api(ask(otherKey));
  expect([reply.status, await readError(reply)]).toEqual([
    403,
    { code: "forbidden", message: "only the local account's key can use /engines" },
  ]);
});
