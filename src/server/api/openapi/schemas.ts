import * as z from "zod";
import { failureCodes, states } from "../../../client/http/schema.ts";
import { accountName } from "../accounts.ts";
import { optionalExtra, otherExtra, startSchema } from "../start-body.ts";
import { createSchema } from "../video-body.ts";

const id = z.string().meta({ format: "uuid" });
const url = z.string().meta({ format: "uri" });
const time = z.string().meta({ format: "date-time" });

const unixSeconds = z.number().meta({ description: "Unix seconds." });
const cost = z.number().meta({ description: "What the engine's provider charged, in USD." });

const generation = z.object({
  id,
  status: z.enum(states),
  video_url: url
    .nullable()
    .meta({ description: "URL of the .mp4, which needs no API key; null until the generation is completed." }),
  thumbnail_url: url.nullable().meta({ description: "URL of one frame, as PNG." }),
  created_at: time,
  error: z.string().optional().meta({ description: "Why it failed." }),
  error_code: z.enum(failureCodes).optional().meta({
    description:
      "credits: the account at the engine's provider has no credits. unclear: it is unknown whether the engine generates the video and charges for it; it is not submitted again, and its credits are not returned automatically. not_submitted: no engine accepted it. auth: the engine refuses its key, so it was not submitted. not_fetched: the engine generated it, but its file cannot be used.",
  }),
  cost: cost.optional(),
});

const create = startSchema
  .omit({ aspectRatio: true, duration: true, resolution: true, imageUrl: true, imageUrls: true })
  .extend({ ...createSchema.shape, seconds: startSchema.shape.duration });

const video = z.object({
  id,
  object: z.literal("video"),
  status: z.enum(["queued", "in_progress", "completed", "failed"]),
  progress: z.number().meta({ description: "In percent." }),
  model: z.string(),
  prompt: z.string(),
  seconds: z.string(),
  size: z.string(),
  created_at: unixSeconds,
  completed_at: unixSeconds.nullable(),
  expires_at: z.null(),
  error: z
    .object({
      code: z.string().meta({ description: `${[...failureCodes, "cancelled"].join(", ")}, or else failed.` }),
      message: z.string(),
    })
    .nullable(),
  usage: z.object({ cost }).optional(),
});

const model = z.object({
  id: z.string(),
  object: z.literal("model"),
  created: z.number(),
  owned_by: z.literal("vidgen"),
});

const limit = z.number().nullable();
const limits = {
  max_running: limit.meta({ description: "The maximum number of unfinished generations." }),
  max_per_hour: limit.meta({ description: "The maximum number of starts per hour." }),
};

/** The schemas of the description by their names. Those of requests are the ones that check them. */
export const schemas = {
  Start: startSchema,
  OptionalExtra: optionalExtra,
  OtherExtra: otherExtra,
  Started: z.object({
    success: z.literal(true),
    data: z.object({ id, status: z.literal("processing"), model: z.string(), prompt: z.string(), created_at: time }),
    credits_charged: z.number().meta({ description: "What this generation costs." }),
    remaining_credits: z.number(),
  }),
  Generation: generation.extend({
    progress: z.number().optional().meta({ description: "How much of the video is generated, in percent." }),
  }),
  Cancelled: generation.extend({ credits_returned: z.number() }),
  Ended: generation.extend({ completed_at: time }),
  Create: create,
  CreateForm: create.extend({
    input_reference: z
      .string()
      .optional()
      .meta({ format: "binary", description: "A PNG, JPEG or WebP file, or its URL." }),
  }),
  Video: video,
  VideoList: z.object({
    object: z.literal("list"),
    data: z.array(video),
    first_id: id.nullable(),
    last_id: id.nullable(),
    has_more: z.boolean(),
  }),
  Removed: z.object({ id, object: z.literal("video.deleted"), deleted: z.literal(true) }),
  Models: z.object({ object: z.literal("list"), data: z.array(model) }),
  Model: model,
  Error: z.object({ error: z.object({ code: z.string(), message: z.string(), type: z.string() }) }),
  NewAccount: z.object({
    name: z.string().regex(accountName),
    credits: z.number().min(0).optional().meta({ description: "The credits of a new account; 1000 by default." }),
    new: z
      .boolean()
      .optional()
      .meta({ description: "Whether to refuse an account that already exists instead of changing it." }),
  }),
  Account: z.object({
    account: z.string(),
    api_key: z.string().meta({ description: "Shown only in this response." }),
    webhook_secret: z.string().meta({ description: "Signs the callbacks of this account." }),
    credits: z.number(),
  }),
  Accounts: z.object({
    accounts: z.array(z.object({ account: z.string(), credits: z.number(), keys: z.number(), ...limits })),
  }),
  Credits: z.object({
    account: z.string().regex(accountName),
    amount: z.number().meta({ description: "A whole number; negative to take credits away." }),
  }),
  Credited: z.object({
    account: z.string(),
    amount: z.number(),
    credits: z.number().meta({ description: "The balance now." }),
    replayed: z
      .boolean()
      .meta({ description: "Whether the Idempotency-Key was used before; if so, nothing was changed." }),
  }),
  Limits: z.object({ account: z.string().regex(accountName), ...z.object(limits).partial().shape }),
  Limited: z.object({ account: z.string(), ...limits }),
  Rotate: z.object({ account: z.string().regex(accountName) }),
  Rotated: z.object({
    account: z.string(),
    api_key: z.string().meta({ description: "Shown only in this response." }),
    webhook_secret: z.string(),
    credits: z.number(),
    revoked: z.number().meta({ description: "How many keys were revoked." }),
  }),
  Revoke: z.object({
    revoke: z.string().meta({ description: "A key, or the name of an account to revoke all of its keys." }),
  }),
  Revoked: z.object({ revoked: z.number().meta({ description: "How many keys were revoked." }) }),
  Engines: z.object({
    engines: z.array(
      z.object({
        engine: z.string(),
        models: z.array(z.string()),
        kind: z.string().nullable(),
        error: z.string().nullable().meta({ description: "Why the engine cannot be used now." }),
        out_since: time.nullable().meta({ description: "Since when the engine accepts no generations." }),
        out_reason: z.string().nullable(),
      }),
    ),
  }),
  Alive: z.object({ status: z.literal("ok") }),
  Readiness: z.object({
    status: z.enum(["ok", "unavailable", "stopping"]),
    database: z.enum(["ok", "unavailable"]),
    media: z.enum(["ok", "unavailable"]),
    engines: z.enum(["ok", "unavailable", "unused"]),
  }),
};

export type SchemaName = keyof typeof schemas;

export function schemaRef(name: string): { $ref: string } {
  return { $ref: `#/components/schemas/${name}` };
}
