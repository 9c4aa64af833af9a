// What the commands load when they need it: a story cannot wait for the real disk.
import "csv-parse";
import "zod/mini";
import "../../src/cli/commands/again.ts";
import "../../src/cli/commands/batch.ts";
import "../../src/cli/commands/cancel.ts";
import "../../src/cli/commands/delete.ts";
import "../../src/client/generation/delete.ts";
import "../../src/cli/commands/generate.ts";
import "../../src/cli/commands/list.ts";
import "../../src/cli/commands/wait.ts";
import "../../src/cli/dry-run.ts";
import "../../src/cli/earlier.ts";
import "../../src/cli/generations.ts";
import "../../src/cli/takes.ts";
import "../../src/cli/help/tree.ts";
import "../../src/connect/services.ts";
import "../../src/cli/terminal/prompts.ts";
import "../../src/client/batch/batch.ts";
import "../../src/client/batch/redo.ts";
import "../../src/client/ledger/repeat.ts";
import "../../src/client/batch/rows/rows.ts";
import "../../src/client/request/images.ts";
import "../../src/client/request/input.ts";
import "../../src/video/naming.ts";
import "../../src/client/save/output-path.ts";
import "../../src/protocol/request.ts";
import "../../src/cli/dashes.ts";
import "../../src/cli/terminal/event-lines.ts";
import "../../src/cli/terminal/table.ts";
import "../../src/cli/usage-error.ts";
import "../../src/client/batch/costs.ts";
import "../../src/client/batch/spending.ts";
import "../../src/client/batch/results.ts";
import "../../src/client/batch/row.ts";
import "../../src/client/generation/choose.ts";
import "../../src/client/generation/cost.ts";
import "../../src/client/generation/status.ts";
import "../../src/client/http/api.ts";
import "../../src/client/ledger/attempts.ts";
import "../../src/client/ledger/search.ts";
import "../../src/connect/prices.ts";
import "../../src/connect/project-schema.ts";
import "../../src/connect/settings.ts";
import "../../src/connect/storage.ts";
import { dirname } from "node:path";
import { main } from "../../src/cli/main.ts";
import { finish, openAttempt } from "../../src/client/generation/attempt.ts";
import { openService } from "../../src/client/generation/service.ts";
import { openJournal } from "../../src/client/ledger/journal.ts";
import type { Earlier } from "../../src/client/ledger/policy.ts";
import type { Services } from "../../src/connect/services.ts";
import type { Session } from "../../src/connect/session.ts";
import { asVidgenError, exits, type VidgenError } from "../../src/errors.ts";
import { type ClientOptions, createClient, type Client as Library, type StartOptions } from "../../src/index.ts";
import type { Io, Machine } from "../../src/io.ts";
import { createStarts } from "../../src/mcp/starts.ts";
import type { CancelName, DeleteName } from "./answers.ts";
import type { SimulatedDisk } from "./disk.ts";
import { codeOfLeaving, ioOf, type Process } from "./machine.ts";
import { serviceUrl } from "./service.ts";

/** What is read of stdout: lines for a person, one document, or a line for each event. */
export type Prints = "text" | "json" | "events";

/** "model": the default model is left out; "seed": as --set; "order": the flags in another one; "path": that of -o; "id": its first characters. */
export const spellings = ["model", "seed", "order", "path", "id"] as const;
export type Spelling = (typeof spellings)[number];

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
      prints?: Prints;
      /** The same line with --dry-run is typed right before. */
      isDryFirst?: boolean;
      /** Only that line with --dry-run is typed. */
      isDryOnly?: boolean;
      /** Stdout is a full disk. */
      isFull?: boolean;
      /** `again` of the newest generation, or of the newest that repeats none; without `again` it is `generate`. */
      again?: "last" | "id" | undefined;
      /** `again` without a prompt. */
      keepsPrompt?: boolean;
      /** `-n`, or how many models. */
      count?: number | undefined;
      /** `-m` with several models. */
      models?: readonly string[] | undefined;
      /** The style that somebody has written into vidgen.json right before. */
      project?: string | undefined;
      /** The folder of that vidgen.json, in which the line is typed. */
      folder?: string | undefined;
      /** What `config set` has saved right before: the line has neither. */
      settings?: { model?: string | undefined; output?: string | undefined } | undefined;
      seed?: number | undefined;
      /** How the line differs from its plain spelling. */
      spellings?: readonly Spelling[] | undefined;
      /** The path of the base URL. */
      path?: string | undefined;
      /** `-i -`, and the time that a program has written into the PNG on stdin. */
      piped?: string | undefined;
    }
  /** With `--all`, or with the ids of all else that is not saved. */
  | { type: "wait" | "wait --all"; place: string | undefined; timeoutMs: number; prints?: Prints }
  | {
      type: "batch";
      rows: number;
      /** Each other row is longer. */
      hasLengths?: boolean;
      shard: { index: number; of: number } | undefined;
      /** The rows file, or a link to it. */
      file: string;
      retryUnknown: boolean;
      retryFailed: boolean;
      /** `--redo`. */
      redo?: string | undefined;
      maxCredits: number | undefined;
      jobs: number;
      prints?: Prints;
      /** The path of the base URL. */
      path?: string | undefined;
    }
  | { type: "list --dismiss" }
  /** The newest attempt that is unclear, or the oldest one. */
  | { type: "list --forget"; which: "the newest unclear one" | "the oldest one" }
  /** The newest generation that runs, else the newest one. */
  | { type: "cancel"; does: CancelName }
  /** The newest generation that has completed, else the newest one. */
  | { type: "delete"; does: DeleteName; files: boolean }
  | { type: "mcp"; calls: AgentCall[]; isAtOnce: boolean; maxCredits: number | undefined }
  | { type: "library"; calls: LibraryCall[]; isAtOnce: boolean };

/** A call of `generate_video`, and maybe one that waits for its end. */
type AgentCall = {
  prompt: string;
  again: boolean;
  cancels: boolean;
  /** It is cancelled as soon as its intent is written down. */
  cancelsAtIntent?: boolean;
  waits: boolean;
};

/** A call of the library; `key` is the idempotency key, and `idKey` the id of the newest generation. */
export type LibraryCall = {
  does: "start" | "generate" | "resume";
  prompt: string;
  key?: string | undefined;
  onExisting?: StartOptions["onExisting"];
  place?: string | undefined;
  /** The listener of the program that throws. */
  throws?: "onStarted" | "onState" | "onProgress" | undefined;
};

/** Stands for the id of the newest generation, as an idempotency key. */
export const idKey = "(the id of the newest generation)";

export const work = "/films";

/** The folder of `vidgen.json`, where those are who have one. */
export const projectFolder = "/project";
export const otherFolder = "/other";

/** What a person sees of a process. A library and an agent have no streams: theirs get what their calls give. */
export type Said = {
  code: number;
  stdout: string;
  stderr: string;
  /** The videos that it says it has saved; without an id where it does not tell whose. */
  files: { id: string | undefined; file: string }[];
  /** What `--dry-run` has printed. */
  dry?: string;
};

export type Run = {
  command: Command;
  process: Process;
  /** The path of its journal. */
  journal: string;
  key: string;
  fetch: Io["fetch"];
  /** What is asked for now about earlier starts. */
  earlier: Earlier;
  /** The idempotency keys that a program has given. */
  named: Set<string>;
  /** The generation that is to be cancelled, or deleted. */
  cancels?: string;
  deletes?: string;
  said: Said;
  /** An attempt was removed from the journal. */
  onForgotten(attempt: string): void;
  /** Something has gone to stdout. */
  onPrint(text: string): void;
  /** `generations.resume()` is called. Returns what hears of each generation that it has resumed. */
  onResuming(): (id: string) => void;
  /** A call of an agent was cancelled right after its intent was written down. */
  onCancelledCall(): void;
  /** A call of the library gave an id. */
  onReturned(call: LibraryCall & { id: string }): void;
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
    else if (command.type === "library") await library(command, run);
    else if (command.type === "list --dismiss") await dismissAll(run);
    else if (command.type === "list --forget") await forget(command, run);
    else if (command.type === "cancel") await cancel(run);
    else if (command.type === "delete") await deleteOne(command, run);
    else await wait(command, run);
  } catch (error) {
    fail(said, error);
  }
}

function fail(said: Said, thrown: unknown): void {
  const error = asVidgenError(thrown);
  setCode(said, error.exit);
  note(said, textOf(error));
}

/** "Unknown" wins over every other code. */
function setCode(said: Said, code: number): void {
  if (said.code !== exits.unknown.exit) said.code = code === exits.unknown.exit ? code : Math.max(said.code, code);
}

function note(said: Said, text: string): void {
  said.stderr += `${text}\n`;
}

function textOf({ message, hint = "", id = "" }: Pick<VidgenError, "message" | "hint" | "id">): string {
  return [message, hint, id].join("\n");
}

type Streams = Pick<Said, "stdout" | "stderr">;

/** Types one line, and adds what it prints to `into`. Returns its exit code. */
async function typeLine(argv: readonly string[], run: Run, into: Streams = run.said): Promise<number> {
  return main(argv, worldOf(run, into));
}

/** The outside world as one process has it. */
function worldOf({ process, journal, key, fetch, command, onPrint }: Run, into: Streams): Io {
  const isFull = command.type === "generate" && command.isFull === true;
  const { path = "" } = "path" in command ? command : {};
  const { project, folder = projectFolder } = command.type === "generate" ? command : {};
  let printing: Promise<void> = Promise.resolve();
  const stdout = {
    writableLength: 0,
    write(text: string, done: (error?: Error) => void = () => {}) {
      const print = () => {
        if (isFull) return Object.assign(new Error("full"), { code: "ENOSPC" });
        into.stdout += text;
        onPrint(text);
        return undefined;
      };
      printing = printing.then(() => process.call("print", print)).then(done);
      return true;
    },
  };
  const stderr = {
    writableLength: 0,
    write(text: string, done: () => void = () => {}) {
      if (process.endedAt === undefined) into.stderr += text;
      done();
      return true;
    },
  };
  const world = {
    ...ioOf(process, fetch),
    stdin: stdinOf(command),
    stdout,
    stderr,
    isOneStream: false,
    env: { VIDGEN_HOME: dirname(journal), VIDGEN_BASE_URL: serviceUrl + path, VIDGEN_API_KEY: key },
    platform: "linux",
    nodeVersion: "20.19.0",
    pid: process.id.pid,
    home: projectFolder,
    cwd: project === undefined ? undefined : folder,
    signal: process.signal,
    abandon: process.abandon,
    launch: async () => {},
    optimizeForSize: () => {},
    onHangUp: () => {},
  };
  return world as unknown as Io;
}

/** The image that is piped in, as one chunk. */
function stdinOf(command: Command): AsyncIterable<Buffer> {
  const bytes =
    command.type === "generate" && command.piped !== undefined
      ? [Buffer.from(`\x89PNG\r\n\x1a\n${command.piped}`, "latin1")]
      : [];
  return (async function* () {
    yield* bytes;
  })();
}

function flagsOf({ prints = "text", timeoutMs }: { prints?: Prints; timeoutMs?: number | undefined }): string[] {
  return [
    ...(timeoutMs === undefined || timeoutMs === 900_000 ? [] : ["--timeout", `${timeoutMs / 1_000}s`]),
    ...(prints === "text" ? [] : [`--${prints}`]),
  ];
}

async function generate(command: Command & { type: "generate" }, run: Run): Promise<void> {
  const { said } = run;
  const {
    prompt,
    place,
    earlier,
    noWait,
    overwrite,
    prints,
    timeoutMs,
    isDryFirst = false,
    isDryOnly = false,
  } = command;
  const { again, keepsPrompt = false, count, models, project, folder = projectFolder, settings, seed, piped } = command;
  const isSpelled = (spelling: Spelling) => command.spellings?.includes(spelling) === true;
  const isModelLeft = again !== undefined || isSpelled("model") || settings?.model !== undefined;
  const typedModel = models?.join() ?? (isModelLeft ? undefined : model);
  const { disk } = run.process.computer;
  if (project !== undefined) write(`${folder}/vidgen.json`, JSON.stringify({ style: project }), disk);
  saveSettings(settings, run);
  const newest = again === "id" ? newestOriginal(run) : again;
  const words = keepsPrompt ? [] : [prompt.replace(pastedKey, run.key)];
  const flags = [
    typedModel === undefined ? [] : ["-m", typedModel],
    count === undefined || models ? [] : ["-n", String(count)],
    piped === undefined ? [] : ["-i", "-"],
    seed === undefined ? [] : [isSpelled("seed") ? `--set=seed=${seed}` : `--seed=${seed}`],
    place === undefined ? [] : ["-o", isSpelled("path") ? respelled(place) : place],
    earlier === "resume" ? [] : [`--${earlier}`],
    noWait ? ["--no-wait"] : [],
    overwrite ? ["--overwrite"] : [],
    flagsOf({ ...(prints && { prints }), timeoutMs: noWait ? undefined : timeoutMs }),
  ];
  const line = [
    ...(newest === undefined ? ["generate"] : ["again", isSpelled("id") ? shortened(newest) : newest]),
    ...words,
    ...(isSpelled("order") ? flags.toReversed() : flags).flat(),
  ];
  if (isDryOnly) return setCode(said, await typeLine([...line, "--dry-run"], run));
  if (isDryFirst) {
    const into = { stdout: "", stderr: "" };
    const isOk = (await typeLine([...line.filter((word) => word !== "--events"), "--dry-run"], run, into)) === 0;
    if (isOk) said.dry = into.stdout;
  }
  setCode(said, await typeLine(line, run));
  readFiles(run);
}

/** As `config set` and `config unset` leave the file: theirs is on the real disk. */
function saveSettings(settings: (Command & { type: "generate" })["settings"], { process, journal }: Run): void {
  const { disk } = process.computer;
  const path = `${dirname(journal)}/config.json`;
  if (settings === undefined && !disk.exists(path)) return;
  disk.replace(path, Buffer.from(JSON.stringify(settings ?? {})));
}

/** A path in another spelling. */
function respelled(path: string): string {
  return path.replace(work, `${work}/.`);
}

/** A UUID by its first characters. */
function shortened(id: string): string {
  return /^[0-9a-f]{8}-/i.test(id) ? id.slice(0, 8) : id;
}

async function wait(command: Command & { type: "wait" | "wait --all" }, run: Run): Promise<void> {
  const { type, place } = command;
  const flags = [...(place === undefined ? [] : ["-o", place]), ...flagsOf(command)];
  if (type === "wait --all") {
    setCode(run.said, await typeLine(["wait", "--all", ...flags], run));
  } else {
    const found = await list(run);
    const left = found.filter(({ status, file }) => status !== "failed" && file === undefined);
    const ids = new Set(left.flatMap(({ id }) => id ?? []).reverse());
    if (ids.size > 0) setCode(run.said, await typeLine(["wait", ...ids, ...flags], run));
  }
  readFiles(run);
}

type Listed = { attempt: string; id?: string; status: string; file?: string };

/** The newest first. */
async function list(run: Run): Promise<Listed[]> {
  const into = { stdout: "", stderr: "" };
  const code = await typeLine(["list", "--json", "-L", "9999"], run, into);
  if (code === 0) return JSON.parse(into.stdout);
  setCode(run.said, code);
  run.said.stderr += into.stderr;
  return [];
}

/** Closes each attempt that is listed as unclear. */
async function dismissAll(run: Run): Promise<void> {
  for (const { attempt, status } of await list(run))
    if (["unknown", "starting", "lost"].includes(status))
      setCode(run.said, await typeLine(["list", "--dismiss", attempt], run));
}

async function forget({ which }: Command & { type: "list --forget" }, run: Run): Promise<void> {
  const listed = await list(run);
  const isUnclear = ({ status }: Listed) => ["unknown", "starting", "lost"].includes(status);
  const found = which === "the oldest one" ? listed.at(-1) : listed.find(isUnclear);
  if (found === undefined) return;
  const code = await typeLine(["list", "--forget", found.attempt, "--yes"], run);
  setCode(run.said, code);
  if (code === 0) run.onForgotten(found.attempt);
}

async function cancel(run: Run): Promise<void> {
  const started = (await list(run)).filter(({ id }) => id !== undefined);
  const { id } = started.find(({ status }) => status === "processing") ?? started[0] ?? {};
  if (id === undefined) return;
  run.cancels = id.toLowerCase();
  setCode(run.said, await typeLine(["cancel", id], run));
}

async function deleteOne({ files }: Command & { type: "delete" }, run: Run): Promise<void> {
  const started = (await list(run)).filter(({ id }) => id !== undefined);
  const { id } = started.find(({ status }) => status === "completed") ?? started[0] ?? {};
  if (id === undefined) return;
  run.deletes = id.toLowerCase();
  setCode(run.said, await typeLine(["delete", id, "--yes", ...(files ? ["--files"] : [])], run));
}

/** The rows of the file: each with an id of its own, saved beside it. */
export function rowsOf(count: number): { id: string; prompt: string; place: string }[] {
  return Array.from({ length: count }, (_, index) => {
    const id = `r${index + 1}`;
    return { id, prompt: `row ${index + 1}`, place: `${work}/${id}.mp4` };
  });
}

async function batch(command: Command & { type: "batch" }, run: Run): Promise<void> {
  const { file, shard, retryFailed, retryUnknown, redo, maxCredits, jobs } = command;
  const head = command.hasLengths ? "id,prompt,duration" : "id,prompt";
  const lengthOf = (index: number) => (command.hasLengths ? `,${index % 2 === 0 ? 10 : 5}` : "");
  const lines = rowsOf(command.rows).map(({ id, prompt }, index) => `${id},${prompt}${lengthOf(index)}\n`);
  write(file, `${head}\n${lines.join("")}`, run.process.computer.disk);
  const line = [
    ...["batch", file, "-m", model, "-o", `${work}/{id}.mp4`, "--yes", "--jobs", String(jobs)],
    ...(shard ? ["--shard", `${shard.index}/${shard.of}`] : []),
    ...(retryFailed ? ["--retry-failed"] : []),
    ...(retryUnknown ? ["--retry-unknown"] : []),
    ...(redo === undefined ? [] : ["--redo", redo]),
    ...(maxCredits === undefined ? [] : ["--max-credits", String(maxCredits)]),
    ...flagsOf(command),
  ];
  setCode(run.said, await typeLine(line, run));
  readFiles(run);
}

/** An editor that keeps the file, with all its names. */
function write(path: string, text: string, disk: SimulatedDisk): void {
  const who = { name: "somebody", computer: { name: "elsewhere" } };
  const file = disk.open(path, "r+");
  disk.truncate(file, 0, who);
  disk.write(file, Buffer.from(text), 0, who);
  disk.sync(file);
  disk.close(file);
}

/** The results file of a batch. */
export function resultsOf({ file, shard }: Command & { type: "batch" }): string {
  return `${file}${shard ? `.${shard.index}-of-${shard.of}` : ""}.results.jsonl`;
}

/** Reads from stdout which videos were saved. */
function readFiles({ command, said }: Run): void {
  const { stdout, stderr } = said;
  const prints = ("prints" in command && command.prints) || "text";
  if (prints === "text") {
    const files = stdout.split("\n").filter((line) => line.startsWith("/"));
    const isOne = command.type === "generate" && command.count === undefined;
    const id = isOne ? /.*\b(?:Started|Resuming) ([^\s,]+)/s.exec(stderr)?.[1] : undefined;
    said.files = files.map((file) => ({ id, file }));
    return;
  }
  const documents =
    prints === "json"
      ? documentsIn(stdout)
      : stdout.split("\n").flatMap((line) => documentsIn(line).filter(({ event }) => event === "ended"));
  said.files = documents.flatMap(({ id, file }) => (id && file ? { id, file } : []));
}

type Document = { event?: string; id?: string | null; file?: string | null; generations?: Document[] };

function documentsIn(text: string): Document[] {
  if (text.trim() === "") return [];
  const found: Document | Document[] = JSON.parse(text);
  return Array.isArray(found) ? found : (found.generations ?? [found]);
}

/** An agent that calls `generate_video` now and then, and waits for what it has started: below the server, which speaks over real pipes. */
async function mcp({ calls, isAtOnce, maxCredits }: Command & { type: "mcp" }, run: Run): Promise<void> {
  const { said, process } = run;
  const onNote = (text: string) => note(said, text);
  const journal = openJournal(run.journal, { ...process.machine, signal: process.signal, onNote });
  const io = { ...ioOf(process, run.fetch), abandon: process.abandon } as unknown as Io;
  const onIntent: (() => void)[] = [];
  const append: typeof journal.append = async (line) => {
    await journal.append(line);
    if (line.kind === "intent") for (const cancel of onIntent.splice(0)) cancel();
  };
  const service = openService({ baseUrl: serviceUrl, apiKey: run.key, journal: { ...journal, append }, onNote }, io);
  const session = { service } as unknown as Session;
  const services: Pick<Services, "journal" | "open"> = { journal, open: async () => session };
  const start = createStarts({ services, budget: { maxCredits }, ending: process.signal }, io);
  const ask = async ({ prompt, again, cancels, cancelsAtIntent, waits }: AgentCall) => {
    run.earlier = again ? "again" : "reuse";
    const cancelled = new AbortController();
    if (cancels) process.after(30, () => cancelled.abort());
    if (cancelsAtIntent)
      onIntent.push(() => {
        cancelled.abort();
        run.onCancelledCall();
      });
    const request = { prompt: prompt.replace(pastedKey, run.key), model };
    try {
      const { id } = await start(request, { again, cancelled: cancelled.signal });
      print(run, `Started ${id}.`);
      if (waits) await finish(await openAttempt(service, id, { signal: process.signal, timeoutMs: 90_000 }));
    } catch (error) {
      fail(said, error);
    } finally {
      onIntent.length = 0;
    }
  };
  await inTurn(calls, ask, { isAtOnce, process });
}

/** A program that has one client. */
async function library({ calls, isAtOnce }: Command & { type: "library" }, run: Run): Promise<void> {
  const { said, process } = run;
  const onNote = (text: string) => note(said, text);
  const fetch = run.fetch as unknown as typeof globalThis.fetch;
  const options = { baseUrl: serviceUrl, apiKey: run.key, journal: run.journal, fetch, onNote };
  const client = openLibrary(options, process.machine);
  await inTurn(calls, (call) => callLibrary(call, { client, run }), { isAtOnce, process });
  await client.close();
}

/** The second parameter is not declared. */
const openLibrary: (options: ClientOptions, machine: Machine) => Library = createClient;

async function callLibrary(given: LibraryCall, { client, run }: { client: Library; run: Run }): Promise<void> {
  const { said, process } = run;
  const { signal } = process;
  const key = given.key === idKey ? newestId(run) : given.key;
  const call = { ...given, key };
  const { does, prompt, onExisting = does === "generate" ? "resume" : "new", place } = call;
  // With a key it is the key that tells; without, `start` alone looks at nothing.
  if (does !== "resume") run.earlier = onExisting === "new" ? "again" : onExisting;
  if (key !== undefined) run.named.add(key);
  const request = { prompt: prompt.replace(pastedKey, run.key), model };
  const how = { signal, ...(key && { idempotencyKey: key }), ...(call.onExisting && { onExisting }) };
  try {
    if (does === "resume") {
      const onResumed = run.onResuming();
      for (const { id, file, videoUrl, error } of await client.generations.resume({ signal })) {
        onResumed(id);
        print(run, [id, videoUrl ?? []].flat().join(" "));
        if (file !== undefined) said.files.push({ id, file });
        if (error) fail(said, error);
      }
      return;
    }
    if (does === "start") {
      const { id } = await client.start(request, how);
      run.onReturned({ ...call, id });
      return print(run, id);
    }
    const fails = () => {
      note(said, "the program's listener throws");
      throw new Error("the program's listener throws");
    };
    const listener = call.throws === undefined ? {} : { [call.throws]: fails };
    const options = { ...how, ...listener, ...(place && { output: place }) };
    const { id, file, videoUrl } = await client.generate(request, options);
    run.onReturned({ ...call, id });
    print(run, [id, videoUrl ?? []].flat().join(" "));
    if (file !== undefined) said.files.push({ id, file });
  } catch (error) {
    fail(said, error);
  }
}

/** Of the lines of its journal. */
function newestId(run: Run): string {
  return [...textOfJournal(run).matchAll(/"id":"([\w-]+)"/g)].at(-1)?.[1] ?? noId;
}

/** The same of those that repeat no other: so the same line has the same id. */
function newestOriginal(run: Run): string {
  const text = textOfJournal(run);
  const repeats = new Set([...text.matchAll(/"attempt":"([\w-]+)".*"parent":/g)].map(([, attempt]) => attempt));
  const accepted = [...text.matchAll(/"kind":"accepted","attempt":"([\w-]+)","id":"([\w-]+)"/g)];
  return accepted.findLast(([, attempt]) => !repeats.has(attempt))?.[2] ?? noId;
}

const noId = "no-generation-yet";

function textOfJournal({ process, journal }: Run): string {
  return process.computer.disk.content(journal)?.toString("utf8") ?? "";
}

function print({ said, onPrint }: Run, text: string): void {
  said.stdout += `${text}\n`;
  onPrint(text);
}

/** All at once, or one after the other with a second between. */
async function inTurn<Call>(
  calls: readonly Call[],
  work: (call: Call) => Promise<void>,
  { isAtOnce, process }: { isAtOnce: boolean; process: Process },
): Promise<void> {
  if (isAtOnce) return void (await Promise.all(calls.map(work)));
  for (const call of calls) {
    if (process.signal.aborted) return;
    await work(call);
    await process.machine.sleep(1_000);
  }
}

/** The end of a process that was told twice to end. */
export function leaveAtOnce(run: Run): void {
  run.said.code = codeOfLeaving(run.process);
}
