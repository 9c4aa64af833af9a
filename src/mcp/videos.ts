import { stat } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import * as z from "zod";
import { type Attempt, close, finish, openAttempt, recordDelivered } from "../client/generation/attempt.ts";
import { findCharged } from "../client/generation/cost.ts";
import { failedError, readStage, readVideoUrl } from "../client/generation/follow.ts";
import { findSavedFile, readStatus } from "../client/generation/status.ts";
import { findStarted } from "../client/ledger/search.ts";
import type { Session } from "../connect/session.ts";
import { asVidgenError, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { failureReason, readCost, type WireGeneration } from "../protocol/schema.ts";
import { agentHint } from "./errors.ts";
import { fetchThumbnail } from "./thumbnail.ts";
import { chargedField, defineTool, idField, type Tool, type ToolCall, type ToolOptions } from "./tool.ts";

/** The maximum wait of a call: many agents abort a call after 60 s. */
export const maxWaitSeconds = 50;

/** How long a service may not know a generation that it just started. */
const unknownIdMs = 60_000;

/** The tools that show a generation and save its video. */
export function followTools(options: ToolOptions, io: Io): Tool[] {
  return [getTool(options, io), saveTool(options, io)];
}

/**
 * Opens the service of a generation. `ageMs` is the age of the generation; infinite if the journal does not
 * have it, or if it was deleted.
 */
export async function openServiceOf(id: string, { services }: ToolOptions, io: Io) {
  const entry = await findStarted(services.journal, id).catch(() => undefined);
  const ageMs = entry && !entry.removed ? io.date().getTime() - Date.parse(entry.at) : Number.POSITIVE_INFINITY;
  return { session: await services.open(entry?.base_url), ageMs };
}

function getTool(options: ToolOptions, io: Io): Tool {
  return defineTool({
    name: "get_video",
    title: "Show a video's status",
    description:
      "Returns the status of a generation; once it is completed also its URLs, and its thumbnail as an image if the service has one. With wait_seconds it waits at most that long for the generation to end; if it is still running then, that is not an error: call get_video again. Costs nothing.",
    input: z.strictObject({
      id: idField,
      wait_seconds: z
        .number()
        .min(0)
        .max(maxWaitSeconds)
        .optional()
        .describe("Default: 0, which returns the current status at once."),
    }),
    output: z.object({
      id: z.string(),
      status: z
        .string()
        .describe(
          "processing, completed, failed, unknown (it may have been charged, and it is unclear whether there is a video), or another status of the service, which means that it is still running.",
        ),
      video_url: z.string().nullable(),
      thumbnail_url: z.string().nullable(),
      error: z.string().nullable().describe("Why it failed, or why its outcome is unknown."),
      charged: chargedField,
      note: z.string().describe("What to do next."),
    }),
    hints: { readOnly: true, openWorld: true },
    async run({ id, wait_seconds = 0 }, call) {
      const { session, ageMs } = await openServiceOf(id, options, io);
      const generation = await waitFor(id, { session, ageMs, waitMs: wait_seconds * 1000, call }, io);
      const { thumbnail_url = null } = generation;
      const failure = generation.status === "failed" ? failedError(id, generation) : undefined;
      const status = failure?.ended ?? generation.status;
      const video_url = readVideoUrl(generation) ?? null;
      if (video_url !== null) await recordDelivered(session.service, id);
      const error = failure ? (failureReason(generation) ?? "the service gave no reason") : null;
      const hint = failure && agentHint(failure);
      if (status === "completed") await showThumbnail(generation, session, call);
      const charged = status === "completed" ? await findCharged(session.service, id, readCost(generation)) : {};
      return {
        id,
        status,
        video_url,
        thumbnail_url,
        error,
        ...charged,
        note: noteOf(status, { generation, hint, session }),
      };
    },
  });
}

type NoteOptions = { generation: WireGeneration; hint: string | undefined; session: Session };

function noteOf(status: string, { generation, hint = "", session }: NoteOptions): string {
  if (status === "unknown")
    return "It may have been charged: ask the user to check the account at the engine's provider. The same call starts nothing; again: true, with a new request_key, starts another one and pays for it.";
  if (status === "failed") return `It cannot be saved. ${hint}`.trim();
  if (status !== "completed")
    return `It is ${readStage(generation) ?? "still running"}: call get_video again, with wait_seconds up to ${maxWaitSeconds}.`;
  return session.service.isInProcess()
    ? "Call save_video to save it; the URLs work only while this server runs."
    : "Call save_video to save it.";
}

type WaitForOptions = { session: Session; ageMs: number; waitMs: number; call: ToolCall };

/** Polls a generation, and follows it until it ends or `waitMs` is over. */
async function waitFor(id: string, { session, ageMs, waitMs, call }: WaitForOptions, io: Io): Promise<WireGeneration> {
  const begin = io.now();
  const onState = (status: string) => call.onProgress((io.now() - begin) / 1000, status);
  const poll = () => readStatus(session.service, id, call);
  let latest: WireGeneration = await poll().catch((error) => {
    const { code } = asVidgenError(error);
    if (code !== "not_found" || ageMs > unknownIdMs) throw error;
    return { id, status: "processing" };
  });
  onState(latest.status);
  const timeoutMs = waitMs - (io.now() - begin);
  if (latest.status === "completed" || latest.status === "failed" || timeoutMs <= 0) return latest;
  const listener = (status: string) => {
    latest = { ...latest, status };
    onState(status);
  };
  try {
    const attempt = await openAttempt(session.service, id, { timeoutMs, signal: call.signal });
    const finished = await finish(attempt, { state: listener });
    return finished.kind === "found" ? latest : finished.generation;
  } catch (thrown) {
    const { code, ended } = asVidgenError(thrown);
    if (ended !== undefined) return poll();
    if (code === "pending") return poll().catch(() => latest);
    throw thrown;
  }
}

function saveTool(options: ToolOptions, io: Io): Tool {
  return defineTool({
    name: "save_video",
    title: "Save a video to a file",
    description: `Saves the video of a generation to a file, once it is completed; waits at most ${maxWaitSeconds} s for that. A video that was already saved is not saved again: the answer names its file. Never replaces a file, and saves only inside the server's folder. Costs nothing.`,
    input: z.strictObject({
      id: idField,
      path: z
        .string()
        .optional()
        .describe(
          'Relative to the server\'s folder, such as "clips/fox.mp4", or a folder, such as "clips/". Default: a name made from the prompt.',
        ),
    }),
    output: z.object({
      id: z.string(),
      status: z.string(),
      file: z.string().nullable().describe("Its absolute path; null while it is not saved."),
      bytes: z.number().nullable(),
      charged: chargedField,
      note: z.string().describe("What to do next."),
    }),
    hints: { openWorld: true },
    async run({ id, path }, call) {
      const { session } = await openServiceOf(id, options, io);
      const saved = await findSavedFile(session.service, id);
      if (saved !== undefined) {
        const note = "It was already saved there: no second copy was made.";
        return { ...(await describeSaved(id, saved, note, call)), ...(await findCharged(session.service, id)) };
      }
      const outputPath = await options.folder.outputPath(path);
      const timeoutError = new VidgenError("pending", "Still running.", { id });
      const limit = io.limit(maxWaitSeconds * 1000, call.signal, timeoutError);
      const begin = io.now();
      let status = "processing";
      const onState = (seen: string) => {
        status = seen;
        call.onProgress((io.now() - begin) / 1000, status);
      };
      let attempt: Attempt | undefined;
      try {
        attempt = await openAttempt(session.service, id, { outputPath, signal: limit.signal });
        const finished = await finish(attempt, { state: onState });
        if (finished.kind === "saved") await showThumbnail(finished.generation, session, call);
        if (finished.kind !== "url") {
          const note = finished.kind === "saved" ? "The video is saved." : "It was already saved there.";
          const described = await describeSaved(id, finished.file, note, call);
          return { ...described, ...(await findCharged(session.service, id)) };
        }
      } catch (error) {
        if (limit.signal.reason !== timeoutError) throw error;
      } finally {
        limit.clear();
        if (attempt) await close(attempt);
      }
      const what =
        status === "completed"
          ? "The download is not finished; it will resume where it stopped"
          : "It is still running";
      return { id, status, file: null, bytes: null, note: `${what}: call save_video again.` };
    },
  });
}

/** Describes a saved video, and links it. */
async function describeSaved(id: string, savedFile: string, note: string, { attach }: ToolCall) {
  const file = resolve(savedFile);
  const { size } = await stat(file);
  const link = { uri: pathToFileURL(file).href, name: basename(file), mimeType: "video/mp4", size };
  attach({ type: "resource_link", ...link });
  return { id, status: "completed", file, bytes: size, note };
}

/** Adds the thumbnail of a completed generation to the result, if the service has one. */
async function showThumbnail({ thumbnail_url }: WireGeneration, { service }: Session, call: ToolCall): Promise<void> {
  const thumbnail = thumbnail_url && (await fetchThumbnail(thumbnail_url, { io: service.io, signal: call.signal }));
  if (thumbnail) call.attach(thumbnail);
}
