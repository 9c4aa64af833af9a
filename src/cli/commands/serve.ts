import { join } from "node:path";
import { type CommandUnknownOpts, Option } from "@commander-js/extra-typings";
import { checkAddressSpace } from "../../address-space.ts";
import { formatBytes } from "../../client/request/bytes.ts";
import { readCreditsPer } from "../../connect/engines.ts";
import { findLocal, findServiceFolder, folderError } from "../../connect/local.ts";
import { redactBody } from "../../connect/trace.ts";
import { readNumber, readTime } from "../../connect/values.ts";
import { systemCode, usage, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import type { DeliveryEvent } from "../../server/callbacks/delivery.ts";
import type { ServeConfig } from "../../server/config.ts";
import type { Engine } from "../../server/engines/engine.ts";
import type { RequestEvent } from "../../server/observe/log.ts";
import type { RunningService, ServiceFolderOptions, SharedService } from "../../server/serve.ts";
import { collectValues, engineTimeoutOption, withDetails } from "../command.ts";
import type { Context } from "../context.ts";
import { readAddresses, readUrl } from "../serve/addresses.ts";
import { databaseError, findDatabase } from "../serve/database.ts";
import { openEngines, startChecks } from "../serve/engines.ts";
import { launchOnThisMachine, launchShared } from "../serve/launch.ts";
import { type AddressOptions, noteLimits, printAddress, printChecks } from "../serve/report.ts";
import { jsonText, programName } from "../terminal/output.ts";

export function addServe(program: CommandUnknownOpts, context: Context): void {
  declare(program).action((options, command) => {
    const isTyped = (name: string) => command.getOptionValueSource(name as keyof typeof options) === "cli";
    return serve(options, isTyped, context);
  });
}

function declare(program: CommandUnknownOpts) {
  const pace = new Option("--pace <pace>", "how long a generation takes");
  const allowed: AllowedNetwork[] = [];
  const allowNetwork = (network: string) => {
    allowed.push({ network, accounts: [] });
    return allowed;
  };
  const allowFor = (account: string) => {
    const last = allowed.at(-1);
    if (!last) throw usage("--for must come after the --allow-network that it concerns.");
    last.accounts.push(account);
    return allowed;
  };
  const log = new Option("--log <format>", "log format: text for people, or one JSON document per line, without keys");
  const command = program
    .command("serve")
    .helpGroup("Run a service:")
    .summary("run the local service")
    .description(
      "Runs the local service: the whole API with a preview engine, for trying things out and for tests. With --engine it generates real videos with a provider or your own server. Prints a line for each request, and with --verbose also the bodies.",
    )
    .optionsGroup("Engines:")
    .option(
      "--config <file>",
      "read the engines, each with its own number of jobs, and other settings from a JSON file; see `vidgen help serve-config`",
    )
    .option(
      "--engine <[model=]kind[:url][#upstream-model]>",
      "engine that generates the videos of a model, or of all other models: a URL, vllm-omni:<url>, preview, ...; may be repeated",
      collectValues,
    )
    .addOption(engineTimeoutOption())
    .option(
      "--jobs <number>",
      "number of videos that each engine generates at once (default: 16; preview: one per processor); with --database, 0 runs only the API",
    )
    .option(
      "--keep-upstream",
      "keep each video on the engine's server after saving it here, instead of deleting it there",
    )
    .addOption(pace.choices(["fast", "realistic"] as const).default("fast" as const))
    .option("--directives", "apply test directives to real engines too")
    .option("--passthrough", "let other accounts than your own send fields that vidgen does not know to real engines")
    .optionsGroup("Addresses:")
    .option("--host <name>", "address to listen on", "127.0.0.1")
    .option("--port <number>", "port of the API; 0 for any free port", "8787")
    .option("--media-port <number>", "port of the videos; 0 for any free port", "8788")
    .option(
      "--metrics-port <[host:]number>",
      "port on which Prometheus reads /metrics without a key; only from this machine unless a host is given",
    )
    .option("--allow-remote", "allow connections from other machines")
    .option(
      "--allow-network <network>",
      "let your own account send callbacks to, and load images from, a private network, such as 10.0.0.0/8; may be repeated",
      allowNetwork,
    )
    .option("--for <account>", "after --allow-network: allow that network for this account, not for your own", allowFor)
    .option("--name <host>", "host name by which other machines reach it, without a port")
    .option("--public-url <url>", "URL by which other machines reach the API, such as that of an HTTPS proxy")
    .option("--public-media-url <url>", "URL by which other machines reach the videos; may have a path")
    .option(
      "--trust-proxy <network>",
      "network of a proxy whose X-Forwarded-For names the client, for the log, such as 10.0.0.5/32; may be repeated",
      collectValues,
    )
    .option(
      "--cors <origin>",
      "let pages of another site, such as https://studio.example, use the API and the videos with a key; may be repeated",
      collectValues,
    )
    .option("--grace <time>", "when it is stopped, how long unfinished replies may still take", "3s")
    .optionsGroup("Storage:")
    .option(
      "--database <url>",
      "use a PostgreSQL database instead of the embedded one, for one or more processes (default: VIDGEN_DATABASE_URL, which keeps a password out of process lists)",
    )
    .option(
      "--media <location>",
      "with --database, where to store the videos: a folder, or s3://bucket/prefix (default: a folder on this machine)",
    )
    .option("--media-redirect", "with --media s3://..., redirect requests for a video to a presigned URL of the store")
    .option("--keep <time>", "remove each video this long after it was generated, such as 30d (default: never)")
    .option(
      "--keep-records <time>",
      "remove the record of each generation, with its Idempotency-Key, this long after its end, such as 1y (default: never)",
    )
    .option("--backup <file>", "copy the embedded database to a new file and exit; the service may be running")
    .option(
      "--restored",
      "start on a database that was restored from a copy; generations that may have been submitted since the copy are not submitted again",
    )
    .optionsGroup("Keys and credits:")
    .option("--owner-key", "with --database, create another API key of the owner, print it, and exit")
    .option("--rotate", "replace the local account's API key; the old key no longer works")
    .option(
      "--credits <number>",
      "set the local account's credits, and let its previews cost credits too (default: at least 1000 credits, and free previews); with --database, only when the account is created",
    )
    .option(
      "--credits-per <model=number>",
      "credits that a video of a model costs (default: 10); may be repeated",
      collectValues,
    )
    .option("--no-refunds", "do not return credits when a generation fails because of the service")
    .optionsGroup("Page and log:")
    .option("--page", "serve the page in a browser (default: only for this machine)")
    .option("--no-page", "serve no page")
    .option("--link", "print a new link to the page of the running service, and exit")
    .addOption(log.choices(["text", "json"] as const).default("text" as const))
    .option("--webhook-log", "print each callback that is sent");
  return withDetails(command, {
    examples: [
      "vidgen serve",
      "vidgen serve --engine wan-2.5=http://gpu-1:8091 --engine preview",
      "vidgen serve --port 0 --media-port 0 --json",
      "vidgen serve --link",
    ],
    after: "Words in a prompt, such as [fail], simulate failures for tests: vidgen help directives",
  });
}

type ServeFlags = ReturnType<ReturnType<typeof declare>["opts"]>;

/** The flags, those that the `--config` file sets, and the address of the database from the flag or the environment. */
type ServeOptions = Omit<ServeFlags, "database" | "config"> & {
  database: string | undefined;
  config: ServeConfig | undefined;
  isTyped(flag: string): boolean;
};

/**
 * Runs the local service until Ctrl-C or SIGTERM, and prints its address once it listens; or does what
 * --owner-key, --backup or --link says, and ends.
 */
async function serve(flags: ServeFlags, isTyped: (flag: string) => boolean, context: Context): Promise<void> {
  const database = findDatabase(flags.database, context.io, context.output);
  const config = await readConfigFile(flags);
  const typed = Object.entries(flags).filter(([name]) => isTyped(name));
  const options: ServeOptions = {
    ...flags,
    ...config?.options,
    ...Object.fromEntries(typed),
    config,
    database,
    isTyped,
  };
  await runService(options, context).catch((error) => {
    if (config && error instanceof Error) error.message = config.explain(error.message);
    throw error;
  });
}

/**
 * Reads the `--config` file; other flags override it. Engines are either in the file or in flags: which of
 * both to use would be a guess.
 */
async function readConfigFile({ config, engine }: ServeFlags): Promise<ServeConfig | undefined> {
  if (config === undefined) return undefined;
  if (engine !== undefined)
    throw usage("--engine and --config cannot be combined.", `Add the engine to "engines" in ${config}.`);
  return (await import("../../server/config.ts")).readConfig(config);
}

async function runService(options: ServeOptions, given: Context): Promise<void> {
  const { io } = given;
  const { database } = options;
  // For the classes of requests and replies, and for SQLite.
  checkAddressSpace(database === undefined ? 2 : 1);
  if (options.ownerKey) return printOwnerKey(options, given);
  if (options.backup !== undefined) return backup(options.backup, options, given);
  if (options.link) return printLink(options, given);
  if (database === undefined && options.media !== undefined)
    throw usage("--media needs --database: without it, videos are stored beside the embedded database.");
  if (database !== undefined && options.restored)
    throw usage(
      "--restored works only with the embedded database: vidgen does not detect a restored PostgreSQL database.",
    );
  if (options.mediaRedirect && !options.media?.startsWith("s3://"))
    throw usage("--media-redirect needs --media s3://bucket/prefix: a folder has no URL to redirect to.");
  const graceMs = readTime(options.grace, "--grace");
  const log = await createLog(options, given);
  const context = { ...given, output: { ...given.output, note: log.onNote } };
  const { engines, attach, ...reloading } = await openEngines(options, context);
  const service = await openService(options, { engines, ...reloading, ...log }, context);
  try {
    attach(service);
    // A process without jobs may be unable to reach the engines.
    const used = engines.filter(({ concurrency }) => concurrency > 0);
    const checks = await startChecks(used, io);
    if (database !== undefined) noteLimits({ media: options.media, engines: used }, context);
    await printAddress(service, checks, { ...options, ...log, isShared: database !== undefined }, context);
    await Promise.all([printChecks(checks, used, context), waitForStop(service, io)]);
  } finally {
    await service.close(graceMs);
  }
}

type OpenedService = RunningService | SharedService;

type Log = Pick<ServiceFolderOptions, "onRequest" | "onDelivery" | "onEnd" | "onNote"> &
  Pick<AddressOptions, "logEvent">;

/** Creates the log of a service: lines of text for people, or JSON documents with `--log json`. */
async function createLog(options: ServeOptions, { io, output }: Context): Promise<Log> {
  const { deliveryLine, isReported } = await import("../../server/callbacks/delivery.ts");
  const { requestLine } = await import("../../server/observe/log.ts");
  if (options.log === "json") {
    const { createJsonLog } = await import("../../server/json-log.ts");
    const write = (document: object) =>
      void (output.quiet || io.stderr.write(`${jsonText(document, output.redact)}\n`));
    return createJsonLog(write, { date: io.date, ...(output.verbose && { showBody: redactBody }) });
  }
  const onDelivery = (event: DeliveryEvent) => {
    if (options.webhookLog || isReported(event)) output.note(deliveryLine(event));
  };
  const onRequest = (event: RequestEvent) => {
    if (!output.verbose) return output.note(requestLine(event));
    output.trace(requestLine(event));
    for (const [direction, body] of [[">", event.requestBody] as const, ["<", event.replyBody] as const])
      if (body !== undefined) output.trace(`${direction} ${redactBody(body)}`);
  };
  return { onDelivery, onRequest, onNote: output.note };
}

async function openService(
  options: ServeOptions,
  given: Pick<ServiceFolderOptions, "reload" | "reopen"> & Log & { engines: Engine[] },
  context: Context,
): Promise<OpenedService> {
  const { output } = context;
  const addresses = readAddresses(options);
  const settings = {
    ...addresses,
    isAllowed: await readNetworks(options.allowNetwork ?? []),
    isTrusted: await readMatcher(options.trustProxy ?? [], "--trust-proxy"),
    ...given,
    creditsPer: readCreditsPer(options.creditsPer ?? [], given.engines),
    hasDirectives: options.directives ?? false,
    hasPassthrough: options.passthrough ?? false,
    hasRefunds: options.refunds,
    hasRedirects: options.mediaRedirect ?? false,
    pace: options.pace,
    program: programName(context.io.env),
    rotate: options.rotate ?? false,
    isRestored: options.restored ?? false,
    credits: readCredits(options),
    keep: readKeep(options),
    hasPage: options.page ?? addresses.isLoopback,
    hasMetrics: true,
    withReplies: output.verbose,
  };
  const { database } = options;
  return database === undefined
    ? launchOnThisMachine(settings, context)
    : launchShared({ ...settings, database, media: options.media }, context);
}

/** A private network, and the accounts for which it is allowed; without accounts, the owner's. */
type AllowedNetwork = { network: string; accounts: string[] };

async function readNetworks(allowed: AllowedNetwork[]): Promise<(ip: string, account: string | undefined) => boolean> {
  const { localAccount } = await import("../../server/announcement.ts");
  const rules = await Promise.all(
    allowed.map(async ({ network, accounts }) => ({
      accounts: accounts.length > 0 ? accounts : [localAccount],
      includes: await readMatcher([network], "--allow-network"),
    })),
  );
  return (ip, account = localAccount) =>
    rules.some(({ accounts, includes }) => accounts.includes(account) && includes(ip));
}

async function readMatcher(networks: readonly string[], flag: string): Promise<(ip: string) => boolean> {
  const { createNetworkMatcher } = await import("../../protocol/addresses.ts");
  try {
    return createNetworkMatcher(networks);
  } catch (error) {
    throw usage(`${flag}: ${error instanceof Error ? error.message : error}.`);
  }
}

function readCredits({ credits }: Pick<ServeOptions, "credits">): number | undefined {
  return credits === undefined ? undefined : readNumber(credits, "--credits", { max: Number.MAX_SAFE_INTEGER });
}

function readKeep({ keep, keepRecords }: ServeOptions): ServiceFolderOptions["keep"] {
  const [videosMs, recordsMs] = [readKeepTime(keep, "--keep"), readKeepTime(keepRecords, "--keep-records")];
  if (videosMs !== undefined && recordsMs !== undefined && recordsMs < videosMs)
    throw usage("--keep-records must not be shorter than --keep: removing a record removes its video too.");
  return videosMs === undefined && recordsMs === undefined ? undefined : { videosMs, recordsMs };
}

function readKeepTime(text: string | undefined, flag: string): number | undefined {
  if (text === undefined) return undefined;
  const ms = readTime(text, flag);
  // A plain number means seconds, but was probably meant as days.
  if (ms < 3_600_000) throw usage(`${flag} must be at least 1h, such as 30d; "${text}" is less.`);
  return ms;
}

async function printOwnerKey({ database }: ServeOptions, { io, output }: Context): Promise<void> {
  if (database === undefined)
    throw usage(
      `--owner-key needs --database: without it, the owner's key is in ${join(findServiceFolder(io), "service.json")}.`,
      "`vidgen accounts create <account>` creates a key for another account; `vidgen serve --rotate` replaces the owner's.",
    );
  const { makeOwnerKey } = await import("../../server/api/accounts.ts");
  const api_key = await makeOwnerKey(database, io).catch((error) => {
    throw databaseError(error);
  });
  await output.result(api_key, { api_key });
  output.note("This key is shown only once. It manages all accounts.");
}

async function printLink({ database, publicUrl }: ServeOptions, { io, output }: Context): Promise<void> {
  const { makeLink, makeSharedLink } = await import("../../server/page/link.ts");
  const make = async () => {
    if (database === undefined) return makeLink(findServiceFolder(io), io);
    return makeSharedLink(database, readUrl(publicUrl, "--public-url"), io).catch((error) => {
      throw databaseError(error);
    });
  };
  const page_url = await make();
  await output.result(page_url, { page_url });
  output.note("The link signs in once, within 10 minutes. Anyone with the link can use it.");
}

async function backup(file: string, { database }: ServeOptions, { io, output }: Context): Promise<void> {
  if (database !== undefined)
    throw usage("--backup copies only the embedded database. Use pg_dump to copy a PostgreSQL database.");
  const { saveBackup } = await import("../../server/backup.ts");
  const folder = findServiceFolder(io);
  const running = await findLocal(io).catch((error) => {
    // A service that does not run can be copied even if its service.json is damaged.
    if (!(error instanceof VidgenError && error.code === "output")) throw error;
  });
  if (running?.kind === "not answering") throw running.error;
  const { size } = await saveBackup(folder, file, io).catch((error) => {
    if (systemCode(error) === "EEXIST")
      throw new VidgenError("output", `${file} already exists.`, { hint: "Choose another name: nothing was copied." });
    throw folderError(error, folder);
  });
  await output.result(file, { file, size });
  output.note(
    `Copied the database (${formatBytes(size)}). It does not contain videos and keys: also copy videos and service.json from ${folder}.`,
  );
}

/**
 * Resolves on Ctrl-C or SIGTERM. Rejects if another process took over the folder, as it may after this
 * process was suspended for a minute.
 */
function waitForStop({ lost }: OpenedService, io: Io): Promise<void> {
  const message = "Another process has taken over the local service's folder, so this process has stopped.";
  const hint = "No data is lost: the other process continues with all accepted generations, and --local uses it.";
  const lostError = new VidgenError("output", message, { hint });
  return new Promise((resolve, reject) => {
    if (io.signal.aborted) return resolve();
    io.signal.addEventListener("abort", () => resolve(), { once: true });
    lost.addEventListener("abort", () => reject(lostError), { once: true });
  });
}
