import { Webhook } from "standardwebhooks";
import { expect, test, vi } from "vitest";
import type { Post } from "../../../src/server/outbound/outbound.ts";
import { createTestService, mediaUrl, readStart, renderMs, type TestService } from "../service.ts";
import { findPending } from "../store/records.ts";
import { hang } from "./harness.ts";

const callback_url = "https://receiver.example/hook?token=1";
const endedAt = new Date(Date.UTC(2026, 0, 1) + renderMs).toISOString();
const start = "to https://receiver.example/hook:";

type Sent = { url: string; headers: Record<string, string>; body: string; at: number };

/** A service whose callbacks are kept, and answered with `answer`. */
async function createReceiver(answer: Post = async () => ({ status: 204 })) {
  const sent: Sent[] = [];
  const service: TestService = await createTestService({
    async receive(url, request) {
      sent.push({ url, headers: request.headers, body: request.body, at: service.clock.now() });
      return answer(url, request);
    },
  });
  return { service, sent };
}

/** What the standardwebhooks package makes of it, were it received the moment it was sent. */
function verify({ headers, body, at }: Sent, secret: string): unknown {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2026, 0, 1) + at });
  try {
    return new Webhook(secret).verify(body, headers);
  } finally {
    vi.useRealTimers();
  }
}

test("a completed generation is posted with the documented fields and nothing else", async () => {
  const { service, sent } = await createReceiver();
  const { id, created_at } = (await readStart(await service.start({ callback_url }))).data;
  await service.rest();
  expect(sent.map(({ body }) => JSON.parse(body))).toStrictEqual([
    {
      id,
      created_at,
      status: "completed",
      video_url: `${mediaUrl}/${id}.mp4`,
      thumbnail_url: `${mediaUrl}/${id}.png`,
      completed_at: endedAt,
    },
  ]);
});

test("the callback of a failed generation also has the error", async () => {
  const { service, sent } = await createReceiver();
  const { id, created_at } = (await readStart(await service.start({ callback_url, prompt: "[fail]" }))).data;
  await service.rest();
  expect(sent.map(({ body }) => JSON.parse(body))).toStrictEqual([
    {
      id,
      created_at,
      status: "failed",
      video_url: null,
      thumbnail_url: null,
      completed_at: created_at,
      error: "the model run did not succeed (asked for by the prompt)",
      hint: "Try another prompt or model.",
    },
  ]);
});

test("a callback is signed JSON, without a key, to exactly the given address", async () => {
  const { service, sent } = await createReceiver();
  await service.start({ callback_url });
  await service.rest();
  expect(sent.map(({ url }) => url)).toEqual([callback_url]);
  expect(sent[0]?.headers).toStrictEqual({
    "Content-Type": "application/json",
    "webhook-id": expect.stringMatching(/^msg_[0-9a-f]{32}$/),
    "webhook-timestamp": expect.stringMatching(/^\d{10}$/),
    "webhook-signature": expect.stringMatching(/^v1,[A-Za-z0-9+/]{43}=$/),
  });
});

test.each([{}, { callback_url: null }])("no callback is sent for %o", async (fields) => {
  const { service, sent } = await createReceiver();
  await service.start(fields);
  await service.rest();
  expect(service.ended).toHaveLength(1);
  expect(sent).toEqual([]);
});

test("a receiver that requests the status at once gets `completed`", async () => {
  const seen: unknown[] = [];
  const { service } = await createReceiver(async (_url, { body }) => {
    const { id } = JSON.parse(body) as { id: string };
    seen.push(await (await service.status(id)).json());
    return { status: 200 };
  });
  await service.start({ callback_url });
  await service.rest();
  expect(seen).toMatchObject([{ status: "completed", video_url: expect.stringContaining(mediaUrl) }]);
});

test("a callback is sent once, when the generation ends", async () => {
  const { service, sent } = await createReceiver();
  const id = await service.startId({ callback_url });
  await service.clock.sleep(renderMs - 1);
  expect(sent).toEqual([]);
  await service.clock.sleep(24 * 3_600_000);
  expect(sent.map(({ at }) => at)).toEqual([renderMs]);
  expect(service.deliveries).toEqual([`callback for ${id} ${start} HTTP 204`]);
});

test("a receiver that never accepts gets seven attempts over more than an hour, and the last failure is logged", async () => {
  const { service, sent } = await createReceiver(async () => ({ status: 503 }));
  const id = await service.startId({ callback_url });
  await service.clock.sleep(renderMs + 24 * 3_600_000);
  expect(sent.map(({ at }) => (at - renderMs) / 1_000)).toEqual([0, 1, 6, 36, 156, 756, 4356]);
  expect(service.deliveries).toHaveLength(7);
  expect(service.deliveries[0]).toBe(`callback for ${id} ${start} HTTP 503, attempt 1, next in 1 s`);
  expect(service.deliveries.at(-1)).toBe(`callback for ${id} ${start} HTTP 503, given up after 7 attempts`);
  expect(await findPending(service.store)).toEqual([]);
});

test("every attempt has the same id and bytes, and its own signature, which standardwebhooks accepts", async () => {
  const { service, sent } = await createReceiver(async () => ({ status: 500 }));
  const id = await service.startId({ callback_url });
  await service.clock.sleep(renderMs + 24 * 3_600_000);
  expect(new Set(sent.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
  expect(new Set(sent.map(({ body }) => body)).size).toBe(1);
  expect(new Set(sent.map(({ headers }) => headers["webhook-signature"])).size).toBe(7);
  for (const one of sent) expect(verify(one, service.secret)).toMatchObject({ id, status: "completed" });
});

test("a callback that a later attempt delivers is not sent again", async () => {
  const statuses = [500, 302, 204];
  const { service, sent } = await createReceiver(async () => ({ status: statuses.shift() ?? 599 }));
  const id = await service.startId({ callback_url });
  await service.clock.sleep(renderMs + 24 * 3_600_000);
  expect(sent).toHaveLength(3);
  expect(service.deliveries.at(-1)).toBe(`callback for ${id} ${start} HTTP 204 at attempt 3`);
});

test.each([
  { what: "answers 200", answer: async () => ({ status: 200 }), says: "HTTP 200" },
  { what: "answers 299", answer: async () => ({ status: 299 }), says: "HTTP 299" },
  {
    what: "answers 500",
    answer: async () => ({ status: 500 }),
    says: "HTTP 500, attempt 1, next in 1 s",
  },
  {
    what: "redirects",
    answer: async () => ({ status: 302, headers: { Location: "https://elsewhere.example" } }),
    says: "HTTP 302, attempt 1, next in 1 s",
  },
  {
    what: "asks for time",
    answer: async () => ({ status: 429, retryAfter: "90" }),
    says: "HTTP 429, attempt 1, next in 90 s",
  },
  {
    what: "has gone",
    answer: async () => ({ status: 410, headers: { "retry-after": "90" } }),
    says: "HTTP 410, given up after 1 attempt",
  },
  {
    what: "may not be reached",
    answer: async () => Promise.reject(Object.assign(new Error("a private address"), { isForbidden: true })),
    says: "a private address, attempt 1, next in 1 s",
  },
  {
    what: "cannot be reached",
    answer: async () => Promise.reject(new Error("connect ECONNREFUSED for /hook?token=1\n")),
    says: "connect ECONNREFUSED for /hook, attempt 1, next in 1 s",
  },
  {
    what: "rejects with no Error",
    answer: async () => Promise.reject("just a text"),
    says: "just a text, attempt 1, next in 1 s",
  },
  {
    what: "rejects with nothing",
    answer: async () => Promise.reject(Object.create(null)),
    says: "no response, attempt 1, next in 1 s",
  },
  { what: "hangs", answer: hang, says: "no response within 15 s, attempt 1, next in 1 s" },
] satisfies { what: string; answer: Post; says: string }[])("a receiver that $what", async ({ answer, says }) => {
  const { service, sent } = await createReceiver(answer);
  const id = await service.startId({ callback_url });
  await service.clock.sleep(renderMs + 15_001);
  expect(service.deliveries[0]).toBe(`callback for ${id} ${start} ${says}`);
  if (!says.includes("next in")) expect(sent).toHaveLength(1);
  expect(await (await service.status(id)).json()).toMatchObject({ status: "completed" });
  const next = await service.startId();
  await service.rest();
  expect(service.ended).toEqual([id, next]);
});

test("a very long reason is cut", async () => {
  const { service } = await createReceiver(() => Promise.reject(new Error("x".repeat(100_000))));
  await service.start({ callback_url });
  await service.rest();
  expect(service.deliveries[0]?.length).toBeLessThan(400);
});

test("a receiver that does not answer has 15 seconds, and delays no other generation", async () => {
  const { service } = await createReceiver(hang);
  const first = await service.startId({ callback_url });
  const second = await service.startId();
  await service.clock.sleep(renderMs + 14_999);
  expect(service.deliveries).toEqual([]);
  await service.clock.sleep(2);
  expect(service.deliveries).toHaveLength(1);
  await service.rest();
  expect(service.ended).toEqual([first, second]);
});

test("a target that one process may not reach is tried on, and delivered by a process that may", async () => {
  const answers: Post[] = [
    () => Promise.reject(Object.assign(new Error("callbacks to 10.0.0.1 are refused"), { isForbidden: true })),
    async () => ({ status: 204 }),
  ];
  const { service, sent } = await createReceiver((url, request) => (answers.shift() ?? hang)(url, request));
  const id = await service.startId({ callback_url });
  await service.clock.sleep(renderMs + 10_000);
  expect(sent).toHaveLength(2);
  expect(service.deliveries).toEqual([
    `callback for ${id} ${start} callbacks to 10.0.0.1 are refused, attempt 1, next in 1 s`,
    `callback for ${id} ${start} HTTP 204 at attempt 2`,
  ]);
});

test("a target that no process may reach is given up after the last attempt", async () => {
  const { service } = await createReceiver(() =>
    Promise.reject(Object.assign(new Error("a private address"), { isForbidden: true })),
  );
  await service.start({ callback_url });
  await service.clock.sleep(renderMs + 2 * 3_600_000);
  expect(service.deliveries).toHaveLength(7);
  expect(service.deliveries.at(-1)).toMatch(/a private address, given up after 7 attempts$/);
});
