import { expect, test } from "vitest";
import type { Output } from "../../../src/cli/terminal/output.ts";
import { createProgress } from "../../../src/cli/terminal/progress.ts";
import { createVirtualClock } from "../../clock.ts";
import { createWorld, isStart } from "../../vidgen.ts";

const id = "1b4e28ba-2fa1-41d2-883f-0016d3cca427";

const key = "canary-key-0123456789-0123456789-0123456789";

function createScene(isLive: boolean) {
  const clock = createVirtualClock();
  const lines: string[] = [];
  let rests = 0;
  const output = {
    isLive,
    note: (text: string) => void lines.push(text),
    progress: (state: string) => void lines.push(state),
    clearProgress: () => void rests++,
    redact: (text: string) => text.replaceAll(key, "[key]"),
  };
  const show = createProgress(output as unknown as Output, clock);
  const follow = (id: string, about: { model?: string; typicalMs?: number } = {}) => {
    show({ event: "following", id, ...about });
    return {
      onState(status: string, percent?: number, node?: string) {
        show({ event: "percent", id, percent, node });
        show({ event: "state", id, status });
      },
      reportProblem: (reason: string) => show({ event: "outage", id, reason }),
      onProgress: (received: number, total: number | null) => show({ event: "progress", id, received, total }),
      stop: () => show({ event: "left", id }),
    };
  };
  return { clock, display: { follow }, lines, rests: () => rests };
}

test("at a terminal it counts the time, and says how long it typically takes", async () => {
  const { clock, display, lines, rests } = createScene(true);
  const progress = display.follow(id, { model: "veo-3.1", typicalMs: 10_000 });
  await clock.sleep(62_500);
  progress.stop();
  expect(lines[0]).toBe("Generating 1b4e28ba (veo-3.1)  0 s, typically 10 s");
  expect(lines).toContain("Generating 1b4e28ba (veo-3.1)  5 s, typically 10 s");
  expect(lines).toContain("Generating 1b4e28ba (veo-3.1)  1 min 2 s, typically 10 s");
  const count = lines.length;
  await clock.sleep(5_000);
  expect([lines.length, rests()]).toEqual([count, 1]);
});

test("the service's own word for the state is shown when it is another", async () => {
  const { clock, display, lines } = createScene(true);
  const progress = display.follow(id);
  progress.onState("queued\nfor a  while");
  await clock.sleep(1_500);
  progress.onState("processing");
  await clock.sleep(1_000);
  progress.stop();
  expect(lines).toEqual([
    "Generating 1b4e28ba  0 s",
    "Generating 1b4e28ba (queued for a while)  0 s",
    "Generating 1b4e28ba (queued for a while)  1 s",
    "Generating 1b4e28ba  1 s",
    "Generating 1b4e28ba  2 s",
  ]);
});

test("the next line shows the percentage of the generation while the service states it", async () => {
  for (const isLive of [true, false]) {
    const { clock, display, lines } = createScene(isLive);
    const progress = display.follow(id, { model: "wan-2.5" });
    progress.onState("processing", 40);
    expect(lines).toHaveLength(1);
    await clock.sleep(30_500);
    expect(lines.at(-1)).toMatch(/^Generating 1b4e28ba\S* \(wan-2\.5, 40 %\) {2}30 s$/);
    progress.onState("processing", 35, `KSampler\n(Advanced) ${key}`);
    await clock.sleep(30_500);
    expect(lines.at(-1)).toMatch(/ \(wan-2\.5, 35 % of KSampler \(Advanced\) \[key\]\) /);
    progress.onState("processing", undefined, "VAE Decode");
    await clock.sleep(30_500);
    expect(lines.at(-1)).toMatch(/ \(wan-2\.5, VAE Decode\) /);
    progress.onState("queued");
    expect(lines.at(-1)).toMatch(/^Waiting for the engine: 1b4e28ba\S* \(wan-2\.5\)/);
    progress.stop();
  }
});

test.each([
  [41.7, ["41 %"]],
  [150, []],
  ["42", []],
])("the progress %j of a status reply is shown as %j", async (progress, shown) => {
  const world = await createWorld();
  let polls = 0;
  world.faults.push(({ url }) => {
    if (!url.includes("generation-status") || ++polls > 6) return undefined;
    return Response.json({ status: "processing", video_url: null, progress });
  });
  const { code, stderr } = await world.vidgen("generate", "a fox");
  expect([code, stderr.match(/[\w.]+ %/g) ?? []]).toEqual([0, shown]);
});

test("a download has its size, its speed and the time left", async () => {
  const { clock, display, lines } = createScene(true);
  const progress = display.follow(id, { model: "veo-3.1" });
  progress.onProgress(1_000_000, 40_000_000);
  await clock.sleep(2_000);
  expect(lines.at(-1)).toBe("Saving the video of 1b4e28ba  1.0 MB of 40.0 MB");
  progress.onProgress(21_000_000, 40_000_000);
  expect(lines.at(-1)).toBe("Saving the video of 1b4e28ba  21.0 MB of 40.0 MB, 10.0 MB/s, 1 s left");
  // It begins anew, and nobody says how large it is.
  progress.onProgress(500, null);
  await clock.sleep(2_000);
  progress.onProgress(400_500, null);
  expect(lines.at(-1)).toBe("Saving the video of 1b4e28ba  401 kB, 200 kB/s");
  progress.stop();
});

test("a thousand pieces of a video are not a thousand lines", () => {
  const { display, lines } = createScene(true);
  const progress = display.follow(id);
  for (let i = 1; i <= 1_000; i++) progress.onProgress(i * 1_000, 1_000_000);
  progress.stop();
  expect(lines.length).toBeLessThan(4);
});

test("several share one line", async () => {
  const { clock, display, lines, rests } = createScene(true);
  const [one, two, three] = ["a", "b", "c"].map((name) => display.follow(`${name}-id`));
  two?.onProgress(1, 2);
  await clock.sleep(1_500);
  one?.stop();
  await clock.sleep(1_000);
  expect(lines).toContain("Generating a-id c-id, saving b-id  1 s");
  expect(lines.at(-1)).toBe("Generating c-id, saving b-id, 1 done  2 s");
  three?.onState("queued");
  await clock.sleep(1_000);
  expect(lines.at(-1)).toMatch(/^waiting for the engine: c-id, saving b-id, 1 done/i);
  two?.stop();
  three?.stop();
  three?.stop();
  expect(rests()).toBe(1);
});

test("a lasting network problem is shown in place of the progress until the service answers again", async () => {
  const { clock, display, lines } = createScene(false);
  const progress = display.follow(id, { model: "veo-3.1" });
  progress.reportProblem("econnrefused");
  progress.reportProblem("econnrefused");
  await clock.sleep(30_500);
  progress.onState("processing");
  await clock.sleep(30_000);
  progress.stop();
  const trouble = `No usable response (econnrefused); retrying for ${id}`;
  const generating = `Generating ${id} (veo-3.1)`;
  expect(lines).toEqual([generating, trouble, `${trouble}  30 s`, generating, `${generating}  1 min 0 s`]);
});

test("elsewhere each change is a line, and so is every half minute", async () => {
  const { clock, display, lines } = createScene(false);
  const progress = display.follow(id, { model: "veo-3.1", typicalMs: 80_000 });
  await clock.sleep(65_000);
  progress.onState("queued");
  progress.onState("queued");
  progress.onProgress(1_000_000, 40_000_000);
  progress.onProgress(2_000_000, 40_000_000);
  await clock.sleep(30_000);
  progress.stop();
  await clock.sleep(90_000);
  expect(lines).toEqual([
    `Generating ${id} (veo-3.1)`,
    `Generating ${id} (veo-3.1)  30 s, typically 1 min 20 s`,
    `Generating ${id} (veo-3.1)  1 min 0 s, typically 1 min 20 s`,
    `Waiting for the engine: ${id} (veo-3.1)`,
    `Saving the video of ${id}`,
    `Saving the video of ${id}  2.0 MB of 40.0 MB, 40 kB/s, 15 min 50 s left`,
  ]);
});

test("once three of a model were watched to their end, the fourth says how long it typically takes", async () => {
  const world = await createWorld({ renderMs: 45_000 });
  for (let i = 0; i < 3; i++) {
    expect((await world.vidgen("generate", "a fox")).stderr).not.toContain("typically");
    // Looked at long after its end, it says nothing about how long it took.
    const id = (await world.vidgen("generate", "an owl", "-m", "veo-3.1", "--no-wait")).stdout.trim();
    await world.io.sleep(3_600_000);
    await world.vidgen("wait", id);
  }
  expect((await world.vidgen("generate", "a fox")).stderr).toMatch(
    /^Generating \S+ \(wan-2\.5\) {2}30 s, typically 4\d s$/m,
  );
  expect((await world.vidgen("generate", "a fox", "-m", "veo-3.1")).stderr).not.toContain("typically");
});

test("one that was found running and watched to its end counts too", async () => {
  const world = await createWorld({ renderMs: 45_000 });
  for (let i = 0; i < 3; i++)
    await world.vidgen("wait", (await world.vidgen("generate", "x", "--no-wait")).stdout.trim());
  expect((await world.vidgen("generate", "a fox")).stderr).toContain("typically");
});

test("--quiet is silent but for errors, however long it takes", async () => {
  const world = await createWorld({ renderMs: 200_000 });
  expect(await world.vidgen("generate", "a fox", "--quiet")).toMatchObject({ code: 0, stderr: "" });
  world.faults.push((request) => (isStart(request) ? undefined : new Response(null, { status: 401 })));
  expect((await world.vidgen("generate", "a fox", "--quiet")).stderr).toMatch(/^error: /);
});

test("a long state is cut when no key is in it any more", () => {
  const { display, lines } = createScene(true);
  display.follow(id, { model: "veo-3.1" }).onState(`failed for ${key}`);
  expect(lines.at(-1)).toContain("failed for [key]");
});
