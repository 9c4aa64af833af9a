import { createServer } from "node:http";
import { parentPort } from "node:worker_threads";

const server = createServer((request, response) => {
  const id = new URL(request.url, "http://bench").searchParams.get("id");
  const isKnown = id === "x";
  response.writeHead(isKnown ? 200 : 404, { "Content-Type": "application/json" });
  response.end(JSON.stringify(isKnown ? { id, status: "processing", video_url: null } : { error: "not found" }));
});
server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));
