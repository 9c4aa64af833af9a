import type { RequestListener } from "node:http";
import { buffer } from "node:stream/consumers";
import { expect, test } from "vitest";
import { makeFolder } from "../../folder.ts";
import { openFakeS3, refuse } from "./fake-s3.ts";
import { content, mp4, openAddress, png } from "./videos.ts";

async function openS3Address() {
  const s3 = await openFakeS3();
  return { s3, ...(await openAddress("s3://videos/team", s3.env)) };
}

test("answers with S3 as with a folder", async () => {
  const [{ s3, ...over }, folder] = [await openS3Address(), await openAddress(makeFolder())];
  const { etag } = folder;
  const asked = [
    ...[{ path: mp4 }, { path: mp4, method: "HEAD" }, { path: png }, { path: png, method: "HEAD" }],
    ...["bytes=0-3", "bytes=4-", "bytes=-5", "bytes=9-9", "bytes=8-99", "bytes=10-", "bytes=3-1"].map((Range) => ({
      path: mp4,
      headers: { Range },
    })),
    { path: mp4, method: "HEAD", headers: { Range: "bytes=2-" } },
    { path: mp4, headers: { "If-None-Match": etag } },
    { path: mp4, headers: { Range: "bytes=4-", "If-Range": etag } },
    { path: mp4, headers: { Range: "bytes=4-", "If-Range": '"another"' } },
    ...[{ path: mp4.replace("7", "8") }, { path: mp4, method: "POST" }],
  ];
  const reply = async ({ ask }: Pick<typeof over, "ask">, { path, ...options }: (typeof asked)[number]) => {
    const { incoming } = await ask(path, options);
    const { date: _, "x-request-id": __, ...headers } = incoming.headers;
    return { status: incoming.statusCode, headers, body: String(await buffer(incoming)) };
  };
  for (const request of asked)
    expect(await reply(over, request), JSON.stringify(request)).toEqual(await reply(folder, request));
  expect(await reply(over, { path: mp4 })).toMatchObject({ status: 200, headers: { etag }, body: content });
  s3.objects.clear();
  for (const path of [mp4, png]) expect(await reply(over, { path })).toMatchObject({ status: 404 });
  expect(over.troubles).toEqual([]);
});

test("HEAD reads at most a byte from S3", async () => {
  const { s3, ask } = await openS3Address();
  const ranges: unknown[] = [];
  s3.failNext((incoming, outgoing) => {
    ranges.push(incoming.headers.range);
    outgoing.writeHead(206, { "Content-Length": 1 }).end("0");
  });
  const { incoming } = await ask(mp4, { method: "HEAD" });
  expect([incoming.statusCode, incoming.headers["content-length"], ranges]).toEqual([200, "10", ["bytes=0-0"]]);
});

test("a client that disconnects ends the read from S3", async () => {
  const { s3, ask } = await openS3Address();
  const closed = new Promise<void>((resolve) => {
    s3.failNext((_, outgoing) => {
      outgoing.writeHead(206, { "Content-Length": 10 }).write("01234");
      outgoing.once("close", resolve);
    });
  });
  const { outgoing } = await ask(mp4);
  outgoing.destroy();
  await closed;
});

const cut: RequestListener = (incoming, outgoing) => {
  outgoing.writeHead(206, { "Content-Length": 10 }).write("01234", () => incoming.socket.destroy());
};

test("a read from S3 that fails halfway cuts the client's connection", async () => {
  const { s3, ask } = await openS3Address();
  s3.failNext(cut);
  const { incoming } = await ask(mp4);
  expect(incoming.statusCode).toBe(200);
  await expect(buffer(incoming)).rejects.toThrow("aborted");
  expect(String(await buffer((await ask(mp4)).incoming))).toBe(content);
});

test("a refusal by S3 is an error of the service, and the log says why", async () => {
  const { s3, ask, troubles } = await openS3Address();
  s3.failNext((_, outgoing) => refuse(outgoing, 403, "InvalidAccessKeyId"));
  const { incoming } = await ask(mp4);
  expect(incoming.statusCode).toBe(500);
  expect(String(await buffer(incoming))).not.toContain("S3");
  expect(troubles).toEqual([
    expect.stringMatching(/s3:\/\/videos\/team responded to a GET with HTTP 403 \(InvalidAccessKeyId\)$/),
  ]);
});

test("with redirects, HEAD, the thumbnail and videos in a folder are still answered here", async () => {
  const s3 = await openFakeS3();
  const [over, folder] = [
    await openAddress("s3://videos/team", s3.env, true),
    await openAddress(makeFolder(), {}, true),
  ];
  const ofS3 = [{ path: mp4, method: "HEAD" }, { path: png }];
  for (const { path, ...options } of ofS3) expect((await over.ask(path, options)).incoming.statusCode).toBe(200);
  expect((await folder.ask(mp4)).incoming.statusCode).toBe(200);
});
