import { expect, test } from "vitest";
import { readPage, readTables } from "../../../../src/docs.ts";
import { createRehearsedMedia } from "../../../../src/server/api/rehearsal.ts";
import { readDirectives } from "../../../../src/server/engines/preview/directives.ts";
import { openFolder } from "../../../../src/server/media/folder.ts";
import { createTestService, mediaUrl, readError, readStart } from "../../service.ts";

type Status = { status: string; error?: string; video_url: string | null };

const remaining = async (service: Awaited<ReturnType<typeof createTestService>>) =>
  (await readStart(await service.start())).remaining_credits;

test("[fail: text] fails with that text", async () => {
  const service = await createTestService();
  const id = await service.startId({ prompt: "a fox [fail: out of film] runs" });
  await service.rest();
  expect(await (await service.status(id)).json()).toMatchObject({ status: "failed", error: "out of film" });
});

test("[http: 429] is answered once, with Retry-After, and charges nothing; then the same start is accepted", async () => {
  const service = await createTestService();
  const prompt = "a fox [http: 429]";
  const refused = await service.start({ prompt });
  expect([refused.status, refused.headers.get("Retry-After")]).toEqual([429, "1"]);
  const started = await service.start({ prompt });
  expect((await readStart(started)).remaining_credits).toBe(990);
  expect((await service.start({ prompt })).status).toBe(429);
});

test("only the last thousand prompts with [http: 429] are remembered", async () => {
  const service = await createTestService();
  const start = async (index: number) => (await service.start({ prompt: `${index} [http: 429]` })).status;
  for (let index = 0; index <= 1_000; index++) await start(index);
  expect([await start(1), await start(0)]).toEqual([200, 429]);
});

test.each([500, 503, 418])("[http: %i] is answered each time, and charges nothing", async (status) => {
  const service = await createTestService();
  for (let i = 0; i < 2; i++) {
    const reply = await service.start({ prompt: `a fox [http: ${status}]` });
    expect([reply.status, (await readError(reply)).code]).toEqual([status, "asked_for"]);
  }
  expect(await remaining(service)).toBe(990);
});

test("[credits: 0] gets the reply for an account without credits", async () => {
  const service = await createTestService();
  const reply = await service.start({ prompt: "a fox [credits: 0]" });
  expect([reply.status, (await readError(reply)).code]).toEqual([402, "insufficient_credits"]);
  expect(await remaining(service)).toBe(990);
});

test("[cut] executes the start, and the reply ends after the id", async () => {
  const service = await createTestService();
  const reply = await service.start({ prompt: "a fox [cut]" });
  const reader = (reply.body as ReadableStream<Uint8Array>).getReader();
  const text = new TextDecoder().decode((await reader.read()).value);
  expect(text).toMatch(/^\{"success":true,"data":\{"id":"[0-9a-f-]{36}"$/);
  expect(Number(reply.headers.get("Content-Length"))).toBeGreaterThan(text.length);
  await expect(reader.read()).rejects.toThrow("cut");
  expect(await remaining(service)).toBe(980);
});

test("[cut] and [hang] get the full reply when the same Idempotency-Key is sent again", async () => {
  for (const prompt of ["a fox [cut]", "a fox [hang]"]) {
    const service = await createTestService();
    const headers = { "Idempotency-Key": "one" };
    void service.start({ prompt }, headers);
    await service.rest(0);
    expect((await readStart(await service.start({ prompt }, headers))).remaining_credits).toBe(990);
  }
});

test("[hang] executes the start and does not answer", async () => {
  const service = await createTestService();
  let isAnswered = false;
  const reply = service.start({ prompt: "a fox [hang]" }).then(() => (isAnswered = true));
  await service.rest(2);
  expect([isAnswered, service.rendered.length]).toEqual([false, 1]);
  void reply;
});

test("[no-video] completes without an address", async () => {
  const service = await createTestService();
  const id = await service.startId({ prompt: "a fox [no-video]" });
  await service.rest();
  expect(await (await service.status(id)).json()).toMatchObject({
    status: "completed",
    video_url: null,
    thumbnail_url: null,
  });
});

test("[media: 403] is answered once", async () => {
  const service = await createTestService();
  const id = await service.startId({ prompt: "a fox [media: 403]" });
  await service.rest();
  const fetchIt = async () => (await service.media(new Request(`${mediaUrl}/${id}.mp4`))).status;
  expect([await fetchIt(), await fetchIt(), await fetchIt()]).toEqual([403, 200, 200]);
});

test("only the last thousand videos with [media: 403] are remembered", async () => {
  const service = await createTestService();
  const id = await service.startId({ prompt: "a fox [media: 403]" });
  await service.rest();
  const made = await service.store.generation(id);
  const store = { generation: async (other: string) => made && { ...made, id: other } };
  const videos = await openFolder({ folder: service.folder });
  const media = createRehearsedMedia({ store, videos, reportProblem: () => {} });
  const fetchIt = async (index: number) => {
    const name = `00000000-0000-4000-8000-${String(index).padStart(12, "0")}`;
    return (await media(new Request(`${mediaUrl}/${name}.mp4`, { method: "HEAD" }))).status;
  };
  for (let index = 0; index <= 1_000; index++) expect(await fetchIt(index)).toBe(403);
  expect([await fetchIt(1), await fetchIt(0)]).toEqual([200, 403]);
});

test("[media: cut] cuts the video halfway, and delivers the rest as a range", async () => {
  const service = await createTestService({ content: "0123456789" });
  const id = await service.startId({ prompt: "a fox [media: cut]" });
  await service.rest();
  const whole = await service.media(new Request(`${mediaUrl}/${id}.mp4`));
  const reader = (whole.body as ReadableStream<Uint8Array>).getReader();
  expect(new TextDecoder().decode((await reader.read()).value)).toBe("01234");
  await expect(reader.read()).rejects.toThrow("cut");
  const rest = await service.media(new Request(`${mediaUrl}/${id}.mp4`, { headers: { Range: "bytes=5-" } }));
  expect([rest.status, await rest.text()]).toEqual([206, "56789"]);
});

test.each([
  "[http: 200]",
  "[http]",
  "[http: 4290]",
  "[credits: 5]",
  "[hang on]",
  "[cut: no]",
  "[Fail]",
  "[slow]",
  "[slow: soon]",
  "[media]",
])("%s is a part of the prompt and nothing else", async (words) => {
  const service = await createTestService();
  const id = await service.startId({ prompt: `a fox ${words}` });
  await service.rest();
  const status = (await (await service.status(id)).json()) as Status;
  expect(status).toMatchObject({ status: "completed", video_url: `${mediaUrl}/${id}.mp4` });
  expect((await service.media(new Request(status.video_url as string))).status).toBe(200);
});

test.each(["[a:", "[", "[fail: ", `[fail:${" ".repeat(90_000)}`, "[fail: [fail: ]"])(
  "a prompt of 90 kB of %j is read at once",
  (words) => {
    const prompt = words.repeat(Math.ceil(90_000 / words.length));
    const before = process.cpuUsage();
    readDirectives({ prompt, hasDirectives: true });
    expect(process.cpuUsage(before).user).toBeLessThan(2_000_000);
  },
);

test("the page on directives has a row for exactly the directives that the service knows", () => {
  const [rows = []] = readTables(readPage("directives").text);
  const none = Object.entries(readDirectives({ prompt: "a fox", hasDirectives: true }));
  const known = rows.map(({ text }) => {
    const read: Record<string, unknown> = readDirectives({ prompt: `a fox ${text}`, hasDirectives: true });
    return none.filter(([name, value]) => read[name] !== value).map(([name]) => name);
  });
  for (const names of known) expect(names).toHaveLength(1);
  expect(new Set(known.flat())).toEqual(new Set(none.map(([name]) => name)));
});
