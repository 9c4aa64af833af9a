import { createHash } from "node:crypto";
import { mkdir, open, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import process from "node:process";
import { expect, onTestFinished, test } from "vitest";
import { hashFile, readContent } from "../../../src/client/ledger/content.ts";
import type { DatedLine, PartLine } from "../../../src/client/ledger/history.ts";
import { noJournal } from "../../../src/client/ledger/journal.ts";
import { outputError } from "../../../src/client/save/files.ts";
import { createTargets, type Target } from "../../../src/client/save/target.ts";
import { type Disk, type DiskFile, systemMachine } from "../../../src/io.ts";
import { fileName, type Naming } from "../../../src/video/naming.ts";
import { makeFolder } from "../../folder.ts";
import { lacks } from "../../needs.ts";

const naming = { id: "1b4e28ba-2fa1-41d2-883f-0016d3cca427", prompt: "A red fox runs", model: "wan-2.5" };
const itsName = "a-red-fox-runs-wan-2.5-1b4e28ba.mp4";

const attempt = "5ad3e1c0-0000-4000-8000-000000000000";

async function claim(output: string, { overwrite = false, attempt: owner = attempt, disk = systemMachine.disk } = {}) {
  const target = await createTargets(undefined, { ...systemMachine, disk }).claim(output, {
    overwrite,
    attempt: owner,
  });
  if (target === undefined) throw new Error("held");
  // Its file stays open until then; a second release does nothing.
  onTestFinished(target.release);
  const { file: part } = await target.open();
  return { ...target, part };
}

/** Saves what was written so far. */
async function commit(target: Target & { part: DiskFile }, named: Naming) {
  const sha256 = (await hashFile(target.part)).digest("hex");
  return target.commit(named, await readContent(target.part, sha256));
}

/** The names in a folder, without the lease of a place that is still claimed. */
async function namesIn(folder: string) {
  return (await readdir(folder)).filter((name) => !name.endsWith(".lock"));
}

test("a file is saved under its name, and nothing else is left", async () => {
  const folder = makeFolder();
  const target = await claim(join(folder, "fox.mp4"));
  expect(await namesIn(folder)).toEqual(["fox.mp4.5ad3e1c0.part"]);
  await target.part.write("a fox");
  expect(await commit(target, naming)).toBe(join(folder, "fox.mp4"));
  await target.release();
  expect(await readdir(folder)).toEqual(["fox.mp4"]);
  expect(await readFile(join(folder, "fox.mp4"), "utf8")).toBe("a fox");
});

const linked: [string, string, string][] = lacks("symbolic links") ? [] : [["a link to a folder", "link", "clips"]];

test.each([
  ["an existing folder", "clips", "clips"],
  ["an existing folder with a slash", "clips/", "clips"],
  ["a new folder", "new/", "new"],
  ["a new folder in a new folder", "new/er/est/", "new/er/est"],
  ...linked,
])("in %s the file gets a name of its own", async (_, output, inside) => {
  const folder = makeFolder();
  await mkdir(join(folder, "clips"));
  await symlink(join(folder, "clips"), join(folder, "link"));
  const target = await claim(join(folder, output));
  await target.part.write("a fox");
  const path = await commit(target, naming);
  await target.release();
  expect(basename(path)).toBe(itsName);
  expect(await readdir(join(folder, inside))).toEqual([itsName]);
  expect(await readFile(path, "utf8")).toBe("a fox");
});

test("two videos fit into one folder at the same time", async () => {
  const folder = makeFolder();
  const targets = [await claim(folder), await claim(folder, { attempt: naming.id })];
  for (const [i, target] of targets.entries()) await commit(target, { ...naming, id: `id${i}` });
  for (const target of targets) await target.release();
  expect(await readdir(folder)).toHaveLength(2);
});

test('"-" is a file outside the folder, gone with its release', async () => {
  const target = await claim("-");
  await target.part.write("a fox");
  const path = await commit(target, naming);
  expect(await readFile(path, "utf8")).toBe("a fox");
  await target.release();
  await expect(stat(join(path, ".."))).rejects.toThrow("ENOENT");
});

test.each(["fox.mp4", "clips/", "-"])("%s: a release before the end leaves no file", async (output) => {
  const folder = makeFolder();
  const target = await claim(output === "-" ? output : join(folder, output));
  await target.part.write("half a fox");
  await target.release();
  await target.release();
  const left = await readdir(folder, { recursive: true });
  expect(left.filter((name) => name !== "clips")).toEqual([]);
});

test("a file that exists is refused, and is not touched", async () => {
  const folder = makeFolder();
  await writeFile(join(folder, "fox.mp4"), "precious");
  await expect(claim(join(folder, "fox.mp4"))).rejects.toMatchObject({
    exit: 9,
    message: `${join(folder, "fox.mp4")} already exists.`,
    hint: expect.stringContaining("--overwrite"),
  });
  expect(await readdir(folder)).toEqual(["fox.mp4"]);
});

test("--overwrite keeps the old file until the new one is whole", async () => {
  const folder = makeFolder();
  await writeFile(join(folder, "fox.mp4"), "old");
  const target = await claim(join(folder, "fox.mp4"), { overwrite: true });
  await target.part.write("new");
  expect(await readFile(join(folder, "fox.mp4"), "utf8")).toBe("old");
  await commit(target, naming);
  await target.release();
  expect(await readFile(join(folder, "fox.mp4"), "utf8")).toBe("new");
  expect(await readdir(folder)).toEqual(["fox.mp4"]);
});

test.each([
  ["a file", "fox.mp4"],
  ["a folder", "."],
])("into %s: what appears under the name meanwhile is not written over", async (_, output) => {
  const folder = makeFolder();
  const path = join(folder, output === "." ? itsName : output);
  const target = await claim(join(folder, output));
  await writeFile(path, "precious");
  await expect(commit(target, naming)).rejects.toMatchObject({ exit: 9, message: `${path} already exists.` });
  await target.release();
  expect(await readFile(path, "utf8")).toBe("precious");
  expect(await readdir(folder)).toEqual([basename(path)]);
});

test.skipIf(lacks("symbolic links"))("a link that leads nowhere is not written over", async () => {
  const folder = makeFolder();
  await symlink(join(folder, "nowhere"), join(folder, "fox.mp4"));
  await expect(claim(join(folder, "fox.mp4"))).rejects.toMatchObject({ exit: 9, message: /exists/ });
});

test("a path that a live process uses is not claimed, whatever the attempt, and is free once it is released", async () => {
  const output = join(makeFolder(), "fox.mp4");
  const { claim } = createTargets(undefined, systemMachine);
  const first = await claim(output, { attempt });
  for (const other of [attempt, naming.id]) expect(await claim(output, { attempt: other })).toBe(undefined);
  await first?.release();
  await (await claim(output, { attempt: naming.id }))?.release();
});

test("a file called .part, or that of another attempt, is left alone", async () => {
  const folder = makeFolder();
  const theirs = ["fox.mp4.part", "fox.mp4.12345678.part", ".vidgen-12345678.part"];
  for (const name of theirs) await writeFile(join(folder, name), "half a fox");
  const target = await claim(join(folder, "fox.mp4"));
  await commit(target, naming);
  await target.release();
  expect((await readdir(folder)).sort()).toEqual([...theirs, "fox.mp4"].sort());
});

test.each([
  ["what a killed process has left of a file is removed by the next one that claims it", 0n, []],
  ["a partial file whose number a journal does not have is kept", 1n, ["fox.mp4.12345678.part"]],
])("%s, with the 64-bit numbers of NTFS", async (_, difference, kept) => {
  const folder = makeFolder();
  const output = join(folder, "fox.mp4");
  const part = join(folder, "fox.mp4.12345678.part");
  await writeFile(part, "half a fox");
  const large = 2n ** 63n;
  const lstat = async (path: string) => {
    const found = await systemMachine.disk.lstat(path, { bigint: true });
    found.ino += large;
    return found;
  };
  const disk = { ...systemMachine.disk, lstat: lstat as unknown as Disk["lstat"] };
  const { machine, namespace } = await systemMachine.processes.self();
  await mkdir(join(folder, ".fox.mp4.lock"));
  await writeFile(join(folder, ".fox.mp4.lock", [machine, namespace, 1, "long ago", "token"].join("_")), "");
  const line: DatedLine & PartLine = {
    kind: "part",
    at: "2026-06-01T00:00:00.000Z",
    file: part,
    inode: String((await lstat(part)).ino + difference),
    attempt: "12345678-0000-4000-8000-000000000000",
  };
  async function* scan() {
    yield { lines: [line], end: 0 };
  }
  const journal = { ...noJournal, scan };
  const target = await createTargets(journal, { ...systemMachine, disk }).claim(output, { attempt });
  expect(await namesIn(folder)).toEqual(kept);
  await target?.release();
  expect(await readdir(folder)).toEqual(kept);
});

test("a video that another process has saved there meanwhile is the same one: that is no error", async () => {
  const folder = makeFolder();
  const target = await claim(join(folder, "fox.mp4"));
  await target.part.write("a fox");
  await writeFile(join(folder, "fox.mp4"), "a fox");
  expect(await commit(target, naming)).toBe(join(folder, "fox.mp4"));
  await target.release();
  expect(await readdir(folder)).toEqual(["fox.mp4"]);
});

test.each([
  ["none/fox.mp4", "the folder does not exist"],
  ["file/fox.mp4", "part of the path is not a folder"],
  ["file/", "part of the path is not a folder"],
  ["file/sub/", "part of the path is not a folder"],
])("%s: %s", async (output, reason) => {
  const folder = makeFolder();
  await writeFile(join(folder, "file"), "");
  await expect(claim(join(folder, output))).rejects.toMatchObject({
    exit: 9,
    message: expect.stringContaining(reason),
  });
  expect(await readdir(folder)).toEqual(["file"]);
});

test("a missing folder is not created for a file, but the error says how to create it", async () => {
  const folder = makeFolder();
  await expect(claim(join(folder, "new/fox.mp4"))).rejects.toMatchObject({
    hint: `Create it first (${lacks("sh") ? "mkdir" : "mkdir -p"} ${join(folder, "new")}), or end -o with / to have it created.`,
  });
  await expect(claim(join(folder, "a $(b)/fox.mp4"))).rejects.toMatchObject({
    hint: expect.stringMatching(/^Create it first, or/),
  });
  expect(await readdir(folder)).toEqual([]);
});

test.skipIf(lacks("devices in folders")).each([
  ["/dev/null", false],
  ["/dev/null", true],
])("%s with overwrite %s is refused", async (output, overwrite) => {
  await expect(claim(output, { overwrite })).rejects.toMatchObject({
    exit: 9,
    message: "/dev/null is neither a file nor a folder.",
  });
});

test.skipIf(lacks("devices in folders"))("a link to a device is refused even with --overwrite", async () => {
  const folder = makeFolder();
  await symlink("/dev/null", join(folder, "fox.mp4"));
  await expect(claim(join(folder, "fox.mp4"), { overwrite: true })).rejects.toMatchObject({ exit: 9 });
  expect(await readdir(folder)).toEqual(["fox.mp4"]);
});

test.skipIf(lacks("file modes")).each([
  [0o022, 0o644],
  [0o077, 0o600],
  [0o002, 0o664],
])("with umask %o a video has the mode %o", async (mask, mode) => {
  const before = process.umask(mask);
  onTestFinished(() => void process.umask(before));
  const folder = makeFolder();
  const target = await claim(join(folder, "fox.mp4"));
  const path = await commit(target, naming);
  expect((await stat(path)).mode & 0o777).toBe(mode);
});

test("a video that cannot be synced is reported, and the file of that name is not made", async () => {
  const folder = makeFolder();
  const target = await claim(join(folder, "fox.mp4"));
  const content = await readContent(target.part, "");
  await target.part.close();
  await expect(target.commit(naming, content)).rejects.toMatchObject({ exit: 9 });
  expect(await namesIn(folder)).toEqual(["fox.mp4.5ad3e1c0.part"]);
});

test.each([
  ["ENOSPC", "Cannot save fox.mp4: the disk is full."],
  ["EACCES", "Cannot save fox.mp4: permission denied."],
  ["EROFS", "Cannot save fox.mp4: the file system is read-only."],
  ["EWHAT", "Cannot save fox.mp4: it went wrong."],
])("%s reads as: %s", (code, message) => {
  const error = Object.assign(new Error("it went wrong"), { code });
  expect(outputError(error, "fox.mp4")).toMatchObject({ code: "output", message, cause: error });
});

const id = naming.id;
/** What stands for an id that cannot be a name. */
const digits = (text: string) => createHash("sha256").update(text).digest("hex").slice(0, 8);
test.each([
  [naming, itsName],
  [{ id, prompt: "A red fox" }, "a-red-fox-1b4e28ba.mp4"],
  [{ id }, "vidgen-1b4e28ba.mp4"],
  [{ id, prompt: "  What?!  A fox...  (again)\n" }, "what-a-fox-again-1b4e28ba.mp4"],
  [{ id, prompt: "...hidden" }, "hidden-1b4e28ba.mp4"],
  [{ id, prompt: "--overwrite" }, "overwrite-1b4e28ba.mp4"],
  [{ id, prompt: "../../etc/passwd" }, "etc-passwd-1b4e28ba.mp4"],
  [{ id, prompt: "C:\\windows\\con" }, "c-windows-con-1b4e28ba.mp4"],
  [{ id, prompt: "Café à Zürich" }, "café-à-zürich-1b4e28ba.mp4"],
  [{ id, prompt: "Cafe\u0301" }, "café-1b4e28ba.mp4"],
  [{ id, prompt: "赤い狐が雪の中を走る" }, "赤い狐が雪の中を走る-1b4e28ba.mp4"],
  [{ id, prompt: "ثعلب أحمر" }, "ثعلب-أحمر-1b4e28ba.mp4"],
  [{ id, prompt: "a\u202efox\u0000\u001b[31m\u200b" }, "a-fox-31m-1b4e28ba.mp4"],
  [{ id, prompt: "🦊❄️👍🏽👨‍👩‍👧🇫🇷" }, "vidgen-1b4e28ba.mp4"],
  [{ id, prompt: "❤️ fox ❤️" }, "fox-1b4e28ba.mp4"],
  [{ id, prompt: "..." }, "vidgen-1b4e28ba.mp4"],
  [{ id, prompt: "\ud83e" }, "vidgen-1b4e28ba.mp4"],
  [{ id, model: "../x" }, "x-1b4e28ba.mp4"],
  [{ id: "../../etc/passwd", prompt: "fox" }, `fox-${digits("../../etc/passwd")}.mp4`],
  [{ id: "" }, `vidgen-${digits("")}.mp4`],
  [{ id: "CON" }, "vidgen-CON.mp4"],
  [{ id: "идентификатор" }, `vidgen-${digits("идентификатор")}.mp4`],
  [{ id: "🦊", prompt: "A fox" }, `a-fox-${digits("🦊")}.mp4`],
  [{ id: "task_01:a=" }, "vidgen-task01a.mp4"],
  [{ id: "-rf" }, "vidgen-rf.mp4"],
  [{ id: "a".repeat(5_000) }, `vidgen-${"a".repeat(40)}.mp4`],
])("%j is saved as %s", (named, name) => {
  expect(fileName(named)).toBe(name);
});

const prompts = ["a fox runs ", "a", "狐", "🦊", "e\u0301", ".", "/", "-", "\n", "é.-", "\u202e", "\u0301x"];
test.each(prompts)("5,000 characters of %j make a name that any file system takes", async (prompt) => {
  const name = fileName({ id: "b".repeat(300), prompt: prompt.repeat(5_000), model: prompt.repeat(99) });
  expect(new TextEncoder().encode(name).byteLength).toBeLessThan(120);
  expect(name).toMatch(/^[^./\\-][^/\\\p{C}]*\.mp4$/u);
  await (await open(join(makeFolder(), name), "wx")).close();
});

test("a video is saved, and its folder is synced, also where its .part cannot be removed", async () => {
  const folder = makeFolder();
  const refuse = () => Promise.reject(Object.assign(new Error("EPERM: not permitted"), { code: "EPERM" }));
  const opened: string[] = [];
  const watch: typeof systemMachine.disk.open = (path, ...how) => {
    opened.push(String(path));
    return systemMachine.disk.open(path, ...how);
  };
  const disk = { ...systemMachine.disk, open: watch, rm: refuse };
  const output = join(folder, "fox.mp4");
  const target = await claim(output, { disk });
  await target.part.write("a fox");
  expect(await commit(target, naming)).toBe(output);
  expect(opened.at(-1)).toBe(folder);
});

test("a .part file that cannot be removed is not an error", async () => {
  const folder = makeFolder();
  const refuse = () => Promise.reject(Object.assign(new Error("EPERM: not permitted"), { code: "EPERM" }));
  const disk = { ...systemMachine.disk, rm: refuse };
  const target = await claim(join(folder, "fox.mp4"), { disk });
  await target.release();
  expect(await namesIn(folder)).toEqual(["fox.mp4.5ad3e1c0.part"]);
  await expect(target.part.stat()).rejects.toThrow("file closed");
});

test("a long prompt ends at a word", () => {
  const name = fileName({ id, prompt: "a red fox runs through the snow at dusk while the moon rises" });
  expect(name).toBe("a-red-fox-runs-through-the-snow-at-dusk-while-1b4e28ba.mp4");
});

test("checking whether another process uses a path creates no folder", async () => {
  const folder = makeFolder();
  const targets = createTargets(undefined, systemMachine);
  for (const place of ["new/", "{slug}/fox.mp4", "{slug}/{id}.mp4"])
    expect(await targets.isHeld(`${folder}/${place}`, { prompt: "a red fox" })).toBe(false);
  expect(await namesIn(folder)).toEqual([]);
});

test("a path that cannot be checked is an error about the file, not a bug", async () => {
  const folder = makeFolder();
  const readdir = async () => Promise.reject(Object.assign(new Error("too many"), { code: "EMFILE" }));
  const disk: Disk = { ...systemMachine.disk, readdir };
  const looking = createTargets(undefined, { ...systemMachine, disk }).isHeld(join(folder, "fox.mp4"), {});
  await expect(looking).rejects.toMatchObject({
    code: "output",
    message: expect.stringContaining("too many open files"),
  });
});
