import type { RenderOptions, RenderOutcome } from "../engine.ts";
import { type FollowJobOptions, follow } from "./follow.ts";
import { takeSaved } from "./reply-video.ts";
import { save } from "./save.ts";
import type { Submitted } from "./submit.ts";
import { retryForeverOptions, type Upstream } from "./upstream.ts";

/** Follows a submitted job until it ends, and saves its video as `file`. Rejects as `follow` and `save` do. */
export async function finish(
  submitted: Submitted,
  { file }: { file: string },
  { upstream, ...options }: { upstream: Upstream } & FollowJobOptions & Pick<RenderOptions, "confirm" | "reportCharge">,
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
