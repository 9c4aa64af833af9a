import { describe, expect, test } from "vitest";
import { makeLegible, shorten, widthOf, wrap, wrapEvenly } from "../../../../src/server/engines/preview/text.ts";
import { fonts } from "./fonts.ts";
import { hostilePrompts } from "./requests.ts";

const advances = fonts.semiBold;

describe("the fonts", () => {
  test.each(Object.entries(fonts))("have Latin, Greek, Cyrillic and common signs: %s", (_, font) => {
    const needed = "AZaz09 éñßžŁőΩπЖяёђ “”‘’–—…•·×→≤€№™©&<>\"'";
    expect(Array.from(needed).filter((character) => !font.has(character.codePointAt(0) ?? 0))).toEqual([]);
    expect(font.size).toBe(783);
  });

  test("have neither emoji nor a glyph for unassigned code points", () => {
    expect([0x1f680, 0x5915, 0xd83d, 0xffff, 0].filter((codePoint) => advances.has(codePoint))).toEqual([]);
  });

  test("have the widths that fonttools measures", () => {
    const unitsOf = (character: string) => 2816 * (advances.get(character.codePointAt(0) ?? 0) ?? 0);
    expect(Array.from("A Ж", unitsOf)).toEqual([2038, 699, 2928]);
  });
});

describe("legible text", () => {
  test.each(Object.entries(hostilePrompts))("is in characters that the font has: %s", (_, prompt) => {
    const text = makeLegible(prompt, advances);
    expect(Array.from(text).filter((character) => !advances.has(character.codePointAt(0) ?? 0))).toEqual([]);
  });

  test("shows a dot for each character that the font lacks, and keeps the others", () => {
    expect(makeLegible("a 夕暮 b🚀", advances)).toBe("a ·· b·");
    expect(makeLegible("x\ud83dy", advances)).toBe("x·y");
  });

  test("joins accents to their letters and drops marks that cannot be placed", () => {
    expect(makeLegible("e\u0301 x\u0302 a\u200d\u202eb 👍🏽", advances)).toBe("é x ab ·");
  });

  test("is on one line, without control characters", () => {
    expect(makeLegible("  one\r\n\ttwo\u0000three\u2028four ", advances)).toBe("one two three four");
  });
});

describe("wrapping", () => {
  const texts = Object.values(hostilePrompts).map((prompt) => makeLegible(prompt, advances));

  test.each([8, 20.5, 45])("keeps every line within %d ems", (width) => {
    const lines = texts.flatMap((text) => [...wrap(text, width, advances), ...wrapEvenly(text, width, advances)]);
    expect(lines.filter((line) => widthOf(line, advances) > width)).toEqual([]);
    expect(lines.length).toBeGreaterThan(100);
  });

  test("loses no letter", () => {
    for (const text of texts) {
      expect(wrap(text, 12, advances).join("").replaceAll(" ", "")).toBe(text.replaceAll(" ", ""));
    }
  });

  test("breaks at spaces where possible", () => {
    expect(wrap("one two three", widthOf("one two", advances), advances)).toEqual(["one two", "three"]);
  });

  test("balances the lines without adding one", () => {
    const text = "a lighthouse at dusk, waves rolling in slow motion";
    const width = widthOf("a lighthouse at dusk, waves rolling in slow", advances);
    expect(wrap(text, width, advances)).toEqual(["a lighthouse at dusk, waves rolling in slow", "motion"]);
    expect(wrapEvenly(text, width, advances)).toEqual(["a lighthouse at dusk, waves", "rolling in slow motion"]);
  });

  test("shortens with an ellipsis, within the width", () => {
    const text = "a slow dolly shot";
    expect(shorten(text, 100, advances)).toBe(text);
    const short = shorten(text, 5, advances);
    expect(short).toBe("a slow…");
    expect(shorten("lighthouse", 3, advances)).toMatch(/^ligh?t?h?…$/);
    expect(widthOf(short, advances)).toBeLessThanOrEqual(5);
  });
});
