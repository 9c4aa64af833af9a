import { join } from "node:path";
import { asRatio, compare, runForMemory } from "./measure.mjs";

/** 500 MB from another process, beside curl, which does not wait until the disk has them: vidgen does. */
export function measureDownload({ bin, env, folder, url, print }) {
  const file = join(folder, "video.mp4");
  const args = [bin, "wait", "x", "--overwrite", "-o", file];
  const curl = { command: "curl", args: ["-s", "-o", file, `${url}/video.mp4`], env };
  const synced = { command: "sh", args: ["-c", 'curl -s -o "$0" "$1" && sync "$0"', file, `${url}/video.mp4`], env };
  const [ms, curlMs, syncedMs] = compare([() => ({ args, env }), () => curl, () => synced], 7);
  print("500 MB / curl", asRatio(ms, curlMs));
  print("500 MB / curl and sync", asRatio(ms, syncedMs));
  print("500 MB, memory", `${runForMemory({ args, env }).toFixed(0)} MB`);
}
