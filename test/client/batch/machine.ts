import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Batch, type OpenBatchOptions, openBatch } from "../../../src/client/batch/batch.ts";
import { keyRows, type Row } from "../../../src/client/batch/row.ts";
import type { RunEnd, RunOptions } from "../../../src/client/batch/run.ts";
import { readStatus } from "../../../src/client/batch/status.ts";
import type { WorkOptions } from "../../../src/client/batch/work.ts";
import type { GenerationEvent } from "../../../src/client/generation/events.ts";
import { openService } from "../../../src/client/generation/service.ts";
import { openJournal } from "../../../src/client/ledger/journal.ts";
import { readAttempts } from "../../../src/client/ledger/search.ts";
import { type Disk, type FetchInit, systemMachine } from "../../../src/io.ts";
import { createVirtualClock } from "../../clock.ts";
import { makeFolder } from "../../folder.ts";
import { tinyMp4 } from "../../mp4.ts";

const serviceUrl = "https://api.video.example";

type Fields = { duration?: number; resolution?: string; generate_audio?: boolean };
type Generation = { id: string; prompt: string; model: string; endsAt: number; request: Fields; running: number };

/** Answers a start itself; `undefined` lets the service do it. `accept` charges for it, and returns the answer. */
export type Fault = (prompt: string, accept: () => Response) => Response | Promise<Response> | undefined;

export type ServiceOptions = {
  credits?: number;
  price?: (model: string, request: Fields) => number;
  /** Whether its start reply states the price, as that of `vidgen serve` does. */
  statesPrice?: boolean;
  /** What it says that a video has cost in USD. */
  usd?: (request: Fields) => number;
  /** Whether one that failed has cost as much. */
  chargesFailed?: boolean;
  /** For how many seconds it keeps Idempotency-Keys; a key that it has is answered as before, and not charged again. */
  keyLifetime?: number;
  /** How many run at once; more get a 429. */
  capacity?: number;
  renderMs?: () => number;
  fault?: Fault;
  /** What its videos hold, besides the boxes of an .mp4; by default their prompt. */
  contentOf?: (generation: { id: string; prompt: string }) => string;
};

/** A service with an account, as the interface describes it, for as many clients as want it. */
export function createService(options: ServiceOptions = {}) {
  const { capacity = Number.POSITIVE_INFINITY, renderMs = () => 60_000, price = () => 10 } = options;
  const { contentOf = ({ prompt }) => prompt } = options;
  const clock = createVirtualClock();
  const generations: Generation[] = [];
  const service = {
    clock,
    credits: options.credits ?? 1_000_000,
    fault: options.fault,
    keyLifetime: options.keyLifetime,
    /** Whether a question about keys gets no answer. */
    isSilent: false,
    /** The Idempotency-Key of each start. */
    keys: [] as string[],
    generations,
    /** When each start was refused for want of room, in milliseconds. */
    refused: [] as number[],
    polls: 0,
    starts: 0,
    /** Somebody buys credits, or spends some elsewhere. */
    earn: (credits: number) => {
      service.credits += credits;
    },
    /** How many ids it has given; none is given twice. */
    ids: 0,
    charges: (prompt: string) => generations.filter((each) => each.prompt === prompt).length,
  };
  const idsByKey = new Map<string, string>();
  const accept = (prompt: string, model: string, request: Fields, key: string) => {
    const kept = service.keyLifetime === undefined ? undefined : idsByKey.get(key);
    if (kept !== undefined)
      return Response.json({
        success: true,
        data: { id: kept, status: "processing" },
        remaining_credits: service.credits,
      });
    const cost = price(model, request);
    if (service.credits < cost) return Response.json({ error: "not enough credits" }, { status: 402 });
    const running = generations.filter(({ endsAt }) => endsAt > clock.now()).length;
    if (running >= capacity) {
      service.refused.push(clock.now());
      return Response.json({ error: "busy" }, { status: 429 });
    }
    service.credits -= cost;
    const id = `gen-${++service.ids}`;
    idsByKey.set(key, id);
    generations.push({ id, prompt, model, endsAt: clock.now() + renderMs(), request, running });
    const stated = options.statesPrice ? { credits_charged: cost } : {};
    const data = { id, status: "processing" };
    return Response.json({ success: true, data, ...stated, remaining_credits: service.credits });
  };
  const fetch = async (url: string, init: FetchInit = {}): Promise<Response> => {
    init.signal?.throwIfAborted();
    if (init.method === "POST") {
      service.starts++;
      const { prompt, model, ...request } = JSON.parse(String(init.body));
      const key = new Headers(init.headers).get("Idempotency-Key") ?? "";
      service.keys.push(key);
      const take = () => accept(prompt, model, request, key);
      return (await service.fault?.(prompt, take)) ?? take();
    }
    if (service.isSilent) return new Response("", { status: 503 });
    const found = generations.find(({ id }) => url.endsWith(`=${id}`) || url.endsWith(`/${id}.mp4`));
    const headers: Record<string, string> =
      service.keyLifetime === undefined ? {} : { "Idempotency-Key-Lifetime": String(service.keyLifetime) };
    if (!found) return Response.json({ error: "no such generation" }, { status: 404, headers });
    const { id, prompt, endsAt, request } = found;
    if (url.endsWith(".mp4")) return new Response(tinyMp4(contentOf(found)).slice());
    service.polls++;
    if (endsAt > clock.now()) return Response.json({ id, status: "processing" });
    const charged = options.usd && { cost: options.usd(request) };
    if (prompt.includes("[fail]"))
      return Response.json({ id, status: "failed", error: "too dark", ...(options.chargesFailed && charged) });
    const video_url = `https://media.video.example/${id}.mp4`;
    return Response.json({ id, status: "completed", video_url, ...charged });
  };
  return Object.assign(service, { fetch });
}

export type Service = ReturnType<typeof createService>;

type Options = Partial<
  OpenBatchOptions & RunOptions & Omit<WorkOptions, "overwrite"> & { baseUrl: string; apiKey: string; disk: Disk }
>;

export type Ran = { batch: Batch; end: RunEnd; events: GenerationEvent[]; statuses: Record<string, string> };

export type Machine = ReturnType<typeof createMachine>;

/** As on another machine, which has the results files alone. */
export function leaveAlone({ folder }: Pick<Machine, "folder">): void {
  for (const name of readdirSync(folder))
    if (!name.endsWith("results.jsonl") && !name.endsWith(".csv")) rmSync(join(folder, name), { recursive: true });
}

type MachineOptions = {
  name?: string;
  /** The folder in which it has its own. */
  parent?: string;
  isAlive?(pid: number, newest: number): boolean;
  /** Whether processes run side by side, until `kill` ends them all; else each new one ends the one before. */
  atOnce?: boolean;
};

/** A folder on a machine with a journal; `run` is one process, the one before has ended. */
export function createMachine(service: Service, options: MachineOptions = {}) {
  const { name = "a", parent } = options;
  const folder = makeFolder(parent);
  // What it holds is not read here: the rows are given.
  writeFileSync(join(folder, "shots.csv"), "");
  let pid = 0;
  const processesOf = (self: number) => ({
    self: async () => ({ machine: name, namespace: "1", pid: self, start: "0" }),
    startOf: async (other: number) => (machine.isAlive(other, pid) ? "0" : undefined),
  });
  let killed = 0;
  const runs = (self: number) => (options.atOnce ? self > killed : self === pid);
  const machine = {
    folder,
    journal: join(folder, "journal.jsonl"),
    isAlive: options.isAlive ?? runs,
    /** How much later its next process runs. */
    laterMs: 0,
    rowsFile: join(folder, "shots.csv"),
    results: join(folder, "shots.csv.results.jsonl"),
    /** Rows of these prompts, each saved as its line in the folder. */
    rows: (...prompts: string[]) => prompts.map((prompt, i) => machine.row(prompt, { line: i + 1 })),
    row(
      prompt: string,
      { line = 1, model = "wan-2.5", fields = {}, ...more }: Partial<Row> & { model?: string; fields?: Fields } = {},
    ): Row {
      const request = { prompt, model, ...fields };
      const place = join(folder, `${prompt.replace(/\W+/g, "-")}-${line}.mp4`);
      return { line, record: request, load: async () => request, outputPath: place, ...more };
    },
    videoOf: (row: Row) => readFileSync(row.outputPath ?? "", "utf8"),
    /** Opens the batch as a new process. */
    async open(rows: Row[], options: Options = {}) {
      const self = ++pid;
      const alive =
        <Args extends unknown[], Result>(work: (...args: Args) => Promise<Result>) =>
        (...args: Args) =>
          runs(self) ? work(...args) : new Promise<never>(() => {});
      const processes = processesOf(self);
      const { clock } = service;
      const io = {
        ...systemMachine,
        ...clock,
        disk: options.disk ?? systemMachine.disk,
        date: () => new Date(clock.date().getTime() + machine.laterMs),
        processes,
        unsettled: new Set<string>(),
        sleep: alive(clock.sleep),
        fetch: alive(service.fetch),
      };
      const notes: string[] = [];
      const onNote = (text: string) => void notes.push(text);
      const journal = openJournal(machine.journal, io);
      const { baseUrl = serviceUrl, apiKey = "canary-key-0123456789" } = options;
      const opened = openService({ baseUrl, apiKey, journal, onNote }, io);
      const source = { file: machine.rowsFile, total: rows.length, shard: null };
      const how = { results: machine.results, source, onNote, ...options };
      return { ...(await openBatch(keyRows(rows), how, { service: opened, io })), notes };
    },
    async run(rows: Row[], options: Options = {}): Promise<Ran> {
      const batch = await machine.open(rows, options);
      const events: GenerationEvent[] = [];
      const { signal } = new AbortController();
      const onEvent = (event: GenerationEvent) => void events.push(event);
      const end = await batch.run({ jobs: 4, signal, abandon: signal, onNote() {}, onEvent, ...options });
      await batch.close();
      const ended = events.flatMap((event) => (event.event === "ended" ? [[String(event.line), event.status]] : []));
      return { batch, end, events, statuses: Object.fromEntries(ended) };
    },
    rewriteJournal: (lines: string[]) => writeFileSync(machine.journal, lines.map((line) => `${line}\n`).join("")),
    /** The process dies, and all others with it. */
    kill() {
      killed = ++pid;
    },
    async status() {
      const io = { ...systemMachine, ...service.clock, processes: processesOf(pid + 1) };
      return readStatus([machine.results], io, await readAttempts(openJournal(machine.journal, io)));
    },
    lines: () =>
      readFileSync(machine.results, "utf8")
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line)),
  };
  return machine;
}
