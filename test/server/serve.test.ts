import { readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { systemIo } from "../../src/cli/system.ts";
import type { Io } from "../../src/io.ts";
import { openService } from "../../src/server/serve.ts";
import { makeFolder } from "./service.ts";

/** The real world, in which a lease is refreshed after 20 ms instead of 10 s. */
function quickIo(): Io {
  const io = systemIo();
  return { ...io, limit: (ms, parent, reason) => io.limit(ms === 10_000 ? 20 : ms, parent, reason) };
}

test("a service whose folder another process has taken over closes, and writes there no more", async () => {
  const folder = await makeFolder();
  const service = await openService(
    {
      ...{ folder, engine: { render: async () => {} }, host: "127.0.0.1", isLoopback: true },
      ...{ ports: { api: 0, media: 0 }, pace: "fast", resume: "all", onDelivery: () => {}, onNote: () => {} },
    },
    quickIo(),
  );
  if (service.kind === "held") throw new Error("held");
  const { base_url } = service.address;
  expect((await fetch(`${base_url}/api/generate`)).status).toBe(405);

  const lease = join(folder, "lease");
  const [name = ""] = readdirSync(lease);
  writeFileSync(join(folder, "service.json"), "of the other process");
  renameSync(join(lease, name), join(lease, "other-boot_1_7_1_token"));
  await expect.poll(() => service.lost.aborted).toBe(true);
  await expect
    .poll(() =>
      fetch(base_url).then(
        () => "answers",
        () => "gone",
      ),
    )
    .toBe("gone");
  await service.close(0);
  expect(readFileSync(join(folder, "service.json"), "utf8")).toBe("of the other process");
  expect(readdirSync(lease)).toEqual(["other-boot_1_7_1_token"]);
});
