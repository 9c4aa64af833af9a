import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadPackage } from "../../../../src/server/engines/ai-sdk/package.ts";
import { makeFolder } from "../../../folder.ts";

const unused = () => Promise.reject(new Error("nothing is sent"));

/** A folder with packages, by their names; the returned path is of a file in it. */
async function createFolder(packages: Record<string, string>): Promise<string> {
  const folder = makeFolder();
  for (const [name, code] of Object.entries(packages)) {
    const path = join(folder, "node_modules", name);
    await mkdir(path, { recursive: true });
    await writeFile(join(path, "package.json"), JSON.stringify({ name, type: "module", exports: "./index.js" }));
    await writeFile(join(path, "index.js"), code);
  }
  return join(folder, "package.json");
}

const packageOf = (version: string, model: string) =>
  `export const VERSION = "${version}";
   export const createSomethingElse = () => { throw new Error("not the provider"); };
   export const createSome = ({ fetch }) => ({ video: (id) => (${model}) });`;

const whole = `{ provider: "some.video", doStart: () => fetch(id), doStatus: () => {} }`;

test("a package is searched for beside vidgen first, then in the current folder", async () => {
  const own = await createFolder({ "@some/one": packageOf("1.0.0", whole) });
  const current = await createFolder({
    "@some/one": packageOf("2.0.0", whole),
    "@some/two": packageOf("3.0.0", whole),
  });
  expect(await loadPackage("@some/one", [own, current])).toMatchObject({ version: "1.0.0" });
  expect(await loadPackage("@some/two", [own, current])).toMatchObject({ version: "3.0.0" });
});

test("its model sends through the fetch that it is given", async () => {
  const { openModel } = await loadPackage("some", [await createFolder({ some: packageOf("1.0.0", whole) })]);
  const sent: unknown[] = [];
  const fetch = async (url: unknown) => {
    sent.push(url);
    return new Response();
  };
  await openModel("a-model", fetch).doStart({} as never);
  expect(sent).toEqual(["a-model"]);
});

test.each(["@some/none", "fs", "node:fs"])("%s is not installed, and what to type is told", async (name) => {
  await expect(loadPackage(name, [await createFolder({})])).rejects.toMatchObject({
    code: "usage",
    message: "is not installed here",
    hint: `npm install ${name}@latest`,
  });
});

test.each([
  [
    "that makes a video in one long request",
    `{ doGenerate() {} }`,
    /^generates a video in one long request \(1\.0\.0 has no doStart\)/,
  ],
  ["without video models", "undefined", /^has no video models$/],
])("a package %s is refused", async (_name, model, message) => {
  const { openModel } = await loadPackage("some", [await createFolder({ some: packageOf("1.0.0", model) })]);
  expect(() => openModel("x", unused)).toThrow(
    expect.objectContaining({ code: "usage", message: expect.stringMatching(message) }),
  );
});

test("a package that is not a provider, or that cannot be loaded, is refused", async () => {
  const folder = await createFolder({ lib: "export const a = 1;", broken: 'throw new Error("needs a newer Node");' });
  const { openModel } = await loadPackage("lib", [folder]);
  expect(() => openModel("x", unused)).toThrow(/^has no video models$/);
  await expect(loadPackage("broken", [folder])).rejects.toMatchObject({
    code: "usage",
    message: "cannot be loaded (needs a newer Node)",
    hint: expect.stringContaining("with Node 22"),
  });
});
