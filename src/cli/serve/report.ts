import { join } from "node:path";
import type { EngineCheck } from "../../connect/engines.ts";
import { findServiceFolder } from "../../connect/local.ts";
import type { Io } from "../../io.ts";
import { isLoopback, isPlainHttp, listRemoteWays } from "../../protocol/url.ts";
import { exportLine, type Shell, shellOf } from "../../shell.ts";
import type { Context } from "../context.ts";
import { checkLine } from "./engines.ts";

/** The fields of engines that are reported. */
type Engines = readonly { name: string; models: readonly string[]; isSimulation: boolean }[];

/** The fields of the service that are reported; `api_key` is `null` if an earlier process has shown it. */
type ReportedService = {
  address: { base_url: string; media_url: string; api_key: string | null; webhook_secret: string };
  pageUrl: string | undefined;
  metricsUrl: string | undefined;
};

export type AddressOptions = {
  host: string;
  allowRemote?: true | undefined;
  name?: string | undefined;
  publicUrl?: string | undefined;
  keep?: string | undefined;
  mediaRedirect?: true | undefined;
  /** Whether the owner's key is in a database, not in the folder of this machine. */
  isShared: boolean;
  /** Writes an event to the JSON log. */
  logEvent?: ((event: string, fields: object) => void) | undefined;
};

/**
 * Prints the service's address and notes for its owner. With `--json` prints one document, after the checks.
 * Otherwise keys, links that sign in and secrets are printed to a terminal alone, because a system keeps
 * other output.
 */
export async function printAddress(
  service: ReportedService,
  checks: Promise<EngineCheck>[],
  options: AddressOptions,
  { io, output }: Context,
): Promise<void> {
  const { host, allowRemote, name, publicUrl, logEvent, isShared } = options;
  const isSecretShown = io.stderr.isTTY === true && !logEvent;
  const { base_url, media_url, api_key, webhook_secret } = service.address;
  // Printed on purpose, although it may be in VIDGEN_API_KEY, which is hidden elsewhere.
  if (api_key !== null) output.reveal(api_key);
  const page_url = service.pageUrl ?? null;
  const engines = output.json ? await Promise.all(checks) : [];
  const metrics_url = service.metricsUrl ?? null;
  const urls = { base_url, media_url, metrics_url };
  await output.result(base_url, { ...urls, api_key, webhook_secret, page_url, engines });
  if (!isSecretShown) for (const secret of [api_key ?? "", webhook_secret]) output.hide(secret);
  if (logEvent) logEvent("listening", urls);
  else if (!output.json && !output.quiet)
    io.stderr.write(exportLines(base_url, isSecretShown ? api_key : null, shellOf(io)));
  if (isSecretShown) {
    if (api_key === null)
      output.note(`An earlier process created the account and its API key, which is not shown again. ${ownerKeyHint}`);
    if (page_url !== null)
      output.note(`Open the page in a browser. The link signs in once, within 10 minutes: ${page_url}`);
    output.note(`Callbacks are signed with ${webhook_secret}`);
  } else if (!output.json) {
    const place = isShared
      ? `printed only to a terminal and by --json. ${ownerKeyHint}`
      : `in ${join(findServiceFolder(io), "service.json")}, which only this user can read.`;
    output.note(`The owner's API key and the secret that signs callbacks are ${place}`);
    if (page_url !== null) output.note("To open the page in a browser, get a link: vidgen serve --link");
  }
  if (metrics_url !== null) output.note(`Prometheus metrics are at ${metrics_url}`);
  if (allowRemote && !isLoopback(host))
    output.note(
      "Other machines on the network can reach this service, without encryption: anyone with a key can use it.",
    );
  if (allowRemote || (name ?? publicUrl) !== undefined) output.note(describeVideoAccess(options));
  if (allowRemote && isPlainHttp(base_url))
    output.note(
      [
        "Other people reach it in one of three ways, see `vidgen help accounts`:",
        ...listRemoteWays(base_url, media_url),
      ].join("\n"),
    );
  if (allowRemote && page_url?.startsWith("http:"))
    output.note(
      "The link to the page is not encrypted on the network either: anyone who reads it can see the generations of all accounts.",
    );
  if (!logEvent) output.note("Press Ctrl-C to stop.");
}

const ownerKeyHint = "To create another key, run this with the same database: vidgen serve --owner-key";

/** Who can see a video without a key, for how long, and what ends that. */
export function describeVideoAccess({ keep, mediaRedirect }: Pick<AddressOptions, "keep" | "mediaRedirect">): string {
  const end = keep === undefined ? " (--keep does that after a time)" : `, at most ${keep} after it was generated,`;
  const redirect = mediaRedirect
    ? " The store's own address, to which --media-redirect leads, ends after 15 minutes."
    : "";
  return `Anyone with the address of a video can see it without a key, until it is deleted${end} or its account is disabled.${redirect}`;
}

function exportLines(baseUrl: string, apiKey: string | null, shell: Shell): string {
  const lines = [exportLine("VIDGEN_BASE_URL", baseUrl, shell)];
  if (isPlainHttp(baseUrl)) lines.push(exportLine("VIDGEN_ALLOW_HTTP", baseUrl, shell));
  if (apiKey !== null) lines.push(exportLine("VIDGEN_API_KEY", apiKey, shell));
  return `${lines.join("\n")}\n`;
}

/** Prints what prevents other machines from continuing the work of this one. */
export function noteLimits(
  { media, engines }: { media: string | undefined; engines: Engines },
  { output }: Context,
): void {
  if (media === undefined)
    output.note(
      "Videos are stored on this machine only. To store them where other machines can reach them, set --media.",
    );
  for (const { name } of engines)
    if (URL.canParse(name) && isLoopback(new URL(name).hostname))
      output.note(
        `${name} is a different server on each machine, so its generations fail when another machine takes them over.`,
      );
}

/** Prints a line for each engine once it is checked; none if there is only the preview, which always works. */
export async function printChecks(
  checks: Promise<EngineCheck>[],
  engines: Engines,
  { io, output }: { io: Pick<Io, "signal">; output: Context["output"] },
): Promise<void> {
  if (engines.every(({ isSimulation }) => isSimulation)) return;
  const print = (check: EngineCheck) => {
    if (!io.signal.aborted) output.note(checkLine(check, engines));
  };
  await Promise.all(checks.map((check) => check.then(print)));
}
