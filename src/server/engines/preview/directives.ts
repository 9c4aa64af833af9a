/** Directives: words in square brackets in a prompt, by which a test asks the local service to misbehave. The CLI's help lists them. */
export type Directives = {
  /** Makes the generation fail with this error. */
  fail: string | undefined;
  /** How long the generation takes at least, in milliseconds. */
  slowMs: number;
  /** Answers the start with this status and charges nothing; 429 only once, then the same start is accepted. */
  http: number | undefined;
  /** Executes the start and never answers. */
  hang: boolean;
  /** Executes the start and breaks its reply off after the id. */
  cut: boolean;
  /** Answers the video's address with this status, once. */
  mediaStatus: number | undefined;
  /** Breaks the video off halfway, unless a range is requested. */
  mediaCut: boolean;
  /** Completes the generation without an address of its video. */
  noVideo: boolean;
  /** Answers the start as if the account had no credits. */
  noCredits: boolean;
};

/** Reads the directives in a request's prompt, if they apply to it. Other words in brackets are part of the prompt. */
export function readDirectives({ prompt, hasDirectives }: { prompt: string; hasDirectives: boolean }): Directives {
  const values = new Map<string, string>();
  if (!hasDirectives) return directivesOf(values);
  // Each character is looked at once, whatever the prompt: its author need not be a friend.
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
