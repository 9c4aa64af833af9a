import { describe, expect, test } from "vitest";
import { frameSize } from "../../../../src/server/engines/preview/frame.ts";

describe("the size of a frame", () => {
  test.each([
    ["16:9", "480p", 854, 480],
    ["9:16", "480p", 480, 854],
    ["1:1", "480p", 480, 480],
    ["4:3", "480p", 640, 480],
    ["3:4", "480p", 480, 640],
    ["21:9", "480p", 1120, 480],
    ["2.39:1", "480p", 1148, 480],
    ["1:4", "480p", 480, 1920],
    ["16:9", "720p", 1280, 720],
    ["16:9", "1080p", 1920, 1080],
    ["9:16", "1080p", 1080, 1920],
  ] as const)("of %s at %s is %i x %i", (aspectRatio, resolution, width, height) => {
    expect(frameSize(aspectRatio, resolution)).toEqual({ width, height });
  });

  test("has even sides at any ratio", () => {
    for (let width = 25; width <= 400; width += 7) {
      const size = frameSize(`${width}:100`, "480p");
      expect([size.width % 2, size.height % 2, Math.min(size.width, size.height)]).toEqual([0, 0, 480]);
    }
  });
});
