import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { bin } from "../faults/spawned.ts";
import { makeFolder } from "../folder.ts";
import { hasPromtool, lacks, postgresPrograms } from "../needs.ts";
import { startPostgres } from "../postgres.ts";
import type { Announced } from "../soak/serve.ts";
import { createCounted } from "./counted.ts";

/** What promtool says of a text, and whether it found fault. */
function promtool(words: string[], input = "") {
  const { status, stdout, stderr } = spawnSync("promtool", words, { input, encoding: "utf8" });
  return { status, said: stdout + stderr };
}

const rules = fileURLToPath(new URL("../../src/docs/alerts.yml", import.meta.url));

test.skipIf(!hasPromtool)("promtool finds no fault with the metrics", async () => {
  const { start, rest, text } = await createCounted();
  await start("a fox");
  await rest(1);
  expect(promtool(["check", "metrics"], await text())).toEqual({ status: 0, said: "" });
});

test.skipIf(!hasPromtool)("promtool accepts the alerts", () => {
  expect(promtool(["check", "rules", rules])).toEqual({ status: 0, said: expect.stringContaining("7 rules found") });
});

/** A service in a process of its own, on a disk of 4 MB, with what it says and what Prometheus reads from it. */
async function serveOnSmallDisk(variables: Record<string, string> = {}) {
  const home = makeFolder();
  const mount = 'mount -t tmpfs -o size=4m tmpfs "$VIDGEN_HOME" && exec "$@"';
  const serve = [process.execPath, bin, "serve", "--json", "--log", "json", "--port", "0", "--media-port", "0"];
  const env = { PATH: process.env.PATH ?? "", VIDGEN_HOME: home, ...variables };
  const child = spawn("unshare", ["-rm", "sh", "-c", mount, "sh", ...serve], { env });
  const printed = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const)
    child[name].setEncoding("utf8").on("data", (text) => {
      printed[name] += text;
    });
  const closed = once(child, "close");
  const kill = async () => {
    child.kill("SIGKILL");
    await closed;
  };
  onTestFinished(kill);
  await expect.poll(() => printed.stdout, { message: printed.stderr }).toMatch(/^\}$/m);
  const { base_url, api_key }: Announced = JSON.parse(printed.stdout);
  const ask = (path: string, body?: object) =>
    fetch(base_url + path, {
      headers: { Authorization: `Bearer ${api_key}`, "Content-Type": "application/json" },
      ...(body && { method: "POST", body: JSON.stringify(body) }),
    });
  return {
    printed,
    kill,
    start: async () => (await ask("/api/generate", { prompt: "a fox", model: "sora-2" })).status,
    isReady: async () => (await ask("/readyz")).status,
    /** What Prometheus stores of a scrape: the samples, and whether there was a reply. */
    async scrape(): Promise<[series: string, value: string][]> {
      const text = await ask("/metrics").then(
        (reply) => reply.text(),
        () => undefined,
      );
      const samples = [...(text ?? "").matchAll(/^(vidgen_\w+)(?:\{(.*)\})? (\S+)$/gm)];
      const ours = 'job="vidgen", instance="10.0.0.5:9464"';
      return [
        [`up{${ours}}`, text === undefined ? "0" : "1"],
        ...samples.map(([, name, labels = "", value = ""]): [string, string] => [
          `${name}{${labels}, ${ours}}`.replace("{, ", "{"),
          value,
        ]),
      ];
    },
    fillDisk: () => {
      const [pid] = spawnSync("pgrep", ["-P", String(child.pid)], { encoding: "utf8" })
        .stdout.trim()
        .split("\n");
      const file = `/proc/${pid || child.pid}/root${join(home, "full")}`;
      expect(() => writeFileSync(file, Buffer.alloc(8_000_000))).toThrow("ENOSPC");
    },
  };
}

type Scraped = [series: string, value: string][];

/** Expects that exactly these alerts fire in the ten minutes in which Prometheus reads `before` once, and then `after`. */
function expectAlerts({ before, after, alerts }: { before: Scraped; after: Scraped; alerts: string[] }) {
  const [first, later] = [new Map(before), new Map(after)];
  const input_series = [...new Set([...first.keys(), ...later.keys()])].map((series) => {
    const values = [first.get(series) ?? "_", ...Array(10).fill(later.get(series) ?? "stale")];
    return { series, values: values.join(" ") };
  });
  const promql_expr_test = [
    {
      expr: 'count by (alertname) (max_over_time(ALERTS{alertstate="firing"}[10m]))',
      eval_time: "10m",
      exp_samples: alerts.map((alert) => ({ labels: `{alertname="${alert}"}`, value: 1 })),
    },
  ];
  const tests = [{ interval: "1m", input_series, promql_expr_test }];
  const file = join(makeFolder(), "test.yml");
  writeFileSync(file, JSON.stringify({ rule_files: [rules], evaluation_interval: "1m", tests }));
  expect(promtool(["test", "rules", file])).toEqual({ status: 0, said: expect.stringContaining("SUCCESS") });
}

const canMount = !lacks("network namespaces");

test.skipIf(!hasPromtool || !canMount)(
  "on a full disk, and when the process is gone, /readyz, the log and the alerts say so",
  async () => {
    const { printed, kill, start, isReady, scrape, fillDisk } = await serveOnSmallDisk();
    expect([await start(), await isReady()]).toEqual([200, 200]);
    const before = await scrape();
    // Its disk of 4 MB is nearly full from the beginning.
    expectAlerts({ before, after: before, alerts: ["VidgenDiskFull"] });
    fillDisk();
    await expect.poll(isReady).toBe(503);
    expect(await start()).toBe(503);
    expect(printed.stderr).toContain("The database cannot be written: the disk is full.");
    const full = await scrape();
    expectAlerts({ before, after: full, alerts: ["VidgenDiskFull", "VidgenNotReady", "VidgenUnavailable"] });
    await kill();
    expectAlerts({ before, after: await scrape(), alerts: ["VidgenDown"] });
  },
);

test.skipIf(!hasPromtool || !canMount || !postgresPrograms)(
  "without its database, /readyz, the log and the alerts say so",
  async () => {
    const postgres = await startPostgres({ fsync: false });
    onTestFinished(postgres.close);
    const { printed, start, isReady, scrape } = await serveOnSmallDisk({
      VIDGEN_DATABASE_URL: await postgres.createDatabase(),
    });
    const before = await scrape();
    await postgres.stop("SIGQUIT");
    await expect.poll(isReady).toBe(503);
    expect(await start()).toBe(503);
    await expect.poll(() => printed.stderr).toMatch(/The database cannot be reached/);
    const after = await scrape();
    expect(after.map(([series]) => series).join()).not.toContain("vidgen_queue");
    expectAlerts({ before, after, alerts: ["VidgenDiskFull", "VidgenNotReady", "VidgenUnavailable"] });
  },
);
