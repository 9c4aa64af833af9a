import { spawnSync } from "node:child_process";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hasShell } from "../../needs.ts";
import { completions, createDesk, type Desk, traps } from "./shells.ts";

describe("fish", { skip: !hasShell("fish") }, () => {
  let desk: Desk;
  beforeAll(() => {
    desk = createDesk();
    fish("vidgen completion fish > $HOME/vidgen.fish");
  });
  afterAll(() => desk.clear());

  function fish(script: string, line = ""): string {
    const { folder: cwd, env } = desk;
    const options = { cwd, env: { ...env, LINE: line }, encoding: "utf8" } as const;
    const { stdout, stderr } = spawnSync("fish", ["--no-config", "-c", script], options);
    expect(stderr).toBe("");
    return stdout;
  }

  /** What fish itself offers for a line. */
  const complete = (line: string) => fish(`source $HOME/vidgen.fish; complete -C "$LINE"`, line);

  test.each(completions)("%s and TAB", (typed, called) => {
    const last = typed.slice(typed.lastIndexOf(" ") + 1);
    const word = /<([^<]*)>$/.exec(called)?.[1] ?? "";
    const offered = complete(typed)
      .split("\n")
      .map((row) => row.split("\t")[0]);
    expect(offered).toEqual(word === last ? [""] : [word, ""]);
    expect(desk.isHacked()).toBe(false);
  });

  test.each(traps)("%s and TAB runs nothing", (typed) => {
    complete(typed);
    expect(desk.isHacked()).toBe(false);
  });

  test("what each word is stands beside it, also where it looks like a command", () => {
    expect(complete("vidgen generate -m wan")).toBe("wan-2.5\tultra-realistic, best value\n");
    expect(complete("vidgen wait fi")).toBe("first-one\tprocessing wan-2.5 a fox $(touch hacked) `touch hacked` 'x\n");
  });
});
