import type { Child } from "hono/jsx";
import type { Progress } from "../store/change.ts";
import type { DeliveryRecord } from "../store/deliveries.ts";
import { type StoredGeneration, stateOf } from "../store/generations.ts";
import { ClockTime } from "./elements.tsx";
import { progressText, spanText, stateWords } from "./formatting.ts";
import { RelativeTime } from "./layout.tsx";

export type TimelineProps = {
  generation: StoredGeneration;
  progress: Progress | undefined;
  delivery: DeliveryRecord | undefined;
  now: Date;
};

type TimelineEvent = { title: string; kind?: string; at: string; detail?: string };

/** The events of a generation, oldest first, each with the time since the event before it. */
export function Timeline(props: TimelineProps) {
  const { generation, progress, delivery, now } = props;
  const events = eventsOf(props);
  return (
    <ol class="timeline">
      {events.map((event, index) => (
        <TimelineItem {...event} before={events[index - 1]?.at} />
      ))}
      {generation.status === "processing" ? (
        <li class="running">
          <span class="title">
            {stateWords[stateOf(generation)]}
            {progress === undefined ? "" : `, ${progressText(progress)}`}
          </span>
        </li>
      ) : null}
      {delivery?.next_at ? (
        <li class="running">
          <span class="title">{delivery.attempts.length === 0 ? "Callback" : "Next attempt of the callback"}</span>
          <RelativeTime at={delivery.next_at} now={now} />
        </li>
      ) : null}
    </ol>
  );
}

function eventsOf({ generation, delivery }: TimelineProps): TimelineEvent[] {
  const { created_at, completed_at, status, checkpoint, removed_at } = generation;
  const events: TimelineEvent[] = [{ title: "Started", at: created_at }];
  if (checkpoint)
    events.push({
      title: checkpointText(checkpoint),
      at: checkpoint.at,
      ...(checkpoint.state === "submitted" ? { detail: checkpoint.job } : {}),
    });
  if (completed_at !== null)
    events.push({ title: status === "completed" ? "Completed" : "Failed", kind: status, at: completed_at });
  const last = delivery?.attempts.at(-1);
  if (last && delivery?.next_at === null) {
    const title = `Callback ${last.delivered ? "delivered" : "given up"} after attempt ${delivery.attempts.length}`;
    events.push({ title, kind: last.delivered ? "completed" : "failed", at: last.at, detail: last.outcome });
  }
  if (removed_at) events.push({ title: "Deleted", at: removed_at });
  return events;
}

function checkpointText({ state, engine }: NonNullable<StoredGeneration["checkpoint"]>): string {
  if (state === "rendering") return `Rendering started by ${engine}`;
  return state === "submitting" ? `Submitting to ${engine}` : `Submitted to ${engine}`;
}

function TimelineItem({ title, kind = "", at, before, detail }: TimelineEvent & { before: string | undefined }): Child {
  const isOtherDay = before?.slice(0, 10) !== at.slice(0, 10);
  return (
    <li class={kind}>
      <span class="title">{title}</span>
      <span class="when">
        {before === undefined ? null : (
          <span class="difference">+{spanText(Math.max(0, Date.parse(at) - Date.parse(before)))}</span>
        )}
        <ClockTime at={at} kind={isOtherDay ? "date" : "time"} />
      </span>
      {detail === undefined ? null : <code>{detail}</code>}
    </li>
  );
}
