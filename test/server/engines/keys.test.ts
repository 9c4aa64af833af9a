import { expect, test } from "vitest";
import { createEngines } from "../../../src/server/engines/engines.ts";
import { createVirtualClock } from "../../clock.ts";

/** Asks engines whether they can be used, and returns which keys went to which origins. */
async function keysSent(engines: string[], keys: Record<string, string>) {
  const sent = new Set<string>();
  const fetch = async (url: string, { headers = {} }: { headers?: Record<string, string> } = {}) => {
    sent.add(`${new URL(url).origin} ${headers.Authorization ?? "none"}`);
    return new Response("[]");
  };
  const readKey = (name: string) => keys[name];
  const settings = { engines, readKey, timeoutMs: 60_000, jobs: undefined, onNote: () => {} };
  const created = createEngines(settings, { ...createVirtualClock(), fetch });
  for (const { check } of created) await check(new AbortController().signal).catch(() => {});
  return [...sent].sort();
}

const two = ["wan-2.5=http://gpu-1:8091", "ray-3=http://gpu-2:8091"];

test("VIDGEN_ENGINE_KEY goes to the only server, even with two paths", async () => {
  const keys = { VIDGEN_ENGINE_KEY: "canary" };
  expect(await keysSent(["wan-2.5=http://gpu-1/a", "ray-3=http://gpu-1/b", "preview"], keys)).toEqual([
    "http://gpu-1 Bearer canary",
  ]);
});

test("one key is not sent to two origins", async () => {
  await expect(keysSent(two, { VIDGEN_ENGINE_KEY: "canary" })).rejects.toMatchObject({
    message: expect.stringMatching(/^VIDGEN_ENGINE_KEY is one key/),
    hint: "Set the key of each: VIDGEN_ENGINE_KEY_GPU_1_8091 and VIDGEN_ENGINE_KEY_GPU_2_8091.",
  });
  const sameHost = ["wan-2.5=http://gpu-1:8091", "ray-3=http://gpu-1:8092"];
  await expect(keysSent(sameHost, { VIDGEN_ENGINE_KEY_GPU_1: "canary" })).rejects.toThrow(
    /^VIDGEN_ENGINE_KEY_GPU_1 is/,
  );
});

test("each server gets only the key that has its host in the name", async () => {
  const keys = { VIDGEN_ENGINE_KEY_GPU_1: "first", VIDGEN_ENGINE_KEY_GPU_2_8091: "second" };
  expect(await keysSent([...two, "veo-3.1=https://gpu.test:8443"], keys)).toEqual([
    "http://gpu-1:8091 Bearer first",
    "http://gpu-2:8091 Bearer second",
    "https://gpu.test:8443 none",
  ]);
  expect(await keysSent(two, { ...keys, VIDGEN_ENGINE_KEY_GPU_1_8091: "own", VIDGEN_ENGINE_KEY: "other" })).toEqual([
    "http://gpu-1:8091 Bearer own",
    "http://gpu-2:8091 Bearer second",
  ]);
});
