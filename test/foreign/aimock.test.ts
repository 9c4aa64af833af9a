import { LLMock } from "@copilotkit/aimock";
import { expect, onTestFinished, test } from "vitest";
import { createFetch } from "../../src/client/http/http.ts";
import { systemClock } from "../../src/io.ts";
import { tinyMp4 } from "../mp4.ts";
import { createTestEngine, kindIds } from "../server/engines/videos/run.ts";

const bytes = Buffer.from(tinyMp4("from aimock"));

/** A mock of `/v1/videos` that none of us wrote, on a socket; it has no `/content`, but tells a `url`. Polls come faster than in earnest. */
async function start(kind: (typeof kindIds)[number]) {
  const mock = new LLMock({ port: 0 });
  mock.mount("/files", {
    async handleRequest(_request, response) {
      response.end(bytes);
      return true;
    },
  });
  const url = await mock.start();
  onTestFinished(() => mock.stop());
  const clock = { ...systemClock, sleep: (_ms: number, signal?: AbortSignal) => systemClock.sleep(10, signal) };
  return { mock, ...(await createTestEngine(createFetch({}), { clock, url, kind, upstreamModel: "sora-2" })) };
}

test.each(kindIds)("a prompt goes in as to %s, and the mock's bytes come out", async (kind) => {
  const { mock, make } = await start(kind);
  const video = { id: "video_1", status: "processing" as "processing" | "completed", url: `${mock.url}/files/1.mp4` };
  mock.onVideo("a fox", { video });
  const made = make();
  while (mock.getRequests().length < 3) await new Promise((resolve) => setImmediate(resolve));
  video.status = "completed";
  expect(await made).toMatchObject({ outcome: "made", checkpoints: ["submitting", "video_1"], video: bytes });
  const creates = mock.getRequests().filter(({ method }) => method === "POST");
  expect(creates).toMatchObject([{ body: { model: "sora-2", messages: [{ content: "a fox" }] } }]);
});

test("a job that the mock lets fail fails, and so does a prompt that it does not know", async () => {
  const { mock, make } = await start("litellm");
  mock.onVideo("a fox", { video: { id: "video_1", status: "failed" } });
  expect((await make()).outcome).toBe("the model run did not succeed (failed)");
  expect((await make({ prompt: "a bear" })).outcome).toMatch(/refused the request: HTTP 404: No fixture matched$/);
});
