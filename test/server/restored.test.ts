import { copyFileSync, rmSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { saveBackup } from "../../src/server/backup.ts";
import { openService } from "../../src/server/serve.ts";
import { openStore } from "../../src/server/store/sqlite/sqlite-store.ts";
import { makeFolder } from "../folder.ts";
import { tinyMp4 } from "../mp4.ts";
import { realIo } from "../real-io.ts";
import { fakeEngine } from "./service.ts";

const io = realIo();

/** A provider that counts what is paid: each prompt that was submitted, as often as it was. Its jobs end when `isOpen`. */
function createProvider() {
  const provider = { paid: [] as string[], isOpen: false };
  const engine = fakeEngine({
    name: "http://gpu-1",
    isSimulation: false,
    async render({ request, file, thumbnail }, { resume, checkpoint, signal }) {
      if (!resume) {
        await checkpoint({ state: "submitting" });
        provider.paid.push(request.prompt);
        await checkpoint({ state: "submitted", job: request.prompt });
      }
      while (!provider.isOpen) await io.sleep(10, signal);
      await writeFile(file, tinyMp4(request.prompt));
      await writeFile(thumbnail, "a picture");
      return { kind: "made", hasThumbnail: true };
    },
  });
  return { provider, engine };
}

type Options = Parameters<typeof openService>[0];

async function open(folder: string, changes: Partial<Options>) {
  const notes: string[] = [];
  const options: Options = {
    ...{ folder, host: "127.0.0.1", isLoopback: true, ports: { api: 0, media: 0 }, pace: "fast", resume: "all" },
    ...{ onDelivery: () => {}, onNote: (text) => void notes.push(text), ...changes },
  };
  const service = await openService(options, io);
  if (service.kind === "held") throw new Error("held");
  onTestFinished(() => service.close(0));
  const headers = { Authorization: `Bearer ${service.address.api_key}`, "Content-Type": "application/json" };
  const ask = async (path: string, init: RequestInit = {}) =>
    service.api(new Request(`http://127.0.0.1${path}`, { ...init, headers: { ...headers, ...init.headers } }));
  const start = async (prompt: string, key = prompt) => {
    const body = JSON.stringify({ prompt, model: "sora-2" });
    const reply = await ask("/api/generate", { method: "POST", body, headers: { "Idempotency-Key": key } });
    return ((await reply.json()) as { data: { id: string } }).data.id;
  };
  const status = async (id: string) => (await ask(`/api/generation-status?id=${id}`)).json();
  const lifetime = async () => Number((await ask("/v1/models")).headers.get("Idempotency-Key-Lifetime"));
  return { ...service, notes, start, status, lifetime };
}

/** A folder whose database has one submitted and two waiting generations, a copy of it, and the same folder after all three were made. */
async function createHistory(copy: (folder: string, file: string) => Promise<unknown>) {
  const { provider, engine } = createProvider();
  const folder = makeFolder();
  const file = join(makeFolder(), "copy.db");
  const first = await open(folder, { engines: [engine] });
  const ids = [await first.start("submitted"), await first.start("waiting 1"), await first.start("waiting 2")];
  await expect.poll(() => provider.paid).toEqual(["submitted"]);
  if (copy === saveBackup) await saveBackup(folder, file, io);
  else {
    await first.close(0);
    await copy(folder, file);
    await (await open(folder, { engines: [engine] })).close(0);
  }
  provider.isOpen = true;
  const second = copy === saveBackup ? first : await open(folder, { engines: [engine] });
  for (const id of ids) await expect.poll(() => second.status(id)).toMatchObject({ status: "completed" });
  const late = await second.start("after the copy");
  await expect.poll(() => second.status(late)).toMatchObject({ status: "completed" });
  await second.close(0);
  expect(provider.paid).toEqual(["submitted", "waiting 1", "waiting 2", "after the copy"]);
  const restore = () => {
    copyFileSync(file, join(folder, "service.db"));
    rmSync(join(folder, "service.db-wal"), { force: true });
  };
  return { provider, engine, folder, ids, late, restore };
}

const byHand = async (folder: string, file: string) => copyFileSync(join(folder, "service.db"), file);

test.each([
  ["serve --backup", saveBackup],
  ["cp", byHand],
])(
  "a copy by %s is not served without --restored, also inside a command, and nothing is submitted",
  async (_, copy) => {
    const { provider, engine, folder, restore } = await createHistory(copy as typeof byHand);
    restore();
    for (const isCommand of [false, true])
      await expect(open(folder, { engines: [engine], isCommand })).rejects.toMatchObject({
        code: "usage",
        message: expect.stringMatching(/is a copy.* submitted and paid for again/),
        hint: expect.stringContaining("vidgen serve --restored"),
      });
    expect(provider.paid).toHaveLength(4);
  },
);

test.each([
  ["serve --backup", saveBackup],
  ["cp", byHand],
])(
  "with --restored, what a copy by %s has as waiting ends as unclear, and what it has as submitted is followed",
  async (_, copy) => {
    const { provider, engine, folder, ids, late, restore } = await createHistory(copy as typeof byHand);
    restore();
    const service = await open(folder, { engines: [engine], isRestored: true });
    expect(service.notes).toEqual([expect.stringMatching(/restored from a copy.* unclear.*: 2\./)]);
    const [submitted = "", ...waiting] = ids;
    await expect.poll(() => service.status(submitted)).toMatchObject({ status: "completed" });
    for (const id of waiting)
      expect(await service.status(id)).toMatchObject({ status: "failed", error_code: "unclear" });
    expect(await service.status(late)).toMatchObject({ error: expect.anything() });
    expect(provider.paid).toHaveLength(4);
    // A client sends an unclear start again only if the service says that it keeps keys for longer than the start is old.
    expect(await service.lifetime()).toBeLessThan(60);
    await service.close(0);
    const store = await openStore(join(folder, "service.db"));
    expect((await store.ledger({ limit: 20 })).filter(({ reason }) => reason === "refund")).toEqual([]);
    await store.close();

    const next = await open(folder, { engines: [engine] });
    expect(next.notes).toEqual([]);
    expect(await next.lifetime()).toBeLessThan(60);
  },
);

test("previews of a copy are made with --restored, because they cost nothing", async () => {
  const folder = makeFolder();
  const file = join(makeFolder(), "copy.db");
  const stuck = fakeEngine({
    render: (_, { signal }) => io.sleep(600_000, signal).then(() => ({ kind: "unclear", reason: "" })),
  });
  const first = await open(folder, { engines: [stuck] });
  const id = await first.start("a preview");
  await saveBackup(folder, file, io);
  await first.close(0);
  copyFileSync(file, join(folder, "service.db"));
  const { engine, provider } = createProvider();
  provider.isOpen = true;
  const service = await open(folder, { engines: [{ ...engine, isSimulation: true }], isRestored: true });
  await expect.poll(() => service.status(id)).toMatchObject({ status: "completed" });
});

test("--restored changes nothing on a database that is not a copy, and says so", async () => {
  const { provider, engine } = createProvider();
  const folder = makeFolder();
  const first = await open(folder, { engines: [engine] });
  const ids = [await first.start("submitted"), await first.start("waiting")];
  await expect.poll(() => provider.paid).toEqual(["submitted"]);
  const lifetime = await first.lifetime();
  await first.close(0);
  provider.isOpen = true;
  const service = await open(folder, { engines: [engine], isRestored: true });
  expect(service.notes).toEqual([expect.stringContaining("--restored changed nothing")]);
  for (const id of ids) await expect.poll(() => service.status(id)).toMatchObject({ status: "completed" });
  expect([provider.paid, await service.lifetime()]).toEqual([["submitted", "waiting"], lifetime]);
});
