import type { Socket } from "node:net";
import { join } from "node:path";
import fc from "fast-check";
import { exits } from "../../src/errors.ts";
import { ugliness, vidgen } from "./client.ts";
import { type Goal, portion, tally } from "./goal.ts";
import { fineMedia, type MediaFault } from "./media-faults.ts";
import { createService } from "./server.ts";
import { spawnVidgen } from "./spawned.ts";
import { chunk, send } from "./wire.ts";
import { inFolder, side } from "./work.ts";

type Reply = { where: "start" | "poll" | "media"; framing: string; line: string; headers: string[]; body: Buffer };

/** What a terminal would obey, and what reads as something that it is not. */
const nasty = fc.constantFrom(
  ...[
    "\u001b[31m",
    "\u001b]8;;http://evil.example\u0007",
    "\u001b]52;c;ZXZpbA==\u0007",
    "\u001b[2J",
    "\u009b31m",
    "\u009d0;x\u009c",
  ],
  ...[
    "\u001bP",
    "\u0007",
    "\b\b\b",
    "\r",
    "\n",
    "\t",
    "\0",
    "\u007f",
    "\u0085",
    "\u202e",
    "\u2066",
    "\u200f",
    "\u061c",
    "\u2028",
  ],
  ...["\ufeff", "\ud800", "\u{1f98a}", "`rm -rf ~`", "$(id)", "../../x", "%00", "'\"\\"],
);
const word = fc.oneof(nasty, fc.string({ unit: "binary", maxLength: 12 }), fc.constantFrom("error", "id", "a fox"));
const text = fc.array(word, { maxLength: 6 }).map((words) => words.join(""));
const number = fc.oneof(fc.double(), fc.constantFrom(0, -1, 2 ** 53, 1e308));
const odd: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 3, arbitrary: text },
  ...[number, fc.boolean(), fc.constant(null), fc.jsonValue({ maxDepth: 3 }), fc.array(text, { maxLength: 3 })],
  fc.dictionary(
    fc.constantFrom("message", "error", "code", "detail", "__proto__", "constructor", "toString", "then"),
    text,
  ),
);
const id = fc.oneof(fc.uuid(), text, odd);
const status = fc.oneof(fc.constantFrom("processing", "completed", "failed", "Completed"), text, odd);
const url = fc.oneof(text, fc.constantFrom("http://127.0.0.1:1/x.mp4", "file:///etc/passwd", "javascript:1", "//x"));
const fields = {
  status,
  video_url: url,
  error: odd,
  prompt: text,
  model: odd,
  created_at: odd,
  remaining_credits: odd,
};
const generation = fc.record({ id, ...fields }, { requiredKeys: [] });
const ended = fc.record({ status: fc.constantFrom("completed", "failed"), video_url: url, error: odd });
const reply = fc.oneof(
  generation,
  ended,
  fc.record(
    { success: odd, data: fc.oneof(generation, odd), error: odd, message: odd, remaining_credits: odd },
    { requiredKeys: [] },
  ),
  odd,
);

const deep = (open: string, close: string) => (depth: number) => open.repeat(depth) + close.repeat(depth);
const raw = fc.oneof(
  fc.integer({ min: 1, max: 60_000 }).map(deep("[", "]")),
  fc.integer({ min: 1, max: 20_000 }).map(deep('{"data":', "}")),
  fc.constantFrom(
    "",
    " ",
    "null",
    "1e999",
    `${"9".repeat(5000)}`,
    "{",
    '"',
    "NaN",
    '{"id":1,"id":"x","id":null}',
    "<html>\u001b[31m",
  ),
  fc.constantFrom(
    '{"__proto__":{"id":"x","status":"completed"}}',
    '{"data":{"__proto__":{"id":"polluted"}}}',
    '{"data":{"id":"\\ud800"}}',
  ),
  fc.integer({ min: 1, max: 1_200_000 }).map((length) => `{"error":"${"x".repeat(length)}"}`),
  fc.tuple(reply, fc.integer({ min: 0, max: 300 })).map(([value, at]) => (JSON.stringify(value) ?? "").slice(0, at)),
);
const body = fc.oneof(
  { weight: 6, arbitrary: reply.map((value) => Buffer.from(JSON.stringify(value) ?? "")) },
  { weight: 2, arbitrary: raw.map((value) => Buffer.from(value)) },
  fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
  reply.map((value) => Buffer.from(JSON.stringify(value) ?? "", "utf16le")),
  reply.map((value) => Buffer.from(`\ufeff${JSON.stringify(value)}`)),
  reply.map((value) => Buffer.from(JSON.stringify(value) ?? "", "latin1")),
);

const codes = fc.oneof(
  { weight: 4, arbitrary: fc.constant(200) },
  fc.constantFrom(
    201,
    204,
    206,
    301,
    302,
    304,
    400,
    401,
    402,
    404,
    408,
    409,
    416,
    429,
    500,
    503,
    100,
    101,
    103,
    99,
    600,
    999,
  ),
  fc.integer({ min: 100, max: 599 }),
);
const latin = text.map((value) => Buffer.from(value).toString("latin1").replaceAll("\n", "").replaceAll("\r", ""));
const line = fc.oneof(
  { weight: 8, arbitrary: codes.map((code) => `HTTP/1.1 ${code} x`) },
  fc.tuple(codes, latin).map(([code, said]) => `HTTP/1.1 ${code} ${said}`),
  fc.constantFrom("HTTP/1.0 200 OK", "HTTP/2 200", "ICY 200 OK", "HTTP/1.1 200", ""),
);
const header = fc.oneof(
  {
    weight: 3,
    arbitrary: fc
      .constantFrom("application/json", "text/html", "x", "application/json; charset=utf-7")
      .map((type) => `Content-Type: ${type}`),
  },
  fc
    .constantFrom("-1", "0", "1", "1e9", "99999999999", "soon", "Fri, 31 Dec 9999 23:59:59 GMT", "1, 2")
    .map((after) => `Retry-After: ${after}`),
  latin.map((value) => `Location: ${value}`),
  latin.map((value) => `ETag: "${value}"`),
  latin.map((value) => `X-${value.length}: ${value}`),
  fc.constantFrom(
    "Content-Range: bytes 5-1/0",
    "Content-Encoding: gzip",
    "Content-Encoding: br, zip",
    "Connection: close",
    "X-Long: ".padEnd(20_000, "x"),
  ),
);
const framing = fc.oneof(
  { weight: 5, arbitrary: fc.constant("length") },
  fc.constantFrom("chunked", "close", "too long", "too short", "no number", "twice"),
);
const replies: fc.Arbitrary<Reply> = fc.record({
  where: fc.constantFrom("start", "start", "poll", "media"),
  framing,
  line,
  body,
  headers: fc.array(header, { maxLength: 3 }),
});

/** Goal 9: nothing that a service may answer makes the client crash, or reaches the terminal raw. */
export const malformed: Goal = {
  number: 9,
  title: "malformed replies",
  run: ({ random, share }) =>
    inFolder(async (folder) => {
      const service = await createService(random);
      const seed = random.between(1, 2 ** 31 - 1);
      const inside = portion(5_000, share);
      const outside = portion(300, share, 6);
      const samples = fc.sample(replies, { numRuns: inside + outside, seed });
      const faults: string[] = [];
      const exitCodes: string[] = [];
      const judge = (sample: Reply, run: { code: number | null; stdout: string; stderr: string }, isJson: boolean) => {
        exitCodes.push(`exit ${run.code}`);
        const say = (what: string) =>
          faults.push(`${what}: ${describe(sample)} gave ${run.code} ${JSON.stringify(run)}`);
        for (const ugly of ugliness(run)) say(ugly);
        if (!Object.values(exits).some(({ exit }) => exit === run.code)) say("an exit code of nobody's");
        if (isJson && !isDocument(run.code === 0 ? run.stdout : run.stderr)) say("not one JSON document");
      };
      const prepare = (sample: Reply, prompt: string) => {
        const act = ({ socket }: { socket: Socket }) => sendRaw(sample, socket);
        const { where } = sample;
        if (where === "start") service.plan(prompt, { starts: [{ executes: true, act }] });
        else if (where === "poll") service.plan(prompt, { polls: [act, act] });
        else service.plan(prompt, { media: once(act) });
        const flags = random.pick([[], ["--json"], ["--verbose"]]);
        return { argv: ["generate", prompt, "-o", `${folder}/videos/`, ...flags], isJson: flags.includes("--json") };
      };
      const env = { VIDGEN_BASE_URL: service.baseUrl, VIDGEN_API_KEY: "key" };
      await side([...samples.slice(0, inside).entries()], 40, async ([i, sample]) => {
        const { argv, isJson } = prepare(sample, `fox ${i}`);
        const home = { VIDGEN_HOME: join(folder, `home-${i}`) };
        const run = await vidgen([...argv, "--timeout", "2m"], { ...home, ...env }, { speed: 300 });
        judge(sample, run, isJson);
      });
      // Without those that ask for patience: a process of its own has a real clock.
      const quick = samples
        .slice(inside)
        .map((sample) =>
          isPatient(sample) ? { ...sample, line: "HTTP/1.1 200 x", headers: [], body: Buffer.from("{}") } : sample,
        );
      await side([...quick.entries()], 4, async ([i, sample]) => {
        const { argv, isJson } = prepare(sample, `outside fox ${i}`);
        const home = { VIDGEN_HOME: join(folder, "home-outside") };
        const run = await spawnVidgen([...argv, "--timeout", "2s"], { ...home, ...env }, folder).ended;
        judge(sample, run, isJson);
      });
      await service.close();
      const of = (pattern: RegExp) => faults.filter((fault) => pattern.test(fault)).length;
      return {
        figures:
          `${inside} in process and ${outside} through the binary (fast-check seed ${seed}): ` +
          `${of(/^a crash/)} crashes, ${of(/^a stack/)} stacks, ${of(/^U\+/)} raw control bytes; ${tally(exitCodes)}`,
        target: "0, 0, 0",
        faults,
      };
    }),
};

async function sendRaw({ framing, line, headers, body }: Reply, socket: Socket): Promise<void> {
  const lengths: Record<string, string> = {
    length: `Content-Length: ${body.length}\r\n`,
    chunked: "Transfer-Encoding: chunked\r\n",
    close: "Connection: close\r\n",
    "too long": `Content-Length: ${body.length + 5}\r\n`,
    "too short": `Content-Length: ${Math.max(0, body.length - 5)}\r\n`,
    "no number": "Content-Length: many\r\n",
    twice: "Content-Length: 1\r\nContent-Length: 2\r\n",
  };
  const head = `${line}\r\n${headers.map((header) => `${header}\r\n`).join("")}${lengths[framing]}\r\n`;
  await send(socket, Buffer.from(head, "latin1"));
  if (body.length > 0) await send(socket, framing === "chunked" ? chunk(body) : body);
  if (framing === "chunked") await send(socket, "0\r\n\r\n");
  socket.end();
}

function once(act: MediaFault): MediaFault {
  return (scene) => (scene.state.requests === 1 ? act(scene) : fineMedia(scene));
}

function isPatient({ line, headers, body }: Reply): boolean {
  if (body.includes("http://127.0.0.1:1/")) return true;
  return / (4[0-9][0-9]|5..)/.test(line) || headers.some((header) => header.startsWith("Retry-After"));
}

function isDocument(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function describe({ where, framing, line, headers, body }: Reply): string {
  return JSON.stringify({ where, framing, line, headers, body: body.toString("latin1").slice(0, 400) });
}
