import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { readPage, readTables } from "../../../src/docs.ts";

const [variables = []] = readTables(readPage("environment").text);

const code = ["../../../src/", "../../../bin/"]
  .map((folder) => new URL(folder, import.meta.url))
  .flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((name) => /\.c?[jt]s$/.test(name))
      .map((name) => readFileSync(new URL(name, folder), "utf8")),
  )
  .join("\n");

/** Read by Node. */
const byOthers = ["NODE_EXTRA_CA_CERTS"];

test("each variable of vidgen's own that the code reads is in the table", () => {
  const read = new Set([...code.matchAll(/(?<=env\.)VIDGEN_\w+|(?<=")VIDGEN_\w+(?=")/g)].map(([name]) => name));
  expect(read).toEqual(new Set(variables.map(({ name }) => name).filter((name) => name?.startsWith("VIDGEN_"))));
});

test.each(variables.filter(({ name }) => !byOthers.includes(name ?? "")))("$name is read somewhere", ({ name }) => {
  expect(code).toMatch(new RegExp(`env\\.${name}\\b|"${name}"`));
});
