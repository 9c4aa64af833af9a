import { expect, test } from "vitest";
import { checkEngines } from "../../../src/cli/doctor/engines.ts";
import { createWorld } from "../../vidgen.ts";

test("an engine that takes no generations fails its check, which says why and since when", async () => {
  const { io } = await createWorld();
  const isFine = { models: ["wan-2.5"], kind: "vLLM-Omni", error: null };
  const engines = [
    { ...isFine, engine: "http://gpu-1", out_since: "2026-01-01T00:00:05.000Z", out_reason: "HTTP 502" },
    { ...isFine, engine: "http://gpu-2", out_since: null, out_reason: null },
    // As an earlier version tells of it.
    { ...isFine, engine: "http://gpu-3" },
  ];
  const fetch = async () => Response.json({ engines });
  const checks = await checkEngines({ baseUrl: "http://127.0.0.1:8787", apiKey: "key", fetch }, io);
  expect(checks.map(({ state, says }) => [state, says])).toEqual([
    ["fail", "wan-2.5: http://gpu-1 (vLLM-Omni); unavailable since 2026-01-01T00:00:05.000Z: HTTP 502"],
    ["pass", "wan-2.5: http://gpu-2 (vLLM-Omni)"],
    ["pass", "wan-2.5: http://gpu-3 (vLLM-Omni)"],
  ]);
});
