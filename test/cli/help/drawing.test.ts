import { stripVTControlCharacters } from "node:util";
import { Chalk } from "chalk";
import stringWidth from "string-width";
import { describe, expect, test } from "vitest";
import { drawPage, type PageTerminal } from "../../../src/cli/help/drawing.ts";
import { joinLines, listPages, readBlocks, readCells, readItems, readPage, readSpans } from "../../../src/docs.ts";

const plain = new Chalk({ level: 0 });

function draw(text: string, { columns = 80, color = plain, isAscii = false }: Partial<PageTerminal> = {}): string {
  return drawPage(text, { columns, color, isAscii });
}

const table = `| code | meaning |
|---|---|
| 5 | the time ran out, and the generation is still running |
| \`lost\` | see [exit codes](exit-codes.md) |`;

test("a table has aligned columns, and its cells are wrapped at the terminal's width", () => {
  expect(draw(table, { columns: 50 })).toBe(`\
  code    meaning
  ──────  ────────────────────────────────────────
  5       the time ran out, and the generation is
          still running
  \`lost\`  see exit codes
          (\`vidgen help exit-codes\`)
`);
});

test("where a column would be too narrow, a row is its terms and below them what they mean", () => {
  expect(draw(table, { columns: 24 })).toBe(`\
  5
    the time ran out,
    and the generation
    is still running
  \`lost\`
    see exit codes
    (\`vidgen help exit-codes\`)
`);
});

test("a list has one mark an item, and a paragraph keeps a command in one line", () => {
  const text =
    "# Title\n\nThen type `vidgen list --dismiss <attempt>` to close it.\n\n- one item\n  that goes on\n- another";
  expect(draw(text, { columns: 40 })).toBe(`\
Title
  Then type
  \`vidgen list --dismiss <attempt>\` to
  close it.

  • one item that goes on
  • another
`);
  expect(draw("- one", { isAscii: true })).toBe("  - one\n");
  expect(draw(table, { isAscii: true })).not.toMatch(/[^\n -~]/);
});

test("a line of code is never broken; where a comment has no room beside one, all stand above theirs", () => {
  const text = "    npx vidgen list --limit 5 # the newest five of them\n    npx vidgen login          # once";
  expect(draw(text)).toBe(`${text}\n`);
  expect(draw(text, { columns: 26 })).toBe(`\
    # the newest five of
    # them
    npx vidgen list --limit 5
    # once
    npx vidgen login
`);
});

test("colours take the place of the marks", () => {
  const color = new Chalk({ level: 1 });
  const text = "## Title\n\nUse `-o x` or **never**.";
  expect(draw(text, { color })).toBe(
    "\u001b[1mTitle\u001b[22m\n  Use \u001b[36m-o x\u001b[39m or \u001b[1mnever\u001b[22m.\n",
  );
});

describe.each(listPages())("the page %s", (name) => {
  const { text } = readPage(name);

  test.each([50, 80, 120])("fits %i columns: only code is wider", (columns) => {
    for (const color of [plain, new Chalk({ level: 1 })]) {
      const lines = stripVTControlCharacters(draw(text, { columns, color })).split("\n");
      // Code, a word, or a part of a line that is code.
      const isWhole = (line: string) => line.startsWith("    ") || !line.trim().includes(" ") || /`[^`]*`/.test(line);
      const wide = lines.filter((line) => stringWidth(line) > columns);
      expect(color.level === 0 ? wide.filter((line) => !isWhole(line)) : []).toEqual([]);
    }
  });

  test.each([50, 120])("is drawn with all of its words, at %i columns", (columns) => {
    const drawn = squeeze(draw(text, { columns, color: new Chalk({ level: 1 }) }));
    const isShown = (words: string) => expect(drawn).toContain(squeeze(words));
    for (const { kind, lines } of readBlocks(text)) {
      if (kind === "heading") isShown(joinLines(lines).replace(/^#+ /, ""));
      if (kind === "text") isShown(wordsOf(joinLines(lines)));
      if (kind === "list") for (const item of readItems(lines)) isShown(wordsOf(item));
      if (kind === "code") for (const line of lines) isShown(line.replace(/^(.*\S) +# .*/, "$1"));
      if (kind === "table") for (const line of lines.slice(2)) readCells(line).forEach(showsCell(drawn, columns));
    }
  });
});

/** Cells are broken between words where they stand side by side. */
function showsCell(drawn: string, columns: number) {
  return (cell: string) => {
    const words = wordsOf(cell).split(" ");
    for (const word of columns > 100 ? words : []) expect(drawn).toContain(squeeze(word));
  };
}

/** As it is drawn in colours. */
function wordsOf(markdown: string): string {
  return readSpans(markdown)
    .map(({ text, href = "" }) => (/^[\w-]+\.md$/.test(href) ? `${text} (vidgen help ${href.slice(0, -3)})` : text))
    .join("");
}

function squeeze(text: string): string {
  return stripVTControlCharacters(text).replace(/\s+/g, " ").trim();
}
