import { workerData } from "node:worker_threads";
import { renderPreview } from "./render.ts";

// Renders the engine's task and ends. An error reaches the engine as the thread's "error" event.
void renderPreview(workerData);
