// A service whose one video has 500 MB. A generation is completed at the first look at it, but one with a "slow-" id: 20 s after that.
import { createServer } from "node:http";
import { Readable } from "node:stream";

const size = 500_000_000;
const slowMs = 20_000;
const piece = Buffer.alloc(256 * 1024);
const since = new Map();

/** The beginning of an .mp4: the head of each box, and the frames' box at the end, as long as the rest of the file. */
const start = Buffer.concat([box("ftyp", 8), Buffer.alloc(8), box("moov", 4), Buffer.alloc(4), box("mdat", size - 36)]);

function box(type, length) {
  const head = Buffer.alloc(8);
  head.writeUInt32BE(8 + length);
  head.write(type, 4);
  return head;
}

function* pieces() {
  yield start;
  for (let left = size - start.length; left > 0; left -= piece.length) yield piece.subarray(0, left);
}

let started = 0;
const server = createServer((request, response) => {
  const { host } = request.headers;
  if (request.method === "POST") {
    const data = { id: `started-${++started}`, status: "processing" };
    response.writeHead(200, { "Content-Type": "application/json" });
    return void request.resume().on("end", () =>
      response.end(
        JSON.stringify({
          message: "success",
          data,
          credits_charged: 10,
          remaining_credits: 1_000_000 - 10 * started,
        }),
      ),
    );
  }
  const { pathname, searchParams } = new URL(request.url, `http://${host}`);
  if (pathname === "/video.mp4") {
    response.writeHead(200, { "Content-Type": "video/mp4", "Content-Length": size });
    return void Readable.from(pieces()).pipe(response);
  }
  const id = searchParams.get("id") ?? "";
  if (!since.has(id)) since.set(id, performance.now());
  const isDone = !id.startsWith("slow-") || performance.now() - since.get(id) > slowMs;
  const [status, video_url] = isDone ? ["completed", `http://${host}/video.mp4`] : ["processing", null];
  response.writeHead(200, { "Content-Type": "application/json" });
  response.end(JSON.stringify({ id, status, video_url }));
});
server.listen(0, "127.0.0.1", () => process.stdout.write(`http://127.0.0.1:${server.address().port}`));
