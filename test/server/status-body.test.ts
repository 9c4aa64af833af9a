import { expect, test } from "vitest";
import { statusBody } from "../../src/server/status-body.ts";
import type { StoredGeneration } from "../../src/server/store/generations.ts";

const completed: StoredGeneration = {
  id: "1-2-3",
  account: "local",
  status: "completed",
  callback_url: null,
  error: null,
  created_at: "2026-01-01T00:00:00.000Z",
  completed_at: "2026-01-01T00:01:00.000Z",
  request: {
    prompt: "a fox",
    model: "sora-2",
    aspectRatio: "16:9",
    duration: 5,
    resolution: "720p",
    images: [],
    extras: {},
    hasDirectives: true,
    isReal: false,
  },
  checkpoint: null,
  cost: null,
  media: { file: "/videos/fox.mp4", size: 9, etag: '"9"', thumbnail: null },
};

test("the status has the seed that was drawn for the generation", () => {
  const checkpoint = { state: "submitted", job: "1", engine: "http://gpu-1", at: completed.created_at } as const;
  const drawn = (drawn_seed?: number) => statusBody({ ...completed, checkpoint: { ...checkpoint, drawn_seed } }, "");
  expect(drawn(0)).toMatchObject({ drawn_seed: 0 });
  expect(drawn()).not.toHaveProperty("drawn_seed");
});

test("the status of a completed generation has its video, and no thumbnail if there is none", () => {
  expect(statusBody(completed, "https://media.example")).toStrictEqual({
    id: "1-2-3",
    status: "completed",
    created_at: completed.created_at,
    video_url: "https://media.example/1-2-3.mp4",
    thumbnail_url: null,
  });
});
