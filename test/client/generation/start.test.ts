import { createHash } from "node:crypto";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { close, finish, handOver, openAttempt } from "../../../src/client/generation/attempt.ts";
import { findEntry, listEntries, openService } from "../../../src/client/generation/service.ts";
import { openTakes, type PaidStartOptions, startGeneration } from "../../../src/client/generation/start.ts";
import { findSaved, readStatus } from "../../../src/client/generation/status.ts";
import { accountOf } from "../../../src/client/ledger/history.ts";
import { type Journal, openJournal } from "../../../src/client/ledger/journal.ts";
import { claimOutput } from "../../../src/client/save/claim.ts";
import { VidgenError } from "../../../src/errors.ts";
import { type FetchInit, type Machine, RequestError, systemMachine } from "../../../src/io.ts";
import { createVirtualClock } from "../../clock.ts";
import { findPart, makeFolder } from "../../folder.ts";
import { tinyMp4 } from "../../mp4.ts";
import { lacks } from "../../needs.ts";

const baseUrl = "https://api.video.example";
const apiKey = "canary-key-0123456789";
const account = accountOf(baseUrl, apiKey);
const request = { prompt: "A red fox", model: "wan-2.5" };
const id = "1b4e28ba-2fa1-41d2-883f-0016d3cca427";
const video = tinyMp4("a fox");
const { signal } = new AbortController();

type Answer = (url: string, init: FetchInit) => Response | Promise<Response>;

const accepted: Answer = () => Response.json({ success: true, data: { id, status: "processing" } });

/** Accepts each start as `id`, has its video at once, and serves it. */
const honest: Answer = (url, { method }) => {
  if (method === "POST") return accepted(url, {});
  if (url.endsWith(".mp4")) return new Response(video.slice());
  return Response.json({ id, status: "completed", video_url: "https://media.video.example/fox.mp4" });
};

type OpenOptions = Partial<Journal> & {
  pid?: number;
  running?: number[];
  machine?: Partial<Machine>;
  onNote?: (text: string) => void;
};

function createWorld() {
  const folder = makeFolder();
  const journal = join(folder, "journal.jsonl");
  const place = join(folder, "fox.mp4");
  const lines = () =>
    existsSync(journal)
      ? readFileSync(journal, "utf8")
          .split("\n")
          .filter(Boolean)
          .map((line) => JSON.parse(line))
      : [];
  /** A process with a client of its own; the others it knows to be running. */
  const open = (answer: Answer = honest, options: OpenOptions = {}) => {
    const { pid = 1, running = [1], machine, onNote, ...how } = options;
    const fetch = async (url: string, init: FetchInit = {}) => answer(url, init);
    const processes = {
      self: async () => ({ machine: "boot", namespace: "1", pid, start: "0" }),
      startOf: async (other: number) => (running.includes(other) ? "0" : undefined),
    };
    const io = {
      ...systemMachine,
      ...createVirtualClock(),
      ...machine,
      processes,
      fetch,
      unsettled: new Set<string>(),
    };
    const opened = { ...openJournal(journal, io), ...how };
    const service = openService({ baseUrl, apiKey, journal: opened, onNote }, io);
    const begin = (options: Partial<PaidStartOptions> = {}, wanted = request) =>
      startGeneration(service, wanted, { signal, ...options });
    const start = async (options: Partial<PaidStartOptions> = {}) => {
      const made = await begin(options);
      if (made.kind !== "accepted") throw made.kind === "resumed" ? new Error("it was started before") : made.error;
      await close(made.attempt);
      return { ...made.started, attempt: made.attempt.attempt };
    };
    const claim = async (place: string, { timeoutMs }: { timeoutMs?: number } = {}) => {
      const entry = await findEntry(service, id);
      return claimOutput(place, { id, entry, signal, timeoutMs }, service, io);
    };
    const save = async (id: string, place: string) => {
      const attempt = await openAttempt(service, id, { outputPath: place, signal });
      const finished = await finish(attempt).finally(() => close(attempt));
      if (finished.kind !== "saved") throw new Error("it is saved already");
      return finished;
    };
    return { service, journal: opened, begin, start, claim, save };
  };
  return { folder, journal, place, lines, open };
}

test.each([
  ["reuse", [], { kind: "accepted", attempt: "a", id }, id],
  ["resume", [{ kind: "accepted", attempt: "a", id }], { kind: "delivered", id }, undefined],
] as const)(
  "%s: what a process writes just before it is found to have ended counts",
  async (earlier, before, last, resumed) => {
    const { open, journal } = createWorld();
    const write = (line: object) =>
      appendFileSync(journal, `${JSON.stringify({ at: createVirtualClock().date(), ...line })}\n`);
    const intent = { kind: "intent", attempt: "a", base_url: baseUrl, account, request };
    for (const line of [intent, ...before]) write(line);
    const leaseOf = async () => {
      write(last);
      return "dead" as const;
    };
    const made = await open(honest, { leaseOf }).begin({ earlier });
    expect(made.kind === "resumed" ? made.earlier.id : undefined).toBe(resumed);
    if ("attempt" in made) await close(made.attempt);
  },
);

test("reuse: a video that another process saves at the same moment is found, and is no conflict", async () => {
  const { open, journal, place } = createWorld();
  const write = (line: object) =>
    appendFileSync(journal, `${JSON.stringify({ at: createVirtualClock().date(), ...line })}\n`);
  write({ kind: "intent", attempt: "a", base_url: baseUrl, account, request });
  write({ kind: "accepted", attempt: "a", id });
  const { scan: read } = open().journal;
  async function* scan(range?: Parameters<typeof read>[0]) {
    try {
      yield* read(range);
    } finally {
      // Right after the start has read its candidates, which may stop before the beginning of the journal.
      if (range?.words?.some((word) => word.includes(id)) && !existsSync(place)) {
        writeFileSync(place, video);
        const sha256 = createHash("sha256").update(video).digest("hex");
        write({ kind: "delivered", id, file: place, sha256, size: video.length, inode: 0, mtime: 0 });
      }
    }
  }
  const made = await open(honest, { scan }).begin({ earlier: "reuse", save: { outputPath: place } });
  expect(made).toMatchObject({ kind: "resumed", attempt: { file: place } });
  if ("attempt" in made) await close(made.attempt);
});

test("a start is in the journal before it is sent, and its outcome after that", async () => {
  const { open, lines, place } = createWorld();
  const seen: unknown[] = [];
  const client = open((...call) => {
    seen.push(...lines().map(({ kind }) => kind));
    return accepted(...call);
  });
  const { attempt } = await client.start({ save: { outputPath: place } });
  expect(seen).toEqual(["intent", "part"]);
  expect(lines()).toMatchObject([
    { kind: "intent", attempt, base_url: baseUrl, request, place },
    { kind: "part", attempt },
    { kind: "accepted", attempt, id },
  ]);
  expect(await listEntries(client.service)).toMatchObject([{ id, attempt, status: "processing" }]);
});

test("a journal that cannot be written stops a start before anything is sent", async () => {
  const { open, journal } = createWorld();
  mkdirSync(journal);
  const client = open(() => expect.fail("something was sent"));
  await expect(client.start()).rejects.toMatchObject({ code: "output", message: /journal/ });
});

test("when no more files can be opened, the error says what to do, and does not mention permissions", async () => {
  const { open } = createWorld();
  const failing = async () => Promise.reject(Object.assign(new Error("too many"), { code: "EMFILE" }));
  const disk = { ...systemMachine.disk, open: failing };
  const error = await open(() => expect.fail("something was sent"), { machine: { disk } })
    .start()
    .catch((error) => error);
  expect(error).toMatchObject({ code: "output", message: /too many open files/, hint: /ulimit -n 1024/ });
  expect(error.hint).not.toMatch(/permissions/);
});

test("the API key is not in the journal, even if the service repeats it", async () => {
  const { open, journal } = createWorld();
  const client = open(() => Response.json({ error: `${apiKey} is wrong` }, { status: 401 }));
  await expect(client.start()).rejects.toMatchObject({ code: "auth" });
  expect(readFileSync(journal, "utf8")).toContain("[key] is wrong");
  expect(readFileSync(journal, "utf8")).not.toContain(apiKey);
});

test("an API key in the prompt is neither in the name of the video nor in that of its partial file", async () => {
  const { open, folder } = createWorld();
  const client = open();
  const pasted = { ...request, prompt: `A fox ${apiKey}` };
  const made = await client.begin({ save: { outputPath: join(folder, "{slug}.mp4") } }, pasted);
  if (made.kind !== "accepted") throw new Error("it is accepted");
  const finished = await finish(made.attempt).finally(() => close(made.attempt));
  expect(finished).toMatchObject({ kind: "saved", file: join(folder, "a-fox-key.mp4") });
  expect(readdirSync(folder).join()).not.toContain("canary");
});

test("a video is named after its prompt, and the next process finds it there", async () => {
  const { open, folder, lines } = createWorld();
  const client = open();
  await client.start();
  const { file } = await client.save(id, join(folder, "{slug}-{id}.mp4"));
  expect([file, new Uint8Array(readFileSync(file))]).toEqual([join(folder, `a-red-fox-${id}.mp4`), video]);
  expect(lines().map(({ kind }) => kind)).toEqual([
    "intent",
    "accepted",
    "part",
    "completed",
    "part",
    "part",
    "downloaded",
    "delivered",
  ]);
  expect(await findSaved(open().service, id, join(folder, "{slug}-{id}.mp4"))).toBe(file);
  expect(await findSaved(open().service, id, join(folder, "other.mp4"))).toBe(undefined);
});

test("a listener that throws does not stop a download: its error comes once the video is saved", async () => {
  const { open, place, lines } = createWorld();
  const { service, start } = open();
  await start();
  const attempt = await openAttempt(service, id, { outputPath: place, signal });
  const progress = () => {
    throw new Error("a broken bar");
  };
  await expect(finish(attempt, { progress }).finally(() => close(attempt))).rejects.toThrow("a broken bar");
  expect(new Uint8Array(readFileSync(place))).toEqual(video);
  expect(lines().at(-1)).toMatchObject({ kind: "delivered", file: place });
});

test("a video that was not handed over is resumed by the same command, and one that was is not", async () => {
  const { open } = createWorld();
  let posts = 0;
  const count: Answer = (url, init) => {
    if (init.method === "POST") posts++;
    return honest(url, init);
  };
  const first = await open(count).begin({ earlier: "resume" });
  if (first.kind !== "accepted") throw new Error("it is accepted");
  await finish(first.attempt);
  await close(first.attempt);
  const second = await open(count, { pid: 2, running: [2] }).begin({ earlier: "resume" });
  if (second.kind !== "resumed") throw new Error("it is resumed");
  await handOver(await finish(second.attempt));
  await close(second.attempt);
  expect(posts).toBe(1);
  await open(count, { pid: 3, running: [3] }).begin({ earlier: "resume" });
  expect(posts).toBe(2);
});

test("the outcome of a generation that was started here is written to the journal once", async () => {
  const { open, lines } = createWorld();
  const client = open();
  await client.start();
  for (const looker of [client, client, open(), open()])
    expect((await readStatus(looker.service, id, { signal })).status).toBe("completed");
  expect(lines().filter(({ kind }) => kind === "completed")).toHaveLength(1);
});

test("the generations of another service are not found", async () => {
  const { open, journal } = createWorld();
  await open().start();
  const text = readFileSync(journal, "utf8").replaceAll(baseUrl, "https://other.example");
  writeFileSync(journal, text);
  expect(await listEntries(open().service)).toEqual([]);
});

describe("an output path that another process uses", () => {
  const claimAt = async (client: ReturnType<ReturnType<typeof createWorld>["open"]>, place: string) => {
    const { target } = await client.claim(place, { timeoutMs: 1_000 });
    await target?.open();
    return target;
  };

  test("is waited for while that process runs, also by the same client, and is free once it is released", async () => {
    const { open, place } = createWorld();
    const client = open();
    const target = await claimAt(client, place);
    const still = { code: "pending", message: `Another process is still saving to ${place}.` };
    await expect(claimAt(client, place)).rejects.toMatchObject(still);
    await expect(claimAt(open(honest, { pid: 2, running: [1, 2] }), place)).rejects.toMatchObject(still);
    await target?.release();
    await (await claimAt(client, place))?.release();
  });

  test.skipIf(lacks("removal of open files"))(
    "is taken over when that process is gone, with its partial file",
    async () => {
      const { open, place, folder } = createWorld();
      await claimAt(open(), place);
      const next = await claimAt(open(honest, { pid: 2, running: [2] }), place);
      expect(findPart(folder)).toContain("fox.mp4.");
      await next?.release();
      expect(readdirSync(folder).filter((name) => name.includes("fox"))).toEqual([]);
    },
  );

  test.skipIf(lacks("removal of open files"))(
    "is refused if its .part file is another program's, which is left alone",
    async () => {
      const { open, place, folder } = createWorld();
      await claimAt(open(), place);
      const part = findPart(folder);
      writeFileSync(part, "a diary");
      await expect(claimAt(open(honest, { pid: 2, running: [2] }), place)).rejects.toMatchObject({
        code: "output",
        hint: expect.stringContaining("move that .part file"),
      });
      expect(readFileSync(part, "utf8")).toBe("a diary");
    },
  );
});

test("a file that appears between the two checks of the output path is not changed", async () => {
  const { open, place } = createWorld();
  const access: typeof systemMachine.disk.access = async (...args) => {
    writeFileSync(place, "a diary");
    await systemMachine.disk.access(...args);
  };
  const client = open(honest, { machine: { disk: { ...systemMachine.disk, access } } });
  await expect(client.claim(place)).rejects.toMatchObject({ code: "output", message: /exists/ });
  expect(readFileSync(place, "utf8")).toBe("a diary");
  rmSync(place);
  const { target } = await open().claim(place);
  await target?.release();
});

test("a download resumes the partial file of an earlier process if it is the same video", async () => {
  const { open, place } = createWorld();
  const cut: Answer = (url, init) => {
    if (!url.endsWith(".mp4")) return honest(url, init);
    if (new Headers(init.headers).has("Range")) return new Response("", { status: 400 });
    const headers = { ETag: '"one"', "Content-Length": String(video.length) };
    return new Response(video.slice(0, 20), { headers });
  };
  const first = open(cut);
  await first.start();
  await expect(first.save(id, place)).rejects.toMatchObject({ code: "output" });
  const asked: unknown[] = [];
  const second = open(
    (url, init) => {
      if (!url.endsWith(".mp4")) return honest(url, init);
      const headers = new Headers(init.headers);
      asked.push([headers.get("Range"), headers.get("If-Range")]);
      const range = { "Content-Range": `bytes 20-${video.length - 1}/${video.length}` };
      return new Response(video.slice(20), { status: 206, headers: range });
    },
    { pid: 2, running: [2] },
  );
  const { file } = await second.save(id, place);
  expect(asked).toEqual([["bytes=20-", '"one"']]);
  expect(new Uint8Array(readFileSync(file))).toEqual(video);
});

test("a video that was paid for is saved even where the journal can no longer be read or written", async () => {
  const { open, journal, place } = createWorld();
  const client = open();
  await client.start();
  rmSync(journal);
  mkdirSync(journal);
  expect((await client.save(id, place)).file).toBe(place);
});

test("what a client does follows from the service's answers, its clock, its random numbers and its UUIDs", async () => {
  const run = async () => {
    const world = createWorld();
    let count = 0;
    const machine = { uuid: () => `uuid-${++count}`, random: () => 0.9 };
    let starts = 0;
    const busyFirst: Answer = (url, init) =>
      init.method === "POST" && starts++ < 3 ? new Response("busy", { status: 429 }) : honest(url, init);
    const { start, service } = world.open(busyFirst, { machine });
    await start();
    await finish(await openAttempt(service, id, { signal }));
    return readFileSync(world.journal, "utf8");
  };
  expect(await run()).toBe(await run());
});

test("a start that is written to the journal but not synced to the disk is not sent", async () => {
  const { open } = createWorld();
  const full = Object.assign(new Error("full"), { code: "ENOSPC" });
  const disk: Machine["disk"] = {
    ...systemMachine.disk,
    open: async (...args) =>
      Object.assign(await systemMachine.disk.open(...args), { datasync: () => Promise.reject(full) }),
  };
  let requests = 0;
  const count: Answer = () => {
    requests++;
    return accepted("", {});
  };
  const { start } = open(count, { machine: { disk } });
  await expect(start()).rejects.toMatchObject({ code: "output" });
  expect(requests).toBe(0);
});

test.each([false, true])(
  "a start that somebody stops before it is sent is unsent; where that cannot be written (%s), it is said",
  async (isBroken) => {
    const { open, lines } = createWorld();
    const notes: string[] = [];
    const full = new VidgenError("output", "the disk is full");
    const broken = isBroken ? { withdraw: () => Promise.reject(full) } : {};
    const client = open(() => expect.fail("something was sent"), { ...broken, onNote: (text) => notes.push(text) });
    let attempt = "";
    const onSending = (name: string) => {
      attempt = name;
      throw new VidgenError("interrupted", "It was stopped before the request.");
    };
    await expect(client.begin({ onSending })).rejects.toThrow("stopped");
    expect(lines().map(({ kind }) => kind)).toEqual(isBroken ? ["intent"] : ["intent", "unsent"]);
    const told = `Nothing was sent, .* may stop with exit 6[^]*\`vidgen list --dismiss ${attempt}\``;
    expect(notes).toEqual(isBroken ? [expect.stringMatching(told)] : []);
  },
);

test("a process that finds its lock taken over, once its intent is written, sends nothing", async () => {
  const { open, lines } = createWorld();
  let seen: unknown[] = [];
  const confirm = async () => {
    seen = lines().map(({ kind }) => kind);
    throw new VidgenError("output", "This process no longer holds the lock.");
  };
  let requests = 0;
  const count: Answer = () => {
    requests++;
    return accepted("", {});
  };
  const { start } = open(count, { lock: (work) => work({ confirm }) });
  await expect(start()).rejects.toMatchObject({ code: "output" });
  expect([seen, requests]).toEqual([["intent"], 0]);
  expect(lines().map(({ kind }) => kind)).toEqual(["intent", "unsent"]);
});

test("when the lock cannot be refreshed, the error is about the disk, and is not a bug", async () => {
  const { open, lines } = createWorld();
  const denied = Object.assign(new Error("denied"), { code: "EACCES" });
  const disk: Machine["disk"] = {
    ...systemMachine.disk,
    utimes: async (path, ...times) => {
      if (lines().length > 0 && String(path).includes("journal.jsonl.lock")) throw denied;
      return systemMachine.disk.utimes(path, ...times);
    },
  };
  const { start } = open(() => expect.fail("something was sent"), { machine: { disk } });
  const message = /^Cannot write the journal .*permission denied/;
  await expect(start()).rejects.toMatchObject({ code: "output", message });
  expect(lines().map(({ kind }) => kind)).toEqual(["intent", "unsent"]);
});

describe("a process that was suspended while another one took over", () => {
  /** Another process, to which the first one is dead, passes its attempt over and starts the same. */
  const startElsewhere = async (open: ReturnType<typeof createWorld>["open"]) => {
    const made = await open(honest, { pid: 2, running: [2] }).begin({ earlier: "again" });
    if (made.kind !== "accepted") throw new Error("the other process starts a new one");
    await close(made.attempt);
  };

  test.each([
    ["no byte of the first request was written", new RequestError(new Error("refused"), { sent: false }), "unsent"],
    ["the first request was answered with 429", new Response("busy", { status: 429 }), "refused"],
  ] as const)("sends nothing more where %s", async (_, first, kind) => {
    const { open, lines } = createWorld();
    let requests = 0;
    const client = open(async () => {
      requests++;
      await startElsewhere(open);
      if (first instanceof Error) throw first;
      return first;
    });
    const end = await client.begin();
    expect(end).toMatchObject({ kind, error: { code: "output", message: /another (process|one) may have taken/ } });
    if (end.kind === "unsent") expect(end.error.message).toMatch(/Nothing was sent, nothing was charged/);
    else expect(end).toMatchObject({ error: { message: /No generation was started/ } });
    expect(requests).toBe(1);
    expect(lines().map(({ kind }) => kind)).toEqual(["intent", "intent", "dismissed", "accepted", kind]);
  });

  test("sends nothing if the attempt was dismissed, even if its lease could not be taken", async () => {
    const { open } = createWorld();
    let requests = 0;
    const client = open(async () => {
      requests++;
      throw new RequestError(new Error("refused"), { sent: false });
    });
    const end = await client.begin({
      onSending: (attempt) => client.journal.append({ kind: "dismissed", attempt }),
    });
    expect(end).toMatchObject({
      kind: "unsent",
      error: { message: /dismissed.*Nothing was sent, nothing was charged/ },
    });
    expect(requests).toBe(0);
  });

  test("sends nothing if it was suspended while it connected", async () => {
    const { open, lines } = createWorld();
    const clock = createVirtualClock();
    let pausedMs = 0;
    let posts = 0;
    const connectSlowly: Answer = (url, init) => {
      pausedMs = 60_000;
      try {
        init.beforeSend?.();
      } catch (cause) {
        throw new RequestError(cause, { sent: false });
      }
      posts++;
      return accepted(url, init);
    };
    const machine = { ...clock, now: () => clock.now() + pausedMs };
    await expect(open(connectSlowly, { machine }).start()).rejects.toMatchObject({
      code: "output",
      message: /Nothing was sent, nothing was charged/,
    });
    expect([posts, ...lines().map(({ kind }) => kind)]).toEqual([0, "intent", "unsent"]);
  });

  test("sends nothing if its lease cannot be refreshed", async () => {
    const { open } = createWorld();
    const denied = Object.assign(new Error("denied"), { code: "EACCES" });
    let isDenied = false;
    const disk: Machine["disk"] = {
      ...systemMachine.disk,
      utimes: async (...args) => {
        if (isDenied) throw denied;
        return systemMachine.disk.utimes(...args);
      },
    };
    const client = open(() => expect.fail("something was sent"), { machine: { disk } });
    const onSending = () => {
      isDenied = true;
    };
    const end = await client.begin({ onSending });
    expect(end).toMatchObject({
      kind: "unsent",
      error: { code: "output", message: /permission denied.*Nothing was sent/ },
    });
  });
});

test("two hundred concurrent starts are each sent once, and none fails because of the lock", async () => {
  const { open, lines } = createWorld();
  let count = 0;
  const { start } = open(() => Response.json({ success: true, data: { id: `id-${++count}`, status: "processing" } }));
  const started = await Promise.all(Array.from({ length: 200 }, () => start({ noWait: true })));
  expect(new Set(started.map(({ generation }) => generation.id)).size).toBe(200);
  expect(lines().filter(({ kind }) => kind === "accepted")).toHaveLength(200);
});

test("a signal ends the wait for the lock, also while others hold it", async () => {
  const { open } = createWorld();
  let free = () => {};
  const held = new Promise<void>((resolve) => (free = resolve));
  const { start, journal } = open();
  const holding = journal.lock(() => held);
  const controller = new AbortController();
  const waiting = [start({ signal: controller.signal }), start({ signal: controller.signal })];
  const reason = new VidgenError("interrupted", "Interrupted.");
  controller.abort(reason);
  const stopped = { code: "interrupted", message: /Nothing was sent/ };
  await Promise.all(waiting.map((each) => expect(each).rejects.toMatchObject(stopped)));
  free();
  await holding;
  await start();
});

/** A journal with these lines, and processes on one clock; `lead` acquires a lease for another process. */
function createShared(...lines: object[]) {
  const world = createWorld();
  const machine = createVirtualClock();
  const write = (line: object) =>
    appendFileSync(world.journal, `${JSON.stringify({ at: machine.date().toISOString(), ...line })}\n`);
  for (const line of lines) write(line);
  const running = [1, 2];
  const open = (answer: Answer = honest, options: OpenOptions = {}) =>
    world.open(answer, { running, ...options, machine: { ...machine, ...options.machine } });
  const lead = async (name: string) => {
    const lease = await open(honest, { pid: 2 }).journal.acquire(name);
    if (lease === undefined) throw new Error(`${name} has a holder`);
    return lease;
  };
  const end = () => running.splice(1);
  return { ...world, machine, write, open, lead, end };
}

const intentOf = (attempt: string, more: object = {}) => ({
  kind: "intent",
  attempt,
  base_url: baseUrl,
  account,
  request,
  ...more,
});
const unknownOf = (attempt: string) => ({ kind: "unknown", attempt, reason: "HTTP 502" });

test("--again dismisses no video that could not be saved at another path", async () => {
  const completed = [
    { kind: "accepted", attempt: "a", id },
    { kind: "completed", id },
  ];
  const { open, place, lines } = createShared(intentOf("a", { place: "other.mp4" }), ...completed);
  const another: Answer = () => Response.json({ success: true, data: { id: "another-1", status: "processing" } });
  const made = await open(another).begin({ earlier: "again", save: { outputPath: place } });
  if ("attempt" in made) await close(made.attempt);
  expect(made.kind).toBe("accepted");
  expect(lines().some(({ kind }) => kind === "dismissed")).toBe(false);
});

describe("an unknown attempt whose process is alive", () => {
  test.each([
    ["the same run", { earlier: "resume" }, 60],
    ["--reuse", { earlier: "reuse" }, 60],
    ["a named key", { earlier: "resume", idempotencyKey: "k" }, 60],
    ["a shorter --timeout", { earlier: "resume", times: { timeoutMs: 5_000 } }, 5],
    ["an agent", { earlier: "reuse", agent: { ending: new AbortController().signal } }, 20],
  ] as const)("is waited for by %s, and then the error names the process", async (_, options, seconds) => {
    const more = { key: "idempotencyKey" in options ? "k" : undefined, mcp: "agent" in options || undefined };
    const { open, lead, machine } = createShared(intentOf("a", more), unknownOf("a"));
    await lead("a");
    const sent = open(() => expect.fail("something was sent")).begin(options);
    await expect(sent).rejects.toMatchObject({
      code: "unknown",
      attempt: "a",
      message: /Process 2 is still working on it.*Nothing was sent now. Ask again in a minute/,
    });
    expect(machine.now() / 1_000).toBe(seconds);
  });

  test("says of one that is being sent that it was not answered yet", async () => {
    const { open, lead } = createShared(intentOf("a"), unknownOf("a"), intentOf("b", { resend_of: "a" }));
    await lead("b");
    await expect(open().begin({ earlier: "reuse" })).rejects.toMatchObject({
      attempt: "b",
      message: /and was not answered yet: it may have been charged \(attempt b\). Process 2/,
    });
  });

  test.each([
    ["joined if it runs", [{ kind: "accepted", attempt: "a", id }], "resumed"],
    [
      "resumed if its video was delivered",
      [
        { kind: "accepted", attempt: "a", id },
        { kind: "delivered", id },
      ],
      "resumed",
    ],
    ["no reason to send nothing if it was refused", [{ kind: "refused", attempt: "a", reason: "no" }], "unknown"],
  ])("is, after the wait, %s", async (_, outcome, kind) => {
    const { open, lead, machine, write, lines } = createShared(intentOf("a"), unknownOf("a"));
    await lead("a");
    void machine.sleep(10_000).then(() => outcome.forEach(write));
    const made = await open()
      .begin({ earlier: "resume" })
      .catch((error) => ({ kind: error.code }));
    expect(made.kind).toBe(kind);
    if ("attempt" in made) await close(made.attempt);
    expect(lines().filter(({ kind }) => kind === "intent")).toHaveLength(1);
  });

  test("is neither waited for nor dismissed with --again", async () => {
    const { open, lead, lines } = createShared(intentOf("a"), unknownOf("a"));
    await lead("a");
    const made = await open().begin({ earlier: "again" });
    if ("attempt" in made) await close(made.attempt);
    expect(lines().map(({ kind }) => kind)).toEqual(["intent", "unknown", "intent", "accepted"]);
  });

  test("no longer counts once an attempt with its key has a generation", async () => {
    const delivered = [
      { kind: "accepted", attempt: "b", id },
      { kind: "delivered", id },
    ];
    const { open } = createShared(intentOf("a"), unknownOf("a"), intentOf("b", { resend_of: "a" }), ...delivered);
    const another: Answer = () => Response.json({ success: true, data: { id: "another-1", status: "processing" } });
    const made = await open(another).begin({ earlier: "resume" });
    if ("attempt" in made) await close(made.attempt);
    expect(made.kind).toBe("accepted");
  });

  test("has its key sent again once the process has ended, and its first send is written down", async () => {
    const { open, lead, end, machine, lines } = createShared(intentOf("a"), unknownOf("a"));
    await lead("a");
    void machine.sleep(10_000).then(end);
    const headers = { "Idempotency-Key-Lifetime": "86400" };
    const answer: Answer = (url, init) =>
      init.method === "POST" ? accepted(url, init) : Response.json({}, { status: 404, headers });
    const made = await open(answer).begin({ earlier: "resume" });
    expect(made.kind).toBe("accepted");
    if ("attempt" in made) await close(made.attempt);
    const [first, , second] = lines();
    expect(second).toMatchObject({ kind: "intent", resend_of: "a", first_sent_at: first.at });
  });

  test.each(["resume", "reuse", "again"] as const)(
    "and whose key another process sends again is not paid for anew, nor dismissed (%s)",
    async (earlier) => {
      const { open, lead, lines } = createShared(intentOf("a"), unknownOf("a"), intentOf("b", { resend_of: "a" }));
      await lead("b");
      const made = await open()
        .begin({ earlier })
        .catch((error) => ({ kind: error.code }));
      if ("attempt" in made) await close(made.attempt);
      expect(made.kind).toBe(earlier === "again" ? "accepted" : "unknown");
      expect(lines().filter(({ kind }) => kind === "dismissed")).toEqual([]);
    },
  );
});

describe("a live run of several with a position that may have been charged", () => {
  const runOf = (position: number) => ({ run: "r", position, count: 2 });
  const open = (client: ReturnType<ReturnType<typeof createShared>["open"]>, earlier: "resume" | "again") =>
    openTakes(client.service, [request, request], { earlier, signal });

  test("is waited for, and then the error names its process", async () => {
    const shared = createShared(intentOf("a", runOf(1)), unknownOf("a"));
    await shared.lead("r");
    await expect(open(shared.open(), "resume")).rejects.toMatchObject({
      code: "unknown",
      message: /Process 2 is still/,
    });
    expect(shared.machine.now()).toBe(60_000);
  });

  test("is joined once the position has a generation, even if all are delivered by then", async () => {
    const shared = createShared(intentOf("a", runOf(1)), unknownOf("a"), intentOf("b", runOf(2)));
    const other = "2b4e28ba-2fa1-41d2-883f-0016d3cca427";
    await shared.lead("r");
    const outcome = [
      { kind: "accepted", attempt: "a", id },
      { kind: "accepted", attempt: "b", id: other },
      { kind: "delivered", id },
      { kind: "delivered", id: other },
    ];
    void shared.machine.sleep(10_000).then(() => outcome.forEach(shared.write));
    const run = await open(shared.open(), "resume");
    expect([run.name, run.positions.map(({ attempt }) => attempt?.id)]).toEqual(["r", [id, other]]);
  });

  test("is passed with --again, which dismisses nothing of it", async () => {
    const shared = createShared(intentOf("a", runOf(1)), unknownOf("a"));
    await shared.lead("r");
    const client = shared.open();
    const { name, release } = await open(client, "again");
    const made = await client.begin({ earlier: "again", origin: { take: { run: name, position: 1, count: 2 } } });
    if ("attempt" in made) await close(made.attempt);
    await release();
    expect([made.kind, shared.lines().filter(({ kind }) => kind === "dismissed")]).toEqual(["accepted", []]);
  });
});

test("the server of an agent continues to watch a process elsewhere after its answer", async () => {
  const { open, folder, machine } = createShared(intentOf("a", { mcp: true }));
  const lease = join(folder, "journal.jsonl.leases", "a");
  mkdirSync(lease, { recursive: true });
  writeFileSync(join(lease, "elsewhere_9_77_5_token"), "");
  const { begin, journal } = open(() => expect.fail("something was sent"));
  const agent = { earlier: "reuse", agent: { ending: new AbortController().signal } } as const;
  await expect(begin(agent)).rejects.toMatchObject({ code: "unknown", message: /Process 77 on another machine/ });
  expect([machine.now(), await journal.leaseOf("a")]).toEqual([20_000, "unsure"]);
  // What the agent does for a minute.
  for (let seconds = 0; seconds < 60; seconds += 5) await machine.sleep(5_000);
  const begun = machine.now();
  await expect(begin(agent)).rejects.toMatchObject({ code: "unknown", message: /may have been charged/ });
  expect(machine.now() - begun).toBeLessThan(1_000);
});

test.each([
  ["resume", "alive", "accepted"],
  ["resume", "dead", "unknown"],
  ["again", "alive", "accepted"],
  ["again", "dead", "accepted"],
] as const)(
  "with %s, a process elsewhere is watched until it is known to be %s, whatever --timeout says",
  async (earlier, lease, kind) => {
    const { open, folder, machine, lines } = createShared(intentOf("a"));
    const leaseFolder = join(folder, "journal.jsonl.leases", "a");
    mkdirSync(leaseFolder, { recursive: true });
    const holder = join(leaseFolder, "elsewhere_9_77_5_token");
    const refresh = () => {
      writeFileSync(holder, "");
      utimesSync(holder, machine.date(), machine.date());
    };
    refresh();
    if (lease === "alive") void machine.sleep(9_000).then(refresh);
    const made = await open()
      .begin({ earlier, times: { timeoutMs: 1_000 } })
      .catch((error) => ({ kind: error.code }));
    if ("attempt" in made) await close(made.attempt);
    expect(made.kind).toBe(kind);
    expect(Math.round(machine.now() / 10_000)).toBe(lease === "alive" ? 1 : 6);
    expect(lines().some(({ kind }) => kind === "dismissed")).toBe(earlier === "again" && lease === "dead");
  },
);

describe("a start that is sent again with its key", () => {
  const kept = { "Idempotency-Key-Lifetime": "86400" };
  const keeps: Answer = (url, init) =>
    init.method === "POST" ? accepted(url, init) : Response.json({}, { status: 404, headers: kept });
  const hoursAgo = (hours: number) => new Date(Date.UTC(2026, 0, 1) - hours * 3_600_000).toISOString();

  test("sends nothing if it was dismissed while the service was asked about the key", async () => {
    const { open, lines } = createWorld();
    let posts = 0;
    let questions = 0;
    const client = open(async (_, { method }) => {
      if (method === "POST") posts++;
      if (method === "POST") throw new RequestError(new Error("reset"), { sent: true });
      const [{ attempt }] = lines();
      if (++questions === 2) await client.journal.append({ kind: "dismissed", attempt });
      return Response.json({}, { status: 404, headers: kept });
    });
    expect(await client.begin()).toMatchObject({ kind: "unknown" });
    expect([posts, questions]).toEqual([1, 2]);
  });

  test.each([
    ["is too old by its first send", [intentOf("b", { resend_of: "a", first_sent_at: hoursAgo(24) })], 0],
    ["is young enough by its first send", [intentOf("b", { resend_of: "a", first_sent_at: hoursAgo(20) })], 1],
    ["has an age that nobody knows", [intentOf("b", { resend_of: "a" })], 0],
    ["has its first attempt in the journal", [intentOf("a"), intentOf("b", { resend_of: "a" })], 1],
    [
      "was sent by this account, and by another one",
      [intentOf("a", { key: "k" }), unknownOf("a"), intentOf("b", { key: "k", account: "another" })],
      0,
    ],
    [
      "was first refused to this account, and then sent by another one",
      [
        intentOf("a", { key: "k" }),
        { kind: "refused", attempt: "a", reason: "no" },
        intentOf("b", { key: "k", account: "another" }),
      ],
      0,
    ],
  ])("is not sent if the key %s (%#)", async (_, lines, sent) => {
    const { open } = createShared(...lines);
    let posts = 0;
    const count: Answer = (url, init) => {
      if (init.method === "POST") posts++;
      return keeps(url, init);
    };
    const idempotencyKey = lines.some((line) => "key" in line) ? "k" : undefined;
    const made = await open(count)
      .begin({ earlier: "resume", idempotencyKey })
      .catch(() => undefined);
    if (made && "attempt" in made) await close(made.attempt);
    expect(posts).toBe(sent);
  });

  test("may have been charged, although the second request was refused", async () => {
    let posts = 0;
    const { open } = createWorld();
    const client = open((_, { method }) => {
      if (method !== "POST") return Response.json({}, { status: 404, headers: kept });
      if (posts++ === 0) throw new RequestError(new Error("reset"), { sent: true });
      return Response.json({ error: "no" }, { status: 400 });
    });
    expect(await client.begin()).toMatchObject({ kind: "unknown", error: { code: "unknown" } });
    expect(posts).toBe(2);
  });

  test("a second send of a caller's key writes down the first one", async () => {
    const at = hoursAgo(3);
    const { open, lines } = createShared(
      { ...intentOf("a", { key: "k" }), at },
      { kind: "refused", attempt: "a", reason: "no", at },
    );
    const made = await open(keeps).begin({ earlier: "resume", idempotencyKey: "k" });
    if ("attempt" in made) await close(made.attempt);
    expect(lines().filter(({ kind }) => kind === "intent")[1]).toMatchObject({ key: "k", first_sent_at: at });
  });

  test("sends nothing if its process is suspended for a minute after the service has stated that it supports the key", async () => {
    const { open, lines } = createWorld();
    const clock = createVirtualClock();
    let pausedMs = 0;
    let posts = 0;
    const answer: Answer = async (_, { method, beforeSend }) => {
      if (method !== "POST") return Response.json({}, { status: 404, headers: kept });
      if (posts++ > 0) {
        pausedMs = 60_000;
        // Its lease is refreshed when the process goes on.
        await clock.sleep(15_000);
      }
      try {
        beforeSend?.();
      } catch (cause) {
        posts--;
        throw new RequestError(cause, { sent: false });
      }
      throw new RequestError(new Error("reset"), { sent: true });
    };
    const machine = { ...clock, date: () => new Date(clock.date().getTime() + pausedMs) };
    const end = await open(answer, { machine }).begin();
    expect(end).toMatchObject({ kind: "unknown" });
    expect([posts, ...lines().map(({ kind }) => kind)]).toEqual([1, "intent", "unknown", "unknown"]);
  });
});
