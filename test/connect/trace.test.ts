import { join } from "node:path";
import { expect, test } from "vitest";
import { createOutput } from "../../src/cli/terminal/output.ts";
import { redactBody, traceFetch } from "../../src/connect/trace.ts";
import { tinyMp4 } from "../mp4.ts";
import { apiKey, baseUrl, createWorld, mediaUrl, onStart } from "../vidgen.ts";

test("--verbose shows each request and reply of the API with its body, without keys and signatures", async () => {
  const world = await createWorld();
  const callback = ["--callback-url", "https://hooks.example/done?token=canary-token"];
  const run = await world.vidgen("generate", "a fox", ...callback, "--verbose");
  const id = /[0-9a-f-]{36}/.exec(run.stdout)?.[0];
  expect(run.stderr).toContain(
    '> {"prompt":"a fox","model":"wan-2.5","callback_url":"https://hooks.example/done?..."}\n',
  );
  expect(run.stderr).toContain(`< {"success":true,"data":{"id":"${id}","status":"processing"`);
  expect(run.stderr).toContain(`"status":"completed","video_url":"${mediaUrl}/${id}.mp4"`);
  for (const secret of [apiKey, "canary-token"]) expect(run.stderr).not.toContain(secret);
  expect((await world.vidgen("generate", "a fox")).stderr).not.toContain('"prompt"');
});

test.each([
  `${baseUrl}/videos/7.mp4`,
  `${baseUrl}/api/videos/7.mp4`,
  `${baseUrl}/api/generate/7.mp4`,
  `${baseUrl}.example/7.mp4`,
])("--verbose shows no byte and no signature of a video that is below the base URL: %s", async (address) => {
  const world = await createWorld();
  world.faults.push((request) => {
    const { searchParams } = new URL(request.url);
    if (request.url.startsWith(address)) return new Response(Uint8Array.from(tinyMp4("bytes of a fox")));
    if (request.method === "POST") return undefined;
    const video_url = `${address}?X-Signature=canary-signature`;
    return Response.json({ id: searchParams.get("id"), status: "completed", video_url });
  });
  const file = join(world.folder, "fox.mp4");
  const { code, stderr } = await world.vidgen("generate", "a fox", "-o", file, "--verbose");
  expect([code, stderr]).toEqual([0, expect.stringContaining(`> GET ${address}?...\n`)]);
  expect(stderr).not.toMatch(/canary|ftyp|bytes of/);
});

test("--verbose shows 16 kB of a longer reply, says so, and cuts no key and no address in half", async () => {
  const world = await createWorld();
  const dataOf = () => ({ id: `long-${shown.length}-one`, status: "processing" });
  const bodyOf = (more: object) => JSON.stringify({ success: true, data: dataOf(), note: "🦊".repeat(3_970), ...more });
  const shown: string[] = [];
  for (const more of [
    { url: `https://ann:canary-password@x.example/${"y".repeat(2_000)}` },
    { note: "x".repeat(20_000) },
    {},
  ]) {
    world.faults = [onStart(() => new Response(bodyOf(more)))];
    const { code, stderr } = await world.vidgen("generate", `a fox ${shown.length}`, "--no-wait", "--verbose");
    expect([code, stderr]).toEqual([0, expect.not.stringContaining("canary")]);
    shown.push(stderr.split("\n").find((line) => line.startsWith('< {"success"')) ?? "");
  }
  expect(shown.map((line) => Buffer.byteLength(line) < 16_100)).toEqual([true, true, true]);
  expect(shown[0]).toMatch(/🦊","url":"… \(cut at 16 kB\)$/);
  expect(shown[1]).toMatch(/"note":"… \(cut at 16 kB\)$/);
  expect(shown[2]).toMatch(/🦊"\}$/);
});

test("a reply without an end takes no memory with --verbose, and its reader gets all of it", async () => {
  const { io } = await createWorld();
  const output = createOutput({ json: false, events: false, quiet: false, verbose: true, color: false }, io);
  const lines: string[] = [];
  const chunk = new Uint8Array(1_000_000).fill(0x61);
  async function* body() {
    for (let i = 0; i < 500; i++) yield chunk;
  }
  const headers = { get: () => null };
  const fetch = async () => ({ status: 200, headers, body: body(), text: async () => "" });
  const traced = traceFetch(fetch, baseUrl, { ...output, trace: (line) => void lines.push(line) }, io);
  const before = process.memoryUsage().rss;
  let length = 0;
  for await (const each of (await traced(`${baseUrl}/api/generation-status?id=7`)).body ?? []) length += each.length;
  expect([length, lines.map((line) => line.length < 16_100)]).toEqual([500_000_000, [true, true, true]]);
  expect(process.memoryUsage().rss - before).toBeLessThan(100_000_000);
});

test.each([
  ['{"api_key":"vgs_1","name":"ci"}', '{"api_key":"[left out]","name":"ci"}'],
  ['{"revoke":"vgs_0123456789abcdef"}', '{"revoke":"[left out]"}'],
  ['{"webhook_secret" : "a\\"b", "id": "x"}', '{"webhook_secret":"[left out]","id":"x"}'],
  ['{"webhook_secret" : "a\\"b", "id": ', '{"webhook_secret" : "[left out]", "id": '],
  ['{"video_url":"https://cdn.example/v.mp4?X-Sig=1&e=2"}', '{"video_url":"https://cdn.example/v.mp4?..."}'],
  ['{"video_url":"https:\\/\\/cdn.example\\/v.mp4?sig=1"}', '{"video_url":"https:\\/\\/cdn.example\\/v.mp4?..."}'],
  ['{"u":"https://ann:pw@a.example/"}', '{"u":"https://...@a.example/"}'],
  ['{"imageUrl":"data:image/png;base64,iVBO"}', '{"imageUrl":"data:image/png;base64,..."}'],
  ['{"prompt":"why? a fox, a key"}', '{"prompt":"why? a fox, a key"}'],
])("of the body %s it shows %s", (body, shown) => {
  expect(redactBody(body)).toBe(shown);
});

test.each([
  { hub_token: "canary" },
  { hub_token: 7654321 },
  { credentials: ["canary", { user: "canary" }] },
  { elements: [{ cookie: "canary", size: 2 }] },
  { elements: '[{"api_key":"canary"}]' },
  { "X-Api-Signature": "canary" },
])("--verbose, and the log of serve, show the value of a secret field as its hash at most: %j", async (fields) => {
  const shown = redactBody(JSON.stringify({ prompt: "a fox", ...fields }));
  expect(shown).not.toMatch(/canary|7654321/);
  expect(shown).toContain('"prompt":"a fox"');
  const world = await createWorld();
  const set = Object.entries(fields).flatMap(([name, value]) => ["--set", `${name}=${JSON.stringify(value)}`]);
  const { code, stderr } = await world.vidgen("generate", "a fox", ...set, "--verbose");
  expect([code, stderr]).toEqual([0, expect.stringContaining('> {"prompt":"a fox"')]);
  expect(stderr).not.toMatch(/canary|7654321/);
});
