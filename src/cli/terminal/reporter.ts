import {
  createEventFilter,
  type EndStatus,
  endStatusOf,
  errorFieldsOf,
  type GenerationEvent,
} from "../../client/generation/events.ts";
import type { VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import type { Output } from "./output.ts";
import type { ProgressEvent } from "./progress.ts";
import type { Result } from "./result.ts";

/**
 * Reports what happens to the generations of one command: as progress for a person, and with `--events` as lines of JSON.
 */
export type Reporter = {
  report(event: GenerationEvent): void;
  /** Shows an event for the progress line only. */
  show(event: ProgressEvent): void;
  /** The last status that the service reported for a generation. */
  statusOf(id: string): string | undefined;
  /** Reports a start that was not accepted. */
  notStarted(status: EndStatus, error: VidgenError): void;
  ended(id: string, result: Result): void;
  /** Reports that the command stopped following a generation because of an error. */
  stopped(id: string, error: VidgenError): void;
};

/** `show` is the renderer for a person. */
export function createReporter(
  show: Reporter["show"],
  output: Pick<Output, "event">,
  { now }: Pick<Io, "now">,
): Reporter {
  const isNewEvent = createEventFilter(now);
  const statuses = new Map<string, string>();
  const report = (event: GenerationEvent) => {
    if (event.event === "state") statuses.set(event.id, event.status);
    show(event);
    if (isNewEvent(event)) output.event(event);
  };
  const nothing = { file: null, video_url: null };
  return {
    report,
    show,
    statusOf: (id) => statuses.get(id),
    notStarted(status, error) {
      report({ event: "ended", id: error.id ?? null, status, ...nothing, error: errorFieldsOf(error) });
    },
    ended(id, { file, durableUrl, isNew }) {
      if (isNew && file !== undefined) report({ event: "saved", id, file });
      const video_url = durableUrl ?? null;
      report({ event: "ended", id, status: "completed", file: file ?? null, video_url, error: null });
    },
    stopped(id, error) {
      const status = endStatusOf(error, statuses.get(id));
      report({ event: "ended", id, status, ...nothing, error: errorFieldsOf(error) });
    },
  };
}
