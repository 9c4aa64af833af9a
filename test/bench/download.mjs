import { rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { line, median, run, runMeasured, startServer } from "./measure.mjs";

const times = 9;
const least = 0.8;
const mostMb = 100;

/**
 * Goal 6: 500 MB from another process, beside curl to the same disk: speed, and memory that does not grow. vidgen has the video on the disk
 * before it gets its name, curl does not wait for that: so there is curl with a `sync` of its file, too.
 */
export async function measureDownload({ bin, env, folder, print }) {
  const server = await startServer("media.mjs");
  const url = `http://127.0.0.1:${server.port}`;
  const more = { VIDGEN_BASE_URL: url, VIDGEN_API_KEY: "a-key-for-the-bench" };
  const file = join(folder, "video.mp4");
  const taken = { vidgen: [], curl: [], synced: [] };
  const peaks = [];
  const growths = [];
  // Nobody pays for what another one has left: the disk is at rest before each.
  const rest = () => run({ command: "sync", args: ["-f", folder], env });
  for (let round = 0; round < times; round++) {
    rest();
    const start = performance.now();
    const measured = await runMeasured({ args: [bin, "wait", "x", "-o", file], env: { ...env, ...more }, folder });
    taken.vidgen.push(performance.now() - start);
    peaks.push(measured.peak);
    growths.push(measured.second - measured.first);
    const { size } = statSync(file);
    rmSync(file);
    for (const name of ["curl", "synced"]) {
      rest();
      const curl = run({ command: "curl", args: ["-s", "-o", file, `${url}/video.mp4`], env });
      const sync = name === "synced" ? run({ command: "sync", args: [file], env }) : 0;
      taken[name].push(curl + sync);
      if (statSync(file).size !== size) throw new Error("the two files differ");
      rmSync(file);
    }
  }
  server.close();
  const [a, b, synced] = [median(taken.vidgen), median(taken.curl), median(taken.synced)];
  const ratio = b / a;
  const speed = { figure: `${ratio.toFixed(2)} x`, limit: `at least ${least}`, isMet: ratio >= least };
  const beside = `; ${(synced / a).toFixed(2)} x curl and sync, ${synced.toFixed(0)} ms`;
  print(line("6", "500 MB, the speed of curl", { ...speed, more: `${a.toFixed(0)} ms / ${b.toFixed(0)} ms${beside}` }));
  const [peak, growth] = [Math.max(...peaks), median(growths)];
  const isMet = peak < mostMb && growth < 10;
  const memory = { figure: `${peak.toFixed(0)} MB`, limit: `under ${mostMb} MB, and flat`, isMet };
  print(line("6", "500 MB, memory", { ...memory, more: `second half ${growth.toFixed(0)} MB over the first` }));
}
