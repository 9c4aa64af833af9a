import { existsSync, mkdirSync, realpathSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { expect, onTestFinished, test } from "vitest";
import { systemMachine } from "../../src/io.ts";
import { openFolder } from "../../src/mcp/folder.ts";
import { makeFolder } from "../folder.ts";
import { lacks } from "../needs.ts";

const { disk } = systemMachine;

async function createFolders() {
  const base = realpathSync(makeFolder());
  const [root, outside] = [join(base, "work"), join(base, "outside")];
  for (const folder of [root, outside, join(root, "clips")]) mkdirSync(folder);
  writeFileSync(join(outside, "secret.png"), "x");
  writeFileSync(join(root, "fox.png"), "x");
  symlinkSync(outside, join(root, "out"));
  symlinkSync(join(outside, "new.mp4"), join(root, "dangling.mp4"));
  symlinkSync(join(outside, "secret.png"), join(root, "secret.png"));
  return { base, root, outside };
}

test.each([
  ...[
    "../fox.mp4",
    "clips/../../fox.mp4",
    "clips/..",
    "..",
    ".",
    "./fox.mp4",
    "/tmp/fox.mp4",
    "~/fox.mp4",
    "//host/fox.mp4",
  ],
  ...["C:\\fox.mp4", "C:fox.mp4", "\\\\host\\share\\fox.mp4", "..\\fox.mp4", "clips\\fox.mp4", "fox.mp4:stream"],
  ...["CON", "nul.mp4", "clips/aux", "fox.mp4.", "fox.mp4 ", ".bashrc", ".git/hooks/x", "a//b", "a\0b", "a\nb"],
  ...["{id}.mp4", "{n}/../../x", "-/../..", "x".repeat(300)],
  ...(lacks("symbolic links") ? [] : ["out/fox.mp4", "out/", "out", "dangling.mp4"]),
])("no video is saved to %j", async (path) => {
  const { root } = await createFolders();
  const folder = await openFolder(root, { home: "", disk });
  await expect(folder.outputPath(path)).rejects.toMatchObject({ code: "usage" });
});

test("a path inside the folder is a place, and its folders are made", async () => {
  const { root } = await createFolders();
  const folder = await openFolder(root, { home: "", disk });
  expect(await folder.outputPath(undefined)).toBe(root);
  expect(await folder.outputPath("fox.mp4")).toBe(join(root, "fox.mp4"));
  expect(await folder.outputPath("clips/")).toBe(join(root, "clips"));
  expect(await folder.outputPath("a/b/Fox 1.mp4")).toBe(join(root, "a/b/Fox 1.mp4"));
  expect(existsSync(join(root, "a/b"))).toBe(true);
  await expect(folder.outputPath("fox.png/x.mp4")).rejects.toMatchObject({
    code: expect.stringMatching(/usage|output/),
  });
});

test("an image is a URL, or a file inside the folder by its real path", async () => {
  const { base, root, outside } = await createFolders();
  const folder = await openFolder(root, { home: "", disk });
  expect(await folder.image("https://a.example/fox.png")).toBe("https://a.example/fox.png");
  for (const image of ["fox.png", join(root, "fox.png"), `file://${root}/fox.png`])
    expect(await folder.image(image)).toBe(join(root, "fox.png"));
  const wrong = [
    "secret.png",
    "out/secret.png",
    "../outside/secret.png",
    join(outside, "secret.png"),
    `file://${outside}/secret.png`,
  ];
  for (const image of [...wrong, "missing.png", root, base, "", "file://%zz", "ftp://a.example/x.png"])
    await expect(folder.image(image), image).rejects.toMatchObject({ code: "usage" });
});

test("the root and the home folder count only with --dir; a --dir must be a folder", async () => {
  const { root } = await createFolders();
  const before = process.cwd();
  onTestFinished(() => process.chdir(before));
  for (const [cwd, home] of [
    ["/", root],
    [root, root],
  ] as const) {
    process.chdir(cwd);
    const folder = await openFolder(undefined, { home, disk });
    for (const use of [folder.outputPath("x.mp4"), folder.image("fox.png")])
      await expect(use).rejects.toMatchObject({ code: "usage", hint: expect.stringContaining("vidgen mcp --dir") });
  }
  expect(await (await openFolder(root, { home: root, disk })).outputPath("x.mp4")).toBe(join(root, "x.mp4"));
  for (const dir of [join(root, "missing"), join(root, "fox.png")])
    await expect(openFolder(dir, { home: "", disk })).rejects.toMatchObject({ code: "usage" });
});

test.each(["/etc/hostname", "../outside/secret.png", "//host/share/fox.png", "file://host/share/fox.png"])(
  "the disk is not asked about %j, which is outside: Windows would connect to the machine in such a path",
  async (path) => {
    const { root } = await createFolders();
    const asked: string[] = [];
    const realpath = (async (file: string) => {
      asked.push(file);
      return disk.realpath(file);
    }) as typeof disk.realpath;
    const folder = await openFolder(root, { home: "", disk: { ...disk, realpath } });
    await expect(folder.image(path)).rejects.toMatchObject({ code: "usage" });
    await expect(folder.video(path)).rejects.toMatchObject({ code: "usage" });
    expect(asked).toEqual([root]);
  },
);
