import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { hasFfmpeg, hasTmux } from "../../needs.ts";
import { openDesk } from "../../tmux.ts";

// README's lines in a real terminal, in its order, as somebody types them who has no account: with --local, and a short length.

const readme = readFileSync(new URL("../../../README.md", import.meta.url), "utf8");

/** README's lines of code that run vidgen, without their comments. */
const lines = [...readme.matchAll(/^ {4}(?:npm ci && )?npx (vidgen [^#\n]*)/gm)].map(([, line = ""]) => line.trim());

/** Those that need no account and come to an end; the other ones have tests with a service of their own. */
const typed = lines.filter((line) => !/--engine|^vidgen (login|serve|generate)$/.test(line)).map(withoutPaying);

/** The line with --local, where it does not take the service of an earlier video, and a length. */
function withoutPaying(line: string): string {
  if (!/^vidgen (generate|again|batch)/.test(line)) return line;
  return `${line}${/--local|again/.test(line) ? "" : " --local"} -d 1`;
}

test("README has a line for each of these", () => {
  for (const part of ["generate", "again", "-n 4", "-m veo-3.1,sora-2", "--from", "batch", "doctor"])
    expect(typed.filter((line) => line.includes(part))).not.toEqual([]);
});

describe.each([80, 50])("in a terminal of %i columns (tmux)", { skip: !hasTmux || !hasFfmpeg }, (columns) => {
  test("each line of README succeeds, saves its file, and breaks no word", async () => {
    const desk = await openDesk({ columns, rows: 60 });
    writeFileSync(join(desk.folder, "shots.csv"), "id,prompt\nrun,a fox runs\nrest,the fox rests\n");
    for (const line of typed) {
      const running = desk.run(`${line}; echo code $?`);
      if (/ -n |,| batch /.test(line)) {
        await desk.shows(/^\? Start .*\?/m);
        desk.press("Enter");
      }
      const screen = await running;
      expect(screen).toMatch(/^code 0$/m);
      const [, file] = / -o (\S+\.mp4) /.exec(line.replace("npx ", "")) ?? [];
      if (file && !file.includes("{")) expect([line, existsSync(join(desk.folder, file))]).toEqual([line, true]);
      // A path is not wrapped, so that it can be copied.
      if (line === "vidgen doctor") continue;
      const joined = desk.screen({ isJoined: true }).split("\n");
      const cut = joined.filter((each) => each.trimEnd().length > columns && !each.startsWith("/"));
      expect(cut).toEqual([]);
    }
  });
});
