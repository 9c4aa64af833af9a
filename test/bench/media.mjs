// A service whose one video has 500 MB, in a process of its own.
import { createServer } from "node:http";
import { Readable } from "node:stream";

const size = 500_000_000;

/** A box of an .mp4 with its size in front; `length` is that of what follows its name, in bytes. */
function box(type, length) {
  const header = Buffer.alloc(8);
  header.writeUInt32BE(8 + length);
  header.write(type, 4);
  return header;
}

const head = Buffer.concat([box("ftyp", 8), Buffer.alloc(8), box("moov", 4), Buffer.alloc(4)]);
const start = Buffer.concat([head, box("mdat", size - head.length - 8)]);
const piece = Buffer.alloc(256 * 1024, 7);

function* pieces() {
  yield start;
  for (let left = size - start.length; left > 0; left -= piece.length)
    yield piece.subarray(0, Math.min(left, piece.length));
}

const server = createServer((request, response) => {
  if (request.url === "/video.mp4") {
    response.writeHead(200, { "Content-Type": "video/mp4", "Content-Length": size, ETag: '"a"' });
    return void Readable.from(pieces(), { objectMode: true }).pipe(response);
  }
  const video_url = `http://${request.headers.host}/video.mp4`;
  response.writeHead(200, { "Content-Type": "application/json" });
  response.end(JSON.stringify({ id: "x", status: "completed", video_url }));
});
server.listen(0, "127.0.0.1", () => process.stdout.write(JSON.stringify({ port: server.address().port })));
