import { randomUUID } from "node:crypto";
import { resolve } from "node:path";
import type { Collected } from "../../client/collect.ts";
import { isOpen } from "../../client/journal.ts";
import { isFolder } from "../../client/target.ts";
import { isDistinct } from "../../client/template.ts";
import { asVidgenError, usage, type VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { openSession, type Session } from "../context.ts";
import type { Given } from "../program.ts";
import { checkPlace, describe, describeSaved, printCollected, printSaved } from "../result.ts";
import { findAlreadySaved, findSavedVideo } from "../saved.ts";
import { readInterval, readTime } from "../settings.ts";
import { errorDocument } from "../terminal/output.ts";
import { ringAfter } from "../terminal/progress.ts";

export type WaitOptions = Given & {
  ids: string[];
  all?: boolean;
  /** `-o` */
  save?: string;
  overwrite?: boolean;
  open?: boolean;
  bell?: boolean;
  timeout: string;
  interval?: string;
  local?: boolean;
  baseUrl?: string;
};

/** Follows generations that exist, side by side, and saves them with `-o`. Ends with the worst of their errors. */
export async function wait(options: WaitOptions, io: Io): Promise<void> {
  if (options.all && options.ids.length > 0) throw usage("--all takes no ids.");
  if (options.ids.includes("")) throw usage("An id is empty.");
  checkPlace(options.save, options, io);
  readTimes(options);
  const session = await openSession(options, io);
  options.defer(session.close);
  const ids = options.all ? await openIds(session) : await fullIds(options.ids, session);
  const isOne = !options.all && ids.length < 2;
  if (options.open && !isOne) throw usage("--open opens one video: name one id.");
  const follow = async () =>
    isOne
      ? waitForOne(ids[0] ?? (await session.newestRunning()), session, options, io)
      : waitForAll(ids, session, options, io);
  await ringAfter(options.bell ?? false, follow, io);
}

/** All that this machine has started at this service and that has not ended, or was to be saved and is not; the oldest first. */
async function openIds(session: Session): Promise<string[]> {
  const open = (await session.entries()).filter(isOpen);
  return open.flatMap(({ id }) => id ?? []).reverse();
}

/** Each generation once, however it was named. */
async function fullIds(typed: string[], session: Session): Promise<string[]> {
  return [...new Set(await Promise.all(typed.map(session.fullId)))];
}

async function waitForOne(id: string, session: Session, options: WaitOptions, io: Io): Promise<void> {
  const saved = await takeSaved(id, session, options);
  if (saved !== undefined) return printSaved(id, saved, { open: options.open ?? false, output: options.output, io });
  const print = { place: options.save, isHere: session.isHere(), open: options.open ?? false, output: options.output };
  await collectOne(id, session, options, (collected) => printCollected(collected, print, io));
}

/** So many are followed from the first moment on; each further one that much later, so that neither side has a thousand looks at once. */
const atOnce = 64;
const apartMs = 5;

/** Lines come as the videos do; the JSON document comes last, an array in the order of the ids. */
async function waitForAll(ids: string[], session: Session, options: WaitOptions, io: Io): Promise<void> {
  const { output, save } = options;
  if (save !== undefined && !isDistinct(save) && !(await isFolder(save)))
    throw usage("Several videos go into a folder, or get names that differ: -o folder/ or -o '{slug}-{id}.mp4'");
  if (ids.length === 0) output.note("There is nothing to wait for.");
  const errors: VidgenError[] = [];
  const follow = async (id: string, index: number): Promise<object> => {
    try {
      if (index > atOnce) await io.sleep((index - atOnce) * apartMs, io.signal);
      const saved = await takeSaved(id, session, options);
      if (saved !== undefined) {
        if (!output.json) await output.result(saved, undefined);
        return describeSaved(id, saved);
      }
      const use = async (collected: Collected) => {
        const print = { place: save, isHere: session.isHere(), open: false, output };
        if (!output.json) await printCollected(collected, print, io);
        return describe(collected, session.isHere());
      };
      return await collectOne(id, session, { ...options, first: index + 1 }, use);
    } catch (thrown) {
      const error = asVidgenError(thrown).with({ id });
      errors.push(output.json ? error : error.about(id));
      return { id, ...errorDocument(error) };
    }
  };
  const documents = await Promise.all(ids.map(follow));
  if (output.json) await output.result("", documents);
  const [worst, ...others] = errors.sort((a, b) => b.exit - a.exit);
  if (!worst) return;
  if (!output.json) for (const error of others) await output.fail(error);
  throw worst;
}

/**
 * A video that is saved already; with `--all` also one that has its name, though the process that gave it one died before it could write
 * that down.
 */
async function takeSaved(id: string, session: Session, options: WaitOptions): Promise<string | undefined> {
  const { output, overwrite } = options;
  const how = { place: options.save, overwrite, output };
  if (!options.all) return findAlreadySaved(id, session, how);
  const saved = await findSavedVideo(id, session, how);
  if (saved) await session.journal.append({ kind: "saved", id, file: resolve(saved.file) });
  return saved?.file;
}

async function collectOne<Result>(
  id: string,
  session: Session,
  options: WaitOptions & { first?: number },
  use: (collected: Collected) => Promise<Result>,
): Promise<Result> {
  const claim = { overwrite: options.overwrite ?? false, unique: randomUUID(), id, first: options.first ?? 1 };
  const target = options.save === undefined ? undefined : await session.claim(options.save, claim);
  const place = target?.place ?? options.save;
  options.defer(async () => target?.release());
  const collected = await session.collect(id, { ...readTimes(options), isNew: false, target, place, naming: {} });
  return use(collected).catch((error) => {
    throw session.explain(error, id, place);
  });
}

function readTimes({ timeout, interval }: WaitOptions) {
  return { timeoutMs: readTime(timeout, "--timeout"), intervalMs: readInterval(interval) };
}
