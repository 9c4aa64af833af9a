import { mkdtempSync, rmSync, statfsSync, statSync } from "node:fs";
import { join } from "node:path";
import { line, median, run, runMeasured, startServer } from "./measure.mjs";

const orders = [
  ["vidgen", "curl", "synced"],
  ["synced", "curl", "vidgen"],
  ["curl", "vidgen", "synced"],
  ["synced", "vidgen", "curl"],
  ["vidgen", "synced", "curl"],
  ["curl", "synced", "vidgen"],
];
const times = 3 * orders.length;
const least = 0.8;
const mostMb = 100;

/**
 * Goal 6: 500 MB from another process, beside curl: speed, and memory that does not grow. vidgen has the video on the disk before it gets its
 * name, curl does not wait for that. So both write to memory where the system has files there, and on a disk there is curl with a `sync`, too.
 */
export async function measureDownload({ bin, env, folder, print }) {
  const server = await startServer("media.mjs");
  const url = `http://127.0.0.1:${server.port}`;
  const told = { ...env, VIDGEN_BASE_URL: url, VIDGEN_API_KEY: "a-key-for-the-bench" };
  const inMemory = makeFolder("/dev/shm");
  if (inMemory) {
    const { vidgen, curl } = await compare({ bin, env: told, folder: inMemory, url });
    print(line("6", "500 MB to memory, the speed of curl", asSpeed(vidgen, curl)));
    rmSync(inMemory, { recursive: true });
  }
  const { vidgen, curl, synced, peak, growth } = await compare({ bin, env: told, folder, url });
  server.close();
  print(line("6", "500 MB to the disk, of curl and sync", asSpeed(vidgen, synced)));
  print(line("6", "500 MB to the disk, of curl alone", asSpeed(vidgen, curl)));
  const isMet = peak < mostMb && growth < 10;
  const memory = { figure: `${peak.toFixed(0)} MB`, limit: `under ${mostMb} MB, and flat`, isMet };
  print(line("6", "500 MB, memory", { ...memory, more: `second half ${growth.toFixed(0)} MB over the first` }));
}

function asSpeed(vidgen, other) {
  const ratio = other / vidgen;
  const more = `${vidgen.toFixed(0)} ms / ${other.toFixed(0)} ms`;
  return { figure: `${ratio.toFixed(2)} x`, limit: `at least ${least}`, isMet: ratio >= least, more };
}

/** Where there is room for two videos: in containers it is often 64 MB. */
function makeFolder(parent) {
  try {
    const { bavail, bsize } = statfsSync(parent);
    if (bavail * bsize < 1.2e9) return undefined;
    return mkdtempSync(join(parent, "vidgen-bench-"));
  } catch {
    return undefined;
  }
}

/** In turns; medians in milliseconds, and the memory of vidgen in MB. */
async function compare({ bin, env, folder, url }) {
  const file = join(folder, "video.mp4");
  const taken = { vidgen: [], curl: [], synced: [] };
  const peaks = [];
  const growths = [];
  const fetchers = {
    async vidgen() {
      const measured = await runMeasured({ args: [bin, "wait", "x", "-o", file], env, folder });
      peaks.push(measured.peak);
      growths.push(measured.second - measured.first);
    },
    curl: () => run({ command: "curl", args: ["-s", "-o", file, `${url}/video.mp4`], env }),
    synced() {
      fetchers.curl();
      run({ command: "sync", args: [file], env });
    },
  };
  const sizes = new Set();
  for (let round = 0; round < times; round++) {
    // Each is as often the one that comes after a file was removed that the disk had in full.
    for (const name of orders[round % orders.length]) {
      run({ command: "sync", args: ["-f", folder], env });
      const start = performance.now();
      await fetchers[name]();
      taken[name].push(performance.now() - start);
      sizes.add(statSync(file).size);
      rmSync(file);
    }
  }
  if (sizes.size !== 1) throw new Error("the files differ");
  const [vidgen, curl, synced] = [taken.vidgen, taken.curl, taken.synced].map(median);
  return { vidgen, curl, synced, peak: Math.max(...peaks), growth: median(growths) };
}
