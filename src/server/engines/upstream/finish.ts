import type { RenderOptions, RenderOutcome, RenderTask } from "../engine.ts";
import { type FollowJobOptions, follow } from "./follow.ts";
import { takeSaved } from "./reply-video.ts";
import { save } from "./save.ts";
import type { SubmitOutcome, Submitted } from "./submit.ts";
import { retryForeverOptions, type Upstream } from "./upstream.ts";

type FinishOptions = { upstream: Upstream } & FollowJobOptions & Pick<RenderOptions, "confirm" | "reportCharge">;

/** Makes a task's video: follows the job of the checkpoint, or else submits the task. Rejects as `finish` and `submit` do. */
export async function resumeOrSubmit(
  task: RenderTask,
  submit: () => Promise<SubmitOutcome>,
  { resume, ...options }: FinishOptions & Pick<RenderOptions, "resume">,
): Promise<RenderOutcome> {
  if (resume && "job" in resume) return finish({ job: resume.job }, task, options);
  if (resume?.state === "finished") return finish({ videoUrl: resume.url }, task, options);
  const outcome = await submit();
  return outcome.kind === "submitted" ? finish(outcome.submitted, task, options) : outcome;
}

/** Follows a submitted job until it ends, and saves its video as `file`. Rejects as `follow` and `save` do. */
export async function finish(
  submitted: Submitted,
  { file }: { file: string },
  { upstream, ...options }: FinishOptions,
): Promise<RenderOutcome> {
  if ("savedFile" in submitted) {
    const { savedFile } = submitted;
    return takeSaved({ savedFile, file, name: upstream.name }, retryForeverOptions(upstream, options.signal));
  }
  if ("videoUrl" in submitted) {
    await save(submitted, file, { upstream, ...options });
    return { kind: "made", hasThumbnail: false };
  }
  const { job } = submitted;
  const { failedWith, failure, cost, ...endedJob } = await follow(job, upstream, options);
  if (failedWith !== undefined && endedJob.status === "unclear") return { kind: "unclear", reason: failedWith };
  if (failedWith !== undefined) return { kind: "refused", error: failedWith, failure, code: endedJob.code, cost };
  if (cost !== undefined) options.reportCharge?.(cost);
  await save({ ...endedJob, job }, file, { upstream, ...options });
  const { discard } = upstream;
  return { kind: "made", hasThumbnail: false, cost, discard: discard && ((signal) => discard(job, signal)) };
}
