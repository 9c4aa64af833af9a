import { expect, test } from "vitest";
import { createEventFilter, type GenerationEvent } from "../../../src/client/generation/events.ts";

const state = (status: string, id = "a"): GenerationEvent => ({ event: "state", id, status });
const progress = (received: number, total: number | null = 100, id = "a"): GenerationEvent => ({
  event: "progress",
  id,
  received,
  total,
});
const ended: GenerationEvent = {
  event: "ended",
  id: "a",
  status: "completed",
  file: null,
  video_url: null,
  error: null,
};

test.each<[string, [at: number, event: GenerationEvent][], boolean[]]>([
  [
    "a state only when it differs from the last one",
    [
      [0, state("processing")],
      [5_000, state("processing")],
      [9_000, state("queued")],
      [9_000, state("processing")],
    ],
    [true, false, true, true],
  ],
  [
    "each generation by itself",
    [
      [0, state("processing")],
      [0, state("processing", "b")],
      [0, progress(1)],
      [0, progress(1, 100, "b")],
    ],
    [true, true, true, true],
  ],
  [
    "progress once a second",
    [
      [0, progress(1)],
      [999, progress(2)],
      [1_000, progress(3)],
      [1_500, progress(4)],
    ],
    [true, false, true, false],
  ],
  [
    "a complete video at once, and once",
    [
      [0, progress(1)],
      [10, progress(100)],
      [20, progress(100)],
      [5_000, progress(100)],
    ],
    [true, true, false, false],
  ],
  [
    "a download that starts again",
    [
      [0, progress(100)],
      [1_000, progress(1)],
      [1_001, progress(100)],
    ],
    [true, true, true],
  ],
  [
    "a size that is not known",
    [
      [0, progress(1, null)],
      [500, progress(2, null)],
    ],
    [true, false],
  ],
  [
    "the end, after which nothing is remembered",
    [
      [0, state("processing")],
      [0, ended],
      [0, ended],
      [0, state("processing")],
    ],
    [true, true, true, true],
  ],
])("the filter lets through: %s", (_, events, expected) => {
  let now = 0;
  const isNews = createEventFilter(() => now);
  const passed = events.map(([at, event]) => {
    now = at;
    return isNews(event);
  });
  expect(passed).toEqual(expected);
});
