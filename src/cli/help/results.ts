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
const outcome = { id: text, error: text, remaining_credits: number, took_ms: number, file: text, size: number };
const check = object({ name: text, state: { enum: ["pass", "warn", "fail"] }, says: text, fix: textOrNull });

/** The JSON Schema of what each command prints with `--json`, unless a flag such as --dry-run asks for something else. */
export const results: Readonly<Record<string, object>> = {
  generate: object({ id: text, status: text }, { ...generation, remaining_credits: number, file: text }),
  status: object({ id: text, status: text }, { ...generation, error: {} }),
  wait: { anyOf: [waited, list(waited)] },
  list: list(object(attempt, outcome)),
  models: list(object({ id: text, characteristic: text, default: boolean })),
  login: object({ ok: boolean, base_url: text }),
  logout: object({ ok: boolean, base_url: text, was_saved: boolean }),
  serve: object({ base_url: text, media_url: text, api_key: text, webhook_secret: text }),
  doctor: object({ ok: boolean, checks: list(check) }),
  completion: object({ shell: text, script: text }),
};
