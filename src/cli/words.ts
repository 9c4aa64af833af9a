import { commandLine, type Shell } from "../shell.ts";

/** The hint for a word that is not a command of vidgen. */
export type Hint = {
  /** The typed word; with a space, a command of a group, such as "config get". */
  typed: readonly string[];
  /** What the command is for, or that vidgen does not offer what the word asks for. */
  purpose: string;
  /**
   * A free command. The words after the typed one replace `<id>`, `<rows>`, `[id]` or `[words]` if they fit;
   * otherwise those in brackets are left out.
   */
  line: string;
};

/**
 * Hints for words that are not commands. They are not aliases, and no hint starts a generation, because a
 * program that follows a hint must not pay for a video because of a word that vidgen does not know.
 */
export const hints: readonly Hint[] = [
  {
    typed: ["show", "info", "view", "describe", "inspect", "progress", "check"],
    purpose: "To see one generation",
    line: "vidgen status [id]",
  },
  {
    typed: ["ls", "history", "jobs", "log", "logs", "ps", "search", "find"],
    purpose: "To see what was started on this machine",
    line: "vidgen list [words]",
  },
  { typed: ["open", "play", "preview"], purpose: "To open a saved video", line: "vidgen list --open [id]" },
  {
    typed: ["rm", "remove", "del", "erase"],
    purpose:
      "A saved video is your own file: delete it like any other. To delete a video at a service that can do that",
    line: "vidgen delete <id>",
  },
  {
    typed: ["forget"],
    purpose: "To remove a generation from the list, which deletes no video",
    line: "vidgen list --forget <id>",
  },
  {
    typed: ["price", "prices", "pricing", "cost", "costs"],
    purpose: "To see the models, and with a model's name what its videos have cost",
    line: "vidgen models [words]",
  },
  {
    typed: ["film", "movie", "join", "concat", "merge"],
    purpose:
      "vidgen makes a film from a file with a row for each shot. To see what it would start and cost, at no charge",
    line: "vidgen batch <rows> -o clips/ --join film.mp4 --dry-run",
  },
  {
    typed: ["download", "save", "fetch", "get-video"],
    purpose: "To save a video that was started before",
    line: "vidgen wait <id> -o .",
  },
  { typed: ["resume", "continue", "follow", "watch"], purpose: "To wait for a generation", line: "vidgen wait [id]" },
  { typed: ["stop", "kill", "abort"], purpose: "To stop a generation", line: "vidgen cancel <id>" },
  {
    typed: ["create", "make", "new", "render", "video", "text2video"],
    purpose: "`vidgen generate` makes a video, which a paid service charges for. To read how",
    line: "vidgen generate --help",
  },
  {
    typed: ["retry", "redo", "rerun", "repeat"],
    purpose: "`vidgen again` starts the same request once more, which is charged again. To read how",
    line: "vidgen again --help",
  },
  {
    typed: ["upscale", "enhance"],
    purpose: "vidgen does not upscale videos. A larger one can be asked for with --resolution",
    line: "vidgen generate --help",
  },
  {
    typed: ["extend", "lengthen"],
    purpose: "vidgen does not extend a video. A new one can begin with its last frame",
    line: "vidgen help film",
  },
  {
    typed: ["image", "picture", "photo"],
    purpose: "vidgen makes no images. A video can begin with one, with --image",
    line: "vidgen generate --help",
  },
  {
    typed: ["share", "upload", "publish", "send"],
    purpose: "vidgen does not share videos. To see where one is",
    line: "vidgen status [id]",
  },
  { typed: ["get", "set", "settings", "setup"], purpose: "To see the settings", line: "vidgen config" },
  { typed: ["signin", "auth", "init", "key"], purpose: "To save the key of a service", line: "vidgen login --help" },
  {
    typed: ["credits", "balance", "usage"],
    purpose: "To see what was started here, and how many credits are left, if a service has stated it",
    line: "vidgen list",
  },
  { typed: ["whoami"], purpose: "To check the login", line: "vidgen doctor" },
  {
    typed: ["add", "users", "user"],
    purpose: "To add an account to your own `vidgen serve`",
    line: "vidgen accounts create --help",
  },
  { typed: ["server", "daemon"], purpose: "To run the local service", line: "vidgen serve --help" },
  {
    typed: ["docs", "topics", "manual", "man", "examples"],
    purpose: "To see the pages of the manual",
    line: "vidgen help topics",
  },
  {
    typed: ["uninstall"],
    purpose: "npm removes vidgen, but not its folders. To see where they are before that",
    line: "vidgen doctor",
  },
  {
    typed: ["config get", "config show", "config ls"],
    purpose: "To see the settings",
    line: "vidgen config",
  },
  {
    typed: ["accounts add", "accounts new"],
    purpose: "To add an account",
    line: "vidgen accounts create --help",
  },
  { typed: ["accounts show", "accounts ls"], purpose: "To see the accounts", line: "vidgen accounts" },
  {
    typed: ["accounts rm", "accounts remove"],
    purpose: "To delete an account",
    line: "vidgen accounts delete --help",
  },
];

/** What to type for a flag that vidgen does not have. */
type FlagHint = {
  typed: readonly string[];
  /** The commands that the hint is for; by default, those that start generations. */
  of?: readonly string[] | "all";
  /** The words in place of the flag. With a parameter, the flag takes a value. */
  words?: (value: string) => readonly string[];
  /** What to know, where no words can take the flag's place. */
  advice?: string;
};

const starting = ["generate", "again"];

/** What to do about a key on a command line. */
export const keyAdvice =
  "A key is never part of a command line, and this one is now in the history of your shell. `vidgen login` asks for it without showing it.";

export const flagHints: readonly FlagHint[] = [
  { typed: ["--api-key", "--key", "--token"], of: "all", advice: keyAdvice },
  { typed: ["--prompt", "--text", "-p"], words: (text) => [text] },
  { typed: ["--seconds", "--length", "--time"], words: (length) => ["--duration", length] },
  { typed: ["--size"], words: shapeOf },
  { typed: ["--quality"], words: (name) => ["--resolution", /^\d/.test(name) ? name : "1080p"] },
  { typed: ["--fps"], words: (number) => ["--set", `fps=${number}`] },
  { typed: ["--negative-prompt", "--negative"], words: (text) => ["--set", `negative_prompt=${text}`] },
  { typed: ["--audio", "--sound"], words: () => ["--set", "generate_audio=true"] },
  { typed: ["--no-audio", "--no-sound"], words: () => ["--set", "generate_audio=false"] },
  { typed: ["--vertical", "--portrait"], words: () => ["--aspect-ratio", "9:16"] },
  { typed: ["--horizontal", "--landscape"], words: () => ["--aspect-ratio", "16:9"] },
  { typed: ["--square"], words: () => ["--aspect-ratio", "1:1"] },
  { typed: ["--image-url", "--input-image", "--input-reference"], words: (image) => ["--image", image] },
  { typed: ["--end-image", "--last-frame"], words: (image) => ["--last-image", image] },
  { typed: ["--yes", "-y"], words: () => [] },
  { typed: ["--output-format"], words: (_) => [] },
  { typed: ["-n"], of: ["list"], words: (count) => ["--limit", count] },
  { typed: ["--local"], of: ["models"], words: () => [] },
  { typed: ["-p"], of: ["serve"], words: (port) => ["--port", port] },
  {
    typed: ["--daemon", "--detach", "--background"],
    of: ["serve"],
    advice: "`vidgen help local-service` shows how systemd keeps it running.",
  },
  {
    typed: ["--https", "--tls", "--ssl"],
    of: ["serve"],
    advice: "A proxy in front of it speaks HTTPS; --public-url is its address. See `vidgen help several-machines`.",
  },
];

/** The shape of a size such as 1280x720, as flags. */
function shapeOf(size: string): readonly string[] {
  const [, width = 16, height = 9] = /^(\d+)x(\d+)$/i.exec(size)?.map(Number) ?? [];
  const divisorOf = (a: number, b: number): number => (b === 0 ? a : divisorOf(b, a % b));
  const divisor = divisorOf(width, height);
  const resolution = width === 16 ? "720p" : `${Math.min(width, height)}p`;
  return ["--resolution", resolution, "--aspect-ratio", `${width / divisor}:${height / divisor}`];
}

/** The hint for a flag that the command does not have: the line to type, or what to know. `words` is the typed line. */
export function flagHintFor(words: readonly string[], command: string, shell: Shell): string | undefined {
  const nameOf = (word: string) => word.replace(/=.*/s, "");
  const findFlagHint = (word: string) =>
    flagHints.find(
      ({ typed, of = starting }) => typed.includes(nameOf(word)) && (of === "all" || of.includes(command)),
    );
  const at = words.findIndex((word) => findFlagHint(word) !== undefined);
  const typed = words[at] ?? "";
  const hint = findFlagHint(typed);
  if (hint?.words === undefined) return hint?.advice;
  const isValueNext = hint.words.length > 0 && !typed.includes("=");
  const value = isValueNext ? (words[at + 1] ?? "<value>") : typed.slice(typed.indexOf("=") + 1);
  const rest = words.slice(isValueNext ? at + 2 : at + 1);
  return `Type: ${commandLine(["vidgen", ...words.slice(0, at), ...hint.words(value), ...rest], shell)}`;
}

/** The hint for a word, in one sentence that ends with a command; `rest` are the words after it. */
export function hintFor(word: string, rest: readonly string[] = [], shell: Shell = "posix"): string | undefined {
  const hint = hints.find(({ typed }) => typed.includes(word.toLowerCase()));
  return hint && `${hint.purpose}: ${fillIn(hint.line, rest, shell)}`;
}

function fillIn(line: string, rest: readonly string[], shell: Shell): string {
  return line.replace(/ (<id>|<rows>|\[id\]|\[words\])/, (placeholder, name: string) => {
    if (rest.length > 0 && fits(name, rest)) return ` ${commandLine(rest, shell)}`;
    return name.startsWith("[") ? "" : placeholder;
  });
}

function fits(name: string, [first = "", ...others]: readonly string[]): boolean {
  if (name === "[words]") return true;
  return others.length === 0 && !(name === "<rows>" && /\.(mp4|mov|mkv|webm)$/i.test(first));
}
