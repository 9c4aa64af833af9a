import type { Mishap } from "./machine.ts";
import type { Command } from "./people.ts";
import type { Act, Plan } from "./plan.ts";

/** What happens in a story, in the words of a person who watches. */
export function commandWords(command: Command): string {
  switch (command.type) {
    case "generate": {
      const { prompt, place, earlier, noWait, overwrite, timeoutMs } = command;
      return [
        `vidgen generate "${prompt}"`,
        ...(place === undefined ? [] : [`-o ${place}`]),
        ...(earlier === "resume" ? [] : [`--${earlier}`]),
        ...(noWait ? ["--no-wait"] : []),
        ...(overwrite ? ["--overwrite"] : []),
        ...timeoutWords(timeoutMs),
      ].join(" ");
    }
    case "wait":
    case "wait --all": {
      const { type, place, timeoutMs } = command;
      const which = type === "wait" ? "vidgen wait <each other id that is not saved>" : "vidgen wait --all";
      return [which, ...(place === undefined ? [] : [`-o ${place}`]), ...timeoutWords(timeoutMs)].join(" ");
    }
    case "batch": {
      const { file, rows, shard, retryUnknown, retryFailed, maxCredits, jobs } = command;
      return [
        `vidgen batch ${file} (${rows === 1 ? "1 row" : `${rows} rows`}) --jobs ${jobs}`,
        ...(shard ? [`--shard ${shard.index}/${shard.of}`] : []),
        ...(retryUnknown ? ["--retry-unknown"] : []),
        ...(retryFailed ? ["--retry-failed"] : []),
        ...(maxCredits === undefined ? [] : [`--max-credits ${maxCredits}`]),
      ].join(" ");
    }
    case "mcp": {
      const calls = command.calls.map(
        ({ prompt, again, cancels, waits }) =>
          `"${prompt}"${again ? " again" : ""}${cancels ? ", and cancels it" : ""}${waits ? ", and waits for it" : ""}`,
      );
      const budget = command.maxCredits === undefined ? "" : ` --max-credits ${command.maxCredits}`;
      return `vidgen mcp${budget}, where an agent asks for ${calls.join(command.isAtOnce ? ", at once " : ", then ")}`;
    }
    default:
      return "vidgen list --dismiss, for each attempt that is unclear";
  }
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
  intent: "its intent",
  accepted: "its writing down of an id",
  downloaded: "its writing down of a whole video",
  saved: "its writing down of a saved video",
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
