import { exits } from "../../errors.ts";

const text = { type: "string" };
const textOrNull = { type: ["string", "null"] };
const number = { type: "number" };
const boolean = { type: "boolean" };

/** An object with these fields; it may have others too, such as further ones of the service. */
function object(required: Record<string, object>, optional: Record<string, object> = {}): object {
  return { type: "object", properties: { ...required, ...optional }, required: Object.keys(required) };
}

function list(items: object): object {
  return { type: "array", items };
}

const urls = { video_url: textOrNull, thumbnail_url: textOrNull };
const times = { created_at: textOrNull, completed_at: textOrNull };
const told = { model: textOrNull, prompt: textOrNull };
const generation = { ...urls, ...times, ...told };
const waited = object({ id: text }, { status: textOrNull, ...generation, file: text, error: {} });
const attempt = { attempt: text, at: text, base_url: text, status: text, model: text, prompt: text };
const saved = { file: text, size: number, sha256: text };
const outcome = { id: text, error: text, remaining_credits: number, took_ms: number, ...saved };
const check = object({ name: text, state: { enum: ["pass", "warn", "fail"] }, says: text, fix: textOrNull });
const engine = object({ engine: text, models: list(text), kind: textOrNull, error: textOrNull });

const whole = { type: "integer", minimum: 0 };
const error = object({
  code: { enum: Object.keys(exits).filter((name) => name !== "ok") },
  message: text,
  hint: textOrNull,
  id: textOrNull,
  http_status: { type: ["integer", "null"] },
});
const ends = { enum: ["completed", "failed", "refused", "unsent", "unknown", "lost", "processing"] };
const numberOrNull = { type: ["number", "null"] };
/** What a batch adds. */
const ofBatch = { to_start: whole, remaining_credits: numberOrNull };
const counts = {
  done: whole,
  running: whole,
  failed: whole,
  refused: whole,
  unsent: whole,
  unknown: whole,
  lost: whole,
};

function event(name: string, required: Record<string, object>, optional: Record<string, object> = {}): object {
  const at = { type: "string", format: "date-time" };
  return object({ event: { const: name }, at, ...required }, { row: text, line: whole, ...optional });
}

/** The JSON Schema of one line of `--events`. */
export const eventSchema = {
  anyOf: [
    event(
      "started",
      { id: text, resumed: boolean },
      { attempt: text, model: text, remaining_credits: number, credits: number, balance_fell: number },
    ),
    event("state", { id: text, status: text }),
    event("progress", { id: text, received: whole, total: { type: ["integer", "null"] } }),
    event("saved", { id: text, file: text }),
    event(
      "ended",
      {
        id: textOrNull,
        status: ends,
        file: textOrNull,
        video_url: textOrNull,
        error: { anyOf: [error, { type: "null" }] },
      },
      { credits: number },
    ),
    event("error", { error }),
    event("summary", { exit_code: whole, total: whole, ...counts }, ofBatch),
  ],
};

const rowEnd = object(
  { row: text, line: whole, id: textOrNull, status: ends, file: textOrNull, video_url: textOrNull },
  { error: { anyOf: [error, { type: "null" }] }, credits: number },
);
const rowLine = object({ row: text, line: whole, attempt: text, id: textOrNull, status: text, file: textOrNull });
const shards = object({ of: whole, missing: list(whole), double: list(whole) });

/** Each line of `listen`: the first one, and then one a callback. */
const received = object({
  ...{
    event: { const: "callback" },
    id: textOrNull,
    status: textOrNull,
    video_url: textOrNull,
    webhook_id: textOrNull,
  },
  ...{ verified: boolean, duplicate: boolean, error: textOrNull, http_status: whole, took_ms: whole, at: text },
});
const listening = object({ event: { const: "listening" }, callback_url: text });

/** The JSON Schema of what each command prints with `--json`, unless a flag such as --dry-run asks for something else. */
export const results: Readonly<Record<string, object>> = {
  generate: object({ id: text, status: text }, { ...generation, remaining_credits: number, file: text }),
  batch: object({ total: whole, ...counts, ...ofBatch, results: text, generations: list(rowEnd) }),
  "batch status": object(
    { rows: whole, done: whole, running: whole, failed: whole, unknown: whole, lost: whole, missing: whole },
    { open: list(rowLine), shards: { anyOf: [shards, { type: "null" }] }, double_rows: list(text) },
  ),
  status: object({ id: text, status: text }, { ...generation, error: {} }),
  wait: { anyOf: [waited, list(waited)] },
  list: list(object(attempt, outcome)),
  models: list(object({ id: text, characteristic: text, default: boolean })),
  login: object({ ok: boolean, base_url: text }),
  logout: object({ ok: boolean, base_url: text, was_saved: boolean }),
  serve: object({ base_url: text, media_url: text, api_key: text, webhook_secret: text, engines: list(engine) }),
  listen: { anyOf: [listening, received] },
  doctor: object({ ok: boolean, checks: list(check) }),
  completion: object({ shell: text, script: text }),
};
