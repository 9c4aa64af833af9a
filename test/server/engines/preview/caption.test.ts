import { describe, expect, test } from "vitest";
import { captionSvg, notice } from "../../../../src/server/engines/preview/caption.ts";
import { frameSize } from "../../../../src/server/engines/preview/frame.ts";
import { rasterize } from "../../../../src/server/engines/preview/pixels.ts";
import type { RenderRequest } from "../../../../src/server/store/generations.ts";
import { fontFiles, fonts } from "./fonts.ts";
import { aRequest, hostilePrompts } from "./requests.ts";

const draw = (request: RenderRequest) => captionSvg(request, frameSize(request.aspectRatio, request.resolution), fonts);
const textsOf = (svg: string) => Array.from(svg.matchAll(/<text [^>]*>([^<]*)<\/text>/g), (match) => match[1]);

/** The rectangle around the white pixels of a caption, as distances from the edges of the frame. */
async function marginsOfInk(request: RenderRequest) {
  const { width, height } = frameSize(request.aspectRatio, request.resolution);
  const { rgba } = await rasterize(draw(request), Object.values(fontFiles));
  const margins = { left: width, top: height, right: width, bottom: height };
  for (let i = 0; i < width * height; i++) {
    if ((rgba[4 * i] as number) < 150) continue;
    const [x, y] = [i % width, Math.floor(i / width)];
    margins.left = Math.min(margins.left, x);
    margins.top = Math.min(margins.top, y);
    margins.right = Math.min(margins.right, width - 1 - x);
    margins.bottom = Math.min(margins.bottom, height - 1 - y);
  }
  return margins;
}

describe("the caption", () => {
  test("says that no model made the video, then the prompt, the model, the ratio, the length and the size", () => {
    const svg = draw(aRequest({ prompt: "paper boats", model: "some-model", duration: 2.5 }));
    expect(textsOf(svg)).toEqual([notice, "paper boats", "some-model · 16:9 · 2.5 s · 854×480"]);
    expect(notice).toBe("local preview, not model output");
  });

  test("sets a short prompt large and a long one small", () => {
    const sizeOf = (prompt: string) =>
      Number(/font-weight="600" font-size="(\d+)"/.exec(draw(aRequest({ prompt })))?.[1]);
    expect(sizeOf("paper boats")).toBe(38);
    expect(sizeOf("paper boats ".repeat(12))).toBeLessThan(30);
    expect(sizeOf("paper boats ".repeat(400))).toBe(17);
  });

  test("cuts a long prompt at a word, with an ellipsis", () => {
    const prompt = "paper boats adrift on silent water ".repeat(400);
    for (const aspectRatio of ["16:9", "9:16", "1:1"]) {
      const lines = textsOf(draw(aRequest({ prompt, aspectRatio })));
      expect(lines).toHaveLength(13);
      expect(lines.at(-2)).toMatch(/ (paper|boats|adrift|on|silent|water)…$/);
    }
  });

  test("leaves out a prompt in a script that the fonts lack, and shows single missing letters as dots", () => {
    const shown = (prompt: string) => textsOf(draw(aRequest({ prompt }))).slice(1, -1);
    for (const prompt of ["夕暮れの灯台、波がゆっくりと寄せる", "منارة عند الغسق", "กระต่ายในหิมะ 4K"])
      expect(shown(prompt)).toEqual([]);
    expect(shown("a sign that says 猫")).toEqual(["a sign that says ·"]);
  });

  test("shortens a long model name and keeps the numbers", () => {
    const line = textsOf(draw(aRequest({ model: "some-org/some-model-".repeat(9), aspectRatio: "9:16" }))).at(-1);
    expect(line).toMatch(/^some-org.*… · 9:16 · 1 s · 480×854$/);
  });

  test("shows markup as text", () => {
    const line = textsOf(draw(aRequest({ prompt: `<b>&"'`, model: "</text>" })));
    expect(line.slice(1)).toEqual(["&#60;b&#62;&#38;&#34;&#39;", expect.stringContaining("&#60;/text&#62;")]);
  });

  const everything = Object.entries({
    ...hostilePrompts,
    "wide letters": "W".repeat(400),
    kerned: "LTVAWA Ty ".repeat(60),
  });
  test.each(everything)("stays within the frame: %s", async (_, prompt) => {
    for (const aspectRatio of ["16:9", "1:4"]) {
      const { left, right, top, bottom } = await marginsOfInk(aRequest({ prompt, aspectRatio }));
      expect(Math.min(left, right)).toBeGreaterThanOrEqual(30);
      expect(top).toBeGreaterThan(80);
      expect(bottom).toBeGreaterThan(25);
    }
  });
});
