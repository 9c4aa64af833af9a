import * as z from "zod";
import {
  batchCounts,
  end,
  errorFields,
  eventCounts,
  film,
  filmEvent,
  generationEvent,
  price,
  summaryEvent,
} from "../../client/generation/event-schema.ts";
import { accountReplies } from "../../connect/accounts.ts";

/** An object with these fields, and possibly others, such as new ones of the service. */
const object = z.looseObject;
const text = z.string();
const textOrNull = text.nullable();
const number = z.number();
const count = z.number().int().min(0);

const generation = {
  id: text,
  status: text,
  video_url: textOrNull.optional(),
  thumbnail_url: textOrNull.optional(),
  created_at: textOrNull.optional(),
  completed_at: textOrNull.optional(),
  model: textOrNull.optional(),
  prompt: textOrNull.optional(),
  error: z.unknown().optional(),
};
/** Whether a generation was charged, if that was stated. */
const charged = z.enum(["yes", "no"]).optional();

const at = z.string().meta({ format: "date-time" });
/** One line of `--events`. */
export const eventSchema = z.union(
  [...generationEvent.options, ...filmEvent.options, summaryEvent].map((event: z.ZodObject) => event.extend({ at })),
);

const waitResult = object({ ...generation, status: textOrNull.optional(), file: text.optional(), charged });
const startedGeneration = {
  ...generation,
  credits_charged: number.optional(),
  remaining_credits: number.optional(),
  file: text.optional(),
  charged,
  warnings: z.array(text).optional(),
};
/** With `-n` an array, which also contains the generations that were not started. */
const startResult = z.union([
  object(startedGeneration),
  z.array(object({ ...startedGeneration, id: textOrNull.optional(), status: textOrNull })),
]);
const cancelResult = object({
  ...generation,
  status: text.optional(),
  credits_returned: number.nullable().optional(),
});
const deleteResult = object({ id: text, deleted: z.literal(true), was_there: z.boolean(), file_deleted: textOrNull });
const attempt = object({
  attempt: text,
  at: text,
  base_url: text,
  status: text,
  model: text,
  prompt: text,
  id: text.optional(),
  parent: text.optional(),
  error: text.optional(),
  ...price,
  remaining_credits: number.optional(),
  took_ms: number.optional(),
  followed: z.boolean().optional(),
  file: text.optional(),
  size: number.optional(),
  sha256: text.optional(),
});
const spentSums = { generations: count, credits: number.nullable(), cost: number.nullable(), unknown: count };
const statedPrice = object({ base_url: text, ...price, at: text });
const row = object({ row: text, line: count, ...end, error: errorFields.nullable().optional() });
const openRow = object({ row: text, line: count, attempt: text, id: textOrNull, status: text, file: textOrNull });
const shards = object({ of: count, missing: z.array(count), double: z.array(count) });
const engine = object({ engine: text, models: z.array(text), kind: textOrNull, error: textOrNull });
const { accounts } = accountReplies.list.shape;
const settings = z.array(object({ setting: text, value: textOrNull, source: textOrNull }));
const check = object({ name: text, state: z.enum(["pass", "warn", "fail"]), says: text, fix: textOrNull });

/** The lines of `listen`: the address first, then one per callback. */
const listeningLine = object({ event: z.literal("listening"), callback_url: text });
const callbackLine = object({
  event: z.literal("callback"),
  id: textOrNull,
  status: textOrNull,
  video_url: textOrNull,
  webhook_id: textOrNull,
  verified: z.boolean(),
  duplicate: z.boolean(),
  error: textOrNull,
  http_status: count,
  took_ms: count,
  at: text,
});

/** What each command prints with `--json`, unless a flag such as --dry-run asks for something else. */
export const results: Readonly<Record<string, z.core.$ZodType>> = {
  generate: startResult,
  again: startResult,
  batch: object({
    ...batchCounts.shape,
    results: text,
    generations: z.array(row),
    film: object(film).nullable().optional(),
  }),
  "batch status": object({
    rows: count,
    ...eventCounts.pick({ done: true, running: true, failed: true, unknown: true, lost: true }).shape,
    missing: count,
    open: z.array(openRow).optional(),
    shards: shards.nullable().optional(),
    double_rows: z.array(text).optional(),
  }),
  status: object(generation),
  wait: z.union([waitResult, z.array(waitResult)]),
  cancel: z.union([cancelResult, z.array(cancelResult)]),
  delete: z.union([deleteResult, z.array(deleteResult)]),
  list: z.union([
    z.array(attempt),
    object({ by: text, rows: z.array(object({ key: textOrNull, ...spentSums })), total: object(spentSums) }),
  ]),
  models: z.array(
    z.union([
      object({
        id: text,
        characteristic: text,
        default: z.boolean(),
        credits: number.nullable().optional(),
        cost: number.nullable().optional(),
        prices: z.array(statedPrice).optional(),
      }),
      object({
        engine: text,
        id: text,
        models: z.array(text),
        name: textOrNull,
        prices: z.record(z.string(), text).nullable(),
        costs: z.record(z.string(), number),
        durations: z.array(number).nullable(),
        resolutions: z.array(text).nullable(),
        aspect_ratios: z.array(text).nullable(),
        takes_image: z.boolean().nullable(),
        takes_last_image: z.boolean().nullable(),
      }),
    ]),
  ),
  login: object({ ok: z.boolean(), base_url: text, remaining_credits: number.optional() }),
  logout: object({ ok: z.boolean(), base_url: text, was_saved: z.boolean() }),
  serve: z.union([
    object({
      base_url: text,
      media_url: text,
      api_key: text,
      webhook_secret: text,
      metrics_url: textOrNull.optional(),
      engines: z.array(engine),
    }),
    object({ page_url: text }),
    object({ api_key: text }),
  ]),
  config: settings,
  "config list": settings,
  "config set": object({ ok: z.boolean(), setting: text, value: text }),
  "config unset": object({ ok: z.boolean(), setting: text, was_set: z.boolean() }),
  accounts,
  "accounts list": accounts,
  "accounts create": accountReplies.create,
  "accounts credits": accountReplies.credits,
  "accounts limit": accountReplies.limit,
  "accounts rotate": accountReplies.rotate,
  "accounts key": accountReplies.key,
  "accounts link": accountReplies.link,
  "accounts keys": accountReplies.keys.shape.keys,
  "accounts revoke": accountReplies.revoke,
  "accounts disable": accountReplies.disable,
  "accounts enable": accountReplies.enable,
  "accounts delete": accountReplies.delete,
  listen: z.union([listeningLine, callbackLine]),
  doctor: object({ ok: z.boolean(), checks: z.array(check) }),
  completion: object({ shell: text, script: text }),
};

/** The JSON Schema of a result or an event. */
export function jsonSchemaOf(schema: z.core.$ZodType): object {
  // Described as input, which allows the fields that later versions may add.
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io: "input" });
  return rest;
}
