import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { expect, test } from "vitest";
import { readPage } from "../../../src/docs.ts";
import { bin } from "../../faults/spawned.ts";
import { makeFolder } from "../../folder.ts";
import { hasSystemd } from "../../needs.ts";
import { createWorld } from "../../vidgen.ts";

const unitOf = (page: Parameters<typeof readPage>[0]) => /^```ini\n(.*?)^```/ms.exec(readPage(page).text)?.[1] ?? "";

/** With the programs of this machine, and no file that only the reader has. */
const here = (unit: string) =>
  unit.replace("/usr/bin/node /usr/bin/vidgen", `${process.execPath} ${bin}`).replace(/^EnvironmentFile=.*\n/m, "");

test.skipIf(!hasSystemd).each(["several-machines", "local-service"] as const)(
  "systemd finds no fault with the unit of the page %s",
  (page) => {
    const file = join(makeFolder(), "vidgen.service");
    writeFileSync(file, here(unitOf(page)));
    const { status, stdout, stderr } = spawnSync("systemd-analyze", ["verify", file], { encoding: "utf8" });
    expect([status, stdout + stderr]).toEqual([0, ""]);
  },
);

test("serve has the flags of the unit", async () => {
  const flags = unitOf("several-machines").match(/--[\w-]+/g) ?? [];
  const { stdout } = await (await createWorld()).vidgen("serve", "--help");
  expect(flags).toEqual(["--config", "--grace"]);
  for (const flag of flags) expect(stdout).toContain(`${flag} <`);
});
