import { traceHeaders } from "../../observe/trace.ts";
import { listImages } from "../../store/generations.ts";
import { optionalExtras, type RenderTask } from "../engine.ts";
import { frameSize, needsFamily } from "../frame-size.ts";
import { findCreatedId, findFinishedVideo, findJob, readComplaints, type ServerReply } from "../upstream/reply.ts";
import { peek, saveReply } from "../upstream/reply-video.ts";
import {
  classifyReply,
  prepare,
  type SubmitOptions,
  type SubmitOutcome,
  submitOnce,
  toNotSubmitted,
  type Unpaid,
} from "../upstream/submit.ts";
import { retryForeverOptions } from "../upstream/upstream.ts";
import { encodeBody } from "./encode.ts";
import { type CreateBody, ignoredFieldsOf, type Kind } from "./kinds.ts";
import { fetchOffers } from "./offers.ts";
import type { Server } from "./server.ts";

/** Submits a task to a server, at most once. A create that was refused for fields that the server does not have is sent again without them. */
export async function submitVideo(task: RenderTask, server: Server, options: SubmitOptions): Promise<SubmitOutcome> {
  const { url, onNote } = server;
  const outcome = await tryOnce(task, server, { ...options, droppedFields: [] });
  if (outcome.kind !== "refused" || outcome.fields.length === 0) return outcome;
  const { fields, reason } = outcome;
  const { olderNames = {} } = await server.findKind(options.signal);
  const older = fields.flatMap((name) => olderNames[name] ?? []).join(", ");
  const dropped = fields.length === 1 ? "it" : "them";
  const change = older === "" ? `without ${dropped}` : `with ${older} in its place`;
  const imageChange = fields.includes("image_reference") ? ", and with the image in another field" : "";
  onNote(`${url} refuses ${fields.join(", ")} (${reason}). Submitting ${change}${imageChange}.`);
  return tryOnce(task, server, { ...options, droppedFields: fields });
}

/** `fields` are those without which a refused create may be sent again. */
type Attempted =
  | Exclude<SubmitOutcome, { kind: "refused" }>
  | (Extract<SubmitOutcome, { kind: "refused" }> & { reason: string; fields: string[] });

async function tryOnce(
  task: RenderTask,
  server: Server,
  { droppedFields, ...options }: SubmitOptions & { droppedFields: string[] },
): Promise<Attempted> {
  let kind: Kind;
  try {
    kind = await server.findKind(options.signal);
  } catch (error) {
    options.signal.throwIfAborted();
    return toNotSubmitted(error);
  }
  const ignoredFields = droppedFields.length === 0 ? ignoredFieldsOf(kind, task) : [];
  if (ignoredFields.length > 0) server.noteOnce(`${server.url}: ${kind.title} ignores ${ignoredFields.join(", ")}.`);
  const servedModel = await findServedModel(task, kind, server, options.signal);
  const { body, encoded } = await prepare(async () => {
    const body = kind.createBody(task, server.upstreamModel, { droppedFields, servedModel });
    return { body, encoded: await encodeBody(body) };
  });
  const encodedBody = { ...encoded, headers: { ...encoded.headers, ...traceHeaders(task.request) } };
  const replaceableFields = body.imageField && body.hasOtherImageField ? [body.imageField.name] : [];
  return submitOnce(
    async (signals) => {
      const { reply, isVideo } = await peek(await server.create(encodedBody, signals));
      const isSuccess = reply.status >= 200 && reply.status < 300;
      const keepVideo = async (video: Pick<typeof reply, "body">): Promise<Attempted> => {
        const { signal, onPart } = signals;
        await saveReply(video, task.file, { ...retryForeverOptions(server, signal), onPart });
        return { kind: "submitted", submitted: { savedFile: task.file } };
      };
      if (isSuccess && isVideo) return keepVideo(reply);
      const read = await server.read(reply, { maxBytes: maxReplyBytes });
      const finished = isSuccess ? findFinishedVideo(read) : undefined;
      if (finished && "bytes" in finished) return keepVideo({ body: chunksOf(finished.bytes) });
      if (finished) return { kind: "submitted", submitted: { videoUrl: new URL(finished.address, server.url).href } };
      return classify(read, server, { body, sentFields: [...Object.keys(body.fields), ...replaceableFields] });
    },
    server,
    { ...options, drawnSeed: body.drawnSeed },
  );
}

/** Some servers reply with the video itself, in base64. */
const maxReplyBytes = 64_000_000;

/** Returns the model of a server that serves only one model, if the size of the frame depends on that model. */
async function findServedModel(
  { request }: RenderTask,
  kind: Kind,
  { url, headers, upstreamModel, io, fetch }: Server,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (upstreamModel !== undefined || !kind.servesOneModel || !needsFamily(request.model, frameSize(request)))
    return undefined;
  const [first, ...others] = await fetchOffers({ url, kind, headers }, { fetch, limit: io.limit }, signal).catch(
    () => [],
  );
  signal.throwIfAborted();
  return others.length === 0 ? first?.id : undefined;
}

function classify(
  reply: ServerReply,
  { url }: Server,
  { body, sentFields }: { body: CreateBody; sentFields: string[] },
): Attempted | Unpaid {
  const { status } = reply;
  const isSuccess = status >= 200 && status < 300;
  const job = isSuccess ? findCreatedId(reply) : findJob(reply)?.id;
  if (job !== undefined) return { kind: "submitted", submitted: { job } };
  const classified = classifyReply(reply, String(body.fields.prompt ?? ""));
  if (classified.kind !== "refused") return classified;
  const tooOldReason = findTooOldReason(reply, body);
  const { reason } = classified;
  const why = tooOldReason === undefined ? reason : `${tooOldReason} (${reason})`;
  return {
    ...classified,
    error: `${url} refused the request: ${why}`,
    fields: findUnknownFields(reply, sentFields),
  };
}

/** How vLLM-Omni refuses a list where it accepts only one object, because its message contains two errors of Pydantic. */
const wantsOneImage = /\bimage_reference\b.*\b(dictionary|model_type)\b|expected dict, got list/s;

function findTooOldReason(reply: ServerReply, { images, imageField }: CreateBody): string | undefined {
  const isList = imageField?.name === "image_reference" && listImages(images).length > 1;
  if (!isList || !readComplaints(reply).some((words) => wantsOneImage.test(words))) return undefined;
  return `this server is too old for several ${images.references?.length ? "references" : "images"}`;
}

/**
 * The fields that can be left out of a create when its server says that it does not have them: the video then has the server's own length, size or
 * format, and an image goes to another field. A field whose value is refused is never left out, because a video would be paid for that is not the
 * requested one.
 */
const droppableFields = [...optionalExtras, ...["seconds", "size", "width", "height", "format", "image_reference"]];
const unknownField =
  /extra_forbidden|UnsupportedParams|(extra|unknown|unexpected|unrecogni[sz]ed) (\w+ )?(field|input|param|arg|key)/i;

/** Finds the fields of a create that its refusal calls unknown, and that can be left out. */
function findUnknownFields(reply: ServerReply, sentFields: string[]): string[] {
  const unknown = readComplaints(reply)
    .filter((words) => unknownField.test(words))
    .flatMap((words) => words.match(/\w+/g) ?? [])
    .filter((word) => droppableFields.includes(word));
  // A server accepts both of these or neither.
  if (unknown.some((name) => name === "width" || name === "height")) unknown.push("width", "height");
  return sentFields.filter((name) => unknown.includes(name));
}

async function* chunksOf(bytes: Uint8Array) {
  yield bytes;
}
