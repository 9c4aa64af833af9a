import { writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { openFolder } from "../../../src/server/media/folder.ts";
import { createMedia } from "../../../src/server/media/media.ts";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import { createTestService, mediaUrl, type ServiceOptions } from "../service.ts";

const content = "0123456789";
const unknownId = "00000000-0000-4000-8000-000000000000";

/** A service with one completed video of ten bytes, and a way to ask for it. */
async function createVideo(options: ServiceOptions = {}) {
  const service = await createTestService({ content, ...options });
  const id = await service.startId();
  await service.rest();
  const ask = (headers: Record<string, string> = {}, method = "GET") =>
    service.media(new Request(`${mediaUrl}/${id}.mp4`, { method, headers }));
  return { service, id, ask, etag: (await ask({}, "HEAD")).headers.get("ETag") ?? "" };
}

function fieldsOf({ status, headers }: Response) {
  return { status, headers: Object.fromEntries(headers) };
}

test("GET returns the whole video, without a key", async () => {
  const { ask } = await createVideo();
  const response = await ask();
  expect(fieldsOf(response)).toStrictEqual({
    status: 200,
    headers: {
      "accept-ranges": "bytes",
      "content-length": "10",
      "content-type": "video/mp4",
      etag: expect.stringMatching(/^"[^"]+"$/),
      "x-content-type-options": "nosniff",
      // A cache asks again, and finds out that a video was deleted.
      "cache-control": "private, no-cache",
    },
  });
  expect(await response.text()).toBe(content);
});

test("HEAD gives the same headers and no body", async () => {
  const { ask } = await createVideo();
  const head = await ask({}, "HEAD");
  expect(fieldsOf(head)).toStrictEqual(fieldsOf(await ask()));
  expect(head.body).toBeNull();
});

test("the ETag is the same for the same content, and different for other content", async () => {
  const [one, same, other] = [await createVideo(), await createVideo(), await createVideo({ content: "9876543210" })];
  expect(same.etag).toBe(one.etag);
  expect(other.etag).not.toBe(one.etag);
});

test.each([
  { range: "bytes=0-3", part: "0123", contentRange: "bytes 0-3/10" },
  { range: "bytes=4-", part: "456789", contentRange: "bytes 4-9/10" },
  { range: "bytes=-5", part: "56789", contentRange: "bytes 5-9/10" },
  { range: "BYTES=0-3", part: "0123", contentRange: "bytes 0-3/10" },
  { range: "Bytes=-5", part: "56789", contentRange: "bytes 5-9/10" },
  { range: "bytes=9-9", part: "9", contentRange: "bytes 9-9/10" },
  { range: "bytes=8-99", part: "89", contentRange: "bytes 8-9/10" },
  { range: "bytes=-99", part: "0123456789", contentRange: "bytes 0-9/10" },
  { range: `bytes=8-${"9".repeat(400)}`, part: "89", contentRange: "bytes 8-9/10" },
])("Range: $range gives $contentRange", async ({ range, part, contentRange }) => {
  const { ask } = await createVideo();
  const response = await ask({ Range: range });
  expect(response.status).toBe(206);
  expect(response.headers.get("Content-Range")).toBe(contentRange);
  expect(response.headers.get("Content-Length")).toBe(String(part.length));
  expect(await response.text()).toBe(part);
});

test.each(["bytes=10-", "bytes=10-12", "bytes=-0", `bytes=${"9".repeat(400)}-`])(
  "Range: %s is past the end",
  async (range) => {
    const { ask } = await createVideo();
    const response = await ask({ Range: range });
    expect(response.status).toBe(416);
    expect(response.headers.get("Content-Range")).toBe("bytes */10");
    expect(await response.text()).toBe("");
  },
);

test.each([
  ...["bytes=", "bytes=-", "bytes=a-b", "bytes=3-1", "bytes=1", "bytes=-1-2", "items=0-1", "0-3"],
  ...["bytes=0-1,3-4", "bytes=0-1, 99-"],
])("Range: %s is not understood: the whole video", async (range) => {
  const { ask } = await createVideo();
  const response = await ask({ Range: range });
  expect(response.status).toBe(200);
  expect(response.headers.get("Content-Range")).toBeNull();
  expect(await response.text()).toBe(content);
});

test("If-Range with the video's ETag returns the range", async () => {
  const { ask, etag } = await createVideo();
  const response = await ask({ Range: "bytes=4-", "If-Range": etag });
  expect(response.status).toBe(206);
  expect(await response.text()).toBe("456789");
});

test.each(['"another"', "Thu, 01 Jan 2026 00:00:00 GMT"])("If-Range: %s gives the whole video", async (condition) => {
  const { ask } = await createVideo();
  for (const range of ["bytes=4-", "bytes=10-"]) {
    const response = await ask({ Range: range, "If-Range": condition });
    expect(response.status).toBe(200);
    expect(await response.text()).toBe(content);
  }
});

test.each(["%s", "*", " * ", "W/%s", '"another", %s', '"another",W/%s , "third"', '"a,b", %s', ",%s,"])(
  "If-None-Match: %s with the video's ETag: 304 without a body",
  async (text) => {
    const { ask, etag } = await createVideo();
    for (const headers of [{}, { Range: "bytes=0-3" }]) {
      const response = await ask({ ...headers, "If-None-Match": text.replace("%s", etag) });
      expect(response.status).toBe(304);
      expect(response.headers.get("ETag")).toBe(etag);
      expect(response.body).toBeNull();
    }
    expect((await ask({ "If-None-Match": text.replace("%s", etag) }, "HEAD")).status).toBe(304);
  },
);

test.each(['"another"', 'W/"another"', '"another", "third"', "", "**", "%u", '"a, %u, b"', '"x%u"', "w/%s"])(
  "If-None-Match: %s gives the video",
  async (text) => {
    const { ask, etag } = await createVideo();
    const value = text.replace("%s", etag).replace("%u", etag.replaceAll('"', ""));
    expect(await (await ask({ "If-None-Match": value })).text()).toBe(content);
  },
);

test.each([
  ...["", "/", `/${unknownId}.mp4`, `/${unknownId}`, "/.mp4", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd"],
  ...["/..%2f..%2fetc%2fpasswd", "/..%5c..%5cetc%5cpasswd", `/${"../".repeat(12)}etc/passwd.mp4`, "/%00.mp4"],
])("no such path: %s", async (path) => {
  const { service } = await createVideo();
  const response = await service.media(new Request(mediaUrl + path));
  expect(response.status).toBe(404);
  expect(await response.json()).toMatchObject({ error: { code: "not_found", message: "there is no such video" } });
});

test("other paths of a video do not exist", async () => {
  const { service, id } = await createVideo();
  for (const path of [`/${id}`, `/${id}.MP4`, `/${id}.mp4/`, `//${id}.mp4`, `/x/${id}.mp4`, `/${id}.mp4%00`]) {
    expect((await service.media(new Request(mediaUrl + path))).status, path).toBe(404);
  }
});

test("a processing generation has no video", async () => {
  const service = await createTestService();
  const id = await service.startId();
  const ask = () => service.media(new Request(`${mediaUrl}/${id}.mp4`));
  expect((await ask()).status).toBe(404);
  await service.rest();
  expect((await ask()).status).toBe(200);
});

test("a failed generation has no video", async () => {
  const service = await createTestService();
  const id = await service.startId({ prompt: "[fail]" });
  await service.rest();
  expect((await service.media(new Request(`${mediaUrl}/${id}.mp4`))).status).toBe(404);
});

test.each(["POST", "PUT", "DELETE", "OPTIONS"])("%s: 405", async (method) => {
  const { ask } = await createVideo();
  const response = await ask({}, method);
  expect(response.status).toBe(405);
  expect(response.headers.get("Allow")).toBe("GET, HEAD");
});

test("an empty video is served as an empty file", async () => {
  const { ask } = await createVideo({ content: "" });
  for (const method of ["GET", "HEAD"]) {
    const response = await ask({}, method);
    expect(fieldsOf(response)).toMatchObject({ status: 200, headers: { "content-length": "0" } });
    expect(await response.text()).toBe("");
  }
  const range = await ask({ Range: "bytes=0-" });
  expect(fieldsOf(range)).toMatchObject({ status: 416, headers: { "content-range": "bytes */0" } });
});

test("the thumbnail is a PNG beside the video, by GET and HEAD", async () => {
  const { service, id } = await createVideo();
  for (const [method, body] of [
    ["GET", "a picture"],
    ["HEAD", ""],
  ] as const) {
    const response = await service.media(new Request(`${mediaUrl}/${id}.png`, { method }));
    expect(fieldsOf(response)).toMatchObject({
      status: 200,
      headers: { "content-type": "image/png", "content-length": "9", "x-content-type-options": "nosniff" },
    });
    expect(await response.text()).toBe(body);
  }
});

test("a video without a thumbnail has no thumbnail_url, and a 404 at its path", async () => {
  const render: ServiceOptions["render"] = async ({ file }) => {
    writeFileSync(file, content);
    return { kind: "made", hasThumbnail: false };
  };
  const { service, id, ask } = await createVideo({ render });
  const status = (await (await service.status(id)).json()) as object;
  expect(status).toMatchObject({ video_url: `${mediaUrl}/${id}.mp4`, thumbnail_url: null });
  expect([(await ask()).status, (await service.media(new Request(`${mediaUrl}/${id}.png`))).status]).toEqual([
    200, 404,
  ]);
});

test.each(["mp4", "png"])("a .%s that was tidied away is a 404", async (kind) => {
  const { service, id } = await createVideo();
  const media = (await service.store.generation(id))?.media;
  await rm(join(service.folder, (kind === "mp4" ? media?.file : media?.thumbnail) as string));
  expect((await service.media(new Request(`${mediaUrl}/${id}.${kind}`))).status).toBe(404);
});

test("a record has only the names of its files, so that their folder may be moved or copied", async () => {
  const store = await openStore(":memory:");
  const { id, ask } = await createVideo({ store });
  expect(await (await ask()).text()).toBe(content);
  expect((await store.generation(id))?.media).toMatchObject({ file: `${id}.mp4`, thumbnail: `${id}.png` });
});

test("a defect in the store is a 500, and the log says why", async () => {
  const broken = { ...(await openStore(":memory:")), generation: () => Promise.reject(new Error("secret details")) };
  const service = await createTestService({ store: broken });
  const response = await service.media(new Request(`${mediaUrl}/${unknownId}.mp4`));
  expect(response.status).toBe(500);
  expect(await response.text()).not.toContain("secret");
  expect(service.troubles).toEqual(["A request was answered with HTTP 500: Error: secret details"]);
});

test("[media: cut] leaves no video open if its reader disconnects before it has read anything", async () => {
  const { service } = await createVideo();
  const id = await service.startId({ prompt: "a fox [media: cut]" });
  await service.rest();
  const video = Readable.from(["01234"]);
  const videos = { ...(await openFolder({ folder: service.folder })), read: async () => video };
  const media = createMedia({ store: service.store, videos, reportProblem() {} });
  const reply = await media(new Request(`${mediaUrl}/${id}.mp4`));
  await reply.body?.cancel();
  await expect.poll(() => video.destroyed).toBe(true);
});
