import { expect, test } from "vitest";
import type { Io } from "../../src/io.ts";
import { createTestService, mediaUrl, readStart, renderMs, type TestService } from "./service.ts";

const callback_url = "https://receiver.example/hook?token=1";
const endedAt = new Date(Date.UTC(2026, 0, 1) + renderMs).toISOString();

type Sent = { url: string; init: RequestInit; at: number };

/** A service whose callbacks are kept, and answered with `answer`. */
async function createReceiver(answer: Io["fetch"] = async () => new Response(null, { status: 204 })) {
  const sent: Sent[] = [];
  const service: TestService = await createTestService({
    async receive(url, init = {}) {
      sent.push({ url, init, at: service.clock.now() });
      return answer(url, init);
    },
  });
  return { service, sent };
}

/** Answers never, until the request is given up. */
function hang(_url: string, init?: RequestInit): Promise<Response> {
  return new Promise((_, reject) => init?.signal?.addEventListener("abort", () => reject(init.signal?.reason)));
}

test("a completed generation is posted with the documented fields and nothing else", async () => {
  const { service, sent } = await createReceiver();
  const { id, created_at } = (await readStart(await service.start({ callback_url }))).data;
  await service.rest();
  expect(sent.map(({ init }) => JSON.parse(String(init.body)))).toStrictEqual([
    {
      ...{ id, created_at, status: "completed", video_url: `${mediaUrl}/${id}.mp4`, thumbnail_url: null },
      completed_at: endedAt,
    },
  ]);
});

test("a failed one adds the error", async () => {
  const { service, sent } = await createReceiver();
  const { id, created_at } = (await readStart(await service.start({ callback_url, prompt: "[fail]" }))).data;
  await service.rest();
  expect(sent.map(({ init }) => JSON.parse(String(init.body)))).toStrictEqual([
    {
      ...{ id, created_at, status: "failed", video_url: null, thumbnail_url: null, completed_at: created_at },
      error: "the model run did not succeed (asked for by the prompt)",
    },
  ]);
});

test("it is a POST of JSON to the very address, without a key, and follows no redirect", async () => {
  const { service, sent } = await createReceiver();
  await service.start({ callback_url });
  await service.rest();
  expect(sent).toMatchObject([{ url: callback_url, init: { method: "POST", redirect: "manual" } }]);
  const headers = [...new Headers(sent[0]?.init.headers)];
  expect(headers).toStrictEqual([["content-type", "application/json"]]);
});

test.each([{}, { callback_url: null }])("nothing is sent when %o asks for nothing", async (fields) => {
  const { service, sent } = await createReceiver();
  await service.start(fields);
  await service.rest();
  expect(service.ended).toHaveLength(1);
  expect(sent).toEqual([]);
});

test("a receiver that asks for the status at once is told `completed`", async () => {
  const seen: unknown[] = [];
  const { service } = await createReceiver(async (_url, init) => {
    const { id } = JSON.parse(String(init?.body)) as { id: string };
    seen.push(await (await service.status(id)).json());
    return new Response();
  });
  await service.start({ callback_url });
  await service.rest();
  expect(seen).toMatchObject([{ status: "completed", video_url: expect.stringContaining(mediaUrl) }]);
});

test("it is sent when the generation ends, neither before nor again", async () => {
  const { service, sent } = await createReceiver();
  await service.start({ callback_url });
  await service.clock.sleep(renderMs - 1);
  expect(sent).toEqual([]);
  await service.clock.sleep(600_000);
  expect(sent.map(({ at }) => at)).toEqual([renderMs]);
});

test.each([
  { what: "answers 204", answer: async () => new Response(null, { status: 204 }), says: "HTTP 204" },
  {
    what: "answers 500",
    answer: async () => new Response("no", { status: 500 }),
    says: "HTTP 500, not delivered",
  },
  {
    what: "redirects",
    answer: async () => new Response(null, { status: 302, headers: { Location: "https://elsewhere.example" } }),
    says: "HTTP 302, not delivered",
  },
  {
    what: "cannot be reached",
    answer: async () => Promise.reject(new Error("ECONNREFUSED")),
    says: "not delivered (ECONNREFUSED)",
  },
  {
    what: "rejects with no Error",
    answer: async () => Promise.reject("just a text"),
    says: "not delivered (just a text)",
  },
  { what: "hangs", answer: hang, says: "not delivered (no answer within 15 s)" },
])("a receiver that $what: one try, a line that says so, and the service goes on", async ({ answer, says }) => {
  const { service, sent } = await createReceiver(answer);
  const id = await service.startId({ callback_url });
  await service.rest(2);
  expect(service.deliveries).toEqual([`callback for ${id}: ${says}`]);
  expect(sent).toHaveLength(1);
  expect(await (await service.status(id)).json()).toMatchObject({ status: "completed" });
  const next = await service.startId();
  await service.rest();
  expect(service.ended).toEqual([id, next]);
});

test("a receiver that hangs has 15 seconds, and holds up no other generation", async () => {
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
