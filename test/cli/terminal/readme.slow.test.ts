import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { serve } from "@hono/node-server";
import { describe, expect, onTestFinished, test } from "vitest";
import { hasFfmpeg, hasTmux } from "../../needs.ts";
import { createOpenRouter } from "../../server/engines/videos/fakes/openrouter.ts";
import { type Desk, openDesk } from "../../tmux.ts";

// README's lines in a real terminal, in its order, as somebody types them who has no account: with --local, and a short length. Its provider is on this
// machine.

const readme = readFileSync(new URL("../../../README.md", import.meta.url), "utf8");

/** README's lines of code that run vidgen, without their comments. */
const lines = [...readme.matchAll(/^ {4}(?:npm ci && )?npx (vidgen [^#\n]*)/gm)].map(([, line = ""]) => line.trim());

/** Those that come to an end without an account. `login` and `generate` alone are menus, and have tests of their own. */
const typed = lines.filter((line) => !/^vidgen (login|serve|generate)$/.test(line)).map(withoutPaying);

/** The line with --local, where it does not take the service of an earlier video, and a length. */
function withoutPaying(line: string): string {
  if (!/^vidgen (generate|again|batch)/.test(line) || line.includes("--engine")) return line;
  return `${line}${/--local|again/.test(line) ? "" : " --local"} -d 1`;
}

test("README has a line for each of these", () => {
  for (const part of [
    "generate",
    "again",
    "-n 4",
    "-m veo-3.1,sora-2",
    "--from",
    "batch",
    "doctor",
    "--engine openrouter",
  ])
    expect(typed.filter((line) => line.includes(part))).not.toEqual([]);
});

/** An OpenRouter on this machine. Returns its `--engine`, and how many videos were asked for. */
async function openProvider() {
  const fake = createOpenRouter({ completeAfterMs: 0 });
  const server = serve({ fetch: fake.fetch, hostname: "127.0.0.1", port: 0 });
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return { engine: `openrouter:http://127.0.0.1:${port}`, countCreates: () => fake.creates.length };
}

/** Runs `vidgen serve` beside the shell, with the same home. Resolves once it listens; returns what stops it. */
async function openServe(line: string, desk: Desk): Promise<() => Promise<void>> {
  const log = join(desk.folder, "serve.log");
  await desk.run(`(${line} > serve.log 2>&1 & echo $! > serve.pid)`);
  await expect.poll(() => readFileSync(log, "utf8"), { timeout: 15_000 }).toContain("http://");
  const pid = Number(readFileSync(join(desk.folder, "serve.pid"), "utf8"));
  const isRunning = () => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };
  const stop = async () => {
    if (isRunning()) process.kill(pid);
    await expect.poll(isRunning, { timeout: 15_000 }).toBe(false);
  };
  onTestFinished(stop);
  return stop;
}

describe.each([80, 50])("in a terminal of %i columns (tmux)", { skip: !hasTmux || !hasFfmpeg }, (columns) => {
  test("each line of README succeeds while `vidgen serve` is open, saves its file, and breaks no word", async () => {
    const desk = await openDesk({ columns, rows: 60 });
    writeFileSync(join(desk.folder, "shots.csv"), "id,prompt\nrun,a fox runs\nrest,the fox rests\n");
    const { engine, countCreates } = await openProvider();
    let stop = await openServe("vidgen serve", desk);
    for (const each of typed) {
      const line = each.replace("--engine openrouter", `--engine ${engine}`);
      let screen = await desk.run(`${line}; echo code $?`);
      if (line.startsWith("vidgen generate") && line.includes("--engine")) {
        // The service that is open has previews. The first line that the message names is typed, and then the same line again.
        expect(screen).toMatch(/^code 2$/m);
        expect(countCreates()).toBe(0);
        const [, solution = ""] = /`([^`]+)`/.exec(desk.screen({ isJoined: true }).replace(/\s+/g, " ")) ?? [];
        expect(solution).toBe(`vidgen serve --engine ${engine}`);
        await stop();
        stop = await openServe(solution, desk);
        screen = await desk.run(`${line}; echo code $?`);
        expect(countCreates()).toBe(1);
        await stop();
        stop = await openServe("vidgen serve", desk);
      }
      expect([line, screen]).toEqual([line, expect.stringMatching(/^code 0$/m)]);
      const [, file] = / -o (\S+\.mp4)/.exec(line) ?? [];
      if (file && !file.includes("{")) expect([line, existsSync(join(desk.folder, file))]).toEqual([line, true]);
      const joined = desk.screen({ isJoined: true }).split("\n");
      // A path is not wrapped, so that it can be copied.
      const cut = joined.filter((row) => row.trimEnd().length > columns && !/(^| )\/\S+$/.test(row.trimEnd()));
      expect(cut).toEqual([]);
    }
  });
});
