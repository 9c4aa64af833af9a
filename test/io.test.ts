import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createDisk, type Disk, systemMachine } from "../src/io.ts";
import { createVirtualClock } from "./clock.ts";
import { makeFolder } from "./folder.ts";

const { disk: real } = systemMachine;

const refusal = (code: string) => Object.assign(new Error(`${code}: in use`), { code, path: "fox.mp4" });

/** A disk on which `name` is refused with this code, `times` times, and how often it was called. */
function refusing(name: "rename" | "link" | "rm" | "rmdir" | "open", code: string, times: number, platform = "win32") {
  const clock = createVirtualClock();
  const start = clock.now();
  const tried = { calls: 0, ms: () => clock.now() - start };
  const call = async (...args: never[]) => {
    if (tried.calls++ < times) throw refusal(code);
    return (real[name] as (...args: never[]) => Promise<unknown>)(...args);
  };
  return { disk: createDisk(platform, { ...real, [name]: call } as Disk, clock), tried };
}

async function makeFile(name = "fox.mp4.part"): Promise<string> {
  const path = join(makeFolder(), name);
  await writeFile(path, "a fox");
  return path;
}

const calls: [Parameters<typeof refusing>[0], (disk: Disk, path: string) => Promise<unknown>][] = [
  ["rename", (disk, path) => disk.rename(path, `${path}.mp4`)],
  ["link", (disk, path) => disk.link(path, `${path}.mp4`)],
  ["rm", (disk, path) => disk.rm(path)],
  ["open", async (disk, path) => (await disk.open(path, "a+")).close()],
];

test.each(calls.flatMap(([name, call]) => ["EBUSY", "EPERM", "EACCES"].map((code) => [name, code, call] as const)))(
  "%s is tried again after %s on Windows, for five seconds, and nowhere else",
  async (name, code, call) => {
    const { disk, tried } = refusing(name, code, 4);
    await call(disk, await makeFile());
    expect(tried.calls).toBe(5);
    const never = refusing(name, code, Number.POSITIVE_INFINITY);
    await expect(call(never.disk, await makeFile())).rejects.toMatchObject({
      code: "EBUSY",
      path: "fox.mp4",
      cause: { code },
    });
    expect(never.tried.ms()).toBeGreaterThanOrEqual(5_000);
    expect(never.tried.ms()).toBeLessThan(6_000);
    const elsewhere = refusing(name, code, 1, "linux");
    await expect(call(elsewhere.disk, await makeFile())).rejects.toMatchObject({ code });
    expect(elsewhere.tried.calls).toBe(1);
  },
);

test("what waiting does not change is refused at once", async () => {
  const missing = refusing("rename", "ENOENT", 1);
  await expect(missing.disk.rename("a", "b")).rejects.toMatchObject({ code: "ENOENT" });
  // A lease that another process holds.
  const held = refusing("rename", "EPERM", 1);
  const path = await makeFile();
  await mkdir(`${path}.lock`);
  await expect(held.disk.rename(path, `${path}.lock`)).rejects.toMatchObject({ code: "EPERM" });
  const read = refusing("open", "EPERM", 1);
  await expect(read.disk.open(path, "r")).rejects.toMatchObject({ code: "EPERM" });
  expect([missing.tried.calls, held.tried.calls, read.tried.calls]).toEqual([1, 1, 1]);
});
