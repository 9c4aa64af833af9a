import { appendFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { models } from "../../../src/protocol/models.ts";
import { baseUrl, createWorld, isStart } from "../../vidgen.ts";

const ids = async (world: Awaited<ReturnType<typeof createWorld>>) =>
  (await world.vidgen("__complete", "--", "status")).stdout.split("\n").map((line) => line.split("\t")[0]);

test("the newest ids come first, each with its status, model and prompt", async () => {
  const world = await createWorld();
  const { stdout: done } = await world.vidgen("generate", "a red fox", "--json");
  const { stdout: running } = await world.vidgen("generate", "an\u001b[31m owl", "--no-wait", "-m", "ray-3");
  expect(await world.vidgen("__complete", "--", "status")).toEqual({
    code: 0,
    stderr: "",
    stdout: `${running.trim()}\tprocessing ray-3 an owl\n${JSON.parse(done).id}\tcompleted wan-2.5 a red fox\n`,
  });
});

test("only names that fit are offered: to wait for, to open, to dismiss, to forget", async () => {
  const world = await createWorld();
  const idOf = async (...argv: string[]) => (await world.vidgen("generate", ...argv, "--no-wait")).stdout.trim();
  const saved = JSON.parse(
    (await world.vidgen("generate", "a fox", "-o", join(world.folder, "a.mp4"), "--json")).stdout,
  );
  const unsaved = JSON.parse((await world.vidgen("generate", "an owl", "--json")).stdout);
  await world.vidgen("generate", "[fail]");
  await world.vidgen("generate", "[http: 500]");
  const attempt = world.requests.findLast(isStart)?.headers.get("Idempotency-Key");
  const running = await idOf("a hare");
  const names = async (...words: string[]) =>
    (await world.vidgen("__complete", "--", ...words)).stdout.split("\n").flatMap((line) => line.split("\t")[0] || []);
  expect(await names("wait")).toEqual([running, unsaved.id]);
  expect(await names("list", "--open")).toEqual([saved.id]);
  expect(await names("list", "--dismiss")).toEqual([attempt]);
  for (const words of [["status"], ["list", "--forget"]]) expect(await names(...words)).toHaveLength(4);
});

test("a command below another one has its own flags", async () => {
  const own = await offered("batch", "status", "--");
  expect([own.includes("--json"), own.includes("--max-credits")]).toEqual([true, false]);
});

test("nothing is offered where nothing was started, and nothing is printed", async () => {
  const world = await createWorld();
  expect(await world.vidgen("__complete", "--", "status")).toEqual({ code: 0, stdout: "", stderr: "" });
});

/** The lines of a journal about a generation that was accepted. */
function accepted(id: string): string {
  const line = { at: "2026-01-01T00:00:00.000Z", attempt: id };
  const intent = {
    ...line,
    kind: "intent",
    base_url: baseUrl,
    account: "0123456789ab",
    request: { prompt: "a fox", model: "wan-2.5" },
  };
  return `${JSON.stringify(intent)}\n${JSON.stringify({ ...line, kind: "accepted", id })}\n`;
}

test("ids that a shell would have to quote are left out, and lines that are torn", async () => {
  const world = await createWorld();
  const evil = ["$(touch x)", "`x`", "a b", "-o", "a'", "~", "*", "a;b", "x\n", "ö", "", "a/b", "{a,b}"];
  const lines = ["good-1", ...evil, "good_2.x"].map(accepted);
  mkdirSync(world.home, { recursive: true });
  appendFileSync(join(world.home, "journal.jsonl"), `${lines.join("")}[]\nnull\n{"kind":"acc`);
  expect(await ids(world)).toEqual(["good_2.x", "good-1", ""]);
});

test("of a long journal the newest thirty are offered", async () => {
  const world = await createWorld();
  mkdirSync(world.home, { recursive: true });
  const many = Array.from({ length: 5_000 }, (_, i) => accepted(`id-${i}`));
  appendFileSync(join(world.home, "journal.jsonl"), many.join(""));
  expect(await ids(world)).toEqual([...Array.from({ length: 30 }, (_, i) => `id-${4_999 - i}`), ""]);
});

/** What is offered for the last of the words. */
async function offered(...words: string[]): Promise<string[]> {
  const world = await createWorld();
  const { code, stdout, stderr } = await world.vidgen(
    "__complete",
    `--current=${words.at(-1)}`,
    "--",
    ...words.slice(0, -1),
  );
  expect([code, stderr]).toEqual([0, ""]);
  return stdout.split("\n").flatMap((line) => line.split("\t")[0] || []);
}

test("each command is offered, and after a command each of its flags", async () => {
  const world = await createWorld();
  const { commands, flags } = JSON.parse((await world.vidgen("help", "--json")).stdout);
  const names = (of: { name: string }[]) => of.map(({ name }) => name);
  const longs = (of: { long: string }[]) => of.map(({ long }) => long);
  expect(await offered("")).toEqual(names(commands));
  expect(await offered("-")).toEqual(longs(flags));
  for (const { name, flags: own } of commands)
    expect((await offered(name, "-")).sort()).toEqual([...new Set(longs([...own, ...flags]))].sort());
});

test.each([
  [["generate", "x", "-m", ""], models.map(({ id }) => id)],
  [["generate", "x", "--model=v"], models.map(({ id }) => `--model=${id}`)],
  [
    ["-m", "status", "list", "--status", ""],
    ["starting", "processing", "completed", "failed", "lost", "unknown", "dismissed", "deleted", "unsent", "refused"],
  ],
  [
    ["completion", ""],
    ["bash", "zsh", "fish", "powershell"],
  ],
  [["generate", "x", "-o", ""], [":files"]],
  [["generate", "x", "-i", ""], [":files"]],
  [["wait", "--output=clips/"], [":files"]],
  [["generate", "x", "-d", ""], []],
  [["generate", ""], []],
  [["generate", "--", "--"], []],
  [["completion", "bash", ""], []],
  [
    ["config", ""],
    ["list", "set", "unset"],
  ],
  [
    ["config", "set", ""],
    ["base_url", "model", "output", "engine"],
  ],
  [["config", "set", "model", ""], []],
  [["accounts", "create", "ci", ""], []],
  [["nonsense", ""], []],
])("%j: what is offered", async (words, found) => {
  expect(await offered(...words)).toEqual(found);
});

test("after @ the files are offered that a prompt can be in", async () => {
  const world = await createWorld();
  for (const name of ["owl.txt", "fox.txt", "a fox.txt", "$(touch x)"]) writeFileSync(join(world.folder, name), "");
  mkdirSync(join(world.folder, "foxes"));
  expect(await offered("generate", `@${world.folder}/fo`)).toEqual([`@${world.folder}/fox.txt`]);
  expect(await offered("generate", "@/nowhere/x")).toEqual([]);
  expect(await offered("wait", "@")).toEqual([]);
});

test.each(["batch", "batch status", "batch x.csv --results"])("files are offered after %s", async (typed) => {
  const world = await createWorld();
  expect((await world.vidgen("__complete", "--", ...typed.split(" "))).stdout).toBe(":files\n");
});
