import { systemCode, systemReason, usage, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { findNameFault, makeKey } from "../../server/api/accounts.ts";
import { type DeliveryEvent, deliveryLine, isGivenUp } from "../../server/callbacks/delivery.ts";
import { createPreviewEngine } from "../../server/engines/preview/preview.ts";
import { type HeldService, openService, type RunningService } from "../../server/serve.ts";
import { findServiceFolder } from "../local.ts";
import { isLoopback } from "../settings.ts";
import type { Output } from "../terminal/output.ts";

export type ServeOptions = {
  host: string;
  port: string;
  mediaPort: string;
  allowRemote?: boolean;
  name?: string;
  credits?: string;
  keyFor?: string;
  pace: "fast" | "realistic";
  webhookLog?: boolean;
  output: Output;
};

/** How long replies under way may take once the service is told to stop. */
const graceMs = 3_000;

/** Runs the local service until Ctrl-C or SIGTERM. Prints its address once it listens; with `--key-for` a key, and ends. */
export async function serve(options: ServeOptions, io: Io): Promise<void> {
  if (options.keyFor !== undefined) return printKey(options.keyFor, options, io);
  const service = await open(options, io);
  try {
    await printAddress(service, options, io);
    await untilStopped(io);
  } finally {
    await service.close(graceMs);
  }
}

async function open(options: ServeOptions, io: Io): Promise<RunningService> {
  const { output } = options;
  const { folder, note } = await findServiceFolder(io);
  if (note !== undefined) output.note(note);
  const onDelivery = (event: DeliveryEvent) => {
    if (options.webhookLog || isGivenUp(event)) output.note(deliveryLine(event));
  };
  const at = readAddress(options);
  const engine = createPreviewEngine(io);
  const settings = {
    folder,
    engine,
    pace: options.pace,
    resume: "all" as const,
    credits: readCredits(options),
    onDelivery,
  };
  const opened = await openService({ ...settings, ...at }, io).catch((error) => {
    throw openingError(error, folder, at.host);
  });
  if (opened.kind === "held") throw heldError(opened);
  return opened;
}

function readAddress({ host, name, allowRemote, ...flags }: ServeOptions) {
  if (host === "") throw usage("--host is empty.");
  const isOwn = isLoopback(host.includes(":") ? `[${host}]` : host);
  if (!isOwn && !allowRemote)
    throw usage(
      `On ${host} others on the network could reach the service.`,
      "--allow-remote allows that: whoever has a key may use it, and whoever has a link sees the video.",
    );
  if (name !== undefined && !/^[\w.:-]+$/.test(name)) throw usage(`--name takes a host name, not "${name}".`);
  const ports = {
    api: readNumber(flags.port, "--port", 65_535),
    media: readNumber(flags.mediaPort, "--media-port", 65_535),
  };
  return { host, name, ports, isLoopback: isOwn };
}

function readCredits({ credits }: ServeOptions): number | undefined {
  return credits === undefined ? undefined : readNumber(credits, "--credits", Number.MAX_SAFE_INTEGER);
}

/** A failed system call, or a state that cannot be used, in words. */
function openingError(error: unknown, folder: string, host: string): VidgenError {
  const code = systemCode(error);
  const port = error instanceof Error && "port" in error ? error.port : undefined;
  if (code === "EADDRINUSE")
    return usage(
      `${host}:${port} is in use.`,
      "--port and --media-port take another number, or 0 for any that is free.",
    );
  if (error instanceof Error && "syscall" in error && /listen|getaddrinfo/.test(String(error.syscall)))
    return usage(`Cannot listen on ${host}: ${code}.`);
  return new VidgenError("output", `Cannot use ${folder}: ${systemReason(error)}.`, {
    hint: "VIDGEN_HOME names another folder.",
    cause: error,
  });
}

function heldError({ pid, announcement }: HeldService): VidgenError {
  const where = announcement?.base_url === undefined ? "" : `, at ${announcement.base_url}`;
  return usage(
    `The local service runs already: process ${pid}${where}.`,
    "--local uses that one. VIDGEN_HOME names another folder, for a second one.",
  );
}

async function printKey(account: string, options: ServeOptions, io: Io): Promise<void> {
  const fault = findNameFault(account);
  if (fault !== undefined) throw usage(`--key-for: ${fault}.`);
  const { folder } = await findServiceFolder(io);
  const made = await makeKey(folder, { name: account, credits: readCredits(options) }, io).catch((error) => {
    throw openingError(error, folder, options.host);
  });
  await options.output.result(made.api_key, made);
  options.output.note(`The account ${account} has ${made.credits} credits. This key is shown once, and kept nowhere.`);
}

async function printAddress(
  service: RunningService,
  { output, host, allowRemote }: ServeOptions,
  io: Io,
): Promise<void> {
  const { base_url, media_url, api_key, webhook_secret } = service.address;
  await output.result(base_url, { base_url, media_url, api_key, webhook_secret });
  if (!output.json && !output.quiet)
    io.stderr.write(`export VIDGEN_BASE_URL=${base_url}\nexport VIDGEN_API_KEY=${api_key}\n`);
  output.note(`Callbacks are signed with ${webhook_secret}`);
  if (allowRemote && !isLoopback(host))
    output.note(
      "Others on the network can reach this service, without encryption: whoever has a key may use it, and whoever has a link sees the video.",
    );
  output.note("Ctrl-C stops it.");
}

function untilStopped(io: Io): Promise<void> {
  return new Promise((resolve) => {
    if (io.signal.aborted) return resolve();
    io.signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

function readNumber(text: string, flag: string, most: number): number {
  const number = Number(text);
  if (/^\d+$/.test(text) && number <= most) return number;
  throw usage(`${flag} takes a whole number from 0 to ${most}, not "${text}".`);
}
