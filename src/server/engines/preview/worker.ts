import { workerData } from "node:worker_threads";
import type { RenderRequest } from "../engine.ts";
import { renderPreview } from "./render.ts";

/** What the worker is started with. It renders and ends; an error ends it too, and reaches the engine as its "error" event. */
export type WorkerTask = { request: RenderRequest; file: string };

const { request, file } = workerData as WorkerTask;
await renderPreview(request, file);
