import { rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { line, median, run, runMeasured, startServer } from "./measure.mjs";

const times = 5;
const least = 0.8;
const mostMb = 100;

/** Goal 6: 500 MB from another process, beside curl to the same disk: speed, and memory that does not grow. */
export async function measureDownload({ bin, env, folder, print }) {
  const server = await startServer("media.mjs");
  const url = `http://127.0.0.1:${server.port}`;
  const more = { VIDGEN_BASE_URL: url, VIDGEN_API_KEY: "a-key-for-the-bench" };
  const file = join(folder, "video.mp4");
  const taken = { vidgen: [], curl: [] };
  const peaks = [];
  const growths = [];
  for (let round = 0; round < times; round++) {
    const start = performance.now();
    const measured = await runMeasured({ args: [bin, "wait", "x", "-o", file], env: { ...env, ...more }, folder });
    taken.vidgen.push(performance.now() - start);
    peaks.push(measured.peak);
    growths.push(measured.second - measured.first);
    const { size } = statSync(file);
    rmSync(file);
    taken.curl.push(run({ command: "curl", args: ["-s", "-o", file, `${url}/video.mp4`], env }));
    if (statSync(file).size !== size) throw new Error("the two files differ");
    rmSync(file);
  }
  server.close();
  const [a, b] = [median(taken.vidgen), median(taken.curl)];
  const ratio = b / a;
  const speed = { figure: `${ratio.toFixed(2)} x`, limit: `at least ${least}`, isMet: ratio >= least };
  print(line("6", "500 MB, the speed of curl", { ...speed, more: `${a.toFixed(0)} ms / ${b.toFixed(0)} ms` }));
  const [peak, growth] = [Math.max(...peaks), median(growths)];
  const isMet = peak < mostMb && growth < 10;
  const memory = { figure: `${peak.toFixed(0)} MB`, limit: `under ${mostMb} MB, and flat`, isMet };
  print(line("6", "500 MB, memory", { ...memory, more: `second half ${growth.toFixed(0)} MB over the first` }));
}
