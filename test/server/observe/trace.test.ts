import { expect, test } from "vitest";
import { createComfyUiEngine } from "../../../src/server/engines/comfyui/comfyui.ts";
import { readWorkflow } from "../../../src/server/engines/comfyui/workflow.ts";
import { readTraceparent } from "../../../src/server/observe/trace.ts";
import { createVirtualClock } from "../../clock.ts";
import { createComfyUi } from "../engines/comfyui/fake.ts";
import { workflow, writeWorkflow } from "../engines/comfyui/run.ts";
import { ioFetch } from "../engines/videos/fakes/fake.ts";
import { createTestEngine, engineUrl, fakes, kindIds, timeoutMs } from "../engines/videos/run.ts";
import { createTestService, renderMs } from "../service.ts";

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

test.each([
  [traceparent, traceparent],
  [` ${traceparent} `, traceparent],
  [undefined, undefined],
  ["", undefined],
  [traceparent.toUpperCase(), undefined],
  [`${traceparent}-more`, undefined],
  [traceparent.replace("00-", "ff-"), undefined],
  ["00-00000000000000000000000000000000-b7ad6b7169203331-01", undefined],
  ["00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", undefined],
  ["canary\r\nX: 1", undefined],
])("of the header %j is kept %j", (header, kept) => {
  expect(readTraceparent(header)).toBe(kept);
});

test("the trace of a start goes to its engine and to the receiver of its callback, at every attempt", async () => {
  const sent: (string | undefined)[] = [];
  const receive = async (_: string, { headers }: { headers: Record<string, string> }) => {
    sent.push(headers.traceparent);
    return { status: sent.length === 1 ? 500 : 204 };
  };
  const { start, clock, rendered, rest } = await createTestService({ receive });
  const fields = { callback_url: "https://receiver.example/hook" };
  await start(fields, { traceparent });
  await rest();
  await clock.sleep(renderMs);
  await start(fields, { traceparent: "none of this form" });
  await rest();
  expect(rendered.map(({ request }) => request.traceparent)).toEqual([traceparent, undefined]);
  // The first one is tried again.
  expect(sent).toEqual([traceparent, traceparent, undefined]);
});

/** A clock, and a `fetch` that keeps the trace of each POST that it passes on. */
function watch(
  create: (options: { now: () => number; completeAfterMs: number }) => { fetch(request: Request): unknown },
) {
  const clock = createVirtualClock();
  const fake = create({ now: clock.now, completeAfterMs: 10_000 });
  const traces: (string | null)[] = [];
  const fetch = (request: Request) => {
    if (request.method === "POST") traces.push(request.headers.get("traceparent"));
    return fake.fetch(request);
  };
  return { clock, traces, fetch: ioFetch({ fetch } as Parameters<typeof ioFetch>[0]) };
}

test.each(kindIds)("a server of %s gets the trace with the submission", async (kind) => {
  const { clock, traces, fetch } = watch(fakes[kind]);
  const { make } = await createTestEngine(fetch, { clock, kind });
  await make({ traceparent });
  await make();
  expect(traces).toEqual([traceparent, null]);
});

test("ComfyUI gets the trace with the submission", async () => {
  const { clock, traces, fetch } = watch(createComfyUi);
  const settings = {
    url: engineUrl,
    key: undefined,
    upstreamModel: "wan.json",
    timeoutMs,
    runningPatienceMs: timeoutMs,
    models: ["wan-2.5"],
  };
  const read = readWorkflow(writeWorkflow(workflow()), ["wan-2.5"]);
  const { make } = await createTestEngine(fetch, {
    clock,
    create: (io, onNote) => createComfyUiEngine({ ...settings, concurrency: 1, workflow: read, onNote }, io),
  });
  const unset = ["aspectRatio", "duration", "resolution"] as const;
  await make({ traceparent, unset });
  expect(traces).toEqual([traceparent]);
});
