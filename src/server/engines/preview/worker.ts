import { workerData } from "node:worker_threads";
import type { RenderTask } from "../engine.ts";
import { renderPreview } from "./render.ts";

// It is started with its task, renders and ends; an error ends it too, and reaches the engine as its "error" event.
await renderPreview(workerData as RenderTask);
