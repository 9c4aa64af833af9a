import { redactValue } from "../client/credentials.ts";
import { findDoubts } from "../client/fields.ts";
import type { StartRequest } from "../client/schema.ts";
import type { Context } from "./context.ts";
import { localBaseUrl } from "./local.ts";
import { findBaseUrl } from "./settings.ts";
import { formatAge } from "./terminal/format.ts";
import { earlierDocument } from "./terminal/result.ts";

type DryRunOptions = { local?: boolean; reuse?: boolean; baseUrl?: string };

/**
 * `--dry-run`: prints the request as it would be sent, without the key; with `--reuse` the generation that would be resumed, if there is one.
 * Needs neither key nor base URL, and notes a missing base URL.
 */
export async function printDryRun(
  request: StartRequest,
  options: DryRunOptions,
  { io, output }: Context,
): Promise<void> {
  const { local = false, reuse } = options;
  const baseUrl = local ? undefined : await findBaseUrl(options.baseUrl, io);
  for (const doubt of findDoubts(request)) output.note(doubt);
  if (!local && baseUrl === undefined) output.note("No base URL is set; without --dry-run this would fail.");
  if (reuse) {
    const { findJournal } = await import("./services.ts");
    const { recordOf } = await import("../client/history.ts");
    const { chooseAttempt, findCandidates } = await import("../client/attempts.ts");
    const { journal, note } = await findJournal(local, { ...io, onNote: output.note });
    if (note !== undefined) output.note(note);
    const origin = local ? localBaseUrl : baseUrl;
    const now = io.date();
    // The journal never holds a key, not even one that stands in a prompt.
    const record = redactValue(recordOf(request), output.redact);
    const wanted = { request: record, outputPath: undefined, earlier: "reuse" as const, now, isHeld: journal.isHeld };
    const choice = await journal.lock(async () => {
      const known = await findCandidates(wanted, journal);
      return chooseAttempt(
        known.filter((entry) => entry.base_url === origin),
        wanted,
      );
    });
    if (choice.kind === "resume") {
      const text = `Would resume ${choice.entry.id}, started ${formatAge(choice.entry, io)} ago; no request would be sent, nothing would be charged.`;
      return await output.result(text, { reuse: earlierDocument(choice.entry) });
    }
  }
  const { startInit } = await import("../client/api.ts");
  const { method, headers, body } = startInit(request, io.uuid());
  const url = `${local ? "{local service}" : (baseUrl ?? "{base_url}")}/api/generate`;
  const all = { Authorization: "Bearer [key left out]", ...headers };
  // The bytes of an image would fill the screen.
  const shown = JSON.parse(body, (_, value) => (isImage(value) ? value.replace(/,.*/s, ",...") : value));
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  const text = [`${method} ${url}`, ...lines, "", JSON.stringify(shown, null, 2)].join("\n");
  await output.result(text, { method, url, headers: all, body: shown });
}

function isImage(value: unknown): value is string {
  return typeof value === "string" && value.startsWith("data:image/");
}
