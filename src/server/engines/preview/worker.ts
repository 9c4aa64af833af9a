import { parentPort } from "node:worker_threads";
import { renderPreview } from "./render.ts";

// Renders the engine's tasks one after the other. An error ends the thread and reaches the engine as its "error" event.
parentPort?.on("message", async (task) => {
  await renderPreview(task);
  parentPort?.postMessage("done");
});
