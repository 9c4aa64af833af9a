import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { type MessageError, maxMessageBytes, readMessages } from "../../src/mcp/messages.ts";
import { createWorld } from "../vidgen.ts";
import { connectAgent } from "./agent.ts";

const ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}\n';

async function read(chunks: Iterable<string | Buffer>) {
  const refusals: MessageError[] = [];
  const lines: string[] = [];
  for await (const line of readMessages(Readable.from(chunks), (refusal) => refusals.push(refusal)))
    lines.push(String(line));
  return { lines, codes: refusals.map(({ error }) => error.code), ids: refusals.map(({ id }) => id) };
}

test.each([
  ["{", -32700],
  ["\0\ufffd\u001b", -32700],
  ['"text"', -32600],
  ["null", -32600],
  ["[]", -32600],
  ["[".repeat(100_000), -32700],
  ["[".repeat(100_000) + "]".repeat(100_000), -32700],
  ['{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600],
  ['{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600],
  ['{"jsonrpc":"2.0","id":1,"method":5}', -32600],
  ['{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32600],
  ['{"jsonrpc":"2.0","id":1}', -32600],
])("line %# is answered with an error, and the next line is read", async (line, code) => {
  expect(await read([`${line}\n${ping}`])).toMatchObject({ lines: [ping], codes: [code] });
  const agent = await connectAgent(await createWorld());
  expect(await agent.raw(line)).toMatchObject({ jsonrpc: "2.0", error: { code } });
  expect((await agent.call("list_models")).isError).toBe(false);
  expect(await agent.leave()).toBe(0);
});

test("lines come whole, however they are cut; empty ones and a last one without an end are left out", async () => {
  const text = `${ping}\r\n\n${ping.replace("ping", "pïng")}${ping.trim()}`;
  const bytes = [...Buffer.from(text)].map((byte) => Buffer.of(byte));
  expect(await read(bytes)).toMatchObject({ lines: [ping, ping.replace("ping", "pïng")], codes: [] });
});

test("a line of 400 MB is not kept, and is answered with an error at its end", async () => {
  let peak = 0;
  function* chunks() {
    for (let i = 0; i < 400; i++) {
      yield Buffer.alloc(1_000_000, "a");
      peak = Math.max(peak, process.memoryUsage().arrayBuffers);
    }
    yield `\n${ping}`;
  }
  const before = process.memoryUsage().arrayBuffers;
  expect(await read(chunks())).toMatchObject({ lines: [ping], codes: [-32600] });
  // The garbage that is not collected yet counts too.
  expect(peak - before).toBeLessThan(20 * maxMessageBytes);
});

test("a tool that is not there, also by the name of a property that every object has, is an error of the protocol", async () => {
  const { client, leave } = await connectAgent(await createWorld());
  for (const name of ["rm", "__proto__", "constructor", "toString", ""])
    await expect(client.callTool({ name }), name).rejects.toMatchObject({ code: -32602 });
  expect(await leave()).toBe(0);
});

test("wrong arguments do nothing, and are told in the words of all errors", async () => {
  const world = await createWorld();
  const { call, leave } = await connectAgent(world);
  const wrong = [
    {},
    { prompt: 5 },
    { prompt: "x", aspect_ratio: "16:9" },
    { prompt: "x", images: "y" },
    { prompt: " " },
  ];
  const fields = [
    { aspectRatio: "broad" },
    { duration: -3 },
    { callback_url: "x" },
    { images: ["https://a", "https://b"] },
  ];
  for (const args of [...wrong, ...fields.map((field) => ({ prompt: "x", ...field }))])
    expect((await call("generate_video", args)).value, JSON.stringify(args)).toMatchObject({
      code: "usage",
      may_have_been_charged: false,
      id: null,
      message: expect.not.stringContaining("--"),
    });
  expect((await call("get_video", { id: "x", wait_seconds: 51 })).value).toMatchObject({ code: "usage" });
  expect(world.requests).toEqual([]);
  await leave();
});
