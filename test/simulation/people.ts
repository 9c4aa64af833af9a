import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { dismissAttempt } from "../../src/cli/commands/list.ts";
import type { Services } from "../../src/cli/services.ts";
import type { Session } from "../../src/cli/session.ts";
import { endOfBatch } from "../../src/cli/terminal/batch-report.ts";
import type { Output } from "../../src/cli/terminal/output.ts";
import { type BatchOptions, openBatch } from "../../src/client/batch/batch.ts";
import { createCounts } from "../../src/client/batch/counts.ts";
import { keyRows, type Row, shardOf } from "../../src/client/batch/row.ts";
import { type Client, createServiceClient } from "../../src/client/client.ts";
import { type Entry, isOpen } from "../../src/client/history.ts";
import { type Journal, openJournal } from "../../src/client/journal.ts";
import type { Earlier } from "../../src/client/ledger/policy.ts";
import { asVidgenError, beforePaying, exits, type VidgenError } from "../../src/errors.ts";
import type { Io } from "../../src/io.ts";
import { createStarts } from "../../src/mcp/starts.ts";
import { codeOfLeaving, ioOf, type Process } from "./machine.ts";
import { serviceUrl } from "./service.ts";

/** What somebody types. */
export type Command =
  | {
      type: "generate";
      prompt: string;
      place: string | undefined;
      earlier: Earlier;
      noWait: boolean;
      overwrite: boolean;
      timeoutMs: number;
    }
  /** With `--all`, or with the ids of all else that is not saved. */
  | { type: "wait" | "wait --all"; place: string | undefined; timeoutMs: number }
  | {
      type: "batch";
      rows: number;
      shard: { index: number; of: number } | undefined;
      /** The rows file, or a link to it. */
      file: string;
      retryUnknown: boolean;
      retryFailed: boolean;
      maxCredits: number | undefined;
      jobs: number;
    }
  | { type: "list --dismiss" }
  | { type: "mcp"; calls: AgentCall[]; isAtOnce: boolean; maxCredits: number | undefined };

/** A call of `generate_video`, and maybe one that waits for its end. */
type AgentCall = { prompt: string; again: boolean; cancels: boolean; waits: boolean };

export const work = "/work";

/** The last words of a process. */
export type Said = { code: number; lines: string[]; files: { id: string; file: string }[] };

export type Run = {
  command: Command;
  process: Process;
  /** The path of its journal. */
  journal: string;
  key: string;
  fetch: Io["fetch"];
  /** Whether an agent has asked for a new start, whatever was started before. */
  isAgain: boolean;
  said: Said;
};

const model = "wan-2.5";

/** In a prompt: somebody has pasted the own key there. */
export const pastedKey = "$VIDGEN_API_KEY";

/** Runs a command to its end; never resolves when its process is killed. Speaks into `said`, as it goes. */
export async function type(run: Run): Promise<void> {
  const { command, said } = run;
  try {
    if (command.type === "generate") await generate(command, run);
    else if (command.type === "batch") await batch(command, run);
    else if (command.type === "mcp") await mcp(command, run);
    else if (command.type === "list --dismiss") await dismissAll(run);
    else await wait(command, run);
  } catch (error) {
    fail(said, error);
  }
}

function fail(said: Said, thrown: unknown): void {
  const error = asVidgenError(thrown);
  // "Unknown" wins over every other code.
  if (said.code !== exits.unknown.exit) said.code = Math.max(said.code, error.exit);
  if (error.code === "unknown") said.code = exits.unknown.exit;
  said.lines.push(textOf(error));
}

function textOf({ message, hint = "", id = "" }: VidgenError): string {
  return [message, hint, id].join("\n");
}

function open({ process, journal: path, key, fetch, said }: Run): { client: Client; journal: Journal } {
  const onNote = (text: string) => void said.lines.push(text);
  const journal = openJournal(path, { ...process.machine, signal: process.signal, onNote });
  return {
    journal,
    client: createServiceClient({ baseUrl: serviceUrl, apiKey: key, journal, onNote }, ioOf(process, fetch)),
  };
}

/** As `generate` in `src/cli/commands/generate.ts`. */
async function generate(command: Command & { type: "generate" }, run: Run): Promise<void> {
  const { said, process } = run;
  const { signal, leave } = process;
  const { prompt, place, earlier, noWait, overwrite, timeoutMs } = command;
  const { client } = open(run);
  const request = { prompt: prompt.replace(pastedKey, run.key), model };
  const begun = await client
    .begin(request, { outputPath: place, overwrite, earlier, noWait, signal })
    .catch((error) => {
      throw beforePaying(error);
    });
  try {
    let id: string;
    if (begun.kind === "resumed") {
      id = begun.earlier.id;
      said.lines.push(`Resuming ${id}.`);
      if (begun.file !== undefined) {
        said.files.push({ id, file: begun.file });
        return;
      }
    } else {
      const end = await begun.sendUntilKnown({ signal, leave });
      if (end.kind !== "accepted") throw end.error;
      id = end.started.generation.id;
      said.lines.push(`Started ${id}.`);
    }
    if (noWait) {
      said.lines.push(id);
      await client.told(begun.kind === "resumed" ? begun.earlier.attempt : begun.attempt);
      signal.throwIfAborted();
      return;
    }
    try {
      if (begun.target) {
        const { file } = await client.download(id, begun.target, { signal, timeoutMs, overwrite });
        said.files.push({ id, file });
      } else {
        const { videoUrl } = await client.follow(id, { signal, timeoutMs });
        said.lines.push(videoUrl);
      }
    } catch (error) {
      throw asVidgenError(error).with({ id });
    }
  } catch (error) {
    fail(said, error);
  } finally {
    await begun.release();
  }
}

/** As `waitForAll` in `src/cli/commands/wait.ts`. */
async function wait({ type, place, timeoutMs }: Command & { type: "wait" | "wait --all" }, run: Run): Promise<void> {
  const { said, process } = run;
  const { signal } = process;
  const { client, journal } = open(run);
  const isLeft = (entry: Entry) => !isOpen(entry) && entry.status !== "failed" && entry.file === undefined;
  const isWanted = type === "wait" ? isLeft : isOpen;
  const found = (await journal.entries()).filter(isWanted).flatMap(({ id }) => id ?? []);
  const follow = async (id: string, index: number) => {
    const saved = place === undefined ? undefined : await client.findSaved(id, place).catch(() => undefined);
    if (saved !== undefined) return void said.files.push({ id, file: saved });
    const target = place === undefined ? undefined : await client.claim(place, { id, first: index + 1, resume: true });
    try {
      if (target) {
        const { file } = await client.download(id, target, { signal, timeoutMs });
        said.files.push({ id, file });
      } else {
        const { videoUrl } = await client.follow(id, { signal, timeoutMs });
        said.lines.push(`${id} ${videoUrl}`);
      }
    } finally {
      await target?.release();
    }
  };
  await Promise.all(
    [...new Set(found)]
      .reverse()
      .map((id, index) => follow(id, index).catch((error) => fail(said, asVidgenError(error).with({ id })))),
  );
}

/** As `dismiss` of `vidgen list`, for each attempt that it lists as unknown. */
async function dismissAll(run: Run): Promise<void> {
  const { said, process } = run;
  const { journal } = open(run);
  const output = { note: (text: string) => void said.lines.push(text) } as unknown as Output;
  const io = ioOf(process, run.fetch) as unknown as Io;
  const isWanted = ({ status }: Entry) => status === "unknown" || status === "starting" || status === "lost";
  for (const { attempt } of (await journal.entries()).filter(isWanted))
    await dismissAttempt(attempt, journal, { io, output }).catch((error) => fail(said, error));
}

/** The rows of the file: each with an id of its own, saved beside it. */
export function rowsOf(count: number): Row[] {
  return Array.from({ length: count }, (_, index) => {
    const request = { prompt: `row ${index + 1}`, model };
    return {
      id: `r${index + 1}`,
      line: index + 1,
      record: request,
      load: async () => request,
      outputPath: `${work}/r${index + 1}.mp4`,
    };
  });
}

/** As `vidgen batch` with --yes. */
async function batch(command: Command & { type: "batch" }, run: Run): Promise<void> {
  const { said, process } = run;
  const { signal, leave } = process;
  const { client, journal } = open(run);
  const { file, shard, retryFailed, retryUnknown, maxCredits, jobs } = command;
  const keyed = keyRows(rowsOf(command.rows));
  const own = shard ? keyed.filter((row) => shardOf(row, shard.of) === shard.index) : keyed;
  const results = `${file}${shard ? `.${shard.index}-of-${shard.of}` : ""}.results.jsonl`;
  const onNote = (text: string) => void said.lines.push(text);
  const source = { file, total: keyed.length, shard: shard ? `${shard.index}/${shard.of}` : null };
  const options: BatchOptions = { results, source, retryFailed, retryUnknown, onNote };
  const opened = await openBatch(own, options, { client, journal, io: process.machine });
  try {
    const tally = createCounts(opened.plan);
    const end = await opened.run({
      jobs,
      maxCredits,
      signal,
      leave,
      onNote,
      onEvent(event) {
        tally.take(event);
        if (event.event === "started") said.lines.push(`Started ${event.id}.`);
        if (event.event === "ended" && event.error) said.lines.push(JSON.stringify(event));
        if (event.event === "ended" && event.id && event.file) said.files.push({ id: event.id, file: event.file });
      },
    });
    const flags = { file, command: { options: [] } as unknown as CommandUnknownOpts };
    const ended = { end, counts: tally.counts };
    const error = endOfBatch(opened, ended, { results, isLocal: false, flags }, { env: {}, signal });
    if (error) fail(said, error);
  } finally {
    await opened.close();
  }
}

/** An agent that calls `generate_video` now and then, and waits for what it has started. */
async function mcp({ calls, isAtOnce, maxCredits }: Command & { type: "mcp" }, run: Run): Promise<void> {
  const { said, process } = run;
  const { client, journal } = open(run);
  const io = { ...ioOf(process, run.fetch), leave: process.leave } as unknown as Io;
  const session = { client, isLocal: false } as unknown as Session;
  const services: Pick<Services, "journal" | "open"> = { journal, open: async () => session };
  const start = createStarts({ services, maxCredits, ending: process.signal }, io);
  const ask = async ({ prompt, again, cancels, waits }: AgentCall) => {
    run.isAgain = again;
    const cancelled = new AbortController();
    if (cancels) process.after(30, () => cancelled.abort());
    const request = { prompt: prompt.replace(pastedKey, run.key), model };
    try {
      const { id } = await start(request, { again, cancelled: cancelled.signal });
      said.lines.push(`Started ${id}.`);
      if (waits) await client.follow(id, { signal: process.signal, timeoutMs: 90_000 });
    } catch (error) {
      fail(said, error);
    }
  };
  if (isAtOnce) return void (await Promise.all(calls.map(ask)));
  for (const call of calls) {
    if (process.signal.aborted) return;
    await ask(call);
    await process.machine.sleep(1_000);
  }
}

/** The end of a process that was told twice to end. */
export function leaveAtOnce(run: Run): void {
  run.said.code = codeOfLeaving(run.process);
}
