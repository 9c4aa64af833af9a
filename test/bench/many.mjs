// A service with many generations over TLS, in a process of its own, that writes down when each is looked at: `node many.mjs <key> <cert> <ms>`,
// the time until all are done. A line on stdin is answered with the number of looks, the least and the longest
// time between two at one generation, and the median of the last ones, in seconds.
import { readFileSync } from "node:fs";
import { createServer } from "node:https";

const [key, cert, ms] = process.argv.slice(2);
const looks = new Map();
let since;

const server = createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (request, response) => {
  const now = performance.now();
  since ??= now;
  const id = new URL(request.url, "http://bench").searchParams.get("id");
  looks.set(id, [...(looks.get(id) ?? []), now]);
  const isDone = now - since > Number(ms);
  const status = isDone ? "completed" : "processing";
  response.writeHead(200, { "Content-Type": "application/json" });
  response.end(JSON.stringify({ id, status, video_url: isDone ? "https://media.video.example/x.mp4" : null }));
});
server.listen(0, "127.0.0.1", () => process.stdout.write(JSON.stringify({ port: server.address().port })));
process.stdin.on("data", () => {
  const all = [...looks.values()].map((times) => times.slice(1).map((time, i) => (time - times[i]) / 1000));
  const sorted = all.flat().sort((a, b) => a - b);
  const lasts = all.map((gaps) => gaps.at(-1)).sort((a, b) => a - b);
  const count = sorted.length + looks.size;
  const summary = { count, least: sorted[0], most: sorted.at(-1), last: lasts[lasts.length >> 1] };
  process.stdout.write(JSON.stringify(summary));
});
