import { randomUUID } from "node:crypto";
import { startInit } from "../../client/api.ts";
import { defaultModel } from "../../client/models.ts";
import { buildRequest, type Wish } from "../../client/request.ts";
import { findReusable, type Reusable } from "../../client/reuse.ts";
import type { StartRequest } from "../../client/schema.ts";
import { start } from "../../client/start.ts";
import { asVidgenError, beforePaying, usage } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { checkSettings, openKept, openSession, type Session } from "../context.ts";
import { askPlace, type Blank, commandOf, fillForm, summarize } from "../form.ts";
import { localBaseUrl } from "../local.ts";
import type { Given } from "../program.ts";
import { checkPlace, printCollected, printSaved } from "../result.ts";
import { findAlreadySaved } from "../saved.ts";
import { findBaseUrl, findModelSetting, readInterval, readTime } from "../settings.ts";
import type { Output } from "../terminal/output.ts";
import { ringAfter } from "../terminal/progress.ts";
import { askYes, canAsk, readPrompt } from "../terminal/prompts.ts";

export type GenerateOptions = Given & {
  prompt: string | undefined;
  model?: string;
  aspectRatio?: string;
  duration?: string;
  resolution?: string;
  image?: string[];
  callbackUrl?: string;
  set?: string[];
  /** `-o` */
  save?: string;
  download?: boolean;
  overwrite?: boolean;
  wait: boolean;
  reuse?: boolean;
  timeout: string;
  interval?: string;
  dryRun?: boolean;
  open?: boolean;
  bell?: boolean;
  local?: boolean;
  baseUrl?: string;
  input: boolean;
};

/** Starts a generation, waits for it, and saves it with `-o`. Prints the address, the saved file, or with `--no-wait` the id. */
export async function generate(options: GenerateOptions, io: Io): Promise<void> {
  const ready = await prepare(options, io).catch((error) => {
    throw beforePaying(error);
  });
  if (!ready) return;
  const { session, request, attempt, earlier, target, place, times } = ready;
  const { id, document } =
    earlier ?? (await startOnce(session, request, { attempt, place, output: options.output }, io));
  if (!options.wait) return await printId(session, { id, document }, options.output, io);
  const how = { ...times, isNew: !earlier, target, place, naming: request };
  const collected = await ringAfter(options.bell ?? false, () => session.collect(id, how), io);
  const print = {
    place,
    extra: document,
    isHere: session.isHere(),
    open: options.open ?? false,
    output: options.output,
  };
  await printCollected(collected, print, io).catch((error) => {
    throw session.explain(error, id, place);
  });
}

/** All that comes before anything is paid for; `undefined` where nothing is left to do. A video that cannot be saved is not paid for. */
async function prepare(options: GenerateOptions, io: Io) {
  const times = { timeoutMs: readTime(options.timeout, "--timeout"), intervalMs: readInterval(options.interval) };
  const given = choosePlace(options, io);
  const { wish, save } = await resolveWish(options, io);
  const asked = save ?? given;
  const request = buildRequest(wish);
  const attempt = randomUUID();
  if (options.dryRun) return await printDryRun(request, attempt, options, io);
  const session = await openSession(options, io);
  options.defer(session.close);
  const earlier = options.reuse ? await findEarlier(session, request, options.output, io) : undefined;
  if (earlier && (await printAlreadySaved(earlier, session, { ...options, place: asked }, io))) return undefined;
  const claim = {
    overwrite: options.overwrite ?? false,
    unique: attempt,
    naming: request,
    ...(earlier ? { id: earlier.id } : {}),
  };
  const target =
    asked === undefined
      ? undefined
      : await session.claim(asked, claim).catch((error) => {
          // A program goes on with what it has paid for.
          throw earlier ? asVidgenError(error).with({ id: earlier.id }) : error;
        });
  options.defer(async () => target?.release());
  return { session, request, attempt, earlier, target, place: target?.place ?? asked, times };
}

/** `--no-wait`. A Ctrl-C that came while the request was out counts now that its id is known. */
async function printId(session: Session, { id, document }: Begun, output: Output, io: Io): Promise<void> {
  try {
    await output.result(id, document);
    if (session.isHere())
      output.note(`It is made when it is waited for, vidgen wait ${id} --local, or by vidgen serve.`);
    io.signal.throwIfAborted();
  } catch (error) {
    throw session.explain(error, id, undefined);
  }
}

/** A generation that has begun, and what is known of it. */
type Begun = { id: string; document: object };

/** `--reuse`: the one to go on with instead of paying again. */
async function findEarlier(
  session: Session,
  request: StartRequest,
  output: Output,
  io: Io,
): Promise<Begun | undefined> {
  const found = findReusable(await session.entries(), request, io.date());
  if (!found) return undefined;
  output.note(`Going on with ${startedText(found)}; nothing is sent, nothing is charged.`);
  return { id: found.id, document: describeEarlier(found) };
}

function startedText({ id, at }: Reusable): string {
  return `${id}, which was started ${at.slice(0, 16)}Z`;
}

function describeEarlier({ id, at, status, remaining_credits, request: { model, prompt } }: Reusable): object {
  return { id, status, model, prompt, created_at: at, remaining_credits };
}

/** The same with `--dry-run`, which wants no key, and runs no local service. */
async function findEarlierUnasked(
  request: StartRequest,
  baseUrl: string | undefined,
  { local = false, output }: GenerateOptions,
  io: Io,
): Promise<Reusable | undefined> {
  const { journal, note } = await openKept(local, io);
  if (note !== undefined) output.note(note);
  const origin = local ? localBaseUrl : baseUrl;
  const entries = (await journal.entries()).filter((entry) => entry.base_url === origin);
  return findReusable(entries, request, io.date());
}

async function printEarlier(earlier: Reusable, output: Output): Promise<void> {
  const text = `It would go on with ${startedText(earlier)}; no request would be sent, nothing would be charged.`;
  await output.result(text, { reuse: describeEarlier(earlier) });
}

/** Whether there was nothing left to do: its video is where it is to go. */
async function printAlreadySaved(
  { id, document: extra }: Begun,
  session: Session,
  options: Pick<GenerateOptions, "overwrite" | "open" | "output"> & { place: string | undefined },
  io: Io,
): Promise<boolean> {
  const file = await findAlreadySaved(id, session, options);
  if (file === undefined) return false;
  await printSaved(id, file, { extra, open: options.open ?? false, output: options.output, io });
  return true;
}

/** Where the video goes; `undefined` when it is not to be saved. */
function choosePlace(options: GenerateOptions, io: Io): string | undefined {
  const asked = options.save ?? (options.download ? "." : undefined);
  if (!options.wait && asked !== undefined)
    throw usage("--no-wait has nothing to save yet: leave -o to `vidgen wait <id> -o ...`.");
  if (!options.wait && options.open)
    throw usage("--no-wait has nothing to open yet: leave --open to `vidgen wait <id> --open`.");
  checkPlace(asked, options, io);
  return asked ?? (options.local && options.wait ? "." : undefined);
}

/** What is to be made, and where a person wants it saved. */
type Asked = { wish: Wish; save: string | undefined };

/** What is to be made: from the command line and the settings, or asked for at a terminal. */
async function resolveWish(options: GenerateOptions, io: Io): Promise<Asked> {
  const { aspectRatio, duration, resolution, callbackUrl, image: images = [], set = [] } = options;
  const given = { aspectRatio, duration, resolution, callbackUrl, images, set };
  const prompt = await readPrompt(options.prompt, io);
  const usualModel = options.model ?? (await findModelSetting(io)) ?? defaultModel;
  if (prompt !== undefined) return { wish: { ...given, prompt, model: usualModel }, save: undefined };
  if (!canAsk(options, io))
    throw usage("There is no prompt.", 'Give one: vidgen generate "...", or - for stdin, or @file.');
  await checkBeforeAsking(given, options, io);
  return askForWish({ ...given, model: options.model, usualModel }, options, io);
}

/** Nobody fills in a form that could come to nothing. */
async function checkBeforeAsking(given: Omit<Wish, "prompt" | "model">, options: GenerateOptions, io: Io) {
  const model = options.model ?? defaultModel;
  // A field of one's own takes the place of the images, which are still to come.
  buildRequest({ ...given, prompt: "still to come", model, set: ["imageUrl=", ...given.set] });
  if (!options.local && !options.dryRun) await checkSettings(options, io);
}

/** The form, what it comes to, and a yes. Throws `interrupted` where that is not given: nothing was sent. */
async function askForWish(blank: Blank, options: GenerateOptions, io: Io): Promise<Asked> {
  const wish = await fillForm(blank, io);
  buildRequest(wish);
  const save = await askWhere(options, io);
  options.output.note(
    `\n${summarize(wish)}\n\nThe same as:\n  ${commandOf(wish, save === undefined ? options : { ...options, save }, io.env)}\n`,
  );
  if (!options.dryRun) await askYes(options.local ? "Start it?" : "Start it? It costs credits.", io);
  return { wish, save };
}

/** Nothing is asked that the flags say already, or that would come to nothing. */
async function askWhere(options: GenerateOptions, io: Io): Promise<string | undefined> {
  if (options.save !== undefined || options.download || options.dryRun || !options.wait) return undefined;
  const usual = options.local ? "the current folder" : "print its URL only";
  return askPlace({ usual, check: (place) => checkPlace(place, options, io) }, io);
}

type StartOnceOptions = { attempt: string; place: string | undefined; output: Output };

/** Sends the request, and says the id the moment it is known. */
async function startOnce(session: Session, request: StartRequest, options: StartOnceOptions, io: Io): Promise<Begun> {
  const { attempt, output } = options;
  const place = options.place === "-" ? undefined : options.place;
  const how = { attempt, place, journal: session.journal, signal: io.signal, leave: io.leave, onNote: output.note };
  // Elsewhere than at a terminal there is a line once there is something to tell.
  if (output.isLive) output.progress("Starting...");
  const { generation, remaining_credits } = await start(session.client, request, how, io).finally(output.rest);
  const credits = remaining_credits === undefined ? "" : `, ${remaining_credits} credits left`;
  output.note(`Started ${generation.id} (${request.model}${credits}).`);
  return { id: generation.id, document: { ...generation, remaining_credits } };
}

/**
 * `--dry-run`: the request as it would be sent, the key left out; with `--reuse` what it would go on with, where there is such. Needs
 * neither key nor base URL, and says when one is missing.
 */
async function printDryRun(request: StartRequest, attempt: string, options: GenerateOptions, io: Io): Promise<void> {
  const baseUrl = options.local ? "{local service}" : await findBaseUrl(options.baseUrl, io);
  if (baseUrl === undefined) options.output.note("No base URL is known; without --dry-run this would stop here.");
  const earlier = options.reuse ? await findEarlierUnasked(request, baseUrl, options, io) : undefined;
  if (earlier) return printEarlier(earlier, options.output);
  const { method, headers, body } = startInit(request, attempt);
  const url = `${baseUrl ?? "{base_url}"}/api/generate`;
  const all = { Authorization: "Bearer [key left out]", ...headers };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  const text = [`${method} ${url}`, ...lines, "", JSON.stringify(JSON.parse(body), null, 2)].join("\n");
  await options.output.result(text, { method, url, headers: all, body: request });
}
