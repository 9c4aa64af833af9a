import type { Child } from "hono/jsx";
import type { DeliveryRecord, StoredGeneration } from "../store/store.ts";
import { durationText } from "./formatting.ts";
import { Time } from "./layout.tsx";

export type TimelineProps = {
  generation: StoredGeneration;
  percent: number | undefined;
  delivery: DeliveryRecord | undefined;
  now: Date;
};

/** What happened to a generation, oldest first. */
export function Timeline({ generation, percent, delivery, now }: TimelineProps) {
  const { created_at, completed_at, status, checkpoint } = generation;
  return (
    <ol class="timeline" data-part="timeline">
      <Step at={created_at} now={now} title="Started" />
      {checkpoint === null ? null : (
        <Step at={checkpoint.at} now={now} title={checkpointText(checkpoint)}>
          {checkpoint.state === "submitted" ? <code>{checkpoint.job}</code> : null}
        </Step>
      )}
      {status === "processing" ? (
        <Step
          now={now}
          kind="running"
          title={percent === undefined ? "Running" : `Running, ${Math.round(percent)} %`}
        />
      ) : (
        <Step
          at={completed_at ?? created_at}
          now={now}
          kind={status}
          title={`${status === "completed" ? "Completed" : "Failed"} after ${tookText(created_at, completed_at)}`}
        />
      )}
      {delivery?.attempts.map(({ at, outcome, delivered }, index) => (
        <Step at={at} now={now} kind={delivered ? "completed" : "failed"} title={`Callback, attempt ${index + 1}`}>
          <span class="outcome">{outcome}</span>
        </Step>
      ))}
      {delivery?.next_at ? (
        <Step at={delivery.next_at} now={now} kind="running" title="Next attempt of the callback" />
      ) : null}
    </ol>
  );
}

function checkpointText({ state, engine }: NonNullable<StoredGeneration["checkpoint"]>): string {
  if (state === "rendering") return `Rendered by ${engine}`;
  return state === "submitting" ? `Being submitted to ${engine}` : `Submitted to ${engine}`;
}

function tookText(from: string, to: string | null): string {
  return durationText(Math.max(0, Date.parse(to ?? from) - Date.parse(from)));
}

type StepProps = { at?: string; now: Date; title: string; kind?: string; children?: Child };

function Step({ at, now, title, kind = "", children }: StepProps) {
  return (
    <li class={kind}>
      <span class="title">{title}</span>
      {at === undefined ? null : <Time at={at} now={now} />}
      {children}
    </li>
  );
}
