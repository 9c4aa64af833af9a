import { chmod, mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { expect, onTestFinished, test } from "vitest";
import {
  acquireFolder,
  describeListener,
  findService,
  readAnnouncement,
  writeAnnouncement,
} from "../../src/server/announcement.ts";
import { createKey } from "../../src/server/api/accounts.ts";
import { openService } from "../../src/server/serve.ts";
import { makeFolder } from "../folder.ts";
import { lacks } from "../needs.ts";
import { realIo } from "../real-io.ts";
import { fakeEngine } from "./service.ts";

const announcement = {
  api_key: "vgs_0123",
  base_url: "http://127.0.0.1:8787",
  media_url: "http://127.0.0.1:8788",
  webhook_secret: "whsec_0123",
};

async function modeOf(path: string): Promise<string> {
  return ((await stat(path)).mode & 0o777).toString(8);
}

test("the written announcement can be read", async () => {
  const folder = join(makeFolder(), "data", "service");
  await writeAnnouncement(folder, announcement);
  expect(await readAnnouncement(folder)).toStrictEqual(announcement);
});

// Node's own recursive mkdir says ENOENT on a read-only disk, and never ends in /proc.
test.skipIf(process.platform !== "linux")("a folder where none can be made is an error at once", async () => {
  await expect(acquireFolder("/proc/vidgen/service", realIo())).rejects.toMatchObject({ code: "ENOENT" });
});

test("a second announcement replaces the first completely", async () => {
  const folder = makeFolder();
  await writeAnnouncement(folder, announcement);
  await writeAnnouncement(folder, { api_key: "vgs_4567" });
  expect(await readAnnouncement(folder)).toStrictEqual({ api_key: "vgs_4567" });
});

test.skipIf(lacks("file modes"))(
  "only the owner can read the file and the folders that are created for it",
  async () => {
    const parent = join(makeFolder(), "data");
    await writeAnnouncement(join(parent, "service"), announcement);
    expect(await modeOf(parent)).toBe("700");
    expect(await modeOf(join(parent, "service"))).toBe("700");
    expect(await modeOf(join(parent, "service", "service.json"))).toBe("600");
  },
);

test.skipIf(lacks("file modes"))("an existing folder keeps its mode, and the file is a new one", async () => {
  const folder = join(makeFolder(), "service");
  await mkdir(folder);
  await chmod(folder, 0o755);
  await writeFile(join(folder, "service.json"), "{}");
  await chmod(join(folder, "service.json"), 0o644);
  await writeAnnouncement(folder, announcement);
  expect(await modeOf(folder)).toBe("755");
  expect(await modeOf(join(folder, "service.json"))).toBe("600");
});

test("no temporary file is left", async () => {
  const folder = makeFolder();
  await Promise.all(
    [1, 2, 3, 4].map((port) => writeAnnouncement(folder, { ...announcement, base_url: `http://127.0.0.1:${port}` })),
  );
  expect(await readdir(folder)).toEqual(["service.json"]);
  expect(JSON.parse(await readFile(join(folder, "service.json"), "utf8"))).toMatchObject({ api_key: "vgs_0123" });
});

test("no temporary file is left if writing fails", async () => {
  const folder = makeFolder();
  await mkdir(join(folder, "service.json"));
  await expect(writeAnnouncement(folder, announcement)).rejects.toThrow();
  expect(await readdir(folder)).toEqual(["service.json"]);
});

test("a missing announcement is undefined", async () => {
  expect(await readAnnouncement(join(makeFolder(), "none"))).toBeUndefined();
});

test.each(["", "{", "null", "[]", "{}", '{"api_key":5}', '{"api_key":"vgs_0123","base_url":5}', "\0\0\0"])(
  "a file that holds %j is reported with its path and what to do, and stays as it is",
  async (text) => {
    const folder = makeFolder();
    const file = join(folder, "service.json");
    await writeFile(file, text);
    const opening = openService(
      {
        folder,
        engines: [fakeEngine()],
        host: "127.0.0.1",
        isLoopback: true,
        ports: { api: 0, media: 0 },
        pace: "fast",
        resume: "all",
        onDelivery: () => {},
        onNote: () => {},
      },
      realIo(),
    );
    await expect(opening).rejects.toMatchObject({
      code: "output",
      message: expect.stringContaining(file),
      hint: expect.stringContaining("new API key"),
    });
    expect(await readFile(file, "utf8")).toBe(text);
  },
);

test.skipIf(lacks("file modes"))("the folder of another user is theirs, with what works instead", async () => {
  const folder = makeFolder();
  await writeAnnouncement(folder, announcement);
  await chmod(join(folder, "service.json"), 0);
  const user = process.geteuid?.() ?? 0;
  // Root reads every file.
  if (user === 0) process.seteuid?.(65_534);
  onTestFinished(() => process.seteuid?.(user));
  await expect(findService(folder, realIo())).rejects.toMatchObject({
    code: "network",
    message: expect.stringMatching(
      /^The service in .* belongs to another user: .*service\.json cannot be read\. Nothing /,
    ),
    hint: expect.stringMatching(/as that user, .*VIDGEN_BASE_URL.*VIDGEN_API_KEY to a key of `vidgen accounts`/),
  });
});

test.each([
  { lease: {}, announced: {}, kind: "here" },
  { lease: {}, announced: { network: "1" }, kind: "elsewhere", says: "runs in another network namespace of this" },
  { lease: { machine: "b" }, announced: { machine: "b", host: "gpu-1" }, kind: "elsewhere", says: "runs on gpu-1:" },
  // Such as `serve --backup` after a `serve` that was killed: other programs may listen at its addresses.
  { lease: {}, announced: { pid: 1 }, kind: "starting", says: "is starting" },
  { lease: { machine: "b" }, announced: {}, kind: "starting", says: "is starting" },
  { lease: {}, announced: undefined, kind: "starting", says: "is of an earlier version of vidgen" },
])(
  "with the lease of $lease, what $announced has announced is $kind",
  async ({ lease, announced, kind, says = "" }) => {
    const folder = makeFolder();
    const io = realIo();
    const self = { ...(await io.processes.self()), ...lease };
    const processes = { ...io.processes, self: async () => self };
    const acquired = await acquireFolder(folder, { ...io, processes });
    if (acquired.kind === "held") throw new Error("held");
    onTestFinished(acquired.lease.release);
    const urls = { base_url: "http://127.0.0.1:8787", media_url: "http://127.0.0.1:8788" };
    const local = announced && { ...urls, ...(await describeListener(io.processes)), ...announced };
    await writeAnnouncement(folder, { ...announcement, ...urls, local });
    const found = await findService(folder, io);
    expect(found).toMatchObject({ kind });
    if (found.kind === "here" || found.kind === "none") return;
    expect(found.error).toMatchObject({ code: "network", message: expect.stringContaining(says) });
    if (found.kind === "elsewhere")
      expect(found.error.hint).toContain("VIDGEN_BASE_URL=http://127.0.0.1:8787 and VIDGEN_API_KEY");
  },
);

test("without a lease, nothing that was announced runs", async () => {
  const folder = makeFolder();
  await writeAnnouncement(folder, {
    ...announcement,
    local: { ...announcement, ...(await describeListener(realIo().processes)) },
  });
  expect(await findService(folder, realIo())).toEqual({ kind: "none" });
});

test("keys are long and different", () => {
  const keys = Array.from({ length: 100 }, createKey);
  for (const key of keys) expect(key).toMatch(/^vgs_[0-9a-f]{48}$/);
  expect(new Set(keys).size).toBe(100);
});
