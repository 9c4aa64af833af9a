import { expect, test } from "vitest";
import { createWorld, type Fault, failure, isStart, type World } from "../../vidgen.ts";

const keyLine = /^vgs_[0-9a-f]{48}\n$/;

/** A world with an account `ci` of 50 credits, and its key. */
async function withAccount() {
  const world = await createWorld();
  const made = await world.vidgen("accounts", "create", "ci", "--credits", "50");
  expect(made).toMatchObject({ code: 0, stdout: expect.stringMatching(keyLine) });
  expect(made.stderr).toMatch(/^Service: https:\/\/api\.video\.example\n/);
  return { world, key: made.stdout.trim() };
}

/** A command line of whoever has this key. */
async function vidgenAs(world: World, key: string, ...argv: string[]) {
  const before = world.env.VIDGEN_API_KEY;
  world.env.VIDGEN_API_KEY = key;
  const run = await world.vidgen(...argv);
  world.env.VIDGEN_API_KEY = before;
  return run;
}

/** The service does what it is asked, and the reply is lost. */
function loseReplies(path: string, times = Number.POSITIVE_INFINITY): Fault {
  let left = times;
  return async (request, world) => {
    if (!request.url.endsWith(path) || left-- <= 0) return undefined;
    await world.start(request);
    throw failure("ECONNRESET", true);
  };
}

const sentTo = (world: World, path: string) => world.requests.filter(({ url }) => url.endsWith(path));

test("lists each account with a tab between the columns, as a table at a terminal, and as data", async () => {
  const { world } = await withAccount();
  await world.vidgen("accounts", "limit", "ci", "--max-running", "2");
  expect((await world.vidgen("accounts")).stdout).toBe("ci\t50\t1\t2\t-\tenabled\nlocal\t1000\t1\t-\t-\tenabled\n");
  expect(JSON.parse((await world.vidgen("accounts", "list", "--json")).stdout)).toEqual([
    { account: "ci", credits: 50, keys: 1, disabled_at: null, max_running: 2, max_per_hour: null },
    { account: "local", credits: 1000, keys: 1, disabled_at: null, max_running: null, max_per_hour: null },
  ]);
  world.isTerminal = true;
  expect((await world.vidgen("accounts")).stdout).toBe(
    [
      "ACCOUNT  CREDITS  KEYS  MAX RUNNING  MAX PER HOUR  STATE",
      "ci       50       1     2            -             enabled",
      "local    1,000    1     -            -             enabled",
      "",
    ].join("\n"),
  );
});

test("create prints the key once, with which its owner can start, and changes no account that exists", async () => {
  const { world, key } = await withAccount();
  expect((await vidgenAs(world, key, "generate", "a fox")).code).toBe(0);
  const again = await world.vidgen("accounts", "create", "ci", "--credits", "9");
  expect(again).toMatchObject({ code: 1, stdout: "" });
  expect(again.stderr).toContain("the account ci exists, with 40 credits; nothing was changed");
  expect((await world.vidgen("accounts")).stdout).toContain("ci\t40\t1\t");
});

test("create is sent once: where its reply is lost, it says how to get a key", async () => {
  const world = await createWorld();
  world.faults.push(loseReplies("/accounts", 1));
  const run = await world.vidgen("accounts", "create", "ci");
  expect(run).toMatchObject({ code: 8, stdout: "" });
  expect(run.stderr).toContain("may have been created anyway");
  expect(run.stderr).toContain("vidgen accounts rotate ci");
  expect(sentTo(world, "/accounts")).toHaveLength(1);
  expect((await world.vidgen("accounts", "rotate", "ci", "--yes")).stdout).toMatch(keyLine);
});

test("credits are a change, printed as the balance, and are added once where a reply is lost", async () => {
  const { world } = await withAccount();
  world.faults.push(loseReplies("/accounts/credits", 1));
  const added = await world.vidgen("accounts", "credits", "ci", "500");
  expect(added).toMatchObject({ code: 0, stdout: "550\n" });
  expect(sentTo(world, "/accounts/credits")).toHaveLength(2);
  expect((await world.vidgen("accounts", "credits", "ci", "-100")).stdout).toBe("450\n");
  const tooMany = await world.vidgen("accounts", "credits", "ci", "-451");
  expect(tooMany).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("nothing was changed") });
});

test("without any answer, the next command to type adds the credits once", async () => {
  const { world } = await withAccount();
  world.faults.push(loseReplies("/accounts/credits"));
  const run = await world.vidgen("accounts", "credits", "ci", "500");
  expect(run).toMatchObject({ code: 8, stdout: "" });
  const [typed = ""] = /accounts credits ci 500 --idempotency-key [\w-]+/.exec(run.stderr) ?? [];
  world.faults.pop();
  const again = await world.vidgen(...typed.split(" "));
  expect(again).toMatchObject({ code: 0, stdout: "550\n", stderr: expect.stringContaining("nothing was changed now") });
});

test("a start above a limit ends as not accepted, and is charged nothing", async () => {
  const { world, key } = await withAccount();
  await world.vidgen("accounts", "limit", "ci", "--max-per-hour", "1");
  expect((await vidgenAs(world, key, "generate", "a fox")).code).toBe(0);
  const run = await vidgenAs(world, key, "generate", "a hare");
  expect(run).toMatchObject({ code: 8, stdout: "" });
  expect(run.stderr).toContain("this account may start 1 generations per hour; nothing was charged");
  const lifted = await world.vidgen("accounts", "limit", "ci", "--max-per-hour", "none", "--json");
  expect(JSON.parse(lifted.stdout)).toEqual({ account: "ci", max_running: null, max_per_hour: null });
  expect((await vidgenAs(world, key, "generate", "a hare")).code).toBe(0);
  expect((await world.vidgen("accounts")).stdout).toContain("ci\t30\t");
});

test("rotate prints the only key that works from then on", async () => {
  const { world, key } = await withAccount();
  const rotated = await world.vidgen("accounts", "rotate", "ci", "--yes");
  expect(rotated).toMatchObject({ code: 0, stdout: expect.stringMatching(keyLine) });
  expect(rotated.stderr).toContain("One key was revoked");
  expect((await vidgenAs(world, key, "generate", "a fox")).code).toBe(3);
  expect((await vidgenAs(world, rotated.stdout.trim(), "generate", "a fox")).code).toBe(0);
});

test("revoke takes one key from stdin, and shows it nowhere", async () => {
  const { world, key } = await withAccount();
  world.stdin = `${key}\n`;
  const run = await world.vidgen("accounts", "revoke", "-", "--verbose");
  expect(run).toMatchObject({ code: 0, stdout: "1\n" });
  expect(run.stderr).not.toContain(key.slice(4));
  expect((await vidgenAs(world, key, "generate", "a fox")).code).toBe(3);
  const again = await world.vidgen("accounts", "revoke", "-");
  expect(again).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("No account has this key") });
});

test("keys shows the last use of each key, of which one is revoked by its 8 characters", async () => {
  const { world, key } = await withAccount();
  expect((await world.vidgen("accounts", "keys", "ci")).stdout).toMatch(/^[0-9a-f]{8}\t20\d\d-[^\t]+Z\t-\t-\n$/);
  expect((await vidgenAs(world, key, "generate", "a fox")).code).toBe(0);
  const listed = await world.vidgen("accounts", "keys", "ci", "--json");
  expect(listed.stdout).not.toContain(key.slice(4));
  const [{ key: name, used_at }] = JSON.parse(listed.stdout);
  expect(used_at).toMatch(/Z$/);
  const other = await world.vidgen("accounts", "revoke", "ci", "--key", "00000000");
  expect(other).toMatchObject({ code: 1, stderr: expect.stringContaining("No account ci has the key 00000000.") });
  expect(await world.vidgen("accounts", "revoke", "ci", "--key", name)).toMatchObject({ code: 0, stdout: "1\n" });
  expect((await vidgenAs(world, key, "generate", "a fox")).code).toBe(3);
});

test("a second key has a name, by which it is revoked; the first one stays", async () => {
  const { world, key } = await withAccount();
  const made = await world.vidgen("accounts", "key", "ci", "--name", "laptop");
  expect(made).toMatchObject({ code: 0, stdout: expect.stringMatching(keyLine) });
  expect((await vidgenAs(world, made.stdout.trim(), "generate", "a fox")).code).toBe(0);
  expect((await world.vidgen("accounts", "keys", "ci")).stdout).toMatch(/Z\t.*\t-\n.*\tlaptop\n$/);
  const again = await world.vidgen("accounts", "key", "ci", "--name", "laptop");
  expect([again.code, again.stderr]).toEqual([1, expect.stringContaining("the account ci has a key laptop")]);
  const looksLikeHash = await world.vidgen("accounts", "key", "ci", "--name", "deadbeef");
  expect([looksLikeHash.code, looksLikeHash.stderr]).toEqual([1, expect.stringContaining("a key name has 1 to 64")]);
  const tooShort = await world.vidgen("accounts", "revoke", "ci", "--key", "1a2b3c4");
  expect([tooShort.code, tooShort.stderr]).toEqual([1, expect.stringContaining("key must be the name of a key, or")]);
  expect(await world.vidgen("accounts", "revoke", "ci", "--key", "laptop")).toMatchObject({ code: 0, stdout: "1\n" });
  expect((await vidgenAs(world, made.stdout.trim(), "generate", "an owl")).code).toBe(3);
  expect((await vidgenAs(world, key, "generate", "an owl")).code).toBe(0);
});

test("revoke by name ends all keys of an account, and its credits stay", async () => {
  const { world, key } = await withAccount();
  expect(await world.vidgen("accounts", "revoke", "ci", "--json")).toMatchObject({ code: 0 });
  expect((await vidgenAs(world, key, "generate", "a fox")).code).toBe(3);
  expect((await world.vidgen("accounts")).stdout).toContain("ci\t50\t0\t");
});

test("a key as an argument is a usage error: nothing is sent, and it is not repeated", async () => {
  const { world, key } = await withAccount();
  const { length } = world.requests;
  for (const argv of [[key], ["ci", "--key", key]]) {
    const run = await world.vidgen("accounts", "revoke", ...argv);
    expect(run).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining("vidgen accounts revoke - < ") });
    expect(run.stderr).not.toContain(key);
  }
  expect(world.requests).toHaveLength(length);
});

test.each([
  ["credits", "ci", "0"],
  ["credits", "ci", "1.5"],
  ["credits", "ci", "many"],
  ["credits", "ci", "5", "--idempotency-key", "a b"],
  ["create", "ci", "--credits", "-1"],
  ["limit", "ci"],
  ["limit", "ci", "--max-running", "0"],
  ["limit", "ci", "--max-per-hour", "many"],
  ["rotate"],
  ["keys"],
  ["revoke", "-", "--key", "1a2b3c4d"],
  ["link", "ci", "--for", "59s"],
  ["link", "ci", "--for", "31d"],
  ["remove", "ci"],
])("accounts %s %s %s %s is a usage error, and nothing is sent", async (...argv) => {
  const world = await createWorld();
  expect(await world.vidgen("accounts", ...argv)).toMatchObject({ code: 2, stdout: "" });
  expect(world.requests).toEqual([]);
});

test("the key of another account is told whose key it takes", async () => {
  const { world, key } = await withAccount();
  const run = await vidgenAs(world, key, "accounts");
  expect(run).toMatchObject({ code: 3, stdout: "", stderr: expect.stringContaining("the account `local`") });
});

test.each([
  () => new Response("<html>not here</html>", { status: 404 }),
  () => Response.json({ error: "Method Not Allowed" }, { status: 405 }),
  () => Response.json({ data: [] }),
])("another service has no accounts to manage (%#)", async (answer) => {
  const world = await createWorld();
  world.faults.push(({ url }) => (url.endsWith("/accounts") ? answer() : undefined));
  const run = await world.vidgen("accounts");
  expect(run).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("only a `vidgen serve` has") });
});

test("a guest whose credits are spent is told whom to ask, and numbers have separators", async () => {
  const { world, key } = await withAccount();
  expect((await world.vidgen("accounts", "create", "rich", "--credits", "1234567")).stderr).toContain(
    "The account rich has 1,234,567 credits.",
  );
  await world.vidgen("accounts", "credits", "ci", "-49");
  expect(await vidgenAs(world, key, "generate", "a fox")).toMatchObject({
    code: 7,
    stderr: expect.stringMatching(
      /\n {2}Ask the owner of the service for more: `vidgen accounts credits <account> 500`/,
    ),
  });
});

test("rotate asks before it ends keys; a script needs --yes", async () => {
  const { world, key } = await withAccount();
  expect(await world.vidgen("accounts", "rotate", "ci")).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/needs --yes .* Nothing was changed\.\n {2}Add --yes to the same line\.\n$/),
  });
  world.isTerminal = true;
  world.answers = [["Replace all keys of ci?", "\r"]];
  expect(await world.vidgen("accounts", "rotate", "ci")).toMatchObject({ code: 130, stdout: "" });
  world.isTerminal = false;
  expect((await vidgenAs(world, key, "generate", "a fox", "--no-wait")).code).toBe(0);
  world.isTerminal = true;
  world.answers = [["Replace all keys of ci?", "y\r"]];
  expect((await world.vidgen("accounts", "rotate", "ci")).stdout).toMatch(keyLine);
  world.isTerminal = false;
  expect((await vidgenAs(world, key, "generate", "a fox", "--no-wait")).code).toBe(3);
});

test("an account that does not exist is named, and nothing is started anywhere", async () => {
  const world = await createWorld();
  for (const argv of [
    ["credits", "ci", "5"],
    ["limit", "ci", "--max-running", "1"],
    ["rotate", "ci", "--yes"],
  ]) {
    const run = await world.vidgen("accounts", ...argv);
    expect(run).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("there is no account ci") });
  }
  expect(world.requests.filter(isStart)).toEqual([]);
});

test("a disabled account is told so, and that nothing was charged, until it is enabled", async () => {
  const { world, key } = await withAccount();
  const disabled = await world.vidgen("accounts", "disable", "ci");
  expect(disabled).toMatchObject({ code: 0, stdout: "ci\n", stderr: expect.stringContaining("accounts enable ci") });
  expect((await world.vidgen("accounts")).stdout).toContain("ci\t50\t1\t-\t-\tdisabled\n");
  const run = await vidgenAs(world, key, "generate", "a fox");
  expect(run).toMatchObject({ code: 3, stdout: "" });
  expect(run.stderr).toContain(
    "the account ci is disabled and nothing was charged; the owner of this service can enable it",
  );
  expect(run.stderr).toContain("vidgen accounts enable <account>");
  expect(run.stderr).not.toContain("VIDGEN_API_KEY");
  expect((await world.vidgen("accounts", "enable", "ci", "--json")).code).toBe(0);
  expect((await vidgenAs(world, key, "generate", "a fox")).code).toBe(0);
  const own = await world.vidgen("accounts", "disable", "local");
  expect(own).toMatchObject({ code: 1, stderr: expect.stringContaining("the owner's account cannot be disabled") });
});

test("delete needs --yes where nobody can be asked, and is safe to repeat", async () => {
  const { world, key } = await withAccount();
  const asked = await world.vidgen("accounts", "delete", "ci");
  expect([asked.code, asked.stderr]).toEqual([2, expect.stringContaining("Add --yes to the same line.")]);
  expect(sentTo(world, "/accounts/delete")).toEqual([]);
  world.faults.push(loseReplies("/accounts/delete", 1));
  const deleted = await world.vidgen("accounts", "delete", "ci", "--yes");
  expect(deleted).toMatchObject({ code: 0, stdout: "ci\n", stderr: expect.stringContaining("Deleted.") });
  expect((await vidgenAs(world, key, "generate", "a fox")).code).toBe(3);
  const created = await world.vidgen("accounts", "create", "ci");
  expect([created.code, created.stderr]).toEqual([1, expect.stringContaining("its name is not given again")]);
  expect((await world.vidgen("accounts", "delete", "nobody", "--yes")).stderr).toContain("there is no account nobody");
});
