import { Webhook } from "standardwebhooks";
import type { Random } from "../faults/random.ts";

/** Requests about one callback, one after the other or at once, and what must become of them. */
export type Case = {
  kind: string;
  requests: Buffer[];
  atOnce?: boolean;
  /** The sender goes before it has sent everything. */
  isCut?: boolean;
  /** The statuses of the answers. */
  statuses: number[];
  /** The body that reaches the application, and how often; nothing else may. */
  forwarded?: { body: Buffer; times: number };
};

type Headers = Record<string, string>;
type Letter = { id: string; headers: Headers; body: Buffer };
/** What a case is made of: a callback that is good as long as nothing is changed. */
type Parts = { random: Random; good: Letter; sign(letter: { id?: string; body?: string; ageMs?: number }): Letter };
type Make = (parts: Parts) => Omit<Case, "kind">;

const secondMs = 1_000;
const lateMs = 600 * secondMs;

function http({ headers, body }: Pick<Letter, "headers" | "body">, method = "POST", length = body.length): Buffer {
  const lines = Object.entries({ Host: "127.0.0.1", ...headers, "Content-Length": String(length) });
  const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  return Buffer.concat([Buffer.from(`${method} /hook HTTP/1.1\r\n${head}\r\n`, "latin1"), body]);
}

const withHeaders = (letter: Letter, headers: Headers): Letter => ({
  ...letter,
  headers: { ...letter.headers, ...headers },
});

function without({ headers, ...letter }: Letter, name: string): Letter {
  return { ...letter, headers: Object.fromEntries(Object.entries(headers).filter(([other]) => other !== name)) };
}

const once = (body: Buffer, times = 1) => ({ forwarded: { body, times } });
const refused = (letter: Pick<Letter, "headers" | "body">, status: number, method?: string) => ({
  requests: [http(letter, method)],
  statuses: [status],
});
const signature = ({ headers }: Letter) => headers["webhook-signature"] ?? "";

const goodKinds: [string, Make][] = [
  ["good", ({ good }) => ({ requests: [http(good)], statuses: [200], ...once(good.body) })],
  [
    "several signatures, one good",
    ({ good }) => {
      const all = `v1a,${"A".repeat(88)} v1, v2,${signature(good).slice(3)} nonsense v1 ${signature(good)}`;
      return { requests: [http(withHeaders(good, { "webhook-signature": all }))], statuses: [200], ...once(good.body) };
    },
  ],
  [
    "doubled at once",
    ({ good }) => ({
      requests: [http(good), http(good), http(good)],
      atOnce: true,
      statuses: [200, 200, 200],
      ...once(good.body),
    }),
  ],
  [
    "doubled, signed anew",
    ({ good, sign }) => ({
      requests: [http(good), http(sign({ id: good.id, body: String(good.body), ageMs: 60 * secondMs }))],
      statuses: [200, 200],
      ...once(good.body),
    }),
  ],
  [
    "the same id with another body",
    ({ good, sign }) => ({
      requests: [http(good), http(sign({ id: good.id, body: '{"id":"another","status":"failed"}' }))],
      statuses: [200, 200],
      ...once(good.body),
    }),
  ],
  [
    "a forged one first",
    ({ good }) => ({
      requests: [http({ ...good, body: Buffer.from('{"status":"failed"}') }), http(good)],
      statuses: [401, 200],
      ...once(good.body),
    }),
  ],
  [
    "refused by the application at first",
    ({ sign, random }) => {
      const letter = sign({ body: JSON.stringify({ id: random.uuid(), status: "refuse-once" }) });
      return {
        requests: [http(letter), http(letter), http(letter)],
        statuses: [503, 200, 200],
        ...once(letter.body, 2),
      };
    },
  ],
  [
    "deeply nested",
    ({ sign, random }) => {
      const { body, ...letter } = sign({ body: `{"id":"${random.uuid()}","x":${"[".repeat(9e4)}${"]".repeat(9e4)}}` });
      return { requests: [http({ body, ...letter })], statuses: [200], ...once(body) };
    },
  ],
  [
    "control characters",
    ({ sign, random }) => {
      const letter = sign({
        body: JSON.stringify({ id: `\u001b]0;x\u0007${random.uuid()}`, status: "a\r\nb\u009b2J" }),
      });
      return { requests: [http(letter)], statuses: [200], ...once(letter.body) };
    },
  ],
];

const signedHeaders = ["webhook-id", "webhook-timestamp", "webhook-signature"];
const badSignatures = ["", "v1", "v1,", " , ,", "v1,v1", "v2,AAAA", "v1,AAAA v1,BBBB", "null", `v1,${"A".repeat(43)}=`];
const badTimes = ["NaN", "", "0", "-1", "1e99", "99999999999999999999", "Infinity"];
const badBodies = ["", "null", "[]", '"x"', "1", "{", "{'a':1}", "<html></html>", '{"id":"x"}{', "\u0000"];

const badKinds: [string, Make][] = [
  ["another secret", ({ good, random }) => refused(letterBy(randomSecret(random), { ...good, ageMs: 0 }), 401)],
  ["a changed body", ({ good }) => refused({ ...good, body: Buffer.from(`${good.body} `) }, 401)],
  ["a changed id", ({ good }) => refused(withHeaders(good, { "webhook-id": `${good.id}0` }), 401)],
  ["a changed time", ({ good }) => refused(withHeaders(good, { "webhook-timestamp": seconds(-secondMs) }), 401)],
  ["late", ({ sign }) => refused(sign({ ageMs: lateMs }), 401)],
  ["from the future", ({ sign }) => refused(sign({ ageMs: -lateMs }), 401)],
  ["a missing header", ({ good, random }) => refused(without(good, random.pick(signedHeaders)), 401)],
  ["no header at all", ({ good }) => refused({ ...good, headers: {} }, 401)],
  [
    "no good signature",
    ({ good, random }) => refused(withHeaders(good, { "webhook-signature": random.pick(badSignatures) }), 401),
  ],
  [
    "no good time",
    ({ good, random }) => refused(withHeaders(good, { "webhook-timestamp": random.pick(badTimes) }), 401),
  ],
  ["cut JSON", ({ good, sign }) => refused(sign({ body: String(good.body).slice(0, -1) }), 400)],
  ["no JSON object", ({ sign, random }) => refused(sign({ body: random.pick(badBodies) }), 400)],
  [
    "binary",
    ({ sign, random }) => {
      const bytes = Array.from({ length: 40 }, () => random.between(128, 255));
      const body = Buffer.concat([Buffer.from('{"id":"'), Buffer.from(bytes), Buffer.from('"}')]);
      // The text that a lenient reader makes of the bytes is what is signed.
      return refused({ ...sign({ body: body.toString() }), body }, 400);
    },
  ],
  ["huge", ({ sign }) => refused(sign({ body: JSON.stringify({ x: "x".repeat(1_500_000) }) }), 413)],
  [
    "another method",
    ({ good, random }) => refused(good, 405, random.pick(["GET", "PUT", "DELETE", "OPTIONS", "PATCH"])),
  ],
  ["a huge header", ({ good }) => refused(withHeaders(good, { "webhook-id": "x".repeat(20_000) }), 431)],
  ["no HTTP", ({ random }) => ({ requests: [Buffer.from(`${random.uuid()}\r\n\r\n`)], statuses: [400] })],
  ["two lengths", ({ good }) => refused(withHeaders(good, { "Transfer-Encoding": "chunked" }), 400)],
  ["cut off", ({ good }) => ({ requests: [http(good, "POST", good.body.length + 10)], isCut: true, statuses: [400] })],
];

function seconds(agoMs: number): string {
  return String(Math.floor((Date.now() + agoMs) / secondMs));
}

type Signed = { id: string; body: Buffer; ageMs: number };

function letterBy(secret: string, { id, body, ageMs }: Signed): Letter {
  const date = new Date(Date.now() - ageMs);
  const signature = new Webhook(secret).sign(id, date, String(body));
  const time = { "webhook-timestamp": seconds(-ageMs), "webhook-signature": signature };
  return { id, body, headers: { "Content-Type": "application/json", "webhook-id": id, ...time } };
}

export function randomSecret(random: Random): string {
  return `whsec_${Buffer.from(random.uuid()).toString("base64")}`;
}

/** One of the cases; every third one holds a good callback. */
export function makeCase(secret: string, random: Random): Case {
  const sign: Parts["sign"] = ({ id = `msg_${random.uuid()}`, body = "", ageMs = 0 }) =>
    letterBy(secret, { id, body: Buffer.from(body), ageMs });
  const good = sign({ body: JSON.stringify({ id: random.uuid(), status: "completed", prompt: "füchse 🦊" }) });
  const [kind, make] = random.pick(random.between(1, 3) === 1 ? goodKinds : badKinds);
  return { kind, ...make({ random, good, sign }) };
}
