import { existsSync } from "node:fs";
import { rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { buffer, text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import type { MediaStore } from "../../../src/server/media/media-store.ts";
import { openMedia } from "../../../src/server/media/open.ts";
import { lacks } from "../../needs.ts";
import { realIo } from "../../real-io.ts";
import { sha256 } from "./fake-s3.ts";

const content = "0123456789";
const { signal } = new AbortController();
const io = realIo();

/** What is shared by the processes: a place, and the environment that it needs. */
export type Shared = { place: string; env: Record<string, string> };

export async function openProcess({ place, env }: Shared, mark = "aaaaaaaa"): Promise<MediaStore> {
  const videos = await openMedia(place, mark, { ...io, env });
  onTestFinished(videos.close);
  return videos;
}

/** What an engine has written, as `keep` is told of it. */
async function makeVideo({ scratch }: MediaStore, { id = "fox", video = content, picture = "a picture" } = {}) {
  const [file, thumbnail] = [join(scratch, `${id}.mp4`), join(scratch, `${id}.png`)];
  await Promise.all([writeFile(file, video), writeFile(thumbnail, picture)]);
  return { file, thumbnail, size: video.length, etag: `"${sha256(video)}"` };
}

async function textOf(videos: MediaStore, name: string | null, ...range: Parameters<MediaStore["read"]>[1][]) {
  const body = await videos.read(name ?? "", ...range);
  return body && text(body);
}

/** What every store of videos keeps to. `share` makes an empty place. */
export function testMediaStore(share: () => Promise<Shared>): void {
  test("stores a video and its thumbnail, which every process can read, whole and in part", async () => {
    const shared = await share();
    const [one, two] = [await openProcess(shared), await openProcess(shared, "bbbbbbbb")];
    const made = await makeVideo(one);
    const kept = await one.keep(made, signal);
    expect(kept).toEqual({ ...made, file: "fox.aaaaaaaa.mp4", thumbnail: "fox.aaaaaaaa.png" });
    for (const videos of [one, two]) {
      expect(await textOf(videos, kept.file)).toBe(content);
      expect(await textOf(videos, kept.file, { first: 2, last: 4 })).toBe("234");
      expect(await textOf(videos, kept.file, { first: 0, last: 9 })).toBe(content);
      expect(await textOf(videos, kept.thumbnail)).toBe("a picture");
      expect(await textOf(videos, kept.thumbnail, { first: 8, last: 8 })).toBe("e");
      expect(await videos.read("another.aaaaaaaa.mp4")).toBeUndefined();
    }
    expect(existsSync(made.file) || existsSync(made.thumbnail)).toBe(false);
  });

  test("removes one file for every process, even if called again", async () => {
    const shared = await share();
    const [one, two] = [await openProcess(shared), await openProcess(shared, "bbbbbbbb")];
    const [fox, owl] = [
      await one.keep(await makeVideo(one), signal),
      await one.keep(await makeVideo(one, { id: "owl" }), signal),
    ];
    for (const videos of [two, one]) await videos.remove(fox.file);
    for (const videos of [one, two]) {
      expect(await videos.read(fox.file)).toBe(undefined);
      expect(await textOf(videos, owl.file)).toBe(content);
    }
  });

  test("keeps the bytes of fetched images under random names, for every process, and lists those of before a date", async () => {
    const shared = await share();
    const [one, two] = [await openProcess(shared), await openProcess(shared, "bbbbbbbb")];
    const [past, future] = [new Date(0), new Date(Date.now() + 86_400_000)];
    expect(await one.imagesBefore(future)).toEqual([]);
    const bytes = Uint8Array.from({ length: 256 }, (_, value) => value);
    const names = [await one.keepImage(bytes, signal), await one.keepImage(bytes, signal)];
    names.push(await two.keepImage(bytes, signal));
    await one.keep(await makeVideo(one), signal);
    for (const name of names) expect(name).toMatch(/^images\/[0-9a-f-]{36}$/);
    for (const videos of [one, two]) {
      expect((await videos.imagesBefore(future)).sort()).toEqual([...names].sort());
      expect(await videos.imagesBefore(past)).toEqual([]);
    }
    expect(new Uint8Array(await buffer((await two.read(names[0] ?? "")) ?? Readable.from([])))).toEqual(bytes);
    for (const name of names) await two.remove(name);
    expect(await one.imagesBefore(future)).toEqual([]);
    expect(await one.read(names[1] ?? "")).toBeUndefined();
  });

  test("two processes that make the same video store two files", async () => {
    const shared = await share();
    const [one, two] = [await openProcess(shared), await openProcess(shared, "bbbbbbbb")];
    const other = { video: "9876543210", picture: "another one" };
    const [first, second] = [
      await one.keep(await makeVideo(one), signal),
      await two.keep(await makeVideo(two, other), signal),
    ];
    expect([await textOf(one, first.file), await textOf(one, second.file)]).toEqual([content, other.video]);
    expect([await textOf(one, first.thumbnail), await textOf(one, second.thumbnail)]).toEqual([
      ...["a picture", other.picture],
    ]);
  });

  test("stores an empty video, and one without a thumbnail", async () => {
    const videos = await openProcess(await share());
    const kept = await videos.keep({ ...(await makeVideo(videos, { video: "" })), thumbnail: null }, signal);
    expect(kept.thumbnail).toBeNull();
    expect(await textOf(videos, kept.file)).toBe("");
  });

  test.each(["mp4", "png"])("fails while the .%s is missing, and keeps both afterwards", async (kind) => {
    const videos = await openProcess(await share());
    const made = await makeVideo(videos);
    await rm(join(videos.scratch, `fox.${kind}`));
    await expect(videos.keep(made, signal)).rejects.toThrow("ENOENT");
    expect(await videos.read("fox.aaaaaaaa.mp4")).toBeUndefined();
    await writeFile(join(videos.scratch, `fox.${kind}`), kind === "mp4" ? content : "a picture");
    const kept = await videos.keep(made, signal);
    expect([await textOf(videos, kept.file), await textOf(videos, kept.thumbnail)]).toEqual([content, "a picture"]);
  });

  test("can be checked, and removes its folder for unfinished files when it closes", async () => {
    const videos = await openProcess(await share());
    await videos.check(signal);
    await makeVideo(videos);
    expect((await stat(videos.scratch)).mode & 0o777).toBe(lacks("file modes") ? 0o666 : 0o700);
    await videos.close();
    expect(existsSync(videos.scratch)).toBe(false);
  });
}
