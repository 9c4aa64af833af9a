import { mkdirSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { hasTmux } from "../needs.ts";
import { openDesk } from "../tmux.ts";
import { svgOf } from "./svg.ts";

const place = new URL("../../.github/run.svg", import.meta.url);

test("a picture of a run, as a terminal shows it", { skip: !hasTmux }, async () => {
  const desk = await openDesk({ columns: 80, rows: 20 });
  const generate = (prompt: string, flags: string) => `vidgen generate "${prompt}" --local ${flags}`;
  // From three on vidgen knows how long the model typically takes.
  for (const prompt of ["one", "two", "three"])
    await desk.run(generate(`${prompt} [slow: 8s]`, "-m veo-3.1 -d 1 --quiet -o clips/"), { timeoutMs: 60_000 });
  desk.type("PS1='\\[\\e[1;32m\\]$\\[\\e[0m\\] '; clear\n");
  desk.type(`${generate("a red fox runs through snow at dusk", "-o fox.mp4")}\n`);
  await desk.shows(/^Saved fox\.mp4 .*\n\$$/m, { timeoutMs: 60_000 });
  desk.type(`${generate("waves at night", "-m veo-3.1 -d 20 -o clips/")}\n`);
  await desk.shows(/Generating \w{8} \(veo-3\.1\) {2}[2-9] s, typically \d+ s/, { timeoutMs: 60_000 });
  const svg = svgOf(desk.screen({ colors: true }), 80);
  desk.press("C-c");
  await desk.shows("Resume with");
  expect(svg.length).toBeLessThan(30_000);
  mkdirSync(new URL(".", place), { recursive: true });
  writeFileSync(place, svg);
});
