import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { openFolder } from "../../../src/server/media/folder.ts";
import { makeFolder } from "../../folder.ts";
import { openProcess, type Shared, testMediaStore } from "./contract.ts";
import { openFakeS3 } from "./fake-s3.ts";

const { signal } = new AbortController();

const shareFolder = async (): Promise<Shared> => ({ place: join(makeFolder(), "shared", "videos"), env: {} });

describe("a folder", () => testMediaStore(shareFolder));
describe("an S3 store", () =>
  testMediaStore(async () => ({ place: "s3://videos/a/team", env: (await openFakeS3()).env })));

const openPlace = (place: string) => openProcess({ place, env: {} });

test.each([
  ["a shared folder", async () => ({ place: (await shareFolder()).place, open: openPlace })],
  ["a folder of one process", async () => ({ place: makeFolder(), open: (folder: string) => openFolder({ folder }) })],
])("%s that is no longer mounted is away: its videos have not been removed", async (_, choose) => {
  const { place, open } = await choose();
  const videos = await open(place);
  expect(await videos.read("fox.mp4")).toBeUndefined();
  await rm(place, { recursive: true });
  for (const remount of [() => {}, () => mkdir(place)]) {
    await remount();
    await expect(videos.check(signal)).rejects.toThrow("ENOENT");
    await expect(videos.read("fox.mp4")).rejects.toMatchObject({
      isUnavailable: true,
      message: `${place} is not available`,
    });
  }
});
