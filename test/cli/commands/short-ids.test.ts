import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { baseUrl, createWorld, mediaUrl, type World } from "../../vidgen.ts";

/** The journal of a machine that has started these. */
function writeJournal(world: World, starts: [id: string, base_url: string][]): void {
  const request = { prompt: "a fox", model: "wan-2.5" };
  const at = "2026-01-01T00:00:00.000Z";
  for (const [id, base_url] of starts) {
    const lines = [
      { at, kind: "intent", attempt: id, base_url, request },
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
    expect(idsSent(world)).toEqual([short, id]);
  });

  test("also in upper case, as is a whole UUID that was started elsewhere", async () => {
    const { world, id, short } = await withGeneration();
    const other = "1b4e28ba-2fa1-41d2-883f-0016d3cca427";
    const expected = { code: 0, stdout: `${id}\tcompleted\t${mediaUrl}/${id}.mp4\n` };
    for (const typed of [id, short]) expect(await world.vidgen("status", typed.toUpperCase())).toMatchObject(expected);
    expect(await world.vidgen("status", other.toUpperCase())).toMatchObject({ code: 10 });
    expect(idsSent(world)).toEqual([id, short.toUpperCase(), id, other]);
  });

  test("to wait, once however often it is named", async () => {
    const { world, id, short } = await withGeneration();
    const file = join(world.folder, "fox.mp4");
    expect(await world.vidgen("wait", short, id, "-o", file)).toMatchObject({ code: 0, stdout: `${file}\n` });
  });

  test("but not where several begin so: exit 2, with all of them", async () => {
    const { world, id, short } = await withGeneration();
    writeJournal(world, [[`${short}-other`, baseUrl]]);
    for (const command of ["status", "wait"]) {
      const run = await world.vidgen(command, short);
      expect(run).toMatchObject({
        code: 2,
        stdout: "",
        stderr: expect.stringContaining(`Several ids begin with ${short}`),
      });
      for (const each of [id, `${short}-other`]) expect(run.stderr).toContain(each);
    }
  });

  test("but not where the service knows what was typed", async () => {
    const world = await createWorld();
    await world.vidgen("generate", "a fox", "--no-wait");
    writeJournal(world, [
      ["12", "https://elsewhere.example"],
      ["123", baseUrl],
    ]);
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

describe.each(["status", "wait"])("%s of an id that was started elsewhere says where", (command) => {
  const other = "https://other.example";
  const [local, remote] = ["1b4e28ba-2fa1-41d2-883f-0016d3cca427", "2b4e28ba-2fa1-41d2-883f-0016d3cca427"];

  test.each([
    [local, "It was started with --local: add --local."],
    [local.slice(0, 8), "It was started with --local: add --local."],
    [remote, `It was started at ${other}: add --base-url ${other}.`],
  ])("%s: %s", async (id, hint) => {
    const { world } = await withGeneration();
    writeJournal(world, [
      [local, "http://vidgen.localhost"],
      [remote, other],
    ]);
    expect(await world.vidgen(command, id)).toMatchObject({
      code: 10,
      stdout: "",
      stderr: expect.stringContaining(hint),
    });
  });
});
