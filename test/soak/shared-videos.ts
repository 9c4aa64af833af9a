import { createHash } from "node:crypto";
import { side } from "../faults/work.ts";
import { clientsOf, type Process } from "./shared-processes.ts";

/** Asks every process for each of these generations, which have completed. Resolves with what is wrong, in words. */
export async function checkServed(processes: readonly Process[], ids: string[]): Promise<string[]> {
  const clients = clientsOf(processes, 4);
  const faults: string[] = [];
  await side(ids, 4, async (id) => {
    const found = await Promise.all(clients.map(async (client) => readVideo((await client.status(id)).json)));
    if (new Set(found).size > 1 || found[0]?.startsWith("sha256 ") !== true)
      faults.push(`${id}: its video is ${found.join(", ")}`);
  });
  for (const client of clients) client.close();
  return faults;
}

/** The hash of a video's bytes, which its ETag must tell; else what is wrong. */
async function readVideo({ status, video_url }: Record<string, unknown>): Promise<string> {
  if (status !== "completed") return `${status}`;
  const reply = await fetch(String(video_url));
  const hash = createHash("sha256")
    .update(Buffer.from(await reply.arrayBuffer()))
    .digest("hex");
  const isWhole = reply.status === 200 && reply.headers.get("ETag") === `"${hash}"`;
  return isWhole ? `sha256 ${hash}` : `HTTP ${reply.status} with ETag ${reply.headers.get("ETag")}`;
}
