/** What a prompt may ask of the local service, so that a test needs no flags: words in square brackets, the local service's own. */
export type Directives = {
  /** Why the generation is to fail. */
  fail: string | undefined;
  /** How long the generation takes at the least, in milliseconds. */
  slowMs: number;
  /** The status that the start is answered with, and nothing charged; 429 once, then the start goes through. */
  http: number | undefined;
  /** The start is executed, and never answered. */
  hang: boolean;
  /** The start is executed, and its reply breaks off after the id. */
  cut: boolean;
  /** The status that the video's address answers with, once. */
  mediaStatus: number | undefined;
  /** The video breaks off halfway, unless it is asked for by a range. */
  mediaCut: boolean;
  /** The generation completes without an address for its video. */
  noVideo: boolean;
  /** The start is answered as if the account had no credits. */
  noCredits: boolean;
};

/** Each as it is written, and what comes of it. */
export const directives: readonly (readonly [text: string, effect: string])[] = [
  ["[fail]", "the generation fails"],
  ["[fail: text]", "it fails, and that is its error"],
  ["[slow: 90s]", "it takes at least that long"],
  ["[http: 429]", "the start is refused once, with Retry-After, then accepted"],
  ["[http: 500]", "the start is answered with that status, 400 to 599; nothing is charged"],
  ["[hang]", "the start is executed and never answered"],
  ["[cut]", "the start is executed and its reply breaks off after the id"],
  ["[media: cut]", "the video breaks off halfway, unless it is asked for by a range"],
  ["[media: 403]", "its address answers once with that status, 400 to 599"],
  ["[no-video]", "the generation completes without a video_url"],
  ["[credits: 0]", "the start is refused for want of credits"],
];

/** Reads what a prompt asks for; words in brackets that mean nothing here are part of the prompt. */
export function readDirectives(prompt: string): Directives {
  const said = new Map<string, string>();
  for (const [, name = "", value = ""] of prompt.matchAll(/\[([a-z-]+)(?:: *([^\]]*))?\]/g)) said.set(name, value);
  const media = said.get("media");
  return {
    fail: said.has("fail") ? said.get("fail") || "the model run did not succeed (asked for by the prompt)" : undefined,
    slowMs: readSeconds(said.get("slow")) * 1_000,
    http: readStatus(said.get("http")),
    hang: said.get("hang") === "",
    cut: said.get("cut") === "",
    mediaStatus: readStatus(media),
    mediaCut: media === "cut",
    noVideo: said.get("no-video") === "",
    noCredits: said.get("credits") === "0",
  };
}

function readSeconds(text = ""): number {
  const [, number, unit] = /^(\d{1,5})(s|m)?$/.exec(text) ?? [];
  return Number(number ?? 0) * (unit === "m" ? 60 : 1);
}

function readStatus(text = ""): number | undefined {
  return /^[45]\d\d$/.test(text) ? Number(text) : undefined;
}
