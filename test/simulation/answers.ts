/** A generation at the service: it was charged. */
export type Generated = {
  id: string;
  /** The key of the account that pays. */
  key: string;
  attempt: string;
  prompt: string;
  model: string;
  /** In credits. */
  cost: number;
  startedAt: number;
  endsAt: number;
  /** "unclear" is a failure of which the service cannot tell whether it was charged. */
  ends: "completed" | "failed" | "unclear";
  /** For so long after its start the service does not know it yet. */
  lagMs: number;
  /** From then on the service does not know it any more. */
  lostAt: number;
  /** Somebody has deleted it. */
  isDeleted: boolean;
  /** How often its video was asked for. */
  downloads: number;
  /** The process that asked for it last. */
  reader: string | undefined;
  media: readonly string[];
  version: number;
  /** What it says of a generation that has failed. */
  reason: string;
};

export type Answer = {
  status: number;
  text: string;
  headers?: Record<string, string>;
  /** The connection breaks off after the text. */
  isCut?: boolean;
  /** How long it takes. */
  afterMs?: number;
};

/** What somebody who knows the rules makes of an answer to a start. */
export type Meaning = "accepted" | "refused" | "later" | "unknown" | "unsent";

/** What the service does to one start request. */
export type StartBehaviour = {
  means: Meaning;
  /** Whether the generation is started, and charged. */
  charges: boolean;
  /** Whether its id can be read in the answer. */
  hasId?: boolean;
  /** The connection breaks off after its id. */
  isCut?: boolean;
  /** Its id is a number. */
  isNumbered?: boolean;
  answer?: ((scene: StartScene) => Answer) | undefined;
  /** The connection fails with this code, or nothing ever comes. */
  fails?: string;
};

export type StartScene = {
  id: string;
  prompt: string;
  model: string;
  credits: number | undefined;
  /** What it states that the start has cost. */
  charged: number | undefined;
  key: string;
  /** A generation of another request. */
  other: string | undefined;
};

const html = (status: number) => () => ({ status, text: `<html><h1>${status}</h1></html>` });

function started({ id, prompt, model, credits, charged }: StartScene, more: object = {}): string {
  const data = { prompt, id, status: "processing", model };
  return JSON.stringify({ success: true, data, credits_charged: charged, remaining_credits: credits, ...more });
}

const json =
  (status: number, value: object, headers?: Record<string, string>): StartBehaviour["answer"] =>
  () => ({ status, text: JSON.stringify(value), ...(headers ? { headers } : {}) });

/** The keys are the words of the story: "the service ...". */
export const startBehaviours = {
  "accepts it": { means: "accepted", charges: true, hasId: true, answer: (s) => ({ status: 200, text: started(s) }) },
  "accepts it, and the answer is cut after the id": {
    means: "accepted",
    charges: true,
    hasId: true,
    isCut: true,
    answer: (s) => ({ status: 200, text: started(s).slice(0, -30), isCut: true }),
  },
  "accepts it with a NaN in the answer": {
    means: "accepted",
    charges: true,
    hasId: true,
    answer: (s) => ({ status: 201, text: started(s).replace(/}$/, ',"eta":NaN}') }),
  },
  "accepts it with an id in capitals": {
    means: "accepted",
    charges: true,
    hasId: true,
    answer: (s) => ({ status: 200, text: started({ ...s, id: s.id.toUpperCase() }) }),
  },
  "accepts it with a number for an id": {
    means: "accepted",
    charges: true,
    hasId: true,
    isNumbered: true,
    answer: (s) => ({ status: 200, text: started(s).replace(/"id":"(\d+)"/, '"id":$1') }),
  },
  "accepts it with 429 and an id": {
    means: "accepted",
    charges: true,
    hasId: true,
    answer: (s) => ({ status: 429, text: started(s), headers: { "retry-after": "2" } }),
  },
  "charges, and says success: false with an id": {
    means: "unknown",
    charges: true,
    hasId: true,
    answer: (s) => ({ status: 200, text: started(s, { success: false, error: "try later" }) }),
  },
  "charges, and answers 500 with an id": {
    means: "unknown",
    charges: true,
    hasId: true,
    answer: (s) => ({ status: 500, text: started(s) }),
  },
  "charges, and answers 400 with an id": {
    means: "refused",
    charges: true,
    hasId: true,
    answer: (s) => ({ status: 400, text: started(s, { error: "odd" }) }),
  },
  "charges, and replays the answer of another request": {
    means: "unknown",
    charges: true,
    answer: (s) => ({ status: 200, text: started({ ...s, id: s.other ?? s.id }) }),
  },
  "charges, and resets the connection": { means: "unknown", charges: true, fails: "ECONNRESET" },
  "charges, and never answers": { means: "unknown", charges: true, fails: "silence" },
  "charges, and answers 502 in HTML": { means: "unknown", charges: true, answer: html(502) },
  "charges, and answers 503": { means: "unknown", charges: true, answer: json(503, {}, { "retry-after": "1" }) },
  "charges, and answers 408": { means: "unknown", charges: true, answer: html(408) },
  "charges, and redirects": { means: "unknown", charges: true, answer: html(302) },
  "charges, and answers 200 in HTML": { means: "unknown", charges: true, answer: html(200) },
  "charges, and answers without an id": {
    means: "unknown",
    charges: true,
    answer: json(200, { success: true, data: { status: "processing" } }),
  },
  "charges, and answers with the id of something else": {
    means: "unknown",
    charges: true,
    answer: json(200, { success: true, id: "request-1", data: { status: "processing", input: { id: "image-1" } } }),
  },
  "charges, and the answer is cut before the id": {
    means: "unknown",
    charges: true,
    answer: (s) => ({ status: 200, text: started(s).slice(0, started(s).indexOf('"id":"') + 12), isCut: true }),
  },
  "resets the connection": { means: "unknown", charges: false, fails: "ECONNRESET" },
  "never answers": { means: "unknown", charges: false, fails: "silence" },
  "answers 502 in HTML": { means: "unknown", charges: false, answer: html(502) },
  "says slow down (429)": { means: "later", charges: false, answer: json(429, { error: "slow down" }) },
  "says 429, in a minute": {
    means: "later",
    charges: false,
    answer: json(429, { error: "busy" }, { "retry-after": "60" }),
  },
  "says too early (425)": { means: "later", charges: false, answer: json(425, {}) },
  "refuses it (400)": { means: "refused", charges: false, answer: json(400, { error: { message: "no such model" } }) },
  "refuses it (409)": { means: "refused", charges: false, answer: json(409, { error: "conflict" }) },
  "refuses the key (401)": {
    means: "refused",
    charges: false,
    answer: ({ key }) => ({ status: 401, text: JSON.stringify({ error: `bad key ${key}` }) }),
  },
  "has not enough credits (402)": {
    means: "refused",
    charges: false,
    answer: json(402, { error: "insufficient credits" }),
  },
  "says success: false": {
    means: "refused",
    charges: false,
    answer: json(200, { success: false, error: "not today" }),
  },
  "refuses the connection": { means: "unsent", charges: false, fails: "ECONNREFUSED" },
  "has no address": { means: "unsent", charges: false, fails: "ENOTFOUND" },
  "lets nobody connect": { means: "unsent", charges: false, fails: "UND_ERR_CONNECT_TIMEOUT" },
} satisfies Record<string, StartBehaviour>;

export type StartName = keyof typeof startBehaviours;

/** What the service does to each status request during some time; `undefined` is a connection that is reset. */
export type StatusBehaviour = (generated: Generated | undefined, asked: string) => Answer | undefined | "silence";

const statusText = ({ id, version }: Generated, status: string, hasUrl: boolean) =>
  JSON.stringify({ id, status, video_url: hasUrl ? urlOf(id, version) : null });

export function urlOf(id: string, version: number): string {
  return `https://media.video.example/${id}/${version}.mp4`;
}

/** It is true, and takes its time. */
export const slowName = "answers each status request after 5 s";

export const statusBehaviours: Record<string, StatusBehaviour> = {
  "answers each status request with the 404 of a gateway": html(404),
  "answers each status request with a 404 of its own": () => ({ status: 404, text: '{"error":"not found"}' }),
  "answers each status request with 502": html(502),
  "answers each status request with 429": () => ({ status: 429, text: "{}", headers: { "retry-after": "3" } }),
  "resets each status request": () => undefined,
  "never answers a status request": () => "silence",
  "answers each status request with HTML": html(200),
  "answers each status request with another id": () => ({ status: 200, text: '{"id":"other","status":"completed"}' }),
  "cuts each status": (g) =>
    g ? { status: 200, text: statusText(g, "failed", false).slice(0, -9), isCut: true } : undefined,
  "calls each generation queued": (g) => (g ? { status: 200, text: statusText(g, "queued", false) } : undefined),
  "completes without an address": (g) =>
    g ? { status: 200, text: statusText(g, "completed", false) } : { status: 404, text: "{}" },
  "answers each status request with 403": () => ({ status: 403, text: '{"error":"no"}' }),
};

export function statusAnswer(generated: Generated | undefined, key: string, now: number): Answer {
  const isKnown = generated && generated.key === key && now < generated.lostAt;
  if (isKnown && generated.isDeleted)
    return { status: 404, text: '{"error":{"code":"removed","message":"it was removed"}}' };
  if (!isKnown || now < generated.startedAt + generated.lagMs)
    return { status: 404, text: JSON.stringify({ error: "no such generation" }) };
  const { ends, endsAt } = generated;
  if (now < endsAt) return { status: 200, text: statusText(generated, "processing", false) };
  if (ends !== "completed") {
    const error_code = ends === "unclear" ? ends : undefined;
    return {
      status: 200,
      text: JSON.stringify({ id: generated.id, status: "failed", error: generated.reason, error_code }),
    };
  }
  return { status: 200, text: statusText(generated, "completed", true) };
}

export type CancelScene = {
  generated: Generated;
  now: number;
  /** Ends it, and gives its credits back. */
  cancel(): void;
};

/** What the service does to a request to cancel a generation that it knows: "the service ..."; `undefined` is a connection that is reset. */
export const cancelBehaviours = {
  "cancels it": (scene) => cancelled(scene),
  "cancels it, and the first answer is lost": (scene) => {
    const isFirst = scene.generated.ends !== "failed";
    const answer = cancelled(scene);
    return isFirst ? undefined : answer;
  },
  "has no way to cancel (404)": () => html(404)(),
  "has no way to cancel, and answers 200": ({ generated }) => ({
    status: 200,
    text: statusText(generated, "processing", false),
  }),
  "fails to cancel (500)": () => html(500)(),
} satisfies Record<string, (scene: CancelScene) => Answer | undefined>;

export type CancelName = keyof typeof cancelBehaviours;

function cancelled({ generated, now, cancel }: CancelScene): Answer {
  const { id, ends, endsAt, cost } = generated;
  if (ends !== "failed" && now >= endsAt) return { status: 409, text: '{"error":"it has ended"}' };
  cancel();
  const { reason } = generated;
  return { status: 200, text: JSON.stringify({ id, status: "failed", error: reason, credits_returned: cost }) };
}

export type DeleteScene = { generated: Generated; delete(): void };

/** What the service does to a request to delete a generation that it knows. */
export const deleteBehaviours = {
  "deletes it": (scene) => deleted(scene),
  "deletes it, and the first answer is lost": (scene) => {
    const isFirst = !scene.generated.isDeleted;
    const answer = deleted(scene);
    return isFirst ? undefined : answer;
  },
  "has no way to delete (404)": () => html(404)(),
  "has no way to delete, and answers 200": () => ({ status: 200, text: "{}" }),
  "fails to delete (500)": () => html(500)(),
} satisfies Record<string, (scene: DeleteScene) => Answer | undefined>;

export type DeleteName = keyof typeof deleteBehaviours;

function deleted({ generated, delete: remove }: DeleteScene): Answer {
  const { id, isDeleted } = generated;
  if (isDeleted) return { status: 404, text: '{"error":{"code":"removed","message":"it was removed"}}' };
  remove();
  return { status: 200, text: JSON.stringify({ id, object: "video.deleted", deleted: true }) };
}
