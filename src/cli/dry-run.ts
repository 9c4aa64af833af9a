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
  baseUrl?: string | undefined;
  outputPath: string | undefined;
  earlier: Earlier;
  /** The generation whose request is repeated. */
  parent?: string | undefined;
};

/**
 * `--dry-run`: prints the request as it would be sent, without the key; or the generation that would be resumed, or why nothing would be sent.
 * Needs neither key nor base URL, and notes a missing base URL.
 */
export async function printDryRun(
  requests: readonly StartRequest[],
  options: DryRunOptions,
  context: Context,
): Promise<undefined> {
  const { io, output } = context;
  const { local = false } = options;
  const baseUrl = local ? localBaseUrl : await findBaseUrl(options.baseUrl, io);
  for (const doubt of new Set(requests.flatMap((each) => findDoubts(each, { isLocal: local })))) output.note(doubt);
  if (baseUrl === undefined) output.note("No base URL is set; without --dry-run this would fail.");
  const choices = baseUrl === undefined ? [] : await chooseStarts(requests, { ...options, baseUrl }, context);
  const parts = [];
  for (const [index, request] of requests.entries())
    parts.push(await describeStart(request, choices[index], { ...options, baseUrl }, context));
  const documents = parts.map(({ document }) => document);
  const text = parts.map((part) => part.text).join("\n\n");
  await output.result(text, requests.length === 1 ? documents[0] : documents);
}

type Described = { text: string; document: unknown };

async function describeStart(
  request: StartRequest,
  choice: Choice | undefined,
  options: DryRunOptions,
  { io, output }: Context,
): Promise<Described> {
  const { local = false, baseUrl } = options;
  if (choice !== undefined && choice.kind !== "new") return describeChoice(choice, options, io);
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
  return { text, document: { method, url, headers: all, body: shown } };
}

/** What the starts themselves would choose now. */
async function chooseStarts(
  requests: readonly StartRequest[],
  { baseUrl, local = false, engine = [], outputPath, earlier, parent }: DryRunOptions & { baseUrl: string },
  { io, output }: Context,
): Promise<Choice[]> {
  const { findJournal } = await import("../connect/services.ts");
  const { recordOf } = await import("../client/ledger/history.ts");
  const { choose, chooseRun } = await import("../client/ledger/policy.ts");
  const { recordPlace } = await import("../client/ledger/identity.ts");
  const journal = findJournal({ ...io, onNote: output.note });
  const isPreview = local ? engine.every((spec) => /(^|=)preview$/.test(spec)) : undefined;
  // The journal never holds a key, not even one that stands in a prompt.
  const { redact } = output;
  const records = requests.map((request) => redactValue(recordOf(request), redact));
  const place = await recordPlace(outputPath, redact, io.disk);
  const wanted = { service: baseUrl, ...place, earlier, isPreview, parent, now: io.date() };
  const count = records.length;
  const run = count === 1 ? undefined : await chooseRun({ ...wanted, requests: records }, journal);
  if (run?.kind === "wait") return records.map(() => run);
  const name = run?.name ?? "";
  const choices: Choice[] = [];
  for (const [index, request] of records.entries()) {
    const take = run && { run: name, position: index + 1, count };
    choices.push(await choose({ ...wanted, request, take }, journal));
  }
  return choices;
}

async function describeChoice(
  choice: Exclude<Choice, { kind: "new" }>,
  { earlier }: DryRunOptions,
  io: Context["io"],
): Promise<Described> {
  if (choice.kind === "resume") {
    const { entry } = choice;
    const text = `Would resume ${entry.id}, started ${formatAge(entry, io)} ago; no request would be sent, nothing would be charged.`;
    const document = earlierDocument(entry);
    return { text, document: earlier === "reuse" ? { reuse: document } : { resume: document } };
  }
  if (choice.kind === "wait") {
    const { attempt } = choice.entry;
    const text = `Would wait: another process is starting the same request (attempt ${attempt}).`;
    return { text, document: { wait: { attempt } } };
  }
  const { refusalError } = await import("../client/ledger/policy.ts");
  const error = refusalError(choice);
  const text = `Would send nothing, and end with ${error.exit}: ${error.message}`;
  return { text, document: errorDocument(error) };
}

function isImage(value: unknown): value is string {
  return typeof value === "string" && value.startsWith("data:image/");
}
