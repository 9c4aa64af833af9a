import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";

/** A service that answers every look, in a thread of its own: the bench blocks its own while it waits for a process. */
export async function startService() {
  const worker = new Worker(fileURLToPath(new URL("./answers.mjs", import.meta.url)));
  const [port] = await once(worker, "message");
  return { url: `http://127.0.0.1:${port}`, close: () => worker.terminate() };
}
