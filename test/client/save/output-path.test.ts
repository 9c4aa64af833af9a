import { createHash, randomUUID } from "node:crypto";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { readContent } from "../../../src/client/ledger/content.ts";
import { createTargets } from "../../../src/client/save/target.ts";
import { systemMachine } from "../../../src/io.ts";
import { checkTemplate, fillNames, findWindowsFault } from "../../../src/video/naming.ts";
import { makeFolder } from "../../folder.ts";

const id = "1b4e28ba-2fa1-41d2-883f-0016d3cca427";

const sha256OfNothing = createHash("sha256").digest("hex");

type Scene = { id?: string; prompt?: string; model?: string; first?: number };

/** Claims a place before the id is known, then saves there. Returns the file's path inside the folder. */
async function save(folder: string, template: string, scene: Scene = {}): Promise<string> {
  const { prompt = "A red fox", model = "wan-2.5", first = 1 } = scene;
  const nameParts = { prompt, model };
  const io = { ...systemMachine, date: () => new Date("2026-01-31T12:00:00Z") };
  const claiming = { attempt: randomUUID(), first, nameParts };
  const target = await createTargets(undefined, io).claim(join(folder, template), claiming);
  if (target === undefined) throw new Error("held");
  const { file } = await target.open();
  const path = await target.commit({ id: scene.id ?? id, ...nameParts }, await readContent(file, sha256OfNothing));
  await target.release();
  return relative(folder, path).replaceAll(sep, "/");
}

test.each([
  ["{slug}.mp4", "a-red-fox.mp4"],
  ["{date}-{model}-{slug}.mp4", "2026-01-31-wan-2.5-a-red-fox.mp4"],
  ["{id}.mp4", `${id}.mp4`],
  ["{slug}-{id}.mp4", `a-red-fox-${id}.mp4`],
  ["{n}.mp4", "1.mp4"],
  ["{n}-{id}.mp4", `1-${id}.mp4`],
  ["{model}/{slug}.mp4", "wan-2.5/a-red-fox.mp4"],
  ["{model}/{date}/{id}.mp4", `wan-2.5/2026-01-31/${id}.mp4`],
  ["{model}/", "wan-2.5/a-red-fox-wan-2.5-1b4e28ba.mp4"],
  ["{{slug}}.mp4", "{a-red-fox}.mp4"],
  ["a{b.mp4", "a{b.mp4"],
])("%s is saved as %s, and nothing else is left", async (template, name) => {
  const folder = makeFolder();
  expect(await save(folder, template)).toBe(name);
  const left = await readdir(folder, { recursive: true, withFileTypes: true });
  expect(left.filter((entry) => entry.isFile()).map((entry) => entry.name)).toEqual([name.replace(/.*\//, "")]);
});

test("{n} is the first free number; that of a video which is still being generated is not free", async () => {
  const folder = makeFolder();
  await writeFile(join(folder, "fox-1.mp4"), "precious");
  await mkdir(join(folder, "fox-3.mp4"));
  const other = await createTargets(undefined, systemMachine).claim(join(folder, "fox-2.mp4"), {
    attempt: randomUUID(),
  });
  onTestFinished(() => other?.release());
  expect(await save(folder, "fox-{n}.mp4")).toBe("fox-4.mp4");
  expect(await save(folder, "fox-{n}.mp4")).toBe("fox-5.mp4");
  expect(await save(folder, "fox-{n}.mp4", { first: 9 })).toBe("fox-9.mp4");
});

test("several processes that choose a number at once each get their own", async () => {
  const folder = makeFolder();
  const names = await Promise.all(Array.from({ length: 40 }, () => save(folder, "{n}.mp4")));
  expect(new Set(names).size).toBe(40);
  expect((await readdir(folder)).sort()).toEqual(names.sort());
});

test.each(["../../etc/passwd", "/etc/passwd", "..", ".", "a/b", "C:\\x", "a\u0000b", "{id}", "-rf"])(
  "%j in a value is no path",
  async (evil) => {
    for (const template of ["{slug}.mp4", "{model}.mp4", "{id}.mp4", "{slug}{model}{id}", "{model}/{slug}/x.mp4"]) {
      const folder = makeFolder();
      const name = await save(folder, template, { id: evil, prompt: evil, model: evil });
      expect(name).not.toMatch(/^[./\\-]|\.\.|[\\{]/);
      expect(name.split("/")).toHaveLength(template.split("/").length);
    }
  },
);

/** What stands for an id that cannot be a name. */
const digits = (text: string) => createHash("sha256").update(text).digest("hex").slice(0, 8);

test.each([
  ["{slug}.mp4", { prompt: "🦊" }, "video.mp4"],
  ["{slug}.mp4", { prompt: "con" }, "con_.mp4"],
  ["{model}.mp4", { model: "..." }, "model.mp4"],
  ["{id}.mp4", { id: "/" }, `a-red-fox-${digits("/")}.mp4`],
  ["{id}.mp4", { id: "🦊" }, `a-red-fox-${digits("🦊")}.mp4`],
  ["{id}.mp4", { id: "../x", prompt: "" }, `${digits("../x")}.mp4`],
])("%s with %j is %s", async (template, scene, name) => {
  expect(await save(makeFolder(), template, scene)).toBe(name);
});

test("a file that exists is refused before anything is paid for", async () => {
  const folder = makeFolder();
  await writeFile(join(folder, "a-red-fox.mp4"), "precious");
  await expect(save(folder, "{slug}.mp4")).rejects.toMatchObject({ exit: 9, message: expect.stringMatching(/exists/) });
});

test("a folder that the template itself names must exist", async () => {
  const folder = makeFolder();
  for (const template of ["none/{slug}.mp4", "none/{id}.mp4", "none/{n}.mp4"])
    await expect(save(folder, template)).rejects.toMatchObject({ exit: 9, message: /folder does not exist/ });
  expect(await readdir(folder)).toEqual([]);
});

test.each([
  "{slg}.mp4",
  "{}.mp4",
  "{ID}.mp4",
  "{id }.mp4",
  "a{b}/x.mp4",
  "{toString}.mp4",
  "{slug",
  "{slug.mp4",
  "clips/{id-{n}",
])("%s is a usage error that names what there is", (place) => {
  expect(() => checkTemplate(place)).toThrow(
    expect.objectContaining({ exit: 2, hint: expect.stringContaining("{slug}, {model}, {id}, {date}, {n}") }),
  );
});

test.each(["{id}/fox.mp4", "clips/{id}/", "a-{id}/{slug}.mp4"])("%s: an {id} in a folder is a usage error", (place) => {
  expect(() => checkTemplate(place)).toThrow(expect.objectContaining({ exit: 2 }));
});

test.each([
  ["CON", "Windows reserves CON for a device"],
  ["aux.mp4", "Windows reserves aux for a device"],
  ["clips\\NUL.tar.mp4", "Windows reserves NUL for a device"],
  ["COM1/fox.mp4", "Windows reserves COM1 for a device"],
  ["lpt² .mp4", "Windows reserves lpt² for a device"],
  ["CONOUT$", "Windows reserves CONOUT$ for a device"],
  ["com{id}.mp4", "Windows reserves com1 for a device"],
  ["a?b.mp4", "a name with ?"],
  ["a|b/fox.mp4", "a name with |"],
  ["fox.mp4:stream", "a name with :"],
  ["C:\\a:b.mp4", "a name with :"],
  ["a\tb.mp4", "a name with a control character"],
  ["fox.", "ends with a dot"],
  ["fox /x.mp4", "ends with a space"],
  [".../x.mp4", "ends with a dot"],
  ["\\\\.\\COM5", "the path of a device"],
  ["\\\\?\\C:\\fox.mp4", "the path of a device"],
])("Windows cannot use %j: %s", (path, reason) => {
  expect(findWindowsFault(path)).toContain(reason);
});

test.each([
  "fox.mp4",
  "C:\\Users\\Ann Lee\\fox.mp4",
  "C:/clips/",
  "C:fox.mp4",
  "..\\fox.mp4",
  "./.fox",
  "\\\\server\\share\\fox.mp4",
  "console.mp4",
  "com10.mp4",
  "nul-1.mp4",
  "{slug}-{id}.mp4",
])("Windows can use %j", (path) => {
  expect(findWindowsFault(path)).toBeUndefined();
});

test.each(["con", "aux: a fox", "NUL. A fox", `${"a".repeat(47)}.b`, "..", "COM1"])(
  "{slug} of %j is a name that Windows can use",
  (prompt) => {
    for (const template of ["{slug}", "{slug}.mp4", "{slug}/x.mp4"])
      expect(findWindowsFault(fillNames(template, { prompt }, "2026-01-31"))).toBeUndefined();
  },
);

test.each(["fox.mp4", "clips/{id}.mp4", "{model}/{id}", "a{b.mp4", "}{", "-", "."])("%s is accepted", (place) => {
  expect(() => checkTemplate(place)).not.toThrow();
});

test.each(["{model}/{n}.mp4", "wan-2.5/{n}.mp4", "wan-2.5/{slug}.mp4"])(
  "%s, where the folder's name is that of a file, cannot be saved to",
  async (template) => {
    const folder = makeFolder();
    await writeFile(join(folder, "wan-2.5"), "");
    await expect(save(folder, template)).rejects.toMatchObject({ code: "output", message: /^Cannot save / });
  },
);
