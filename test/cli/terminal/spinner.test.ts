import { Writable } from "node:stream";
import { expect, test, vi } from "vitest";
import { createSpinner } from "../../../src/cli/terminal/spinner.ts";
import type { TerminalHold } from "../../../src/io.ts";

const ghostty = { TERM_PROGRAM: "ghostty", TERM: "xterm-ghostty" };
const [hidden, shown] = ["\u001b[?25l", "\u001b[?25h"];
const [kept, old] = ["\u001b[22;2t", "\u001b[23;2t"];
const [progress, noProgress] = ["\u001b]9;4;", "\u001b]9;4;0;0\u0007"];

function createScene(env: Record<string, string> = ghostty, columns = 80) {
  const scene = { written: "", columns, holds: [] as TerminalHold[] };
  const write = (chunk: unknown, _: unknown, done: () => void) => {
    scene.written += String(chunk);
    done();
  };
  const terminal = {
    ...{ isTTY: true, cursorTo: () => true, clearLine: () => true, moveCursor: () => true },
    get columns() {
      return scene.columns;
    },
  };
  const stderr = new Writable({ write });
  Object.defineProperties(stderr, Object.getOwnPropertyDescriptors(terminal));
  const world = { stderr, env, holdTerminal: (hold: TerminalHold) => void scene.holds.push(hold) };
  const spinner = createSpinner(world, () => false);
  const show = (text: string, fraction?: number) => spinner.show({ text, title: `vidgen: ${text}`, fraction });
  return { scene, spinner, show };
}

/** Until ora is loaded and has drawn its line. */
const drawn = (scene: { written: string }, text: string) =>
  vi.waitFor(() => expect(scene.written.split(/[⠀-⣿] /).some((frame) => frame.startsWith(text))).toBe(true));

/** Which of two marks was written last. */
function isOn(written: string, on: string, off: string): boolean {
  return written.lastIndexOf(on) > written.lastIndexOf(off);
}

/** What was switched on and not off again. */
function left(written: string): string[] {
  return [
    ...(written.lastIndexOf(progress) > written.lastIndexOf(noProgress) ? ["progress"] : []),
    ...(isOn(written, kept, old) ? ["title"] : []),
    ...(isOn(written, hidden, shown) ? ["cursor"] : []),
  ];
}

test("the terminal's own progress and title go along, each written when it changes, and are taken back", async () => {
  const { scene, spinner, show } = createScene();
  for (const fraction of [undefined, undefined, 0.5, 0.5]) show("Generating", fraction);
  await drawn(scene, "Generating");
  expect(left(scene.written)).toEqual(["progress", "title", "cursor"]);
  spinner.stop();
  expect(scene.written.split(progress).map((text) => text.split("\u0007")[0])).toEqual(["", "3;0", "1;50", "0;0"]);
  expect(scene.written.split("\u001b]2;vidgen: Generating\u0007")).toHaveLength(2);
  expect([scene.written.split(kept).length, scene.written.split(old).length]).toEqual([2, 2]);
  expect(left(scene.written)).toEqual([]);
});

test.each([[{ TERM: "xterm-256color" }], [{ ...ghostty, TMUX: "/tmp/x,1,0" }]])(
  "nothing of the kind is sent to %j",
  async (env) => {
    const { scene, spinner, show } = createScene(env);
    show("Generating", 0.5);
    await drawn(scene, "Generating");
    spinner.stop();
    for (const mark of ["\u001b]", kept, old]) expect(scene.written).not.toContain(mark);
  },
);

test("Ctrl-Z, and the end of the process, give the terminal back; fg takes it again", async () => {
  const { scene, spinner, show } = createScene();
  show("Generating", 0.5);
  await drawn(scene, "Generating");
  const [hold, ...others] = scene.holds;
  expect(others).toEqual([]);
  hold?.leave();
  expect(left(scene.written)).toEqual([]);
  hold?.back();
  await vi.waitFor(() => expect(left(scene.written)).toEqual(["progress", "title", "cursor"]));
  hold?.leave();
  expect(left(scene.written)).toEqual([]);
  hold?.back();
  spinner.stop();
  expect(left(scene.written)).toEqual([]);
  const { written } = scene;
  hold?.back();
  hold?.leave();
  expect(scene.written).toBe(written);
});

test("what is stopped before ora is there shows nothing any more", async () => {
  const { scene, spinner, show } = createScene();
  show("Generating", 0.5);
  spinner.stop();
  const { written } = scene;
  await import("ora");
  await new Promise((resolve) => setImmediate(resolve));
  expect(scene.written).toBe(written);
  expect(left(written)).toEqual([]);
});

test("a line is as long as the terminal is wide", async () => {
  const { scene, spinner, show } = createScene(ghostty, 20);
  show("Generating 1b4e28ba (wan-2.5)  1 s");
  await drawn(scene, "Generating 1b4e2…");
  scene.columns = 14;
  show("Generating 1b4e28ba (wan-2.5)  2 s");
  await drawn(scene, "Generating…");
  spinner.stop();
  expect(scene.written).not.toMatch(/[⠀-⣿] Generating 1b4e28ba/);
});
