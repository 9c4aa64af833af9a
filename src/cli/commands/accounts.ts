import { randomUUID } from "node:crypto";
import type { Command, CommandOptions, CommandUnknownOpts } from "@commander-js/extra-typings";
import type { AccountLimits, ListedAccount, NewKey } from "../../connect/accounts.ts";
import { readNumber, readTime } from "../../connect/values.ts";
import { usage, VidgenError } from "../../errors.ts";
import { countCredits, formatNumber } from "../../protocol/text.ts";
import { isLoopback, loginCommand, sshCommand } from "../../protocol/url.ts";
import { baseUrlOption, localOption, withDetails } from "../command.ts";
import type { Context } from "../context.ts";
import type { AccountsPlace } from "../serve/accounts.ts";
import { type Cell, formatRows } from "../terminal/text.ts";

export function addAccounts(program: CommandUnknownOpts, context: Context): void {
  const accounts = withDetails(
    program
      .command("accounts")
      .helpGroup("Run a service:")
      .helpCommand(false)
      .summary("manage the accounts of your own vidgen serve")
      .description(
        "Lists and changes the accounts of a `vidgen serve`. This needs the owner's key, which is the key of the account `local`. Each account has its own credits, limits and keys.",
      ),
    {
      examples: [
        "vidgen accounts",
        "vidgen accounts create ci --credits 500",
        "vidgen accounts limit ci --max-running 4 --max-per-hour none",
      ],
    },
  );
  for (const add of [
    addList,
    addCreate,
    addCredits,
    addLimit,
    addRotate,
    addKey,
    addLink,
    addKeys,
    addRevoke,
    addDisable,
    addEnable,
    addDelete,
  ])
    add(accounts, context);
}

async function open(place: AccountsPlace, context: Context) {
  const { openAccounts } = await import("../serve/accounts.ts");
  return openAccounts(place, context);
}

/** Adds a subcommand with its examples, and with the flags that say which service it is. */
function subcommand(accounts: CommandUnknownOpts, name: string, examples: string[], options?: CommandOptions) {
  const command: Command = accounts.command(name, options);
  return withDetails(command, { examples })
    .addOption(localOption("use the service of this machine: its PostgreSQL database, or else its folder"))
    .addOption(baseUrlOption())
    .option("--database <url>", "use the service of this PostgreSQL database (default: VIDGEN_DATABASE_URL)");
}

function addList(accounts: CommandUnknownOpts, context: Context): void {
  subcommand(accounts, "list", ["vidgen accounts", "vidgen accounts list --json"], { isDefault: true })
    .summary("list the accounts")
    .description(
      "Lists the accounts: name, credits, number of keys, maximum numbers of unfinished generations and of starts per hour, and whether it is disabled.",
    )
    .action(async (options) => {
      const found = await (await open(options, context)).list();
      const headers = ["ACCOUNT", "CREDITS", "KEYS", "MAX RUNNING", "MAX PER HOUR", "STATE"];
      await context.output.result(await formatRows(headers, found.map(listAccount), context.io), found);
    });
}

function addCreate(accounts: CommandUnknownOpts, context: Context): void {
  subcommand(accounts, "create", ["vidgen accounts create ci --credits 500 > ci-key.txt"])
    .summary("create an account and print its key")
    .description("Creates an account and prints its key, which is shown only once. An existing account is not changed.")
    .argument("<account>", "its name")
    .option("--credits <number>", "its credits (default: 1000)")
    .option("--new", "if there is no service on this machine, make one, as `vidgen serve` would")
    .action(async (name, options) => {
      const { credits: typed } = options;
      const most = Number.MAX_SAFE_INTEGER;
      const credits = typed === undefined ? undefined : readNumber(typed, "--credits", { max: most });
      await printKey(await (await open(options, context)).create(name, credits), context);
    });
}

function addCredits(accounts: CommandUnknownOpts, context: Context): void {
  subcommand(accounts, "credits", ["vidgen accounts credits ci 500", "vidgen accounts credits ci -100"])
    .summary("add credits to an account")
    .description(
      "Adds credits to an account, or takes some away, and prints its balance. If the request has to be sent again, the credits are still added only once.",
    )
    .argument("<account>", "its name")
    .argument("<amount>", "credits to add; a negative number takes credits away")
    .option("--idempotency-key <text>", "identifies this change: a second command with the same key changes nothing")
    .action(async (name, typed, options) => {
      const amount = Number(typed);
      if (!/^[+-]?\d+$/.test(typed) || amount === 0 || !Number.isSafeInteger(amount))
        throw usage(`The amount must be a whole number such as 500 or -100, not "${typed}".`);
      const key = options.idempotencyKey ?? randomUUID();
      if (!/^[\x21-\x7e]{1,255}$/.test(key))
        throw usage("--idempotency-key must have 1 to 255 characters of ASCII, without spaces.");
      const changed = await (await open(options, context)).addCredits(name, amount, key);
      await context.output.result(String(changed.credits), changed);
      if (changed.replayed)
        context.output.note("This change was already made by an earlier command; nothing was changed now.");
    });
}

function addLimit(accounts: CommandUnknownOpts, context: Context): void {
  subcommand(accounts, "limit", ["vidgen accounts limit ci --max-running 4 --max-per-hour none"])
    .summary("limit what an account may start")
    .description(
      "Limits the generations of an account. A start above a limit is refused with HTTP 429, and nothing is charged.",
    )
    .argument("<account>", "its name")
    .option("--max-running <number>", "maximum number of unfinished generations; none for no limit")
    .option("--max-per-hour <number>", "maximum number of starts per hour; none for no limit")
    .action(async (name, options) => {
      const limits: AccountLimits = {};
      if (options.maxRunning !== undefined) limits.max_running = readLimit(options.maxRunning, "--max-running");
      if (options.maxPerHour !== undefined) limits.max_per_hour = readLimit(options.maxPerHour, "--max-per-hour");
      if (Object.keys(limits).length === 0) throw usage("Pass --max-running, --max-per-hour or both.");
      const changed = await (await open(options, context)).setLimits(name, limits);
      await context.output.result("", changed);
      const { max_running, max_per_hour } = changed;
      context.output.note(
        `Limits of ${name}: ${countUpTo(max_running)} unfinished generations, ${countUpTo(max_per_hour)} starts per hour.`,
      );
    });
}

function addRotate(accounts: CommandUnknownOpts, context: Context): void {
  subcommand(accounts, "rotate", [
    "vidgen accounts rotate ci > ci-key.txt",
    "vidgen accounts rotate ci --yes > ci-key.txt",
  ])
    .summary("replace the keys of an account")
    .description(
      "Replaces all keys of an account with a new one, and prints it. Credits and generations are unchanged. Asks first; a script needs --yes.",
    )
    .argument("<account>", "its name")
    .option("-y, --yes", "do not ask")
    .action(async (name, options) => {
      const question = `Replace all keys of ${name}? Whatever uses them now is refused until it has the new one.`;
      if (!options.yes) await confirm(question, ["Replacing keys", "changed"], context);
      const created = await (await open(options, context)).rotate(name);
      await printKey(created, context);
      context.output.note(
        `${countKeys(created.revoked)} revoked. Other processes of the service refuse revoked keys within 5 s.`,
      );
    });
}

function addKey(accounts: CommandUnknownOpts, context: Context): void {
  subcommand(accounts, "key", ["vidgen accounts key ci --name laptop > laptop-key.txt"])
    .summary("make another key for an account")
    .description(
      "Makes another key for an account, and prints it. Its other keys stay; `revoke --key` ends one by its name.",
    )
    .argument("<account>", "its name")
    .requiredOption("--name <name>", "name of the key, such as that of a machine")
    .action(async (account, { name, ...place }) => {
      await printKey(await (await open(place, context)).addKey(account, name), context);
    });
}

function addLink(accounts: CommandUnknownOpts, context: Context): void {
  subcommand(accounts, "link", ["vidgen accounts link ci", "vidgen accounts link ci --for 3d"])
    .summary("print a link to the page for an account")
    .description(
      "Prints a link that signs an account in to the page, once. Its keys and sessions stay. The link ends with the account's newest key.",
    )
    .argument("<account>", "its name")
    .option("--for <time>", "how long it can be used, from 1m to 30d", "10m")
    .action(async (name, options) => {
      const seconds = Math.round(readTime(options.for, "--for") / 1_000);
      if (seconds < 60 || seconds > 30 * 86_400) throw usage(`--for must be from 1m to 30d, not "${options.for}".`);
      const linked = await (await open(options, context)).link(name, seconds);
      await context.output.result(linked.page_url, linked);
      context.output.note(`The link signs in once, within ${options.for}. Anyone with the link can use it.`);
    });
}

function addKeys(accounts: CommandUnknownOpts, context: Context): void {
  subcommand(accounts, "keys", ["vidgen accounts keys ci"])
    .summary("list the keys of an account with their last use")
    .description(
      "Lists the keys of an account: the first 8 characters of the key's hash, when it was created, its last use, which is recorded at most once a minute, and its name.",
    )
    .argument("<account>", "its name")
    .action(async (name, options) => {
      const keys = await (await open(options, context)).keys(name);
      const rows = keys.map(({ key, name, created_at, used_at }) => [key, created_at, used_at ?? "-", name ?? "-"]);
      await context.output.result(await formatRows(["KEY", "CREATED", "LAST USE", "NAME"], rows, context.io), keys);
    });
}

function addRevoke(accounts: CommandUnknownOpts, context: Context): void {
  subcommand(accounts, "revoke", ["vidgen accounts revoke ci", "vidgen accounts revoke - < key.txt"])
    .summary("revoke keys")
    .description(
      "Revokes all keys of an account, one of them with --key, or one key that is read from stdin, and prints how many were revoked. Credits and generations are unchanged.",
    )
    .argument("<account>", 'its name; "-" reads one key from stdin')
    .option("--key <hash>", "revoke only this key: its name or its 8 characters, from `vidgen accounts keys`")
    .action(async (typed, options) => {
      const { output } = context;
      const { key } = options;
      if ([typed, key].some((text = "") => /^vgs_[0-9a-f]{48}$/.test(text)))
        throw usage("A key on the command line is visible to other users.", "vidgen accounts revoke - < key.txt");
      if (typed === "-" && key !== undefined) throw usage("--key needs the name of an account, not a key on stdin.");
      const which = typed === "-" ? await readKey(context) : typed;
      const { revoked } = await (await open(options, context)).revoke(which, key);
      if (revoked === 0)
        throw new VidgenError("rejected", noKeyMessage(typed, key), {
          hint: "`vidgen accounts` lists the accounts and how many keys each has.",
        });
      await output.result(String(revoked), { revoked });
      output.note(`${countKeys(revoked)} revoked. Other processes of the service refuse revoked keys within 5 s.`);
    });
}

function addDisable(accounts: CommandUnknownOpts, context: Context): void {
  subcommand(accounts, "disable", ["vidgen accounts disable ci"])
    .summary("disable an account until it is enabled")
    .description(
      "Disables an account until it is enabled: its keys, links and page sessions are refused, and it starts nothing. Its running and waiting generations continue, and their callbacks are sent.",
    )
    .argument("<account>", "its name")
    .action(async (name, options) => {
      const disabled = await (await open(options, context)).disable(name);
      await context.output.result(disabled.account, disabled);
      context.output.note(
        `Disabled. Other processes of the service refuse its keys within 5 s. To enable it: vidgen accounts enable ${name}`,
      );
    });
}

function addEnable(accounts: CommandUnknownOpts, context: Context): void {
  subcommand(accounts, "enable", ["vidgen accounts enable ci"])
    .summary("enable an account that was disabled")
    .description("Enables an account that was disabled: its keys and page sessions work again.")
    .argument("<account>", "its name")
    .action(async (name, options) => {
      const enabled = await (await open(options, context)).enable(name);
      await context.output.result(enabled.account, enabled);
      context.output.note("Enabled. Its keys work again.");
    });
}

function addDelete(accounts: CommandUnknownOpts, context: Context): void {
  subcommand(accounts, "delete", ["vidgen accounts delete ci", "vidgen accounts delete ci --yes"])
    .summary("delete an account")
    .description(
      "Deletes an account. Its keys and page sessions end at once, and its waiting generations end without being submitted. Running ones are completed, its videos and its ledger stay, and its name cannot be used again. Asks first; a script needs --yes.",
    )
    .argument("<account>", "its name")
    .option("-y, --yes", "do not ask")
    .action(async (name, options) => {
      const { output } = context;
      const question = `Delete the account ${name}, its keys and its waiting generations? Its name cannot be used again.`;
      if (!options.yes) await confirm(question, ["Deleting an account", "deleted"], context);
      const deleted = await (await open(options, context)).delete(name);
      await output.result(deleted.account, deleted);
      output.note(
        `Deleted. ${countKeys(deleted.revoked)} revoked. Generations that waited and were not submitted: ${formatNumber(deleted.not_submitted)}.`,
      );
    });
}

/** Asks about a change. Throws `usage` if nobody can be asked, and `interrupted` if the answer is not yes. */
async function confirm(question: string, [what, done]: [string, string], context: Context): Promise<void> {
  const { io } = context;
  const { askWhether, canAsk } = await import("../terminal/prompts.ts");
  const nothing = `Nothing was ${done}.`;
  if (!canAsk(context, io))
    throw usage(`${what} needs --yes where vidgen cannot ask. ${nothing}`, "Add --yes to the same line.");
  if (!(await askWhether(question, false, io))) throw new VidgenError("interrupted", nothing);
}

function noKeyMessage(typed: string, key: string | undefined): string {
  if (typed === "-") return "No account has this key.";
  return key === undefined ? `No account ${typed} has a key.` : `No account ${typed} has the key ${key}.`;
}

async function readKey({ io, output }: Context): Promise<string> {
  const { readStdinKey } = await import("../terminal/prompts.ts");
  const { checkApiKey } = await import("../../client/http/redaction.ts");
  const key = checkApiKey(await readStdinKey({ io, output }), "The key on stdin");
  output.hide(key);
  return key;
}

async function printKey(key: NewKey, { output }: Context): Promise<void> {
  await output.result(key.api_key, key);
  output.note(`The account ${key.account} has ${countCredits(key.credits)}. This key is shown only once.`);
  output.note(`Its callbacks are signed with ${key.webhook_secret}`);
  const { base_url, media_url = "", page_url } = key;
  if (base_url === undefined) return output.note("To use it, start the service: vidgen serve");
  if (isLoopback(new URL(base_url).hostname) && media_url !== "")
    output.note(`On another machine, first run: ${sshCommand(base_url, media_url, "<this machine>")}`);
  output.note(`Its user logs in with: ${loginCommand(base_url)}`);
  if (page_url !== undefined)
    output.note(`The page opens for its user with this link, which signs in once, within 10 minutes: ${page_url}`);
}

function readLimit(text: string, flag: string): number | null {
  return text === "none" ? null : readNumber(text, flag, { min: 1, max: 1_000_000 });
}

function countUpTo(limit: number | null): string {
  return limit === null ? "any number of" : formatNumber(limit);
}

function countKeys(count: number): string {
  return count === 1 ? "One key was" : `${count} keys were`;
}

function listAccount({ account, credits, keys, max_running, max_per_hour, disabled_at }: ListedAccount): Cell[] {
  const state = disabled_at === null ? "enabled" : "disabled";
  return [account, credits, keys, max_running ?? "-", max_per_hour ?? "-", state];
}
