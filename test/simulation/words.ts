import type { Mishap } from "./machine.ts";
import type { Command, LibraryCall, Said, Spelling } from "./people.ts";
import type { Act, Plan } from "./plan.ts";

/** What happens in a story, in the words of a person who watches. */
export function commandWords(command: Command): string {
  switch (command.type) {
    case "generate": {
      const { prompt, place, earlier, noWait, overwrite, timeoutMs, isDryFirst, isDryOnly, isFull } = command;
      const { again, keepsPrompt, count, models, project, piped, folder, settings, seed, path } = command;
      const { spellings = [] } = command;
      const typed =
        again === undefined ? "generate" : `again ${again === "id" ? "<the newest id that repeats none>" : again}`;
      return [
        ...(isDryFirst ? ["--dry-run, and then"] : []),
        `vidgen ${typed}${keepsPrompt ? "" : ` "${prompt}"`}`,
        ...(models ? [`-m ${models.join()}`] : []),
        ...(count === undefined || models ? [] : [`-n ${count}`]),
        ...(piped === undefined ? [] : ["-i -"]),
        ...(place === undefined ? [] : [`-o ${place}`]),
        ...(seed === undefined ? [] : [`--seed ${seed}`]),
        ...(earlier === "resume" ? [] : [`--${earlier}`]),
        ...(noWait ? ["--no-wait"] : []),
        ...(overwrite ? ["--overwrite"] : []),
        ...timeoutWords(timeoutMs),
        ...printWords(command),
        ...(isDryOnly ? ["--dry-run"] : []),
        ...(isFull ? ["> /dev/full"] : []),
        ...spellings.map((spelling) => `(${spellingNames[spelling]})`),
        ...(project === undefined ? [] : [`where ${folder ?? ""}/vidgen.json has the style ${project}`]),
        ...(settings === undefined ? [] : [`where config set has saved ${JSON.stringify(settings)}`]),
        ...pathWords(path),
        ...(piped === undefined ? [] : [`where the PNG on stdin has the time ${piped}`]),
      ].join(" ");
    }
    case "wait":
    case "wait --all": {
      const { type, place, timeoutMs } = command;
      const which = type === "wait" ? "vidgen wait <each other id that is not saved>" : "vidgen wait --all";
      return [
        which,
        ...(place === undefined ? [] : [`-o ${place}`]),
        ...timeoutWords(timeoutMs),
        ...printWords(command),
      ].join(" ");
    }
    case "batch": {
      const { file, rows, shard, retryUnknown, retryFailed, redo, maxCredits, jobs } = command;
      return [
        `vidgen batch ${file} (${rows === 1 ? "1 row" : `${rows} rows`}) --jobs ${jobs}`,
        ...(shard ? [`--shard ${shard.index}/${shard.of}`] : []),
        ...(retryUnknown ? ["--retry-unknown"] : []),
        ...(retryFailed ? ["--retry-failed"] : []),
        ...(redo === undefined ? [] : [`--redo ${redo}`]),
        ...(maxCredits === undefined ? [] : [`--max-credits ${maxCredits}`]),
        ...printWords(command),
        ...pathWords(command.path),
      ].join(" ");
    }
    case "mcp": {
      const calls = command.calls.map(
        ({ prompt, again, cancels, cancelsAtIntent, waits }) =>
          `"${prompt}"${again ? " again" : ""}${cancels ? ", and cancels it" : ""}${cancelsAtIntent ? ", and cancels it when it is written down" : ""}${waits ? ", and waits for it" : ""}`,
      );
      const budget = command.maxCredits === undefined ? "" : ` --max-credits ${command.maxCredits}`;
      return `vidgen mcp${budget}, where an agent asks for ${calls.join(command.isAtOnce ? ", at once " : ", then ")}`;
    }
    case "library":
      return `a program, which calls ${command.calls.map(callWords).join(command.isAtOnce ? ", at once " : ", then ")}`;
    case "delete":
      return `vidgen delete <the newest id>${command.files ? " --files" : ""}, where the service ${command.does}`;
    case "list --forget":
      return `vidgen list --forget <the attempt: ${command.which}> --yes`;
    case "cancel":
      return `vidgen cancel <the newest id>, where the service ${command.does}`;
    default:
      return "vidgen list --dismiss, for each attempt that is unclear";
  }
}

function callWords({ does, prompt, key, onExisting, place, throws }: LibraryCall): string {
  if (does === "resume") return "generations.resume()";
  const how = {
    ...(key && { key }),
    ...(onExisting && { onExisting }),
    ...(place && { output: place }),
    ...(throws && { throws }),
  };
  return `${does}("${prompt}"${Object.keys(how).length === 0 ? "" : `, ${JSON.stringify(how)}`})`;
}

/** Without the lines that tell that something still goes on. */
export function saidWords({ stdout, stderr }: Said): string {
  const lines = stderr.split("\n").filter((line) => !/^(Generating|Starting|Saving)/.test(line));
  const shown = [...lines, ...(stdout === "" ? [] : [`stdout: ${stdout}`])];
  return shown
    .flatMap(
      (line) =>
        line
          .trim()
          .split(/\s*\n\s*/)
          .join(" ") || [],
    )
    .join(" | ");
}

const spellingNames: Record<Spelling, string> = {
  model: "without -m, which has the default model",
  seed: "the seed as --set seed=",
  order: "its flags in another order",
  path: "its path with /./",
  id: "the id by 8 characters",
};

function pathWords(path: string | undefined): string[] {
  return path === undefined ? [] : [`where the base URL ends with ${path}`];
}

function printWords({ prints = "text" }: { prints?: string }): string[] {
  return prints === "text" ? [] : [`--${prints}`];
}

function timeoutWords(ms: number): string[] {
  return ms === 900_000 ? [] : [`--timeout ${ms / 1000}s`];
}

export function whereWords({ computer, namespace, key }: Act & { what: "command" }, plan: Plan): string {
  const where = plan.computers.length > 1 ? ` on machine ${computer + 1}` : "";
  return `${where}${namespace === "1" ? "" : " in another container"}${key === 0 ? "" : " with another key"}`;
}

/** `last` is what was seen of the process before. */
export function mishapWords(
  name: string,
  { what, on, nth, isAfter, ms, fault }: Mishap,
  last: string | undefined,
): string {
  const call = `${isAfter ? "after" : "before"} ${callNames[on]} no. ${nth}`;
  const when = last === undefined ? `, ${call}` : ` after it ${last} (${call})`;
  if (what === "disk")
    return `the disk ${fault?.does} ${fault?.where}, ${ms === 0 ? `once for ${name}` : `for ${ms / 1000} s`}${when}`;
  if (what === "edit") return `meanwhile, as ${name}${last === undefined ? " begins" : ` ${last}`} (${call}):`;
  if (what === "frozen") return `${name} is frozen for ${ms / 1000} s${when}`;
  return what === "killed" ? `${name} is killed${when}` : `${name} gets a Ctrl-C${when}`;
}

const callNames: Record<Mishap["on"], string> = {
  any: "its call",
  read: "its reading",
  write: "its writing",
  sync: "its fsync",
  name: "its change of a name",
  look: "its look at a file",
  request: "its request",
  answer: "its answer",
  print: "its printing",
  intent: "its intent",
  accepted: "its writing down of an id",
  downloaded: "its writing down of a whole video",
  delivered: "its writing down of a saved video",
  sent: "its start at the service",
};

export function lineWords(line: Record<string, unknown>): string {
  const { kind, attempt, id, file } = line;
  const about = [attempt, id].flatMap((each) => (typeof each === "string" ? [short(each)] : []));
  return [`has written down "${kind}"`, ...about, ...(typeof file === "string" ? [file] : [])].join(" ");
}

export function short(id: string): string {
  return id.slice(0, 8);
}

export function clockWords(ms: number): string {
  if (ms < -1e11) return "says 1970";
  if (ms === 0) return "is right";
  return ms > 0 ? `is ${ms / 1000} s ahead` : `is ${-ms / 1000} s behind`;
}
