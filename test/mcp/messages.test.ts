import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { type MessageError, maxMessageBytes, readMessages } from "../../src/mcp/messages.ts";
import { createWorld, isStart } from "../vidgen.ts";
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
    { prompt: "" },
    { prompt: null },
    { prompt: "x", again: "yes" },
    { prompt: "x", images: [null] },
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

test("arguments are read as agents write them", async () => {
  const world = await createWorld();
  const { call, leave } = await connectAgent(world);
  const left = { model: null, aspectRatio: "", seed: null, duration: "", images: null, from: "", again: null };
  const image = "https://x.example/1.png";
  const written: [object, object][] = [
    [left, {}],
    [
      { duration: "8", seed: "9007199254740993" },
      { duration: 8, seed: "9007199254740993" },
    ],
    [{ images: image }, { imageUrl: image }],
    [{ images: JSON.stringify([image]) }, { imageUrl: image }],
    [{ again: "false" }, {}],
  ];
  for (const [index, [args, sent]] of written.entries()) {
    expect((await call("generate_video", { prompt: `fox ${index}`, ...args })).isError, JSON.stringify(args)).toBe(
      false,
    );
    const { prompt: _, model: __, ...body } = JSON.parse(world.requests.filter(isStart).at(-1)?.body ?? "");
    expect(body).toEqual(sent);
  }
  expect((await call("get_video", { id: "x", wait_seconds: "5" })).value).toMatchObject({ code: "not_found" });
  expect((await call("list_videos", { limit: "1", status: "" })).value).toMatchObject({ videos: [{}] });
  await leave();
});

test("each part of the schemas has one type at most", async () => {
  const { client, leave } = await connectAgent(await createWorld());
  const { tools } = await client.listTools();
  const types: unknown[] = [];
  JSON.stringify(tools, (name, value) => {
    if (name === "type") types.push(typeof value);
    return value;
  });
  expect(new Set(types)).toEqual(new Set(["string"]));
  await leave();
});

test("a request of another version of the protocol is refused, also after the first message", async () => {
  const { raw, leave } = await connectAgent(await createWorld());
  const ask = (version: string) => {
    const _meta = { "io.modelcontextprotocol/protocolVersion": version };
    return raw(JSON.stringify({ jsonrpc: "2.0", id: 77, method: "tools/list", params: { _meta } }));
  };
  expect(await ask("2031-01-01")).toEqual({
    jsonrpc: "2.0",
    id: 77,
    error: {
      code: -32022,
      message: "Unsupported protocol version: 2031-01-01",
      data: { supported: ["2026-07-28"], requested: "2031-01-01" },
    },
  });
  await leave();
});
