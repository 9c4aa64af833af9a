import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { hasLess, hasTmux } from "../../needs.ts";
import { type Desk, openDesk } from "../../tmux.ts";

// The built program in a real terminal, with a shell around it.

describe("in a terminal (tmux)", { skip: !hasTmux }, () => {
  let desk: Desk;
  let stty: string;

  beforeEach(async () => {
    desk = await openDesk();
    stty = await desk.run("stty -a");
  });

  const start = async (prompt = "a [slow: 60s] fox") => {
    desk.type(`clear; vidgen generate '${prompt}' --local -o fox.mp4\n`);
    await desk.shows(/^. Generating \w{8} \(wan-2\.5\) {2}[1-9]\d* s/m);
  };

  /** The terminal is the shell's again, and as it was. */
  const expectTidy = async () => {
    expect(desk.isCursorShown()).toBe(true);
    expect(await desk.run("stty -a")).toBe(stty);
    // Had anything been left in the input or on the line, this would not be all.
    expect(await desk.run("echo typed")).toBe("typed");
  };

  test("a moving line, and Ctrl-C: the id, the command to continue, and the shell's own terminal", async () => {
    await start();
    expect(desk.isCursorShown()).toBe(false);
    desk.press("C-c");
    const screen = await desk.shows(/Resume with:\s+vidgen wait \S+ --local -o fox[.mp4\n]+\$$/m);
    expect(screen).not.toContain("Generating");
    expect(screen).not.toMatch(/\^?\[\[|\]9;|25[hl]/);
    await expectTidy();
  });

  test.each(["", "bash -c "])("Ctrl-C ends a shell's loop too: no second generation is started (%s)", async (shell) => {
    const loop = 'for i in 1 2 3; do vidgen generate "a [slow: 60s] fox $i" --local; echo again; done';
    desk.type(`clear; ${shell === "" ? loop : `${shell}'${loop}'`}\n`);
    await desk.shows(/^. Generating/m);
    desk.press("C-c");
    const screen = await desk.shows(/Resume with:\s+vidgen wait \S+ --local -o \.\n[\s\S]*^\$$/m);
    expect(screen.match(/Started/g)).toHaveLength(1);
    expect(screen).not.toMatch(/^again$/m);
    await expectTidy();
  });

  test("a prompt of several lines that is pasted into a question is one line, and the terminal is left as it was", async () => {
    desk.type("clear; vidgen generate --local -d 1 -a 16:9 -m ray-3 -o fox.mp4\n");
    await desk.shows("What should the video show?");
    desk.paste("a red fox runs\nthrough snow\r\n\n\tat dusk\n");
    await desk.shows("What should the video show? a red fox runs through snow at dusk");
    desk.press("C-c");
    await desk.shows("Interrupted");
    await expectTidy();
    // The shell's own answer to a paste shows that the mark is off: without it, the first line is run.
    desk.type("clear; bind 'set enable-bracketed-paste off'; clear\n");
    desk.paste("echo pas''ted\n");
    await desk.shows(/^pasted$/m);
  });

  test("a page of help in a pager: Ctrl-C leaves it open, and q gives the terminal back", {
    skip: !hasLess,
  }, async () => {
    desk.type("clear; vidgen help real-models\n");
    await desk.shows(/^Real models, from a provider or on your own GPUs$/m);
    desk.press("C-c");
    // less drops keys that come with Ctrl-C.
    const goToEnd = () => {
      desk.press("G");
      return desk.screen();
    };
    await expect.poll(goToEnd).toMatch(/^Credits$/m);
    desk.press("q");
    await expectTidy();
  });

  test("a page that fits on the screen needs no key, and a pager that is missing none either", async () => {
    const tall = await openDesk({ rows: 60 });
    const page = await tall.run("vidgen help directives | head -1; vidgen help directives; echo code $?");
    expect(page).toMatch(/^# Directives[\s\S]*^ {2}\[fail\] +the generation fails$[\s\S]*^code 0$/m);
    const plain = await tall.run("NO_COLOR=1 PAGER=no-such-pager vidgen help directives");
    expect(plain).toMatch(/^ {2}`\[fail\]` +the generation fails$/m);
  });

  test("it comes to its end, and leaves its file", async () => {
    await start("a [slow: 3s] fox");
    const screen = await desk.shows(
      /^fox\.mp4\nSaved fox\.mp4 \(\d+ s, 854x480, \d+ kB\) in \d+ s\n`vidgen list --open last` shows it, and [^$]+one\.\n\$$/m,
    );
    expect(screen).not.toContain("Generating");
    await expectTidy();
  });

  test("on a terminal that grows narrow the line is cut, not broken, each time it is drawn", async () => {
    await start();
    desk.resize(25);
    const screen = await desk.shows(/^. Generating \w{8} \(…$/m);
    expect(screen.match(/…/g)).toHaveLength(1);
    desk.resize(80);
    await desk.shows(/^. Generating \w{8} \(wan-2\.5\) {2}\d+ s$/m);
    desk.press("C-c");
    await desk.shows(/Resume with/);
    await expectTidy();
  });

  test("an error leaves it tidy too", async () => {
    await start("a [slow: 3s] [fail] fox");
    // A preview is free, so nothing is said about a charge.
    expect(await desk.shows(/error: /)).not.toContain("charged");
    await expectTidy();
  });

  test("the form: a prompt, arrows, a yes, and the file", async () => {
    desk.type("clear; vidgen generate --local -d 1 -o fox.mp4\n");
    await desk.shows("What should the video show?");
    desk.type("a fox");
    await desk.shows("a fox");
    desk.press("Enter");
    await desk.shows("Which model?");
    desk.press("Down", "Enter");
    await desk.shows("Which aspect ratio?");
    desk.press("Enter");
    await desk.shows("  vidgen generate 'a fox' --model ray-3 --duration 1 -o");
    await desk.shows("Start it?");
    desk.press("y", "Enter");
    await desk.shows(
      /^fox\.mp4\nSaved fox\.mp4 \(\d+ s, 854x480, \d+ kB\) in \d+ s\n`vidgen list --open last` shows it, and [^$]+one\.\n\$$/m,
    );
    await expectTidy();
  });

  test.each(["C-d", "C-c"])("the form: %s leaves at once, with nothing sent", async (key) => {
    desk.type("clear; vidgen generate --local\n");
    await desk.shows("What should the video show?");
    desk.type("a fox\n");
    await desk.shows("Which model?");
    desk.press(key);
    await desk.shows(/Nothing was sent, nothing was charged\.\n+\$$/m);
    desk.type("echo left with $?\n");
    await desk.shows("left with 130");
    await expectTidy();
    expect(await desk.run("ls -a ~/home")).not.toContain("journal");
  });

  test("--open hands the file to the platform's opener, and continues", async () => {
    writeFileSync(join(desk.folder, "xdg-open"), '#!/bin/sh\nprintf "<%s>\\n" "$@" > opened\n', { mode: 0o755 });
    const line = "PATH=.:$PATH DISPLAY=:0 vidgen generate 'a fox' --local -d 1 -o 'a $(fox).mp4' --open --quiet";
    expect(await desk.run(line)).toBe("a $(fox).mp4");
    expect(await desk.run("sleep 0.3; cat opened")).toBe(`<${join(desk.folder, "a $(fox).mp4")}>`);
    await expectTidy();
  });
});

describe.each([80, 50])("questions in a terminal of %i columns (tmux)", { skip: !hasTmux }, (columns) => {
  test("each is shown whole, with line breaks between words alone", async () => {
    const desk = await openDesk({ columns, rows: 50 });
    // A word in two lines would be two words here.
    const shows = (text: string) =>
      expect.poll(() => desk.screen().replace(/\s+/g, " "), { timeout: 15_000 }).toContain(text);
    const sources = [
      "previews, drawn here: no account, no credits",
      "OpenRouter, with your key: real videos",
      "fal, Replicate or your own GPU: what to type",
      "another service: its base URL and a key",
    ];
    const question = "You are not logged in. What should make it?";
    desk.type("clear; vidgen generate a red fox -d 1 -o one.mp4\n");
    await shows(
      `? generate takes one prompt, not 3. Did you mean this? vidgen generate "a red fox" --duration 1 -o one.mp4 (Y/n)`,
    );
    desk.press("Enter");
    await shows(`? ${question} \u276f ${sources.join(" ")} \u2191\u2193 navigate`);
    desk.press("Down", "Down", "Enter");
    await shows(`\u2714 ${question} fal fal and Replicate need a package of the AI SDK, and --engine names it:`);
    await shows(`? ${question} \u276f ${sources.join(" ")}`);
    desk.press("Down", "Enter");
    await shows(`\u2714 ${question} OpenRouter ? API key for https://openrouter.ai: [input is masked]`);
    desk.press("C-c");
    await shows("Nothing was sent, nothing was charged.");

    desk.type("clear; vidgen generate --local\n");
    await shows("What should the video show?");
    desk.type("a fox\n");
    await shows("? Which model? sora-2: preview veo-3.1: preview");
    desk.press("Enter");
    await shows("\u2714 Which model? wan-2.5 ? Which aspect ratio? \u276f service default");
    desk.press("Enter");
    await shows("? How long, in seconds? (Enter: service default)");
    desk.type("1\n");
    await shows("? Where should the video be saved? (Enter: the current folder; none: only print its URL)");
    desk.type("~\n");
    await shows("> Enter a file such as fox.mp4, a folder/, or . for this folder.");
    desk.press("BSpace");
    desk.type("fox.mp4\n");
    await shows("? Start it? (Y/n)");
    desk.press("Enter");
    await shows("Saved fox.mp4");
    desk.type("clear; vidgen delete last\n");
    await shows("? Delete this video at the service? (its file stays, and the cost in the journal) (y/N)");
    desk.type("n\n");
    await shows("Nothing was deleted.");
  });
});
