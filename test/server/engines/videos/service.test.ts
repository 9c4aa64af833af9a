import { describe, expect, onTestFinished, test } from "vitest";
import { createVideosEngine } from "../../../../src/server/engines/videos/videos.ts";
import { openStore } from "../../../../src/server/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../../src/server/store/store.ts";
import { makeFolder } from "../../../folder.ts";
import { tinyMp4 } from "../../../mp4.ts";
import { createTestService, filesIn, mediaUrl } from "../../service.ts";
import { ioFetch, json } from "./fakes/fake.ts";
import { createSglang } from "./fakes/sglang.ts";
import { engineUrl, timeoutMs } from "./run.ts";

// The whole service over a server that answers a create with the finished video: its process is killed, and another one goes on.

const bytes = Buffer.from(tinyMp4("a fox"));
const answers: [string, () => Response][] = [
  ["its bytes", () => new Response(bytes, { headers: { "Content-Type": "video/mp4" } })],
  ["its bytes, which no header tells", () => new Response(new Blob([bytes]).stream())],
  ["its bytes in JSON", () => json(200, { data: [{ b64_json: bytes.toString("base64") }] })],
  ["its address", () => json(200, { data: [{ url: "/files/1.mp4" }] })],
];

async function createScene(answer: () => Response) {
  const store = await openStore(":memory:");
  onTestFinished(store.close);
  const fake = createSglang({
    fault({ route, request, serve }) {
      if (request.url.endsWith("/files/1.mp4")) return new Response(bytes);
      return route === "create" ? serve().then(answer) : undefined;
    },
  });
  const open = (changes: Partial<Store> = {}, folder = makeFolder(), answersAs = fake) =>
    createTestService({
      store: { ...store, ...changes },
      folder,
      engines(clock) {
        const server = { url: engineUrl, kind: undefined, key: undefined, upstreamModel: undefined, timeoutMs };
        const io = { ...clock, fetch: ioFetch(answersAs), open: () => Promise.reject(new Error("unused")) };
        return [createVideosEngine({ ...server, models: ["sora-2"], concurrency: 4, onNote: () => {} }, io)];
      },
    });
  return { store, fake, open };
}

/** What a store does in a process that is killed while it does so. */
const never = () => new Promise<never>(() => {});

describe.each(answers)("a submission that is answered with the finished video, by %s", (_, answer) => {
  test("is finished by the next process if its own is killed before the end is stored", async () => {
    const { store, fake, open } = await createScene(answer);
    const first = await open({ finish: never });
    const id = await first.startId();
    await first.clock.sleep(60_000);
    first.kill();
    const second = await open({}, first.folder);
    expect(await (await second.status(id)).json()).toMatchObject({ status: "processing" });
    await second.clock.sleep(60_000);
    expect(await (await second.status(id)).json()).toMatchObject({ status: "completed" });
    const video = await second.media(new Request(`${mediaUrl}/${id}.mp4`));
    expect(Buffer.from(await video.arrayBuffer())).toEqual(bytes);
    expect([fake.creates.length, filesIn(first.folder)]).toEqual([1, [`${id}.mp4`]]);
    expect((await store.generation(id))?.error).toBeNull();
  });

  test("is not cancelled, because its video exists", async () => {
    const { open } = await createScene(answer);
    const service = await open({ finish: never });
    const id = await service.startId();
    await service.clock.sleep(60_000);
    const reply = await service.cancel(id);
    service.kill();
    expect([reply.status, JSON.stringify(await reply.json())]).toEqual([
      409,
      expect.stringContaining("its video was generated"),
    ]);
  });
});
