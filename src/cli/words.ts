import { commandLine, type Shell } from "../shell.ts";

/** The hint for a word that is not a command of vidgen. */
export type Hint = {
  /** The typed word; with a space, a command of a group, such as "config get". */
  typed: readonly string[];
  /** What the command is for, or that vidgen does not offer this. */
  says: string;
  /** A free command. The words after the typed one replace `<id>`, `<rows>`, `[id]` or `[words]` if they fit; otherwise those in brackets are left out. */
  line: string;
};

/**
 * Hints for words that are not commands. They are not aliases, and no hint starts a generation, because a program that follows a hint must not pay for a
 * video because of a word that vidgen does not know.
 */
export const hints: readonly Hint[] = [
  {
    typed: ["show", "info", "view", "describe", "inspect", "progress", "check"],
    says: "To see one generation",
    line: "vidgen status [id]",
  },
  {
    typed: ["ls", "history", "jobs", "log", "logs", "ps", "search", "find"],
    says: "To see what was started on this machine",
    line: "vidgen list [words]",
  },
  { typed: ["open", "play", "preview"], says: "To open a saved video", line: "vidgen list --open [id]" },
  {
    typed: ["rm", "remove", "del", "erase"],
    says: "A saved video is a file of yours: delete it as any other. To delete a video at a service that can do that",
    line: "vidgen delete <id>",
  },
  {
    typed: ["forget"],
    says: "To remove a generation from the list, which deletes no video",
    line: "vidgen list --forget <id>",
  },
  {
    typed: ["price", "prices", "pricing", "cost", "costs"],
    says: "To see the models, and with a model's name what its videos have cost",
    line: "vidgen models [words]",
  },
  {
    typed: ["film", "movie", "join", "concat", "merge"],
    says: "vidgen makes a film from a file with a row for each shot. To see what it would start and cost, at no charge",
    line: "vidgen batch <rows> -o clips/ --join film.mp4 --dry-run",
  },
  {
    typed: ["download", "save", "fetch", "get-video"],
    says: "To save a video that was started before",
    line: "vidgen wait <id> -o .",
  },
  { typed: ["resume", "continue", "follow", "watch"], says: "To wait for a generation", line: "vidgen wait [id]" },
  { typed: ["stop", "kill", "abort"], says: "To stop a generation", line: "vidgen cancel <id>" },
  {
    typed: ["create", "make", "new", "render", "video", "text2video"],
    says: "`vidgen generate` makes a video, which a paid service charges for. To read how",
    line: "vidgen generate --help",
  },
  {
    typed: ["retry", "redo", "rerun", "repeat"],
    says: "`vidgen again` starts the same request once more, which is charged again. To read how",
    line: "vidgen again --help",
  },
  {
    typed: ["upscale", "enhance"],
    says: "vidgen does not upscale videos. A larger one can be asked for with --resolution",
    line: "vidgen generate --help",
  },
  {
    typed: ["extend", "lengthen"],
    says: "vidgen does not extend a video. A new one can begin with its last frame",
    line: "vidgen help film",
  },
  {
    typed: ["image", "picture", "photo"],
    says: "vidgen makes no images. A video can begin with one, with --image",
    line: "vidgen generate --help",
  },
  {
    typed: ["share", "upload", "publish", "send"],
    says: "vidgen does not share videos. To see where one is",
    line: "vidgen status [id]",
  },
  { typed: ["get", "set", "settings", "setup"], says: "To see the settings", line: "vidgen config" },
  { typed: ["signin", "auth", "init", "key"], says: "To save the key of a service", line: "vidgen login --help" },
  {
    typed: ["credits", "balance", "usage"],
    says: "To see what was started here, and how many credits are left as far as a service has said it",
    line: "vidgen list",
  },
  { typed: ["whoami"], says: "To check the login", line: "vidgen doctor" },
  {
    typed: ["add", "users", "user"],
    says: "To add an account to your own `vidgen serve`",
    line: "vidgen accounts create --help",
  },
  { typed: ["server", "daemon"], says: "To run the local service", line: "vidgen serve --help" },
  {
    typed: ["docs", "topics", "manual", "man", "examples"],
    says: "To see the pages of the manual",
    line: "vidgen help topics",
  },
  {
    typed: ["uninstall"],
    says: "npm removes vidgen, and leaves its folders. To see first where they are",
    line: "vidgen doctor",
  },
  {
    typed: ["config get", "config show", "config ls"],
    says: "To see the settings",
    line: "vidgen config",
  },
  {
    typed: ["accounts add", "accounts new"],
    says: "To add an account",
    line: "vidgen accounts create --help",
  },
  { typed: ["accounts show", "accounts ls"], says: "To see the accounts", line: "vidgen accounts" },
  {
    typed: ["accounts rm", "accounts remove"],
    says: "To delete an account",
    line: "vidgen accounts delete --help",
  },
];

/** The hint for a word, in one sentence that ends with a command; `rest` are the words after it. */
export function hintFor(word: string, rest: readonly string[] = [], shell: Shell = "posix"): string | undefined {
  const hint = hints.find(({ typed }) => typed.includes(word.toLowerCase()));
  return hint && `${hint.says}: ${fillIn(hint.line, rest, shell)}`;
}

function fillIn(line: string, rest: readonly string[], shell: Shell): string {
  return line.replace(/ (<id>|<rows>|\[id\]|\[words\])/, (place, name: string) => {
    if (rest.length > 0 && fits(name, rest)) return ` ${commandLine(rest, shell)}`;
    return name.startsWith("[") ? "" : place;
  });
}

function fits(name: string, [first = "", ...others]: readonly string[]): boolean {
  if (name === "[words]") return true;
  return others.length === 0 && !(name === "<rows>" && /\.(mp4|mov|mkv|webm)$/i.test(first));
}
