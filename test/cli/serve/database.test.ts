import { describe, expect, test } from "vitest";
import { databaseError, findDatabase, installHint } from "../../../src/cli/serve/database.ts";

/** What is found, and what is printed no more. */
async function find(flag: string | undefined, variable?: string) {
  const hidden: string[] = [];
  const env = { VIDGEN_DATABASE_URL: variable };
  const database = findDatabase(flag, { env }, { hide: (secret) => void hidden.push(secret) });
  return { database, hidden };
}

const address = "postgres://vidgen:canary%40word@db.example/vidgen";

describe("the address", () => {
  test("is the flag, else the variable, else none", async () => {
    expect((await find("postgresql://a/b", address)).database).toBe("postgresql://a/b");
    expect((await find(undefined, address)).database).toBe(address);
    expect((await find(undefined, "")).database).toBeUndefined();
    expect((await find(undefined)).database).toBeUndefined();
  });

  test.each([
    ["postgres://vidgen:canary%40word@db.example/vidgen", "canary@word"],
    ["postgres:///vidgen?host=/run/postgresql&password=canaryword", "canaryword"],
    ["postgres://vidgen:canaryword@/vidgen?host=/run/postgresql", "canaryword"],
  ])("%s is never printed, nor its password", async (text, password) => {
    expect((await find(text)).hidden).toEqual([text, password]);
  });

  test.each([
    ...["", "canary", "mysql://u:canary@db/x", "http://u:canary@db", "postgres://u:canary%zz@db/x"],
    ...["postgres://u:p@canary/x@db/x", "postgres://u:p@canary#x@db/x", "postgres://u:1/canary@db/x"],
  ])("%s is none, and is not repeated", async (text) => {
    await expect(find(text)).rejects.toThrow("--database must be an address such as postgres://user@host/name.");
    if (text !== "") await expect(find(undefined, text)).rejects.toThrow(/^VIDGEN_DATABASE_URL must be/);
  });
});

const described = (message: string, code: string | undefined, isUnavailable: boolean) =>
  Object.assign(new Error(message, { cause: Object.assign(new Error(message), { code }) }), { isUnavailable });

test.each([
  [described("connect ECONNREFUSED 10.0.0.1:5432", "ECONNREFUSED", true), "network", /reached: connect ECONNREFUSED/],
  [described('password authentication failed for user "x"', "28P01", false), "usage", /refused .*: password/],
  [described('database "x" does not exist', "3D000", false), "usage", /refused .*: database "x" does not exist/],
  [described("SASL: client password must be a string", undefined, true), "usage", /requires a password/],
  [described("connect ENOENT /run/x/.s.PGSQL.5432", "ENOENT", true), "network", /reached: connect ENOENT \/run\/x/],
  [new Error("it has version 9"), "output", /^Cannot use the database: it has version 9\.$/],
])("%s: says what to look at", (error, code, says) => {
  const shown = databaseError(error);
  expect([shown.code, shown.message]).toEqual([code, expect.stringMatching(says)]);
  expect(shown.hint).toContain("VIDGEN_DATABASE_URL");
});

test("a statement that took too long is not an address that cannot be reached", () => {
  const shown = databaseError(described("canceling statement due to statement timeout", "57014", true));
  expect(shown).toMatchObject({
    code: "output",
    message: "The database did not finish a statement in time: canceling statement due to statement timeout.",
    hint: "It is busy, or another session holds a lock in it. Nothing was changed: try again.",
  });
});

test("a missing package is an error with the line that installs it, as vidgen was installed", () => {
  const missing = Object.assign(new Error("Cannot find package 'pg'"), { code: "ERR_MODULE_NOT_FOUND" });
  expect(databaseError(missing)).toMatchObject({
    code: "usage",
    message: expect.stringContaining("the package pg,"),
    hint: installHint(),
  });
  const inProject = installHint("file:///app/node_modules/vidgen/dist/serve.js");
  expect(inProject).toContain("npm install pg");
  const byNpx = installHint("file:///home/ann/.npm/_npx/4f2c/node_modules/vidgen/dist/serve.js");
  expect(byNpx).toContain("npx -p vidgen -p pg vidgen serve");
});
