import { parentPort } from "node:worker_threads";
import type { RenderTask } from "../engine.ts";
import { freeFrames } from "./garbage.ts";
import { renderPreview } from "./render.ts";

// Renders what it is sent, one task at a time. An error ends it, and reaches the engine as its "error" event.
parentPort?.on("message", async (task: RenderTask) => {
  await renderPreview(task);
  freeFrames();
  parentPort?.postMessage("done");
});
