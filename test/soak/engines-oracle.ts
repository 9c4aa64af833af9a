import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { StoredGeneration } from "../../src/server/store/generations.ts";
import { timeoutMs } from "./engines-faults.ts";
import { isPaid, type Sent, videoOf } from "./engines-network.ts";
import { engineUrl } from "./engines-process.ts";
import type { Story } from "./engines-world.ts";

/** What a run did wrong, in words: what the engine and the network have seen, against what the service says. */
export function judge(story: Story, folder: string): string[] {
  const faults = story.generations.flatMap((generation) => {
    const found = [...judgeCreates(generation, story), ...judgeEnd(generation, story, folder)];
    return found.map((fault) => `${generation.request.prompt}: ${fault}`);
  });
  const wanted = story.generations.flatMap(({ status, id }) => (status === "completed" ? [`${id}.mp4`] : []));
  const files = readdirSync(folder).filter((name) => !name.startsWith("."));
  if (files.sort().join() !== wanted.sort().join()) faults.push(`the files are ${files}, not ${wanted}`);
  return faults;
}

function judgeCreates({ request: { prompt } }: StoredGeneration, story: Story): string[] {
  const { fake, sent, trouble } = story;
  const taken = fake.creates.filter(({ fields, isAccepted }) => isAccepted && fields.prompt === prompt).length;
  const risked = sent.filter((entry) => entry.prompt === prompt && entry.outcome !== "refused").length;
  // It is asked for the job before the create is sent again: that misses what it forgot, and what reaches it later.
  if (isLookedUp(story))
    return taken > 1 && !trouble.live && !trouble.isLate ? [`the engine took ${taken} creates`] : [];
  return [
    ...(taken > 1 ? [`the engine took ${taken} creates`] : []),
    ...(risked > 1 ? [`${risked} creates were sent that the engine may have taken`] : []),
  ];
}

function judgeEnd(generation: StoredGeneration, story: Story, folder: string): string[] {
  const { status, checkpoint } = generation;
  // The others wait for its place.
  const staysOpen = story.trouble.staysOpen && isPaid(story.kind) && checkpoint?.state !== "submitting";
  if (status === "processing") return staysOpen ? [] : ["it is processing for ever"];
  if (generation.status === "completed") return judgeVideo(generation, story, folder);
  const error = generation.error ?? "";
  return isTrue(error, generation, story) ? [] : [`it failed without a good reason: ${error}`];
}

function judgeVideo({ request, media, checkpoint }: StoredGeneration, { jobs }: Story, folder: string): string[] {
  const job = checkpoint?.state === "submitted" ? jobs.get(checkpoint.job) : undefined;
  if (job?.create.fields.prompt !== request.prompt) return [`its job is another one's: ${JSON.stringify(checkpoint)}`];
  const file = join(folder, media?.file ?? "none");
  const bytes = existsSync(file) ? readFileSync(file) : Buffer.alloc(0);
  return bytes.equals(videoOf(job)) && media?.size === bytes.length ? [] : ["its file is not its job's video"];
}

/** Whether a generation failed for the reason that it names, and had to. */
function isTrue(error: string, generation: StoredGeneration, story: Story): boolean {
  const { sent, jobs, interrupted, trouble } = story;
  const { checkpoint, request } = generation;
  const own = sent.filter(({ prompt }) => prompt === request.prompt);
  const isExcused = trouble.excuse?.test(error) ?? false;
  if (checkpoint === null) return isExcused && (isLookedUp(story) || own.every(({ outcome }) => outcome === "refused"));
  // It could be asked whether it has the job.
  if (checkpoint.state === "unconfirmed") return isExcused && error.includes(engineUrl);
  if (checkpoint.state === "submitting") {
    const isNamed = error.includes(engineUrl) && error.includes("it was not submitted again");
    return isNamed && (interrupted.has(request.prompt) || own.some(isUnclear));
  }
  if (checkpoint.state !== "submitted") return false;
  const failure = jobs.get(checkpoint.job)?.end?.failure;
  return failure ? error === failure.message : isExcused && error.includes(engineUrl);
}

function isLookedUp({ kind }: Story): boolean {
  return kind === "comfyui";
}

/** The service did not get a reply that tells a job within its time limit. */
function isUnclear({ outcome, sentAtMs, repliedAtMs = Number.POSITIVE_INFINITY }: Sent): boolean {
  return outcome === "unclear" && repliedAtMs - sentAtMs >= timeoutMs;
}
