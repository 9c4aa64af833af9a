import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, onTestFinished, test } from "vitest";
import { systemIo } from "../../../src/cli/system.ts";
import { openFolder } from "../../../src/server/media/folder.ts";
import type { MediaStore } from "../../../src/server/media/media-store.ts";
import { openMedia } from "../../../src/server/media/open.ts";
import { makeFolder } from "../service.ts";
import { openFakeS3, sha256 } from "./fake-s3.ts";
import { hasSwift, openSwift } from "./swift.ts";

const content = "0123456789";
const { signal } = new AbortController();
const io = systemIo();

/** What is shared by the processes: a place, and the environment that it needs. */
type Shared = { place: string; env: Record<string, string> };

const places = {
  "a folder": async (): Promise<Shared> => ({ place: join(await makeFolder(), "shared", "videos"), env: {} }),
  "an S3 store": async (): Promise<Shared> => ({ place: "s3://videos/a/team", env: (await openFakeS3()).env }),
  "OpenStack Swift": async (): Promise<Shared> => ({ place: `s3://videos/a/${randomUUID()}`, env: await openSwift() }),
};

const openPlace = (place: string) => openProcess({ place, env: {} });

async function openProcess({ place, env }: Shared, mark = "aaaaaaaa"): Promise<MediaStore> {
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

describe.each(Object.entries(places))("%s", (name, share) => {
  const when = { skip: name === "OpenStack Swift" && !hasSwift };

  test("keeps a video and its thumbnail, which every process reads, whole and in part", when, async () => {
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

  test("removes a file for every process, and again, and no other one", when, async () => {
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

  test("two processes that make the same video keep two files", when, async () => {
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

  test("keeps one of no bytes, and one without a thumbnail", when, async () => {
    const videos = await openProcess(await share());
    const kept = await videos.keep({ ...(await makeVideo(videos, { video: "" })), thumbnail: null }, signal);
    expect(kept.thumbnail).toBeNull();
    expect(await textOf(videos, kept.file)).toBe("");
  });

  test.each(["mp4", "png"])("fails while the .%s is missing, and keeps both afterwards", when, async (kind) => {
    const videos = await openProcess(await share());
    const made = await makeVideo(videos);
    await rm(join(videos.scratch, `fox.${kind}`));
    await expect(videos.keep(made, signal)).rejects.toThrow("ENOENT");
    expect(await videos.read("fox.aaaaaaaa.mp4")).toBeUndefined();
    await writeFile(join(videos.scratch, `fox.${kind}`), kind === "mp4" ? content : "a picture");
    const kept = await videos.keep(made, signal);
    expect([await textOf(videos, kept.file), await textOf(videos, kept.thumbnail)]).toEqual([content, "a picture"]);
  });

  test("can be checked, and takes its folder for unfinished files away when it closes", when, async () => {
    const videos = await openProcess(await share());
    await videos.check(signal);
    await makeVideo(videos);
    expect((await stat(videos.scratch)).mode & 0o777).toBe(0o700);
    await videos.close();
    expect(existsSync(videos.scratch)).toBe(false);
  });
});

test.each([
  ["a shared folder", async () => ({ place: (await places["a folder"]()).place, open: openPlace })],
  [
    "a folder of one process",
    async () => ({ place: await makeFolder(), open: (folder: string) => openFolder({ folder }) }),
  ],
])("%s that is no longer mounted is away: its videos have not been removed", async (_, choose) => {
  const { place, open } = await choose();
  const videos = await open(place);
  expect(await videos.read("fox.mp4")).toBeUndefined();
  await rm(place, { recursive: true });
  for (const remount of [() => {}, () => mkdir(place)]) {
    await remount();
    await expect(videos.check(signal)).rejects.toThrow("ENOENT");
    await expect(videos.read("fox.mp4")).rejects.toMatchObject({ isUnavailable: true, message: `${place} is away` });
  }
});
