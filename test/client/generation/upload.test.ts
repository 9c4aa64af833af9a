import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { sendPaid } from "../../../src/client/generation/send.ts";
import { openService } from "../../../src/client/generation/service.ts";
import { createFetch } from "../../../src/client/http/http.ts";
import { type Clock, type Io, RequestError, systemMachine } from "../../../src/io.ts";
import { createStoppableClock, createVirtualClock } from "../../clock.ts";

// A start with a large image, over a real connection; the service takes it as slowly as the clock of the test says.

const megabyte = 1_000_000;
const image = `data:image/png;base64,${"A".repeat(20 * megabyte)}`;
const reply = JSON.stringify({ success: true, data: { id: "0b9c6a52", status: "processing" } });
const never = 365 * 24 * 3_600_000;

/** Reads a request, calls `onMegabyte` with how many megabytes have come after each, and says what `onWhole` returns. */
type Service = { onMegabyte?(count: number): Promise<void>; onWhole(): Promise<string> };

async function serve({ onMegabyte = async () => {}, onWhole }: Service): Promise<string> {
  const answer = async (socket: Socket) => {
    let length = 0;
    let total = Number.POSITIVE_INFINITY;
    for await (const chunk of socket as AsyncIterable<Buffer>) {
      const head = length > 0 ? undefined : /content-length: (\d+).*?\r\n\r\n/is.exec(chunk.toString("latin1"));
      if (head) total = Number(head[1]) + head.index + head[0].length;
      const before = Math.floor(length / megabyte);
      length += chunk.length;
      if (Math.floor(length / megabyte) > before) await onMegabyte(before + 1);
      if (length >= total) socket.end(`HTTP/1.1 200 OK\r\nContent-Length: ${reply.length}\r\n\r\n${await onWhole()}`);
    }
  };
  const server = createServer((socket) => {
    onTestFinished(() => void socket.destroy());
    answer(socket).catch(() => {});
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** How a start ends, and how many seconds that takes. */
async function startAt(baseUrl: string, clock: Clock, upload: Io["fetch"] = createFetch({})) {
  // The service says at once that it keeps no keys.
  const fetch: Io["fetch"] = async (url, init) =>
    init?.method === "POST" ? upload(url, init) : Response.json({}, { status: 404 });
  const io = { ...systemMachine, ...clock, random: () => 0.5, fetch, unsettled: new Set<string>() };
  const service = openService({ baseUrl, apiKey: "canary-key-0123456789" }, io);
  const request = { prompt: "a fox", model: "wan-2.5", imageUrl: image };
  const written = { attempt: "attempt-1", key: "attempt-1", at: io.date().toISOString() };
  const owned = {
    hasCallerKey: false,
    isResend: false,
    firstSentAt: written.at,
    confirm: async () => {},
    assertFresh: () => {},
  };
  const end = await sendPaid(service, request, { ...written, ...owned }, { signal: new AbortController().signal });
  return { kind: end.kind, message: end.kind === "accepted" ? "" : end.error.message, seconds: clock.now() / 1_000 };
}

test("an upload may take longer than two minutes", async () => {
  const clock = createVirtualClock();
  const onMegabyte = () => clock.sleep(10_000);
  const baseUrl = await serve({ onMegabyte, onWhole: () => clock.sleep(20_000).then(() => reply) });
  expect(await startAt(baseUrl, clock)).toEqual({ kind: "accepted", message: "", seconds: 220 });
});

test("an upload without progress for two minutes is aborted: it may have been charged", async () => {
  const clock = createVirtualClock();
  const onMegabyte = (count: number) => clock.sleep(count < 4 ? 10_000 : never);
  const baseUrl = await serve({ onMegabyte, onWhole: async () => reply });
  const { kind, message, seconds } = await startAt(baseUrl, clock);
  expect([kind, message]).toEqual(["unknown", expect.stringContaining("the upload made no progress for 120 s")]);
  // The system's buffers take up to ten megabytes at once, and then room for more comes with each megabyte that is read.
  expect([seconds > 120, seconds <= 30 + 121]).toEqual([true, true]);
});

test("a service that does not answer for two minutes after the whole upload may have charged", async () => {
  const clock = createVirtualClock();
  const onWhole = () => clock.sleep(never).then(() => reply);
  const baseUrl = await serve({ onMegabyte: () => clock.sleep(10_000), onWhole });
  const { kind, message, seconds } = await startAt(baseUrl, clock);
  expect([kind, message]).toEqual(["unknown", expect.stringContaining("no response within 120 s")]);
  // From the last byte that the system has taken on.
  expect([seconds > 200, seconds <= 200 + 120]).toEqual([true, true]);
});

test.each([
  [100, { kind: "accepted", message: "", seconds: 200 }],
  [130, { kind: "unsent", message: expect.stringContaining("Nothing was sent, nothing was charged"), seconds: 120 }],
])("a connection that takes %i s has two minutes of its own", async (connectSeconds, end) => {
  const clock = createVirtualClock();
  const fetch: Io["fetch"] = async (_, { beforeSend, signal } = {}) => {
    await clock.sleep(connectSeconds * 1_000, signal ?? undefined).catch((cause) => {
      throw new RequestError(cause, { sent: false });
    });
    beforeSend?.();
    await clock.sleep(100_000, signal ?? undefined);
    return new Response(reply);
  };
  expect(await startAt("https://api.video.example", clock, fetch)).toEqual(end);
});

describe("a process that is stopped, as by Ctrl-Z, while the response is on its way", () => {
  test.each([
    [1_000, 130_000],
    [119_000, 130_000],
    [119_950, 3_600_000],
  ])("reads the id that has arrived (after %i ms, for %i ms)", async (waitMs, stopMs) => {
    const clock = createStoppableClock();
    const fetch: Io["fetch"] = async (_, { beforeSend, signal, onReceived } = {}) => {
      beforeSend?.();
      await clock.wait(waitMs);
      await clock.pass(stopMs);
      signal?.throwIfAborted();
      onReceived?.();
      return new Response(reply);
    };
    expect(await startAt("https://api.video.example", clock, fetch)).toMatchObject({ kind: "accepted" });
  });

  test("reads for two more seconds at the limit, and no longer", async () => {
    const clock = createStoppableClock();
    const fetch: Io["fetch"] = async (_, { beforeSend, signal, onReceived } = {}) => {
      beforeSend?.();
      await clock.wait(119_900);
      for (let parts = 0; parts < 100; parts++) {
        if (signal?.aborted) return new Response("too late", { status: 400 });
        onReceived?.();
        await clock.wait(100);
      }
      return new Response(reply);
    };
    expect(await startAt("https://api.video.example", clock, fetch)).toMatchObject({ kind: "refused", seconds: 122 });
  });
});
