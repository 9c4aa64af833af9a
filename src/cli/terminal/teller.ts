import {
  createEventFilter,
  createEventListeners,
  type EndStatus,
  errorFieldsOf,
  type GenerationEvent,
} from "../../client/events.ts";
import { asVidgenError, type VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import type { Output } from "./output.ts";
import type { Result } from "./result.ts";

type Started = Omit<GenerationEvent & { event: "started" }, "event">;

/** Tells what happens to the generations of one command, as events. */
export type Teller = {
  started(started: Started): void;
  /** Tells how the start has ended that was not accepted, and returns the error. */
  notStarted(status: EndStatus, error: VidgenError): VidgenError;
  /** The listeners for the client's callbacks about one generation. */
  follow(id: string): ReturnType<typeof createEventListeners>;
  /** `isNew` when this command has saved the file. */
  ended(id: string, result: Result, options: { isNew: boolean }): void;
  /** Tells that the command has stopped following a generation because of an error, and returns the error. */
  stopped(id: string, error: unknown): VidgenError;
};

export function createTeller(output: Pick<Output, "event">, { now }: Pick<Io, "now">): Teller {
  const isNews = createEventFilter(now);
  const completed = new Set<string>();
  const tell = (event: GenerationEvent) => {
    if (event.event === "state" && event.status === "completed") completed.add(event.id);
    if (isNews(event)) output.event(event);
  };
  const nothing = { file: null, video_url: null };
  return {
    started: (started) => tell({ event: "started", ...started }),
    notStarted(status, error) {
      tell({ event: "ended", id: error.id ?? null, status, ...nothing, error: errorFieldsOf(error) });
      return error;
    },
    follow: (id) => createEventListeners(id, tell),
    ended(id, { file, videoUrl, isInProcess }, { isNew }) {
      if (isNew && file !== undefined) tell({ event: "saved", id, file });
      const video_url = isInProcess || videoUrl === "" ? null : videoUrl;
      tell({ event: "ended", id, status: "completed", file: file ?? null, video_url, error: null });
    },
    stopped(id, thrown) {
      const error = asVidgenError(thrown).with({ id });
      const status = statusOf(error) ?? (completed.has(id) ? "completed" : "processing");
      tell({ event: "ended", id, status, ...nothing, error: errorFieldsOf(error) });
      return error;
    },
  };
}

function statusOf({ code }: VidgenError): EndStatus | undefined {
  if (code === "not_found") return "lost";
  return code === "failed" ? code : undefined;
}
