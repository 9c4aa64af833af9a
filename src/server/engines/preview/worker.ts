import { parentPort } from "node:worker_threads";
import type { RenderTask } from "../engine.ts";
import { renderPreview } from "./render.ts";

// Renders what the engine sends, one task at a time. An error ends the thread and reaches the engine as its "error" event.
parentPort?.on("message", async (task: RenderTask) => {
  await renderPreview(task);
  parentPort?.postMessage("done");
});
