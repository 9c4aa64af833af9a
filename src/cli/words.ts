import { commandLine, type Shell } from "../shell.ts";

/** The hint for a word that is not a command of vidgen. */
export type Hint = {
  /** The typed word; with a space, a command of a group, such as "config get". */
  typed: readonly string[];
  /** What the command is for, or that vidgen does not offer what the word asks for. */
  purpose: string;
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
