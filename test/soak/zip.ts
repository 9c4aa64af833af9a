import { readdirSync, readlinkSync } from "node:fs";
import { truncate } from "node:fs/promises";
import { join } from "node:path";
import { type Goal, portion } from "../faults/goal.ts";
import { pause } from "../faults/wire.ts";
import { inFolder, side } from "../faults/work.ts";
import { dial, portOf } from "./raw.ts";
import { type Announced, createClient, startedId, whileServing } from "./serve.ts";

const atOnce = 16;
const videoCount = 3;
/** More than a connection takes before anybody reads it. */
const videoBytes = 16_000_000;

/** Goal 27: a zip that is broken off, at whatever byte, leaves no video open, and the service goes on. */
export const zip: Goal = {
  number: 27,
  title: "downloads of a zip that are broken off",
  run: ({ random, share }) =>
    inFolder((home) =>
      whileServing(home, [], async (announced, { pid, end, ended }) => {
        const faults: string[] = [];
        const ids = await makeVideos(announced, home);
        const post = await createZipRequest(announced, ids);
        const count = portion(1_000, share, 60);
        // 0: the client goes as soon as it has asked.
        const cuts = Array.from({ length: count }, () => random.pick([0, 1, random.between(1, 2 * videoBytes)]));
        let begun = 0;
        await side(cuts, atOnce, async (bytes) => {
          const heard = await breakOff(portOf(announced.base_url), post, bytes);
          if (heard !== "" && !heard.startsWith("HTTP/1.1 200 ")) faults.push(`answered with ${heard.slice(0, 200)}`);
          if (heard !== "") begun++;
        });
        const open = await settledVideos(pid, home);
        if (open.length > 0) faults.push(`${open.length} videos are still open`);
        const client = createClient(announced, 1);
        const { status } = await client.status(ids[0] ?? "").catch((error) => ({ status: `${error}` }));
        client.close();
        if (status !== 200) faults.push(`afterwards a request is answered with ${status}`);
        await end("SIGTERM");
        const said = await ended;
        // Node 25 ends the process for that.
        if (said.includes("garbage collection")) faults.push(`a video was closed by the garbage collector: ${said}`);
        return {
          figures: `${count} broken off, ${begun} of them within the reply; ${open.length} videos open afterwards`,
          target: "0 open videos, and the service lives",
          faults,
        };
      }),
    ),
};

/** Makes videos, and makes them large. */
async function makeVideos(announced: Announced, home: string): Promise<string[]> {
  const client = createClient(announced, 1);
  const ids: string[] = [];
  for (let index = 0; index < videoCount; index++) {
    const id = startedId(await client.start({ prompt: `fox ${index}`, model: "veo-3.1", duration: 0.5 }));
    while ((await client.status(id)).json.status !== "completed") await pause(20);
    await truncate(join(home, "service", "videos", `${id}.mp4`), videoBytes);
    ids.push(id);
  }
  client.close();
  return ids;
}

/** The bytes of the request that the page's form makes, with the session that a key gets. */
async function createZipRequest({ base_url, api_key }: Announced, ids: readonly string[]): Promise<string> {
  const form = new URLSearchParams({ key: api_key });
  const entered = await fetch(base_url, { method: "POST", headers: { Origin: base_url }, body: form });
  const cookie = entered.headers.getSetCookie()[0]?.split(";")[0];
  const body = ids.map((id) => `id=${id}`).join("&");
  const lines = [
    "POST /zip HTTP/1.1",
    `Host: ${new URL(base_url).host}`,
    `Origin: ${base_url}`,
    `Cookie: ${cookie}`,
    "Content-Type: application/x-www-form-urlencoded",
    `Content-Length: ${body.length}`,
  ];
  return `${lines.join("\r\n")}\r\n\r\n${body}`;
}

/** Sends a request, and resets the connection once so many bytes have come. Resolves with the first of them. */
function breakOff(port: number, request: string, bytes: number): Promise<string> {
  const socket = dial(port);
  return new Promise((resolve) => {
    let [heard, count] = ["", 0];
    socket.on("data", (data) => {
      heard ||= data.toString("latin1");
      count += data.length;
      if (count >= bytes) socket.resetAndDestroy();
    });
    socket.once("close", () => resolve(heard));
    socket.write(request, () => bytes === 0 && socket.resetAndDestroy());
  });
}

/** The videos that a process has open, once that has had time; none where the system does not tell. */
async function settledVideos(pid: number, home: string): Promise<string[]> {
  for (let turn = 0; turn < 50 && openVideos(pid, home).length > 0; turn++) await pause(100);
  return openVideos(pid, home);
}

function openVideos(pid: number, home: string): string[] {
  const folder = `/proc/${pid}/fd`;
  const read = (name: string) => {
    try {
      return readlinkSync(join(folder, name));
    } catch {
      return "";
    }
  };
  try {
    return readdirSync(folder)
      .map(read)
      .filter((path) => path.startsWith(home) && path.endsWith(".mp4"));
  } catch {
    return [];
  }
}
