import { join } from "node:path";
import { expect, test } from "vitest";
import { createWorld, isStart, type World } from "../vidgen.ts";

/** A world on Windows, as far as that can be shown elsewhere: NTFS and the shells are not. */
async function createWindows(): Promise<World> {
  const world = await createWorld();
  Object.assign(world.io, { platform: "win32" });
  return world;
}

const starts = ({ requests }: World) => requests.filter(isStart).length;

test.each([
  ["CON.mp4", "Windows reserves CON for a device"],
  ["a?b.mp4", "has a name with ?, which Windows does not allow"],
  ["fox.", "ends with a dot"],
  ["{slug}.", "ends with a dot"],
  ["nul/{id}.mp4", "Windows reserves nul for a device"],
])("-o %s is refused before anything is paid, with the reason: %s", async (name, reason) => {
  const world = await createWindows();
  const place = join(world.folder, name);
  const refusal = { code: 2, stderr: expect.stringContaining(reason) };
  expect(await world.vidgen("generate", "a fox", "-o", place)).toMatchObject(refusal);
  expect(await world.vidgen("generate", "a fox", "--dry-run", "-o", place)).toMatchObject(refusal);
  world.env.VIDGEN_OUTPUT = place;
  expect(await world.vidgen("generate", "a fox")).toMatchObject(refusal);
  expect(starts(world)).toBe(0);
});
