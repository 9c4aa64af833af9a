import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { accountOf } from "../../../src/client/ledger/history.ts";
import { apiKey, baseUrl, createWorld, mediaUrl, type World } from "../../vidgen.ts";

/** The journal of a machine that has started these. */
function writeJournal(world: World, starts: [id: string, base_url: string][]): void {
  const request = { prompt: "a fox", model: "wan-2.5" };
  const at = "2026-01-01T00:00:00.000Z";
  for (const [id, base_url] of starts) {
    const lines = [
      { at, kind: "intent", attempt: id, base_url, account: accountOf(base_url, apiKey), request },
      { at, kind: "accepted", attempt: id, id },
    ];
    appendFileSync(join(world.home, "journal.jsonl"), lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  }
}

async function withGeneration() {
  const world = await createWorld();
  const id = (await world.vidgen("generate", "a fox", "--no-wait")).stdout.trim();
  await world.io.sleep(31_000);
  return { world, id, short: id.slice(0, 8) };
}

const idsSent = (world: World) => world.requests.flatMap(({ url }) => new URL(url).searchParams.get("id") ?? []);

describe("the beginning of an id that was started here stands for it", () => {
  test("to status", async () => {
    const { world, id, short } = await withGeneration();
    const run = await world.vidgen("status", short);
    expect(run).toMatchObject({ code: 0, stdout: `${id}\tcompleted\t${mediaUrl}/${id}.mp4\n` });
    expect(idsSent(world)).toEqual([id]);
  });

  test("also in upper case, as is a whole UUID that was started elsewhere", async () => {
    const { world, id, short } = await withGeneration();
    const other = "1b4e28ba-2fa1-41d2-883f-0016d3cca427";
    const expected = { code: 0, stdout: `${id}\tcompleted\t${mediaUrl}/${id}.mp4\n` };
    for (const typed of [id, short]) expect(await world.vidgen("status", typed.toUpperCase())).toMatchObject(expected);
    expect(await world.vidgen("status", other.toUpperCase())).toMatchObject({ code: 10 });
    expect(idsSent(world)).toEqual([id, id, other]);
  });

  test("to wait, once however often it is named", async () => {
    const { world, id, short } = await withGeneration();
    const file = join(world.folder, "fox.mp4");
    expect(await world.vidgen("wait", short, id, "-o", file)).toMatchObject({ code: 0, stdout: `${file}\n` });
  });

  test("but not where several begin so: exit 2, with all of them", async () => {
    const { world, id, short } = await withGeneration();
    const other = `${short}-0000-4000-8000-000000000000`;
    writeJournal(world, [[other, "https://other.example"]]);
    for (const command of ["status", "wait"]) {
      const run = await world.vidgen(command, short);
      expect(run).toMatchObject({
        code: 2,
        stdout: "",
        stderr: expect.stringContaining(`More than one id begins with ${short}`),
      });
      for (const each of [`${id} at ${baseUrl}`, `${other} at https://other.example`])
        expect(run.stderr).toContain(each);
    }
  });

  test("but only of a UUID: of another id, the beginning may be another id of the service", async () => {
    const world = await createWorld();
    await world.vidgen("generate", "a fox", "--no-wait");
    writeJournal(world, [["123", baseUrl]]);
    world.faults.push(() => Response.json({ id: "12", status: "processing" }));
    expect(await world.vidgen("status", "12")).toMatchObject({ code: 0, stdout: "12\tprocessing\n" });
  });

  test("and no other id is asked for where none begins so", async () => {
    const { world } = await withGeneration();
    for (const command of ["status", "wait"])
      expect(await world.vidgen(command, "nothing")).toMatchObject({ code: 10 });
    expect(new Set(idsSent(world))).toEqual(new Set(["nothing"]));
  });
});

describe("an id that was started elsewhere", () => {
  const other = "https://other.example";
  const otherKey = "other-canary-key-9876543210";
  const id = "2b4e28ba-2fa1-41d2-883f-0016d3cca427";
  const video_url = `${other}/fox.mp4`;

  /** A world with a generation at another service, and with that service's key or without it. */
  async function withOther(keys: Record<string, string>) {
    const { world, id: ownId } = await withGeneration();
    writeJournal(world, [[id, other]]);
    writeFileSync(join(world.home, "config.json"), JSON.stringify({ base_url: baseUrl, keys }));
    world.faults.push((request) =>
      request.url.startsWith(other) ? Response.json({ id, status: "completed", video_url }) : undefined,
    );
    return { world, ownId };
  }
  const keysSent = (world: World) =>
    world.requests.map(({ url, headers }) => [new URL(url).origin, headers.get("Authorization")]);

  test.each([
    ["status", id, `${id}\tcompleted\t${video_url}\n`],
    ["status", id.slice(0, 8), `${id}\tcompleted\t${video_url}\n`],
    ["wait", id, `${video_url}\n`],
  ])("%s %s asks the service where it was started, with that one's key alone", async (command, typed, stdout) => {
    const { world } = await withOther({ [other]: otherKey });
    world.requests.length = 0;
    expect(await world.vidgen(command, typed)).toMatchObject({ code: 0, stdout });
    expect(keysSent(world)).toEqual([[other, `Bearer ${otherKey}`]]);
  });

  test.each([
    ["saved base URL", { VIDGEN_BASE_URL: undefined }],
    ["VIDGEN_BASE_URL", {}],
  ])("the key of the %s is not sent there: exit 3, with what to do", async (_, env) => {
    const { world } = await withOther({});
    Object.assign(world.env, env);
    world.requests.length = 0;
    const run = await world.vidgen("status", id);
    expect(run).toMatchObject({ code: 3, stdout: "", stderr: expect.stringContaining(`--base-url ${other}`) });
    expect(world.requests).toEqual([]);
  });

  test("wait --all follows the open generations of both services; a service without a key does not delay the other", async () => {
    const { world, ownId } = await withOther({ [other]: otherKey });
    const run = await world.vidgen("wait", "--all");
    expect(run.code).toBe(0);
    expect(run.stdout.trim().split("\n").sort()).toEqual([`${mediaUrl}/${ownId}.mp4`, video_url].sort());
    const keyless = await withOther({});
    expect(await keyless.world.vidgen("wait", "--all")).toMatchObject({
      code: 3,
      stdout: `${mediaUrl}/${keyless.ownId}.mp4\n`,
      stderr: expect.stringContaining(`No API key for ${other}`),
    });
  });

  test.each(["status", "wait"])("%s with a flag for another service says to leave it out", async (command) => {
    const { world } = await withOther({ [other]: otherKey });
    const run = await world.vidgen(command, id, "--base-url", baseUrl);
    expect(run).toMatchObject({
      code: 10,
      stdout: "",
      stderr: expect.stringContaining(`It was started at ${other}: leave out --base-url.`),
    });
  });
});
