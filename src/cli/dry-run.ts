import { redactValue } from "../client/http/redaction.ts";
import type { StartRequest } from "../client/http/schema.ts";
import type { Choice, Earlier } from "../client/ledger/policy.ts";
import { findDoubts } from "../client/request/fields.ts";
import { formatAge } from "../connect/format.ts";
import { localBaseUrl } from "../connect/local.ts";
import { findBaseUrl } from "../connect/settings.ts";
import type { Context } from "./context.ts";
import { errorDocument } from "./terminal/output.ts";
import { earlierDocument } from "./terminal/result.ts";

type DryRunOptions = {
  local?: boolean;
  engine?: readonly string[];
  baseUrl?: string;
  outputPath: string | undefined;
  earlier: Earlier;
};

/**
 * `--dry-run`: prints the request as it would be sent, without the key; or the generation that would be resumed, or why nothing would be sent.
 * Needs neither key nor base URL, and notes a missing base URL.
 */
export async function printDryRun(request: StartRequest, options: DryRunOptions, context: Context): Promise<void> {
  const { io, output } = context;
  const { local = false } = options;
  const baseUrl = local ? localBaseUrl : await findBaseUrl(options.baseUrl, io);
  for (const doubt of findDoubts(request)) output.note(doubt);
  if (baseUrl === undefined) output.note("No base URL is set; without --dry-run this would fail.");
  const choice = baseUrl === undefined ? undefined : await chooseStart(request, { ...options, baseUrl }, context);
  if (choice !== undefined && choice.kind !== "new") return await printChoice(choice, options, context);
  for (const { attempt } of choice?.dismissed ?? [])
    output.note(`Would dismiss attempt ${attempt}, which was or may have been charged.`);
  const { startInit } = await import("../client/http/api.ts");
  const { method, headers, body } = startInit(request, io.uuid());
  const url = `${local ? "{local service}" : (baseUrl ?? "{base_url}")}/api/generate`;
  const all = { Authorization: "Bearer [key left out]", ...headers };
  // The bytes of an image would fill the screen.
  const shown = JSON.parse(body, (_, value) => (isImage(value) ? value.replace(/,.*/s, ",...") : value));
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  const text = [`${method} ${url}`, ...lines, "", JSON.stringify(shown, null, 2)].join("\n");
  await output.result(text, { method, url, headers: all, body: shown });
}

/** What the start itself would choose now. */
async function chooseStart(
  request: StartRequest,
  { baseUrl, local = false, engine = [], outputPath, earlier }: DryRunOptions & { baseUrl: string },
  { io, output }: Context,
): Promise<Choice> {
  const { findJournal } = await import("../connect/services.ts");
  const { recordOf } = await import("../client/ledger/history.ts");
  const { choose } = await import("../client/ledger/policy.ts");
  const journal = findJournal({ ...io, onNote: output.note });
  const isPreview = local ? engine.every((spec) => /(^|=)preview$/.test(spec)) : undefined;
  // The journal never holds a key, not even one that stands in a prompt.
  const { redact } = output;
  const record = redactValue(recordOf(request), redact);
  const place = outputPath === undefined ? undefined : redact(outputPath);
  const wanted = { service: baseUrl, request: record, outputPath: place, earlier, isPreview, now: io.date() };
  return choose(wanted, journal);
}

async function printChoice(
  choice: Exclude<Choice, { kind: "new" }>,
  { earlier }: DryRunOptions,
  { io, output }: Context,
): Promise<void> {
  if (choice.kind === "resume") {
    const { entry } = choice;
    const text = `Would resume ${entry.id}, started ${formatAge(entry, io)} ago; no request would be sent, nothing would be charged.`;
    const document = earlierDocument(entry);
    return await output.result(text, earlier === "reuse" ? { reuse: document } : { resume: document });
  }
  if (choice.kind === "wait")
    return await output.result(
      `Would wait: another process is starting the same request (attempt ${choice.entry.attempt}).`,
      {
        wait: { attempt: choice.entry.attempt },
      },
    );
  const { refusalError } = await import("../client/ledger/policy.ts");
  const error = refusalError(choice);
  await output.result(`Would send nothing, and end with ${error.exit}: ${error.message}`, errorDocument(error));
}

function isImage(value: unknown): value is string {
  return typeof value === "string" && value.startsWith("data:image/");
}
