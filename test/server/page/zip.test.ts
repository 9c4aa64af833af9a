import { randomUUID } from "node:crypto";
import { EventEmitter, once } from "node:events";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { finished } from "node:stream/promises";
import { describe, expect, test } from "vitest";
import { hashKey } from "../../../src/server/api/accounts.ts";
import { type GenerationWithVideo, zipOf } from "../../../src/server/page/zip.ts";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import { openTestPage, type TestPage } from "./harness.ts";
import { useLink } from "./sign-in.ts";

test("an account's key gets no video, no star and no .zip of another account", async () => {
  const store = await openStore(":memory:");
  const page = await openTestPage({ store });
  const id = await page.make();
  await store.addAccount({ name: "ci", keyHash: hashKey("a-key-of-ci"), creditsOf: () => 100 });
  const own = await page.make({ prompt: "own" }, "a-key-of-ci");
  const form = new URLSearchParams({ key: "a-key-of-ci" });
  const entered = await fetch(page.url, { method: "POST", headers: { Origin: page.url }, body: form });
  const headers = { Cookie: entered.headers.getSetCookie()[0]?.split(";")[0] ?? "", Origin: page.url };
  const status = async (path: string, method = "GET") => (await fetch(page.url + path, { method, headers })).status;
  const zip = (...ids: string[]) => fetch(`${page.url}/zip`, { method: "POST", headers, body: idForm(ids) });
  expect((await zip(id)).status).toBe(404);
  expect(await status(`/generations/${id}/star`, "PUT")).toBe(404);
  expect(await status(`/generations/${own}/star`, "PUT")).toBe(204);
  expect(await status(`/compare?id=${id}&id=${own}`)).toBe(400);
  const text = await (await zip(id, own)).text();
  expect([text.includes(own.slice(0, 8)), text.includes(id.slice(0, 8))]).toEqual([true, false]);
  const away = { ...headers, Origin: "https://evil.example" };
  const forged = await fetch(`${page.url}/generations/${own}/star`, { method: "DELETE", headers: away });
  expect([forged.status, (await store.generation(own))?.isStarred]).toEqual([403, true]);
  expect((await store.generation(id))?.isStarred).toBeUndefined();
});

/** The body of a form with these ids. */
function idForm(ids: readonly string[]) {
  return new URLSearchParams(ids.map((id): [string, string] => ["id", id]));
}

/** Asks for the .zip of these as the page's form does. */
async function zipFrom(page: TestPage) {
  const signedIn = await useLink(page.link);
  const headers = { Cookie: signedIn.headers.getSetCookie()[0]?.split(";")[0] ?? "", Origin: page.url };
  return (ids: readonly string[]) => fetch(`${page.url}/zip`, { method: "POST", headers, body: idForm(ids) });
}

test("a .zip has its size from the beginning, and breaks off where a video has been removed meanwhile", async () => {
  const store = await openStore(":memory:");
  const page = await openTestPage({ store });
  const ids = [await page.make(), await page.make()];
  const zip = await zipFrom(page);
  const reply = await zip(ids);
  expect((await reply.arrayBuffer()).byteLength).toBe(Number(reply.headers.get("Content-Length")));
  const media = (await store.generation(ids[1] ?? ""))?.media;
  await rm(join(page.folder, media?.file ?? ""));
  await expect(zip(ids).then((each) => each.arrayBuffer())).rejects.toThrow();
});

test("a .zip takes as many videos as a list can have, whose ids are too long for an address", async () => {
  const page = await openTestPage();
  const id = await page.make();
  const zip = await zipFrom(page);
  const missing = Array.from({ length: 499 }, () => randomUUID());
  expect((await zip([...missing, id])).status).toBe(200);
});

describe("a .zip that is broken off leaves no video open", () => {
  const videos = async (count: number) => {
    const store = await openStore(":memory:");
    const page = await openTestPage({ store });
    const all: GenerationWithVideo[] = [];
    for (let index = 0; index < count; index++)
      all.push((await store.generation(await page.make())) as GenerationWithVideo);
    return all;
  };
  const endless = () =>
    Readable.from(
      (function* () {
        for (;;) yield Buffer.alloc(65_536);
      })(),
    );

  test("while a video is read", async () => {
    const opened: Readable[] = [];
    const read = async () => {
      const video = endless();
      opened.push(video);
      return video;
    };
    const { body } = zipOf(await videos(2), { read });
    for await (const _ of body) if (opened.length > 0) break;
    await finished(body).catch(() => {});
    expect(opened.map(({ destroyed }) => destroyed)).toEqual([true]);
  });

  test("while a video is opened", async () => {
    const video = endless();
    const opening = new EventEmitter();
    const read = async () => {
      setImmediate(() => opening.emit("asked"));
      await once(opening, "answered");
      return video;
    };
    const { body } = zipOf(await videos(1), { read });
    body.resume();
    await once(opening, "asked");
    body.destroy();
    opening.emit("answered");
    await once(body, "close");
    expect(video.destroyed).toBe(true);
  });

  test("before anything is read", async () => {
    let count = 0;
    const read = async () => {
      count++;
      return endless();
    };
    const { body } = zipOf(await videos(1), { read });
    body.destroy();
    await once(body, "close");
    expect(count).toBe(0);
  });
});
