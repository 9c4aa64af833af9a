import { Writable } from "node:stream";
import { expect, test } from "vitest";
import { createEventLines } from "../../../src/cli/terminal/event-lines.ts";
import { colorLevel, createOutput, type OutputFlags, plainLine } from "../../../src/cli/terminal/output.ts";
import { VidgenError } from "../../../src/errors.ts";
import { plainText } from "../../../src/protocol/text.ts";

const secret = "canary-key-0123456789";

type Scene = Partial<OutputFlags> & {
  isTTY?: boolean;
  columns?: number;
  env?: Record<string, string>;
  failing?: string;
  isSlow?: boolean;
};

/** Both streams, and what was written to them so far. */
function createStreams({ isTTY = false, columns = 80, failing, isSlow }: Scene = {}) {
  const written = { stdout: "", stderr: "" };
  const writes: string[] = [];
  const stream = (name: keyof typeof written, code?: string) => {
    const write = (chunk: unknown, _: unknown, done: (error?: Error) => void) => {
      if (code !== undefined) return done(Object.assign(new Error(`write ${code}`), { code }));
      const finish = () => {
        written[name] += String(chunk);
        if (name === "stdout") writes.push(String(chunk));
        done();
      };
      if (isSlow) setImmediate(finish);
      else finish();
    };
    const stream: Writable = new Writable({ write }).on("error", () => {});
    const clearLine = () => stream.write("\u001b[K");
    return Object.assign(stream, { isTTY, columns, clearLine, cursorTo: () => true, moveCursor: () => true });
  };
  return { written, writes, streams: { stdout: stream("stdout", failing), stderr: stream("stderr") } };
}

/** An output, and what it has written so far. */
function createScene(scene: Scene = {}) {
  const { isTTY: _, columns: __, env = {}, failing: ___, isSlow: ____, ...given } = scene;
  const { written, writes, streams } = createStreams(scene);
  const flags = { json: false, events: false, quiet: false, verbose: false, color: undefined, ...given };
  const io = { ...streams, isOneStream: false, env, date: () => new Date(0) };
  return {
    output: createOutput(flags, io, {
      argv: ["list"],
      command: "list",
      openEvents: flags.events ? createEventLines : undefined,
    }),
    written,
    writes,
  };
}

test.each([
  ["a colour", "\u001b[1;31mred\u001b[0m", "red"],
  ["a cleared screen", "a\u001b[2J\u001b[Hb", "ab"],
  ["a C1 sequence", "\u009b31mred", "red"],
  ["a link", "\u001b]8;;https://evil.example\u0007text\u001b]8;;\u0007", "text"],
  ["the clipboard", "a\u001b]52;c;aGVsbG8=\u0007b", "ab"],
  ["C0", "a\u0000\u0007\b\u000b\f\r\u001bb", "ab"],
  ["C1", "a\u0080\u0085\u009fb", "ab"],
  ["DEL", "a\u007fb", "ab"],
  ["reading directions", "a\u202e\u202a\u2066\u2069\u200e\u200f\u061cb", "ab"],
  ["lines and tabs", "a\n\tb\n", "a\n\tb\n"],
  ["emoji", "🦊👩‍👩‍👧🏽❤️🇫🇷", "🦊👩‍👩‍👧🏽❤️🇫🇷"],
  ["CJK", "赤い狐が雪の中を走る 红狐 붉은 여우", "赤い狐が雪の中を走る 红狐 붉은 여우"],
  ["accents and RTL", "Zürich e\u0301 ثعلب", "Zürich e\u0301 ثعلب"],
])("of %s only what can be read stays", (_, text, shown) => {
  expect(plainText(text)).toBe(shown);
});

test("no text leaves anything that a terminal obeys", () => {
  const parts = ["\u001b", "[", "]", "31m", "8;;", "52;c;", "\u009b", "\u009d", "\u0007", "\u001b\\", "P", "a b", "\r"];
  const texts = parts.flatMap((a) => parts.flatMap((b) => parts.map((c) => `${a}${b}${c}\u001b[${a}${b}`)));
  for (const text of texts) expect(plainText(text)).not.toMatch(/[^\P{Cc}\n\t]/u);
});

test("a line is one line", () => {
  expect(plainLine("  a\n\tb\u001b[2J  c \n")).toBe("a b c");
});

test("with --json every control character is escaped, and reads back the same", async () => {
  const { output, written } = createScene({ json: true });
  const odd = "a\u0000\u001b[31m\u007f\u0080\u009b\u009f\u061c\u200e\u202e\u2028\u2066\u2069\n\t🦊狐é";
  await output.result("text", { text: odd, [odd]: [odd, 1, null, true, { a: [] }] });
  expect(written.stdout.replaceAll("\n", "")).not.toMatch(/[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u);
  expect(JSON.parse(written.stdout)).toEqual({ text: odd, [odd]: [odd, 1, null, true, { a: [] }] });
  expect(written.stdout).toContain("🦊狐é");
});

test("a result is its text on stdout, and nothing on stderr", async () => {
  const { output, written } = createScene({ isTTY: true });
  await output.result("https://media.example/\u001b[31ma.mp4", { ignored: true });
  expect(written).toEqual({ stdout: "https://media.example/a.mp4\n", stderr: "" });
});

test("an empty result prints nothing, not even a line", async () => {
  const { output, written } = createScene();
  await output.result("", []);
  expect(written.stdout).toBe("");
});

test("with --json a result is one document on stdout", async () => {
  const { output, written } = createScene({ json: true });
  output.note("Started.");
  output.progress("Generating  1 s");
  await output.result("text", { id: "1b4e28ba", file: null });
  expect(JSON.parse(written.stdout)).toEqual({ id: "1b4e28ba", file: null });
  expect(written.stderr).toBe("");
});

test("with --json a person who watches still gets notes", () => {
  const { output, written } = createScene({ json: true, isTTY: true });
  output.note("Started.");
  expect(written).toEqual({ stdout: "", stderr: "Started.\n" });
});

const error = new VidgenError("unknown", "No answer.\u001b[31m", { hint: "Look\nthere.", id: "1b4e", httpStatus: 502 });

test("an error is text on stderr: what happened, and below it what to do", async () => {
  const { output, written } = createScene();
  expect(await output.fail(error)).toBe(6);
  expect(written).toEqual({ stdout: "", stderr: "error: No answer.\n  Look\n  there.\n" });
});

test.each([{ json: false }, { json: true }])("commands are printed as they can be typed (%j)", (flags) => {
  const hint = "`vidgen list` shows it. To go on: vidgen wait x; vidgen keeps it, npx vidgen too.";
  const typed = "`npx vidgen list` shows it. To go on: npx vidgen wait x; vidgen keeps it, npx vidgen too.";
  const called = createScene({ ...flags, isTTY: true, columns: 200, env: { npm_command: "exec" } });
  called.output.note(hint);
  called.output.fail(new VidgenError("pending", "Still running.", { hint }));
  expect(called.written.stderr.split(typed)).toHaveLength(3);
  const installed = createScene({ ...flags, isTTY: true, columns: 200 });
  installed.output.fail(new VidgenError("pending", "Still running.", { hint }));
  expect(installed.written.stderr).toContain(hint);
});

test("with --json an error is one document on stderr", async () => {
  const { output, written } = createScene({ json: true });
  expect(await output.fail(error)).toBe(6);
  expect(written.stdout).toBe("");
  expect(JSON.parse(written.stderr)).toEqual({
    error: {
      code: "unknown",
      message: "No answer.\u001b[31m",
      hint: "Look\nthere.",
      id: "1b4e",
      attempt: null,
      charged: "maybe",
      http_status: 502,
      next: [{ argv: ["vidgen", "wait", "1b4e"], pays: false }],
    },
  });
});

test("with --json what an error does not know is null", async () => {
  const { output, written } = createScene({ json: true });
  await output.fail(new VidgenError("usage", "Bad flag."));
  expect(JSON.parse(written.stderr)).toEqual({
    error: {
      code: "usage",
      message: "Bad flag.",
      hint: null,
      id: null,
      attempt: null,
      charged: "no",
      http_status: null,
      next: [],
    },
  });
});

test("Ctrl-C is not called an error", async () => {
  const { output, written } = createScene();
  expect(await output.fail(new VidgenError("interrupted", "Interrupted."))).toBe(130);
  expect(written.stderr).toBe("Interrupted.\n");
});

test("a defect is called one, and shows where it happened with --verbose alone", async () => {
  const quiet = createScene();
  expect(await quiet.output.fail(new TypeError("x is not a function"))).toBe(1);
  expect(quiet.written.stderr).toMatch(/^error: Internal error in vidgen: x is not a function\n {2}Please report/);
  expect(quiet.written.stderr).not.toContain("output.test.ts");
  const verbose = createScene({ verbose: true });
  await verbose.output.fail(new TypeError("x is not a function"));
  expect(verbose.written.stderr).toContain("output.test.ts");
});

test.each([
  [true, "\u001b[31merror: \u001b[39mNo answer.\n"],
  [false, "error: No answer.\n"],
])("with colour %s an error reads %j", async (color, text) => {
  const { output, written } = createScene({ color });
  await output.fail(new VidgenError("network", "No answer."));
  expect(written.stderr).toBe(text);
});

test.each([
  [true, "\u001b[32mpass\u001b[39m  node\n\u001b[33mwarn\u001b[39m  disk pass\n\u001b[31mfail\u001b[39m  key\n"],
  [false, "pass  node\nwarn  disk pass\nfail  key\n"],
])("with colour %s the states of a result are %j", async (color, text) => {
  const { output, written } = createScene({ color });
  await output.result("pass  node\nwarn  disk pass\nfail  key", {}, { states: /^(pass|warn|fail)(?= )/gm });
  expect(written.stdout).toBe(text);
});

test("--quiet prints nothing but errors, and the result", async () => {
  const { output, written } = createScene({ quiet: true, isTTY: true });
  output.note("Started.");
  output.progress("Generating  1 s");
  await output.result("done", {});
  expect(written).toEqual({ stdout: "done\n", stderr: "" });
  await output.fail(error);
  expect(written.stderr).toContain("No answer.");
});

test.each([
  [true, "> GET https://x.example\n"],
  [false, ""],
])("with --verbose %s a request shows as %j", (verbose, text) => {
  const { output, written } = createScene({ verbose });
  output.trace("> GET https://x.example\u001b[31m");
  expect(written.stderr).toBe(text);
});

const awkward = 'k"e\\y$&/';
test.each([
  [secret, false],
  [secret, true],
  [awkward, false],
  [awkward, true],
])("the hidden key %s never shows, with --json %s", async (key, json) => {
  const { output, written } = createScene({ json, isTTY: true, verbose: true, env: { CI: "1" }, color: false });
  output.hide(key);
  output.hide("");
  await output.result(`the key is ${key}`, { key, [key]: [`Bearer ${key}`], nested: { deep: [{ key }] } });
  output.note(`note ${key}`);
  output.progress(`progress ${key}`);
  output.trace(`trace ${key.slice(0, 4)}\u001b[0m${key.slice(4)}`);
  await output.fail(new VidgenError("rejected", `error ${key}`, { hint: `hint ${key}`, id: key }));
  await output.fail(new TypeError(`Headers.append: "Bearer ${key}" is an invalid header value`));
  const all = written.stdout + written.stderr;
  for (const form of [key, JSON.stringify(key).slice(1, -1)]) expect(all).not.toContain(form);
  expect(all.match(/\[key\]/g)?.length).toBeGreaterThanOrEqual(7);
  if (json) expect(JSON.parse(written.stdout)).toMatchObject({ key: "[key]", "[key]": ["Bearer [key]"] });
});

test("a key that looks like JSON itself leaves a document that can be read", async () => {
  const { output, written } = createScene({ json: true });
  output.hide('":"long":"');
  await output.result("", { a: 'x":"long":"y' });
  expect(JSON.parse(written.stdout)).toEqual({ a: "x[key]y" });
});

test.each(["EPIPE", "ERR_STREAM_DESTROYED"])("a reader that has gone away (%s) is no error", async (failing) => {
  const { output } = createScene({ failing });
  await output.result("text", {});
  await output.result("more", {});
  await output.flush();
});

test.each(["ENOSPC", "EIO"])("a stdout that cannot take the result (%s) is an output error", async (failing) => {
  const { output } = createScene({ failing });
  await expect(output.result("text", {})).rejects.toMatchObject({
    code: "output",
    exit: 9,
    message: `Cannot write to stdout: ${failing}.`,
  });
});

test("with --events stdout has one event a line, each written at once, and nothing else", async () => {
  const { output, written, writes } = createScene({ events: true });
  output.hide(secret);
  const odd = `a\n\u0000\u001b[31m\u007f\u009b\u061c\u200e\u202e\u2028\u2066 ${secret} 🦊`;
  output.event({ event: "state", id: "1b4e", status: odd });
  output.print("help");
  await output.result("text", { id: "1b4e" });
  expect(output.fail(new VidgenError("failed", odd))).toBe(4);
  expect(await output.end(4)).toBe(4);
  output.event({ event: "state", id: "1b4e", status: "too late" });
  await output.flush();
  const lines = written.stdout.trimEnd().split("\n");
  expect(writes).toEqual(lines.map((line) => `${line}\n`));
  expect(written.stdout.replaceAll("\n", "")).not.toMatch(/[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u);
  const at = "1970-01-01T00:00:00.000Z";
  const shown = odd.replace(secret, "[key]");
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    { event: "state", at, id: "1b4e", status: shown },
    {
      event: "error",
      at,
      error: { code: "failed", message: shown, hint: null, id: null, attempt: null, http_status: null, next: [] },
    },
    expect.objectContaining({ event: "summary", at, exit_code: 4, total: 0 }),
  ]);
  expect(written.stderr).toMatch(/^help/);
});

test("without --events no event is printed, and the exit code stays", async () => {
  const { output, written } = createScene();
  output.event({ event: "state", id: "1b4e", status: "processing" });
  expect([await output.end(5), written.stdout]).toEqual([5, ""]);
});

test("a batch sets the counts of the summary", async () => {
  const { output, written } = createScene({ events: true });
  output.event({ event: "started", id: "1b4e", resumed: false });
  const ended = { total: 9, done: 3, running: 1, failed: 1, refused: 1, unsent: 1, unknown: 1, lost: 0 };
  const counts = { ...ended, to_start: 1, remaining_credits: 5, cost: null };
  output.summarize(counts);
  await output.end(6);
  expect(JSON.parse(written.stdout.split("\n")[1] ?? "")).toMatchObject({ exit_code: 6, ...counts });
});

test.each([
  ["EPIPE", 0, 0],
  ["ERR_STREAM_DESTROYED", 0, 0],
  ["ENOSPC", 0, 9],
  ["EIO", 6, 6],
])("events that cannot be written (%s) make exit code %i %i", async (failing, code, end) => {
  const { output, written } = createScene({ events: true, failing });
  output.event({ event: "state", id: "1b4e", status: "processing" });
  expect(await output.end(code)).toBe(end);
  expect(written.stderr.includes("Cannot write to stdout: ENOSPC.")).toBe(end === 9);
});

test("elsewhere than at a terminal a state is a line, said once", () => {
  const { output, written } = createScene();
  for (const _ of ["once", "again"]) output.progress("Generating");
  output.progress("Saving");
  output.clearProgress();
  expect(output.isLive).toBe(false);
  expect(written.stderr).toBe("Generating\nSaving\n");
});

test.each([
  ["a dumb terminal", { isTTY: true, env: { TERM: "dumb" } }, false],
  ["CI", { isTTY: true, env: { CI: "true" } }, false],
  ["a pipe", { isTTY: false }, false],
  ["a terminal with --quiet", { isTTY: true, quiet: true }, false],
  ["a terminal", { isTTY: true, env: { TERM: "xterm" } }, true],
  ["a terminal with --json", { isTTY: true, json: true }, true],
  ["a terminal with --events", { isTTY: true, events: true }, false],
])("at %s with %j a moving line is shown: %s", (_, scene: Scene, isLive) => {
  expect(createScene(scene).output.isLive).toBe(isLive);
});

test("at a terminal the state is a moving line, gone when a result comes", async () => {
  const { output, written } = createScene({ isTTY: true, color: false });
  output.hide(secret);
  output.progress(`Generating  1 s ${secret}`);
  expect(written.stderr).toBe("");
  await expect.poll(() => written.stderr).toContain("Generating  1 s [key]");
  output.note("A note.");
  expect(written.stderr).toMatch(/(^|\n|h|K|G)A note\.\n/);
  expect(written.stderr).toMatch(/A note\.\n[^\n]*Generating {2}1 s \[key\]/);
  await output.result("done", {});
  const shown = written.stderr;
  output.clearProgress();
  await output.flush();
  expect(written.stderr).toBe(shown);
  expect(written.stdout).toBe("done\n");
});

test.each([
  [undefined, false, {}, 0],
  [undefined, true, {}, 1],
  [undefined, true, { TERM: "dumb" }, 0],
  [undefined, true, { TERM: "xterm-256color" }, 1],
  [undefined, true, { NO_COLOR: "1" }, 0],
  [undefined, true, { NO_COLOR: "0" }, 0],
  [undefined, true, { NO_COLOR: "" }, 1],
  [undefined, false, { FORCE_COLOR: "1" }, 1],
  [undefined, false, { FORCE_COLOR: "3" }, 1],
  [undefined, true, { FORCE_COLOR: "0" }, 0],
  [undefined, true, { FORCE_COLOR: "false" }, 0],
  [undefined, false, { FORCE_COLOR: "" }, 0],
  [undefined, true, { FORCE_COLOR: "" }, 1],
  [undefined, true, { FORCE_COLOR: "1", TERM: "dumb" }, 1],
  [undefined, true, { FORCE_COLOR: "1", NO_COLOR: "1" }, 0],
  [undefined, false, { CLICOLOR_FORCE: "1" }, 1],
  [undefined, false, { CLICOLOR_FORCE: "0" }, 0],
  [undefined, false, { CLICOLOR_FORCE: "1", FORCE_COLOR: "0" }, 0],
  [undefined, false, { CLICOLOR_FORCE: "1", NO_COLOR: "1" }, 0],
  [true, false, { NO_COLOR: "1", TERM: "dumb", FORCE_COLOR: "0" }, 1],
  [false, true, { FORCE_COLOR: "1", CLICOLOR_FORCE: "1" }, 0],
])("--color %s, a terminal %s, %j: colour level %i", (color, isTTY, env, level) => {
  expect(colorLevel({ color }, { isTTY }, env)).toBe(level);
});

test.each([
  ["https://media.example/a.mp4", true],
  ["https://media.example/\u001b\\a", false],
  ["https://media.example/\u0007a", false],
  ["https://media.example/\u009ca", false],
  ["https://media.example/a b", false],
  ["", false],
  [`https://media.example/?key=${secret}`, false],
])("%j is a link: %s", async (href, isLink) => {
  const { output, written } = createScene({ isTTY: true, env: { TERM_PROGRAM: "ghostty" } });
  output.hide(secret);
  await output.result("fox.mp4", {}, { href });
  expect(written.stdout).toBe(isLink ? `\u001b]8;;${href}\u001b\\fox.mp4\u001b]8;;\u001b\\\n` : "fox.mp4\n");
});

test("a terminal that has no columns gets lines: to clear one of them would take for ever", () => {
  const { output, written } = createScene({ isTTY: true, columns: 0 });
  output.progress("Generating 1");
  output.clearProgress();
  expect(output.isLive).toBe(false);
  expect(written.stderr).toBe("Generating 1\n");
});

test("what is printed comes in order, and all of it before the end", async () => {
  const { output, written } = createScene({ isSlow: true });
  output.print("first\n");
  output.print("second\n");
  await output.result("third", {});
  output.note("A note.");
  await output.flush();
  expect(written).toEqual({ stdout: "first\nsecond\nthird\n", stderr: "A note.\n" });
});

test("help that stdout cannot take is an output error, a reader that has gone away is none", async () => {
  const full = createScene({ failing: "ENOSPC" });
  full.output.print("help\n");
  await new Promise((resolve) => setImmediate(resolve));
  full.output.print("more\n");
  await expect(full.output.printed()).rejects.toMatchObject({ code: "output" });
  const closed = createScene({ failing: "EPIPE" });
  closed.output.print("help\n");
  await closed.output.printed();
});

type Row = [name: string, env: Record<string, string>, links: boolean];
const terminals: Row[] = [
  ["nothing known", {}, false],
  ["some xterm", { TERM: "xterm-256color" }, false],
  ["Windows Terminal", { WT_SESSION: "1b4e" }, true],
  ["ConEmu", { ConEmuANSI: "ON" }, false],
  ["ghostty", { TERM_PROGRAM: "ghostty" }, true],
  ["WezTerm", { TERM_PROGRAM: "WezTerm" }, true],
  ["iTerm", { TERM_PROGRAM: "iTerm.app" }, true],
  ["Terminal.app", { TERM_PROGRAM: "Apple_Terminal" }, false],
  ["kitty", { KITTY_WINDOW_ID: "1" }, true],
  ["a GNOME terminal", { VTE_VERSION: "7600" }, true],
  ["one that crashed at links", { VTE_VERSION: "5000" }, false],
  ["tmux inside ghostty", { TERM_PROGRAM: "ghostty", TMUX: "/tmp/x,1,0" }, false],
  ["screen inside Windows Terminal", { WT_SESSION: "1b4e", TERM: "screen-256color" }, false],
  ["CI", { CI: "true", TERM_PROGRAM: "vscode" }, false],
  ["a dumb terminal", { TERM: "dumb", TERM_PROGRAM: "vscode" }, false],
  ["VS Code", { TERM_PROGRAM: "vscode" }, true],
];
test.each(terminals)("%s with %j gets links: %s", async (_, env, links) => {
  const { output, written } = createScene({ isTTY: true, env });
  await output.result("fox.mp4", {}, { href: "https://media.example/a.mp4" });
  expect(written.stdout.includes("\u001b]8;;")).toBe(links);
});
