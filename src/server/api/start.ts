import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { HTTPException } from "hono/http-exception";
import * as z from "zod";
import type { Clock } from "../../io.ts";
import { fieldSpellings, flattenName, imageFields } from "../../protocol/fields.ts";
import { sortMembers } from "../../protocol/json.ts";
import { holdsHash } from "../../protocol/secrets.ts";
import { localAccount } from "../announcement.ts";
import { type Capacity, createCapacity } from "../capacity.ts";
import {
  addressesIn,
  documentedExtras,
  exclusionOf,
  findPassedFault,
  namesOf,
  splitExtras,
} from "../engines/passed.ts";
import { createBodyMemory } from "../http/body-memory.ts";
import type { FieldNames } from "../http/input.ts";
import {
  type ApiContext,
  defaultBodyBytes,
  type JsonBody,
  parseJson,
  readBody,
  refuse,
  retryAfter,
  withoutNulls,
} from "../http/message.ts";
import { readTraceparent } from "../observe/trace.ts";
import type { FindImageFault } from "../outbound/outbound.ts";
import { findImageFault } from "../queue/images.ts";
import type { ServiceParts } from "../service-parts.ts";
import { sumPayments } from "../store/accounts.ts";
import type { Idempotency, Label, StartOutcome, StoredGeneration, StoredRequest } from "../store/generations.ts";
import type { Limited } from "../store/limits.ts";
import type { Store } from "../store/store.ts";
import { refuseDisabled, refuseUnknownKey } from "./accounts.ts";
import { readIdempotencyKey, refuseKey, setReplayed } from "./idempotency.ts";
import {
  id,
  idempotencyKey,
  named,
  type Operation,
  parameters,
  refusal,
  reply,
  requestBody,
  retryAfterHeader,
  time,
} from "./openapi/operation.ts";
import { type PriceOptions, priceOf } from "./price.ts";
import { createStartReader, hasOtherImages, type StartRequest, startSchema } from "./start-body.ts";
import { processingExample } from "./status.ts";

/** Enough for images of 20 MB in `data:` URLs, and a prompt. */
const maxBodyBytes = 28_000_000;

/** The maximum number of bytes in memory for bodies with images; a body that does not fit is refused. */
const maxLargeBytes = 200_000_000;

/** The same limit for bodies without images, so that bodies with images cannot use up their memory. */
const maxSmallBytes = 100_000_000;

/** How many bodies with images are handled at a time, because each takes some 150 MB until it is stored. The others wait as bytes. */
const maxLargeBodies = 4;

export type StartOptions = PriceOptions &
  Pick<ServiceParts, "hasDirectives" | "hasPassthrough" | "onStart"> & {
    store: Pick<Store, "start" | "findStart" | "ledger">;
    clock: Pick<Clock, "date">;
    /** Finds what is wrong with the address of an image. */
    findImageFault?: FindImageFault | undefined;
    /** The engines that no process uses: generations submitted to them wait, and do not count as running. */
    missing?: (() => readonly string[]) | undefined;
    /** Sends the reply to a start: the body as JSON unless something else is given. */
    respond?: Respond;
  };

/** A start, the credits that it was charged, and what its request may not have meant, as sentences. */
type Started = StartOutcome & { kind: "started"; credits_charged: number; warnings: readonly string[] };

export type Respond = (c: ApiContext, started: Started, body: object) => Response | Promise<Response>;

/** The body of a start; `nulls` are the names of the fields that were null. */
export type StartBody = JsonBody & { nulls?: readonly string[] };

/** How one of the APIs writes a start and its reply. */
export type StartFormat = {
  /** The media types of its bodies. */
  types: readonly string[];
  /**
   * Returns the fields of a body by the interface's names, without those that are null, and the JSON text by which a repeated body is recognized.
   * Throws a refusal.
   */
  read(c: ApiContext, bytes: Uint8Array): StartBody | Promise<StartBody>;
  /** The names that this API uses for the fields of the interface, where they differ. */
  names?: FieldNames;
  reply(started: Started): object;
};

const startHeaders = {
  "Idempotency-Key": idempotencyKey.optional().meta({
    description:
      'A String such as "fox-1", with or without its quotes. A request that repeats both the key and the body gets the same reply, with `Idempotent-Replayed: true`, and nothing is charged; the order of members and white space do not count. The header `Idempotency-Key-Lifetime` of each reply is the number of seconds for which a key is remembered.',
  }),
  "Vidgen-Label": z.string().optional().meta({
    description:
      "A label, such as the name of a batch, by which the page groups generations: percent-encoded, at most 200 characters.",
  }),
  "Vidgen-Label-Size": z
    .int()
    .min(1)
    .optional()
    .meta({ description: "How many generations will have that label, for the estimate of the remaining time." }),
};

const otherBody = "this Idempotency-Key was already used with another body; nothing was charged";

/** The common parts of the operations that start a generation. */
export const startCommon = {
  description:
    "If you get no reply, repeat the request only with the same Idempotency-Key: the first request may have been charged.",
  parameters: parameters("header", startHeaders),
  refusals: {
    ...refusal(400, "invalid_prompt", "prompt is missing"),
    ...refusal(402, "insufficient_credits", "one generation costs 10 credits; the account has fewer"),
    ...refusal(413, "body_too_large", "the body is larger than 28 MB"),
    ...refusal(422, "idempotency_key_reused", otherBody),
    ...refusal(
      429,
      "too_many_running",
      "this account may have 1 unfinished generations at once; nothing was charged",
      retryAfterHeader,
    ),
  },
};

/** Part of the reply of both APIs. */
export const warningsSchema = z
  .array(z.string())
  .optional()
  .meta({ description: "What the request may not have meant, such as an image that is null." });

const startedSchema = named("Started", {
  success: z.literal(true),
  data: z.object({ id, status: z.literal("processing"), model: z.string(), prompt: z.string(), created_at: time }),
  credits_charged: z.number().meta({ description: "What this generation costs." }),
  remaining_credits: z.number(),
  warnings: warningsSchema,
});

const fox = { prompt: "a red fox runs through snow at dusk", model: "veo-3.1" };
const { video_url, thumbnail_url, ...started } = processingExample;

export const startOperation: Operation = {
  operationId: "start",
  summary: "Starts a generation, which is charged",
  description: startCommon.description,
  parameters: startCommon.parameters,
  requestBody: requestBody(startSchema, { ...fox, aspectRatio: "16:9", duration: 5 }),
  responses: {
    200: reply("It has started", startedSchema, {
      success: true,
      data: { ...started, ...fox },
      credits_charged: 10,
      remaining_credits: 990,
    }),
    ...startCommon.refusals,
    ...refusal(415, "unsupported_media_type", "the body must be application/json"),
  },
};

/** POST /api/generate, the interface's start. */
export const generateFormat: StartFormat = { types: ["application/json"], read: readGenerate, reply: startBody };

function readGenerate(c: ApiContext, bytes: Uint8Array): StartBody {
  return withoutNulls(parseJson(c, bytes));
}

/** Creates the route that starts a generation by one of the APIs. */
export type StartRoutes = (format: StartFormat) => (c: ApiContext) => Promise<Response>;

/** What all routes that start a generation share. */
type Starting = {
  options: StartOptions;
  readStart: ReturnType<typeof createStartReader>;
  /** Limits how many bodies with images are handled at a time. */
  largeBodies: Capacity;
  /** The memory for bodies with images, and for those without. */
  openLarge: ReturnType<typeof createBodyMemory>;
  openSmall: ReturnType<typeof createBodyMemory>;
};

/**
 * Returns a function that creates the routes that start a generation: there is no other way to start one. A repeated
 * Idempotency-Key with the same body gets the same reply, and nothing is charged.
 */
export function createStartRoutes(options: StartOptions): StartRoutes {
  const { respond = (c, _, body) => c.json(body) } = options;
  const starting: Starting = {
    options,
    readStart: createStartReader(options),
    largeBodies: createCapacity(maxLargeBodies),
    openLarge: createBodyMemory(maxLargeBytes),
    openSmall: createBodyMemory(maxSmallBytes),
  };
  return (format) => async (c) => {
    const started = await receive(c, format, starting);
    const { warnings } = started;
    if (started.replayed) setReplayed(c);
    return respond(c, started, { ...format.reply(started), ...(warnings.length > 0 && { warnings }) });
  };
}

/** Receives a start and executes it. A client that sends slowly uses only the memory for what it has sent. */
async function receive(c: ApiContext, format: StartFormat, starting: Starting): Promise<Started> {
  const { openLarge, openSmall, largeBodies } = starting;
  const isLarge = mayBeLarge(c);
  const arriving = (isLarge ? openLarge : openSmall)(c.var.account);
  try {
    const bytes = await readBody(c, { maxBytes: maxBodyBytes, types: format.types, arriving });
    const accepting = () => accept(c, bytes, { ...starting, format });
    return await (isLarge ? largeBodies(1, accepting) : accepting());
  } finally {
    arriving.release();
  }
}

async function accept(
  c: ApiContext,
  bytes: Uint8Array,
  { format, ...starting }: Starting & { format: StartFormat },
): Promise<Started> {
  const { store } = starting.options;
  const { text, json, earlierTexts, nulls = [] } = await format.read(c, bytes);
  const key = readIdempotencyKey(c);
  const idempotency = key === undefined ? undefined : { key, body: text, earlierBodies: earlierTexts };
  const started = await start(c, { json, names: format.names, idempotency }, starting).catch(async (error) => {
    // The reply to a used key stays the same, even if the start would be refused now: engines or limits may have changed.
    if (!(error instanceof HTTPException) || !idempotency) throw error;
    const earlier = await store.findStart(c.var.account, idempotency);
    if (earlier?.kind !== "started") throw error;
    return { ...(await replay(earlier, store)), warnings: [] };
  });
  const { id, request } = started.generation;
  c.set("id", id);
  c.set("model", request.model);
  const nullMedia = nulls.filter((name) => mediaNames.includes(name));
  return { ...started, warnings: [...nullMedia.map(nullWarning), ...started.warnings] };
}

type ParsedStart = Pick<JsonBody, "json"> & { names: FieldNames | undefined; idempotency: Idempotency | undefined };

async function start(
  c: ApiContext,
  { json, names, idempotency }: ParsedStart,
  { options, readStart }: Starting,
): Promise<Started> {
  const { account } = c.var;
  const { doubled } = idempotency ? sortMembers(idempotency.body) : {};
  if (doubled !== undefined)
    throw refuse(400, "invalid_json", `the body has ${doubled.slice(0, 100)} twice; nothing was charged`);
  const { request, callback_url } = readStart(json, names);
  const findAddressFault = (url: string) => options.findImageFault?.(url, account);
  const warnings = await checkUnknown(request, { ...options, account, json, names, findAddressFault });
  await checkLimits(request, options.engines, names);
  checkImages(request, findAddressFault);
  c.set("model", request.model);
  const traceparent = readTraceparent(c.req.header("traceparent"));
  const label = readLabel(c);
  const metadata = { ...(traceparent !== undefined && { traceparent }), ...(label && { label }) };
  const requested = { request: { ...request, ...metadata }, callback_url };
  const generation = newGeneration(account, requested, options.clock.date());
  const cost = priceOf(request.model, account, options);
  const outcome = await options.store.start(generation, cost, idempotency, options.missing?.());
  if (outcome.kind === "no credits") throw notEnoughCredits(cost);
  if (outcome.kind === "no account") throw refuseUnknownKey();
  if (outcome.kind === "disabled") throw refuseDisabled(account);
  if (outcome.kind === "limited") throw tooMany(outcome);
  if (outcome.kind === "key reused") throw refuseKey(422, "idempotency_key_reused", otherBody);
  if (outcome.replayed) return { ...(await replay(outcome, options.store)), warnings };
  options.onStart?.(generation, cost);
  return { ...outcome, credits_charged: cost, warnings };
}

/** Returns an earlier start with what it was charged, from the ledger, because the price of the model may have changed since. */
async function replay(outcome: StartOutcome & { kind: "started" }, store: Pick<Store, "ledger">) {
  const entries = await store.ledger({ generation: outcome.generation.id, limit: 10 });
  return { ...outcome, credits_charged: sumPayments(entries).paid };
}

type UnknownOptions = Pick<StartOptions, "engines" | "hasPassthrough"> & {
  account: string;
  /** The fields of the start by the interface's names, and this API's names for them. */
  json: unknown;
  names: FieldNames | undefined;
  findAddressFault(url: string): string | undefined;
};

/**
 * Refuses fields that vidgen does not know and that no engine takes together, before anything is charged. `request.names` then has what an engine
 * must take to get the generation. A preview takes each field, and the warning that is returned says that it does not show it.
 */
async function checkUnknown(
  request: StoredRequest,
  { engines, hasPassthrough, account, json, names = {}, findAddressFault }: UnknownOptions,
): Promise<string[]> {
  const unknown = Object.entries(splitExtras(request.extras).passed);
  if (unknown.length === 0) return [];
  const { model, images } = request;
  const refuseField = (field: string, text: string) => refuse(400, `invalid_${field}`, `${text}; nothing was charged`);
  const hashed = unknown.find(([, value]) => holdsHash(value));
  if (hashed)
    throw refuseField(hashed[0], `${hashed[0]} is only a hash of the value that was sent: send the value again`);
  const real = engines.filter(({ models, isSimulation }) => models.includes(model) && !isSimulation);
  const taken = (await Promise.all(real.map(({ passes }) => passes?.(model)))).flatMap((each) => each?.names ?? []);
  for (const [field, value] of unknown) {
    const known = knownSpelling(field);
    if (known === undefined || taken.includes(field)) continue;
    if (!isDeepStrictEqual(value, (json as Record<string, unknown>)[known]))
      throw refuseField(field, `${field} is no field: send ${names[known] ?? known}`);
    // The field stands beside it with the same value.
    delete request.extras[field];
  }
  const { passed } = splitExtras(request.extras);
  const fields = Object.keys(passed);
  const [first] = fields;
  if (first === undefined) return [];
  request.names = namesOf(passed);
  if (real.length === 0) return [`The preview does not show ${fields.join(", ")}.`];
  if (account !== localAccount && !hasPassthrough)
    throw refuseField(first, `${first} is no field of this service: its owner allows others with \`passthrough\``);
  const addressFault = addressesIn(passed)
    .map(findAddressFault)
    .find((each) => each !== undefined);
  if (addressFault !== undefined) throw refuseField(first, addressFault);
  const suitable = real.filter(({ maxImages }) => images.length <= maxImages);
  const faults = await Promise.all(suitable.map((engine) => findPassedFault(engine, request)));
  const found = faults.flatMap((fault) => fault ?? []);
  const [fault] = found;
  if (!fault || found.length < faults.length) return [];
  const later = found.find(({ isTemporary }) => isTemporary);
  if (later) throw refuse(429, "fields_unreadable", `${later.text}; nothing was charged`, retryAfter);
  throw refuseField(fault.field, found.map(({ text }) => text).join("; "));
}

/** The field of this service that a name spells in another way, such as "callbackUrl". */
function knownSpelling(name: string): string | undefined {
  const flat = flattenName(name);
  return fieldSpellings.get(flat) ?? ["imageUrls", ...documentedExtras].find((each) => flattenName(each) === flat);
}

/** The fields for images and other media, by the names of both APIs. */
const mediaNames = [
  ...imageFields.map(({ name }): string => name),
  ...["imageUrls", "input_reference", "image_reference", "frame_images", "input_references"],
  ...["audio_reference", "video_reference"],
];

function nullWarning(name: string): string {
  return `${name} is null: the video is made without it.`;
}

/** A body without a length, such as a chunked body, may be large. */
function mayBeLarge({ req }: ApiContext): boolean {
  return !(Number(req.header("Content-Length") ?? Number.NaN) <= defaultBodyBytes);
}

function newGeneration(account: string, start: StartRequest, date: Date): StoredGeneration {
  const blank = {
    status: "processing",
    completed_at: null,
    error: null,
    media: null,
    cost: null,
    checkpoint: null,
  } as const;
  return { ...blank, ...start, id: randomUUID(), account, created_at: date.toISOString() };
}

/**
 * Refuses a request that the limits of every engine with the model exclude, before anything is paid there. If they exclude it for some, only the
 * others get it. A request with other images is refused if any of these engines might ignore them.
 */
async function checkLimits(request: StoredRequest, engines: StartOptions["engines"], names: FieldNames | undefined) {
  const withModel = engines.filter(({ models, isSimulation }) => models.includes(request.model) && !isSimulation);
  const faults = await Promise.all(withModel.map(({ findFault }) => findFault?.(request, names)));
  const fault = faults.find((each) => each !== undefined);
  if (fault !== undefined && (hasOtherImages(request) || faults.every((each) => each !== undefined)))
    throw refuse(400, "outside_limits", `${request.model}: ${fault}`);
  const unsuited = withModel.filter((_, index) => faults[index] !== undefined).map(exclusionOf);
  if (unsuited.length > 0) request.names = [...(request.names ?? []), ...unsuited.sort()];
}

/** Refuses images that certainly cannot be used, before anything is charged. */
function checkImages(request: StoredRequest, findAddressFault: (url: string) => string | undefined): void {
  const { images, lastImage, references = [] } = request;
  const fields = {
    imageUrl: images,
    lastImageUrl: lastImage === undefined ? [] : [lastImage],
    referenceUrls: references,
  };
  for (const [name, sources] of Object.entries(fields)) {
    const fault = sources.map((source) => findImageFault(source, findAddressFault)).find((each) => each !== undefined);
    if (fault !== undefined) throw refuse(400, `invalid_${name}`, `${fault}; nothing was charged`);
  }
}

export function notEnoughCredits(cost: number) {
  const message = `one generation costs ${cost} credits; the account has fewer`;
  return refuse(402, "insufficient_credits", message);
}

function tooMany({ limit, max, retryAfterSeconds }: Limited) {
  const headers = { "Retry-After": String(retryAfterSeconds) };
  if (limit === "max_running")
    return refuse(
      429,
      "too_many_running",
      `this account may have ${max} unfinished generations at once; nothing was charged`,
      headers,
    );
  return refuse(
    429,
    "too_many_starts",
    `this account may start ${max} generations per hour; nothing was charged`,
    headers,
  );
}

const maxLabelCharacters = 200;

/** Returns the label in the headers of a start. Throws a 400 that says what is wrong with them. */
function readLabel({ req }: ApiContext): Label | undefined {
  const [text, sizeText] = [req.header("Vidgen-Label"), req.header("Vidgen-Label-Size")];
  if (text === undefined) return undefined;
  const name = decoded(text);
  if (name === undefined || name.trim() === "" || /\p{Cc}/u.test(name) || [...name].length > maxLabelCharacters)
    throw refuse(
      400,
      "invalid_label",
      `Vidgen-Label must be a percent-encoded text of at most ${maxLabelCharacters} characters`,
    );
  if (sizeText !== undefined && !/^[1-9]\d{0,8}$/.test(sizeText))
    throw refuse(400, "invalid_label", "Vidgen-Label-Size must be a number above 0");
  return { name, size: sizeText === undefined ? null : Number(sizeText) };
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** The interface's reply to a start, and `credits_charged`, which is an addition. */
function startBody({ generation, credits_charged, remaining_credits }: Started) {
  const { id, created_at, request } = generation;
  const data = { id, status: "processing", model: request.model, prompt: request.prompt, created_at };
  return { success: true, data, credits_charged, remaining_credits };
}
