import { VidgenError } from "../../../errors.ts";
import type { Images, RenderRequest } from "../../store/generations.ts";
import { defaultJobs, type Engine, requiredExtras } from "../engine.ts";
import { describeShapeFault } from "../frame-size.ts";
import { resumeOrSubmit } from "../upstream/finish.ts";
import { describeCheck } from "../upstream/upstream.ts";
import { cancel } from "./cancel.ts";
import { checkKey, detectKind } from "./detect.ts";
import { ignoredFieldsOf, type Kind, maxImagesOf, otherImagesOf } from "./kinds.ts";
import { fetchOffers, findFault, listedResolution, type Offer, passesOf } from "./offers.ts";
import { createServer, type ServerIo, type ServerOptions } from "./server.ts";
import { submitVideo } from "./submit.ts";

export type VideosOptions = ServerOptions &
  Pick<Engine, "models"> & {
    /** How many generations it runs at the same time; by default as many as its kind can. */
    concurrency: number | undefined;
  };

/**
 * Returns the engine for a server of real models that has the `/v1/videos` endpoints. The checkpoint is the id of the server's job. A job is never
 * started twice, and continues at the server when this process ends.
 */
export function createVideosEngine(options: VideosOptions, io: ServerIo): Engine {
  const { url, models, concurrency } = options;
  const server = createServer(options, io);
  const { upstreamModel } = options;
  const findOffers = createOfferCache(
    () => fetchOffers({ url, kind: server.knownKind(), headers: {} }, io, new AbortController().signal),
    io,
  );
  /** The model in the list of a provider; `undefined` while there is no list, or if the list does not have it. */
  const findOffer = async (model: string, { models }: NonNullable<Kind["provider"]>) => {
    const id = upstreamModel ?? models[model];
    return (await findOffers())?.find((each) => each.id === id);
  };
  /** Replaces a resolution by the name that the provider's list has for it. */
  const withListedNames = async (request: RenderRequest): Promise<RenderRequest> => {
    const provider = server.knownKind()?.provider;
    const offer = provider && (await findOffer(request.model, provider));
    return { ...request, resolution: listedResolution(request.resolution, offer?.resolutions) ?? request.resolution };
  };
  const cancelJob = (job: string, signal: AbortSignal) => cancel(job, server, signal);
  return {
    name: url,
    upstreamModel: options.upstreamModel,
    isSimulation: false,
    models,
    maxImages: maxImagesOf(options.kind),
    ...otherImagesOf(options.kind),
    isInconsistent: server.isInconsistent,
    // Its kind may be unknown until the first create, which runs alone.
    get concurrency() {
      return concurrency ?? server.knownKind()?.jobs ?? defaultJobs;
    },
    timeoutMs: options.timeoutMs,
    render(task, options) {
      const submit = async () =>
        submitVideo({ ...task, request: await withListedNames(task.request) }, server, options);
      return resumeOrSubmit(task, submit, { upstream: server, cancel: cancelJob, ...options });
    },
    cancel: cancelJob,
    async findFault(request) {
      const known = server.knownKind();
      if (!known?.provider) return describeShapeFault(request) ?? (known && findIgnored(known, request));
      const offer = await findOffer(request.model, known.provider);
      return offer && findFault(offer, request);
    },
    async listPrices(model) {
      const known = server.knownKind();
      const { prices } = (known?.provider && (await findOffer(model, known.provider))) ?? {};
      return prices && { source: known?.title ?? url, prices };
    },
    async passes(model) {
      const known = await server.findKind(new AbortController().signal).catch(() => undefined);
      if (!known?.provider) return known && { names: known.passes ?? [], written: known.writtenFields };
      const offer = await findOffer(model, known.provider);
      return offer && { ...passesOf(offer), written: known.writtenFields };
    },
    async check(signal) {
      const detected = await detectKind(server, io, signal).catch((error) => {
        throw error instanceof VidgenError ? error : new Error(describeCheck(error));
      });
      const usedKind = options.kind ?? detected;
      if (!usedKind)
        throw new Error(`is no kind of server that vidgen recognizes; name its kind with --engine kind:${url}`);
      await checkKey(server, usedKind, { io, signal });
      return usedKind.title;
    },
  };
}

/** A server that drops such a field would make another video. */
function findIgnored(kind: Kind, request: RenderRequest & Images<unknown>): string | undefined {
  const [field] = ignoredFieldsOf(kind, { ...request, request }).filter((name) => requiredExtras.includes(name));
  return field && `${kind.title} ignores ${field}`;
}

const offersLastMs = 10 * 60_000;
/** The maximum time that a start waits for a list. Without the list, the provider itself refuses an invalid request. */
const offersWaitMs = 1_000;

/** Caches a list and fetches a new one every ten minutes, while it serves the old one; `undefined` while there is no list yet. */
function createOfferCache(fetchList: () => Promise<Offer[]>, { now, sleep }: Pick<ServerIo, "now" | "sleep">) {
  let list: Offer[] | undefined;
  let fetchedAt = Number.NEGATIVE_INFINITY;
  let fetching: Promise<void> | undefined;
  const refresh = async () => {
    fetchedAt = now();
    list = await fetchList().catch(() => list);
    fetching = undefined;
  };
  return async () => {
    if (now() - fetchedAt > offersLastMs) fetching ??= refresh();
    if (list !== undefined || fetching === undefined) return list;
    const listArrived = new AbortController();
    await Promise.race([fetching, sleep(offersWaitMs, listArrived.signal).catch(() => {})]);
    listArrived.abort();
    return list;
  };
}
