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
  { upstream, ...options }: { upstream: Upstream } & FollowJobOptions & Pick<RenderOptions, "confirm" | "charged">,
): Promise<RenderOutcome> {
  if ("saved" in submitted) {
    const { saved } = submitted;
    return takeSaved({ saved, file, name: upstream.name }, retryForeverOptions(upstream, options.signal));
  }
  if ("finished" in submitted) {
    await save(submitted, file, { upstream, ...options });
    return { kind: "made", hasThumbnail: false };
  }
  const { job } = submitted;
  const { failure, cost, ...ended } = await follow(job, upstream, options);
  if (failure !== undefined && ended.status === "unclear") return { kind: "unclear", reason: failure };
  if (failure !== undefined) return { kind: "refused", error: failure, code: ended.code, cost };
  if (cost !== undefined) options.charged?.(cost);
  await save({ ...ended, job }, file, { upstream, ...options });
  const { discard } = upstream;
  return { kind: "made", hasThumbnail: false, cost, discard: discard && ((signal) => discard(job, signal)) };
}
