import { VidgenError } from "../../../errors.ts";
import { defaultJobs, type Engine } from "../engine.ts";
import { finish } from "../upstream/finish.ts";
import { describe } from "../upstream/upstream.ts";
import { cancel } from "./cancel.ts";
import { checkKey, detectKind } from "./detect.ts";
import { maxImagesOf, otherImagesOf } from "./kinds.ts";
import { fetchOffers, findFault, type Offer } from "./offers.ts";
import { createServer, type ServerIo, type ServerOptions } from "./server.ts";
import { submitVideo } from "./submit.ts";

export type VideosOptions = ServerOptions &
  Pick<Engine, "models"> & {
    /** How many generations it makes at the same time; what its kind can unless given. */
    concurrency: number | undefined;
  };

/**
 * Returns the engine for a server of real models that has the `/v1/videos` endpoints. Its checkpoint is the name of the job there; a job is
 * never started twice, and goes on there when this process ends.
 */
export function createVideosEngine(options: VideosOptions, io: ServerIo): Engine {
  const { url, models, concurrency } = options;
  const server = createServer(options, io);
  const { kind, upstreamModel } = options;
  const findOffers = createOfferCache(
    () => fetchOffers({ url, kind, headers: {} }, io, new AbortController().signal),
    io,
  );
  const cancelJob = (job: string, signal: AbortSignal) => cancel(job, server, signal);
  return {
    name: url,
    upstreamModel: options.upstreamModel,
    isSimulation: false,
    models,
    maxImages: maxImagesOf(options.kind),
    ...otherImagesOf(options.kind),
    // Its kind may be found out only when it gets the first create, which is alone.
    get concurrency() {
      return concurrency ?? server.knownKind()?.jobs ?? defaultJobs;
    },
    timeoutMs: options.timeoutMs,
    async render(task, { resume, ...rest }) {
      const how = { upstream: server, cancel: cancelJob, ...rest };
      if (resume && "job" in resume) return finish({ job: resume.job }, task, how);
      if (resume?.state === "finished") return finish({ finished: resume.url }, task, how);
      const outcome = await submitVideo(task, server, rest);
      return outcome.kind === "submitted" ? finish(outcome.submitted, task, how) : outcome;
    },
    cancel: cancelJob,
    ...(kind?.provider && {
      async findFault(request) {
        const id = upstreamModel ?? kind.provider?.models[request.model];
        const offer = (await findOffers())?.find((each) => each.id === id);
        return offer && findFault(offer, request);
      },
    }),
    async check(signal) {
      const detected = await detectKind(server, io, signal).catch((error) => {
        throw error instanceof VidgenError ? error : new Error(`does not answer (${describe(error)})`);
      });
      const kind = options.kind ?? detected;
      if (!kind)
        throw new Error(`is no kind of server that vidgen recognizes; name its kind with --engine kind:${url}`);
      await checkKey(server, kind, { io, signal });
      return kind.title;
    },
  };
}

const offersLastMs = 10 * 60_000;
/** A start waits so long for a list: what it would be refused for, the provider refuses as well. */
const offersWaitMs = 1_000;

/** Keeps a list, asks for a new one every ten minutes, and serves the old one meanwhile; `undefined` where there is none yet. */
function createOfferCache(fetchList: () => Promise<Offer[]>, { now, sleep }: Pick<ServerIo, "now" | "sleep">) {
  let list: Offer[] | undefined;
  let askedAt = Number.NEGATIVE_INFINITY;
  let asking: Promise<void> | undefined;
  const ask = async () => {
    askedAt = now();
    list = await fetchList().catch(() => list);
    asking = undefined;
  };
  return async () => {
    if (now() - askedAt > offersLastMs) asking ??= ask();
    if (list !== undefined || asking === undefined) return list;
    const enough = new AbortController();
    await Promise.race([asking, sleep(offersWaitMs, enough.signal).catch(() => {})]);
    enough.abort();
    return list;
  };
}
