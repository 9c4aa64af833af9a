import { dirname, isAbsolute, relative } from "node:path";
import type { Disk } from "../../io.ts";
import type { IntentLine } from "./history.ts";

/**
 * A typed command line that starts generations, by which its attempts are found again, also if values that it
 * does not say have changed since.
 */
export type CommandLine = {
  /** The hash of the words that decide about the request: see `hashLine`. */
  hash: string;
  /**
   * The hash that versions without `place_typed` recorded for the same words, if VIDGEN_MODEL gives the
   * model: it did not count then.
   */
  olderHash?: string | undefined;
  /**
   * Whether the line or VIDGEN_OUTPUT says the output path. Otherwise it is from vidgen.json, a setting or
   * the default, and may change.
   */
  isPlaceTyped: boolean;
  /**
   * Whether a person has answered questions about the request. The answers are new each time, so only the
   * same request is the same command.
   */
  isAnswered?: boolean | undefined;
  /** Whether the request begins with the last frame of a video file, whose bytes are a part of the hash. */
  isFromFile?: boolean | undefined;
} & ProjectPlace;

/**
 * The project that a line was typed in: the path of the vidgen.json that gave it values or references, or
 * else the working folder.
 */
export type ProjectPlace = { project: string; folder?: undefined } | { project?: undefined; folder: string };

/** Whether an attempt was started by the same line. By its older hash, only an attempt of an older version is. */
export function isSameLine(entry: Pick<IntentLine, "typed" | "project" | "folder">, line: CommandLine): boolean {
  if (entry.typed === undefined) return false;
  return entry.typed === line.hash || (entry.typed === line.olderHash && isOlder(entry));
}

/** Whether an older version, which recorded no project, started the attempt. */
function isOlder({ project, folder }: Pick<IntentLine, "project" | "folder">): boolean {
  return project === undefined && folder === undefined;
}

/**
 * Whether an attempt and a line are of the same project: neither has a vidgen.json; both have the same one;
 * one has none, and is in the folder of the other's; or that of the attempt no longer exists. An attempt of
 * an older version is of any project. Never rejects.
 */
export async function isSameProject(
  entry: Pick<IntentLine, "project" | "folder">,
  { project, folder }: ProjectPlace,
  { stat }: Pick<Disk, "stat">,
): Promise<boolean> {
  if (isOlder(entry) || entry.project === project) return true;
  if (entry.project === undefined) return isInFolderOf(project, entry.folder);
  if (isInFolderOf(entry.project, folder)) return true;
  return stat(entry.project).then(
    () => false,
    () => true,
  );
}

function isInFolderOf(project: string | undefined, folder: string | undefined): boolean {
  if (project === undefined || folder === undefined) return false;
  const path = relative(dirname(project), folder);
  return !isAbsolute(path) && path.split(/[/\\]/, 1)[0] !== "..";
}
