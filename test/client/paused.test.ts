import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { compile } from "../compiled.ts";

/** A reply of more than may wait to be read, whose server has gone before anybody reads it. */
const script = `
import net from "node:net";
import { createFetch } from "../src/client/undici-fetch.ts";
const [length, end] = process.argv.slice(2);
const server = net.createServer((socket) => {
  socket.on("error", () => {}).once("data", () => {
    socket.write("HTTP/1.1 200 OK\\r\\nConnection: close\\r\\n" + (length === "none" ? "" : "Content-Length: " + length + "\\r\\n") + "\\r\\n");
    socket.write(Buffer.alloc(1024 * 1024, 97), () => setTimeout(() => socket[end](), 50));
  });
});
server.listen(0, "127.0.0.1", async () => {
  const reply = await createFetch({})("http://127.0.0.1:" + server.address().port + "/");
  await new Promise((resolve) => setTimeout(resolve, 300));
  let got = 0;
  const read = async () => { for await (const piece of reply.body) got += piece.byteLength; return "ended"; };
  console.log(await read().catch(() => "broke off"), got);
  process.exit(0);
});
`;

test.each([
  ["none", "end", "ended"],
  ["1048576", "end", "ended"],
  ["1048585", "end", "broke off"],
  ["1048585", "resetAndDestroy", "broke off"],
])("a reply of %s bytes whose server has gone (%s) is read as far as it came: it %s", async (length, end, outcome) => {
  const run = promisify(execFile)(process.execPath, [await compile(script), length, end], { timeout: 10_000 });
  expect((await run).stdout).toBe(`${outcome} ${1024 * 1024}\n`);
});
