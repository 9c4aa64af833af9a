/** Directives: words in square brackets in a prompt, with which a test makes the local service misbehave. The CLI's help lists them. */
export type Directives = {
  /** Makes the generation fail with this error. */
  fail: string | undefined;
  /** The minimum duration of the generation, in milliseconds. */
  slowMs: number;
  /** Answers the start with this status and charges nothing; 429 only once, then the same start is accepted. */
  http: number | undefined;
  /** Executes the start and never replies. */
  hang: boolean;
  /** Executes the start and breaks off the reply after the id. */
  cut: boolean;
  /** Answers the video's URL with this status, once. */
  mediaStatus: number | undefined;
  /** Breaks off the video halfway, unless a range is requested. */
  mediaCut: boolean;
  /** Completes the generation without a video URL. */
  noVideo: boolean;
  /** Answers the start as if the account had no credits. */
  noCredits: boolean;
};

/** Reads the directives in a request's prompt, if directives apply to the request. Other words in brackets are part of the prompt. */
export function readDirectives({ prompt, hasDirectives }: { prompt: string; hasDirectives: boolean }): Directives {
  const values = new Map<string, string>();
  if (!hasDirectives) return directivesOf(values);
  // The pattern must take linear time for any prompt, because its author may be hostile.
  for (const [, name = "", value = ""] of prompt.matchAll(/\[([a-z-]+)(?::([^\][]*))?\]/g))
    values.set(name, value.replace(/^ +/, ""));
  return directivesOf(values);
}

function directivesOf(values: ReadonlyMap<string, string>): Directives {
  const fail = values.get("fail");
  const media = values.get("media");
  return {
    fail: fail === "" ? "the model run did not succeed (asked for by the prompt)" : fail,
    slowMs: readSeconds(values.get("slow")) * 1_000,
    http: readStatus(values.get("http")),
    hang: values.get("hang") === "",
    cut: values.get("cut") === "",
    mediaStatus: readStatus(media),
    mediaCut: media === "cut",
    noVideo: values.get("no-video") === "",
    noCredits: values.get("credits") === "0",
  };
}

function readSeconds(text = ""): number {
  const [, number, unit] = /^(\d{1,5})(s|m)?$/.exec(text) ?? [];
  return Number(number ?? 0) * (unit === "m" ? 60 : 1);
}

function readStatus(text = ""): number | undefined {
  return /^[45]\d\d$/.test(text) ? Number(text) : undefined;
}
