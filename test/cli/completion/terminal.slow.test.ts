import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hasShell } from "../../needs.ts";
import { completions, createDesk, type Desk, openTerminal, type Terminal, traps } from "./shells.ts";

/** TAB in zsh is bound to a widget that runs $(...) by itself, whatever is typed there; `complete-word` leaves that out. */
const shells = [
  { name: "bash", command: "bash --norc --noprofile -i", setUp: "source <(vidgen completion bash)" },
  {
    name: "zsh",
    command: "zsh -f -i",
    setUp: "autoload -Uz compinit; compinit -u -D; bindkey '^I' complete-word; source <(vidgen completion zsh)",
  },
] as const;

for (const { name, command, setUp } of shells) {
  describe(`${name} at a terminal`, { skip: !hasShell(name) }, () => {
    let desk: Desk;
    let terminal: Terminal;

    beforeAll(async () => {
      desk = createDesk();
      terminal = openTerminal(command, desk);
      terminal.type(`${setUp}; vidgen ready\r`);
      await terminal.called();
    });
    afterAll(async () => {
      await terminal.close();
      desk.clear();
    });

    test.each(completions)("%s and TAB", async (typed, called) => {
      terminal.type(`${typed}\t\r`);
      expect(await terminal.called()).toBe(called);
      expect(desk.isHacked()).toBe(false);
    });

    test.each(traps)("%s and TAB runs nothing", async (typed) => {
      terminal.type(`${typed}\t\t\u0015vidgen next\r`);
      expect(await terminal.called()).toBe("<next>");
      expect(desk.isHacked()).toBe(false);
    });
  });
}
