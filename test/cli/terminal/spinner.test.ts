import { Writable } from "node:stream";
import { expect, test } from "vitest";
import { createSpinner } from "../../../src/cli/terminal/spinner.ts";

/** Dots, or lines in the old terminals of Windows. */
const frame = String.raw`[⠀-⣿|/\\-] `;
const [hidden, shown] = ["\u001b[?25l", "\u001b[?25h"];

function createScene(columns = 80) {
  const scene = { written: "", columns };
  const write = (chunk: unknown, _: unknown, done: () => void) => {
    scene.written += String(chunk);
    done();
  };
  const terminal = {
    isTTY: true,
    cursorTo: () => true,
    clearLine: () => true,
    moveCursor: () => true,
    get columns() {
      return scene.columns;
    },
  };
  const stderr = new Writable({ write });
  Object.defineProperties(stderr, Object.getOwnPropertyDescriptors(terminal));
  return { scene, stderr, spinner: createSpinner(stderr, { hasColor: false, isAscii: false }) };
}

/** Until ora is loaded and has drawn its line. */
const drawn = (scene: { written: string }, text: string) =>
  expect.poll(() => scene.written.split(RegExp(frame)).some((line) => line.startsWith(text))).toBe(true);

test("the cursor is hidden while the line is there, and shown again after it", async () => {
  const { scene, spinner } = createScene();
  spinner.show("Generating");
  await drawn(scene, "Generating");
  expect(scene.written.lastIndexOf(hidden)).toBeGreaterThan(scene.written.lastIndexOf(shown));
  spinner.stop();
  expect(scene.written.lastIndexOf(shown)).toBeGreaterThan(scene.written.lastIndexOf(hidden));
  const { written } = scene;
  spinner.stop();
  expect(scene.written).toBe(written);
});

test("a line that was stopped can be shown again", async () => {
  const { scene, spinner } = createScene();
  spinner.show("Starting...");
  await drawn(scene, "Starting...");
  spinner.stop();
  spinner.show("Generating");
  await drawn(scene, "Generating");
  spinner.stop();
});

test("what others write meanwhile stays above the line", async () => {
  const { scene, stderr, spinner } = createScene();
  spinner.show("Generating");
  await drawn(scene, "Generating");
  stderr.write("A note.\n");
  expect(scene.written).toMatch(RegExp(`A note\\.\\n[^\\n]*${frame}Generating`));
  spinner.stop();
});

test("a spinner that is stopped before ora is loaded shows nothing", async () => {
  const { scene, spinner } = createScene();
  spinner.show("Generating");
  spinner.stop();
  await import("ora");
  await new Promise((resolve) => setImmediate(resolve));
  expect(scene.written).toBe("");
});

test("a line is as long as the terminal is wide", async () => {
  const { scene, spinner } = createScene(20);
  spinner.show("Generating 1b4e28ba (wan-2.5)  1 s");
  await drawn(scene, "Generating 1b4e2…");
  scene.columns = 14;
  spinner.show("Generating 1b4e28ba (wan-2.5)  2 s");
  await drawn(scene, "Generating…");
  spinner.stop();
  expect(scene.written).not.toMatch(RegExp(`${frame}Generating 1b4e28ba`));
});
