import { isIP } from "node:net";
import { type CommandUnknownOpts, Option } from "@commander-js/extra-typings";
import { isLoopback } from "../../client/credentials.ts";
import { systemCode, systemReason, usage, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import type { RequestEvent } from "../../server/api/log.ts";
import type { DeliveryEvent } from "../../server/callbacks/delivery.ts";
import type { Engine } from "../../server/engines/engine.ts";
import type { HeldService, RunningService } from "../../server/serve.ts";
import { type Context, collectValues, readNumber, withDetails } from "../command.ts";
import { describeEngine, type EngineCheck, readCreditsPer, readEngineSettings } from "../engines.ts";
import { directives } from "../help/topics.ts";
import { findServiceFolder } from "../local.ts";
import { redactBody } from "../terminal/trace.ts";

export function addServe(program: CommandUnknownOpts, context: Context): void {
  declare(program).action((options) => serve(options, context));
}

function declare(program: CommandUnknownOpts) {
  const pace = new Option("--pace <pace>", "how long a generation takes");
  const rows = directives.map(([text, effect]) => `  ${text.padEnd(14)}${effect}`);
  const command = program
    .command("serve")
    .summary("run the local service")
    .description(
      "Runs the local service: the whole API with a preview engine, to try things out and for tests; with --engine in front of servers of real models. Prints a line for each request; with --verbose the bodies too.",
    )
    .option("--host <name>", "address to listen on", "127.0.0.1")
    .option("--port <number>", "port of the API; 0 for any free port", "8787")
    .option("--media-port <number>", "port of the videos; 0 for any free port", "8788")
    .option("--allow-remote", "allow connections from other machines")
    .option("--name <host>", "host name by which other machines reach it, without a port")
    .option("--credits <number>", "set the account's credits (default: at least 1000)")
    .option("--key-for <account>", "create another account, print its API key, and exit")
    .addOption(pace.choices(["fast", "realistic"] as const).default("fast" as const))
    .option("--webhook-log", "print each callback as it is sent")
    .option("--page", "serve the page in a browser (default: only for this machine)")
    .option("--no-page", "serve no page")
    .option(
      "--engine <[model=]url[#upstream-model]>",
      "a server of real models, or `preview`, for one model or for all others; may be repeated",
      collectValues,
    )
    .option(
      "--engine-kind <[model=]kind>",
      "vllm-omni, sglang, tensorrt-llm or litellm, if the server is not recognized; may be repeated",
      collectValues,
    )
    .option("--engine-timeout <time>", "how long a server may give no answer, or make no progress", "30m")
    .option("--jobs <number>", "videos that each engine makes at once (default: 16; preview: one per processor)")
    .option(
      "--credits-per <model=number>",
      "what a video of a model costs (default: 10); may be repeated",
      collectValues,
    )
    .option("--directives", "obey the words below with real models too");
  return withDetails(command, {
    prints: "its URL",
    examples: [
      "vidgen serve",
      "vidgen serve --engine wan-2.5=http://gpu-1:8091 --engine preview",
      "vidgen serve --port 0 --media-port 0 --json",
      "vidgen serve --key-for ci",
    ],
    after: `These words in a prompt simulate failures, of previews alone unless --directives:\n${rows.join("\n")}`,
  });
}

type Options = ReturnType<ReturnType<typeof declare>["opts"]>;

/** How long open requests may take once the service is told to stop. */
const graceMs = 3_000;

/** Runs the local service until Ctrl-C or SIGTERM. Prints its address once it listens; with `--key-for` a key, and ends. */
async function serve(options: Options, context: Context): Promise<void> {
  if (options.keyFor !== undefined) return printKey(options.keyFor, options, context);
  const engines = await openEngines(options, context);
  const service = await open(options, engines, context);
  try {
    const checks = await startChecks(engines, context.io);
    await printAddress(service, checks, options, context);
    await Promise.all([printChecks(checks, engines, context), waitForStop(service, context.io)]);
  } finally {
    await service.close(graceMs);
  }
}

async function openEngines(options: Options, { io, output }: Context): Promise<Engine[]> {
  const { createEngines } = await import("../../server/engines/engines.ts");
  const settings = readEngineSettings(options, io);
  if (settings.key !== undefined) output.hide(settings.key);
  return createEngines({ ...settings, onNote: output.note }, io);
}

/** Asks each engine whether it can be used. The service runs meanwhile. */
async function startChecks(engines: Engine[], io: Io): Promise<Promise<EngineCheck>[]> {
  const { checkEngine } = await import("../../server/engines/check.ts");
  return engines.map((engine) => checkEngine(engine, io, io.signal));
}

async function open(options: Options, engines: Engine[], { io, output }: Context): Promise<RunningService> {
  const { deliveryLine, isGivenUp } = await import("../../server/callbacks/delivery.ts");
  const { requestLine } = await import("../../server/api/log.ts");
  const { openService } = await import("../../server/serve.ts");
  const { folder, note } = await findServiceFolder(io);
  if (note !== undefined) output.note(note);
  const onDelivery = (event: DeliveryEvent) => {
    if (options.webhookLog || isGivenUp(event)) output.note(deliveryLine(event));
  };
  const onRequest = (event: RequestEvent) => {
    const print = output.verbose ? output.trace : output.note;
    print(requestLine(event));
    for (const [mark, body] of [[">", event.requestBody] as const, ["<", event.replyBody] as const])
      if (body !== undefined) output.trace(`${mark} ${redactBody(body)}`);
  };
  const at = readAddress(options);
  const settings = {
    folder,
    engines,
    creditsPer: readCreditsPer(options.creditsPer ?? [], engines),
    hasDirectives: options.directives ?? false,
    pace: options.pace,
    credits: readCredits(options),
    onDelivery,
    onNote: output.note,
    onRequest,
    withReplies: output.verbose,
  };
  const hasPage = options.page ?? at.isLoopback;
  const opened = await openService({ ...settings, ...at, hasPage, resume: "all" }, io).catch((error) => {
    throw openingError(error, folder, at.host);
  });
  if (opened.kind === "held") throw heldError(opened);
  return opened;
}

function readAddress({ host, name, allowRemote, ...flags }: Options) {
  if (host === "") throw usage("--host is empty.");
  const isOwn = isLoopback(inUrl(host));
  if (!isOwn && !allowRemote)
    throw usage(
      `On ${host}, other machines on the network could reach the service.`,
      "Add --allow-remote to allow that: anyone with a key can use it, and anyone with a link can see the videos.",
    );
  if (name !== undefined && !/^[\w.-]+$/.test(name) && !isIP(name))
    throw usage(`--name must be a host name without a port, not "${name}".`);
  if (name === undefined && isEveryAddress(host))
    throw usage(
      `Other machines cannot connect to ${host}.`,
      "Set --name to the host name by which they reach this machine.",
    );
  const ports = {
    api: readNumber(flags.port, "--port", { most: 65_535 }),
    media: readNumber(flags.mediaPort, "--media-port", { most: 65_535 }),
  };
  // With a name, as of a tunnel, others reach even a service on loopback: it must not call this machine for them.
  return { host, name, ports, isLoopback: isOwn && (name === undefined || isLoopback(inUrl(name))) };
}

function inUrl(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

/** Whether listening there covers all addresses of this machine, however it is written, such as "0". */
function isEveryAddress(host: string): boolean {
  const url = `http://${inUrl(host)}`;
  return URL.canParse(url) && ["0.0.0.0", "[::]"].includes(new URL(url).hostname);
}

function readCredits({ credits }: Options): number | undefined {
  return credits === undefined ? undefined : readNumber(credits, "--credits", { most: Number.MAX_SAFE_INTEGER });
}

/** The error when the service cannot listen, or cannot use its folder. */
function openingError(error: unknown, folder: string, host: string): VidgenError {
  if (error instanceof VidgenError) return error;
  const code = systemCode(error);
  const port = error instanceof Error && "port" in error ? error.port : undefined;
  if (code === "EADDRINUSE")
    return usage(
      `${host}:${port} is in use.`,
      "Choose another port with --port and --media-port, or 0 for any free port.",
    );
  if (error instanceof Error && "syscall" in error && /listen|getaddrinfo/.test(String(error.syscall)))
    return usage(`Cannot listen on ${host}: ${code}.`);
  return new VidgenError("output", `Cannot use ${folder}: ${systemReason(error)}.`, {
    hint: "Set VIDGEN_HOME to use another folder.",
    cause: error,
  });
}

function heldError({ pid, announcement }: HeldService): VidgenError {
  const where = announcement?.base_url === undefined ? "" : `, at ${announcement.base_url}`;
  return usage(
    `The local service is already running: process ${pid}${where}.`,
    "--local uses it. To run a second one, set VIDGEN_HOME to another folder.",
  );
}

async function printKey(account: string, options: Options, { io, output }: Context): Promise<void> {
  const { findNameFault, makeKey } = await import("../../server/api/accounts.ts");
  const fault = findNameFault(account);
  if (fault !== undefined) throw usage(`--key-for: ${fault}.`);
  const { folder } = await findServiceFolder(io);
  const made = await makeKey(folder, { name: account, credits: readCredits(options) }, io).catch((error) => {
    throw openingError(error, folder, options.host);
  });
  await output.result(made.api_key, made);
  output.note(`The account ${account} has ${made.credits} credits. This key is shown only once.`);
}

/** With `--json` the one document waits for the checks. */
async function printAddress(
  service: RunningService,
  checks: Promise<EngineCheck>[],
  { host, allowRemote }: Options,
  { io, output }: Context,
): Promise<void> {
  const { base_url, media_url, api_key, webhook_secret } = service.address;
  const page_url = service.pageUrl ?? null;
  const engines = output.json ? await Promise.all(checks) : [];
  await output.result(base_url, { base_url, media_url, api_key, webhook_secret, page_url, engines });
  if (!output.json && !output.quiet)
    io.stderr.write(`export VIDGEN_BASE_URL=${base_url}\nexport VIDGEN_API_KEY=${api_key}\n`);
  if (page_url !== null) output.note(`See it in a browser: ${page_url}`);
  output.note(`Callbacks are signed with ${webhook_secret}`);
  if (allowRemote && !isLoopback(host))
    output.note(
      "Other machines on the network can reach this service, without encryption: anyone with a key can use it, and anyone with a link can see the videos.",
    );
  if (allowRemote && page_url !== null)
    output.note(
      "The page's link goes over the network unencrypted, too: anyone with it sees the generations of all accounts.",
    );
  output.note("Press Ctrl-C to stop.");
}

/** Prints a line for each engine as soon as it is checked; none for the preview alone, which always works. */
async function printChecks(checks: Promise<EngineCheck>[], engines: Engine[], { io, output }: Context): Promise<void> {
  if (engines.every(({ isSimulation }) => isSimulation)) return;
  const print = (check: EngineCheck) => {
    const line = describeEngine(check, engines);
    if (!io.signal.aborted) output.note(check.error === null ? line : `${line}; generations wait for it.`);
  };
  await Promise.all(checks.map((check) => check.then(print)));
}

/** Rejects when another process has taken over the folder: it may when this process was suspended for over a minute. */
function waitForStop({ lost }: RunningService, io: Io): Promise<void> {
  const message = "Another process has taken over the local service's folder, so this one has stopped.";
  const hint = "No data is lost: the other process continues with all accepted generations, and --local uses it.";
  const lostError = new VidgenError("output", message, { hint });
  return new Promise((resolve, reject) => {
    if (io.signal.aborted) return resolve();
    io.signal.addEventListener("abort", () => resolve(), { once: true });
    lost.addEventListener("abort", () => reject(lostError), { once: true });
  });
}
