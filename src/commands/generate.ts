import { randomUUID } from "node:crypto";
import { startInit } from "../api/client.ts";
import { aspectRatios, defaultModel, type Model, models } from "../api/models.ts";
import type { StartRequest } from "../api/schema.ts";
import { usage, VidgenError } from "../errors.ts";
import { buildRequest, type Wish } from "../generations/request.ts";
import { findReusable } from "../generations/reuse.ts";
import { start } from "../generations/start.ts";
import type { Target } from "../generations/target.ts";
import type { Io } from "../io.ts";
import type { Output } from "../output.ts";
import type { Given } from "../program.ts";
import { askChoice, askText, type Choice, canAsk, readPrompt } from "../prompts.ts";
import { checkPlace, printCollected } from "../result.ts";
import { openSession, programName, quote, type Session } from "../session.ts";
import { findBaseUrl, findModelSetting, readInterval, readTime } from "../settings.ts";

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
  local?: boolean;
  baseUrl?: string;
  input: boolean;
};

/** Starts a generation, waits for it, and saves it with `-o`. Prints the address, the saved file, or with `--no-wait` the id. */
export async function generate(options: GenerateOptions, io: Io): Promise<void> {
  const times = { timeoutMs: readTime(options.timeout, "--timeout"), intervalMs: readInterval(options.interval) };
  const asked = choosePlace(options, io);
  const wish = await resolveWish(options, io);
  const request = buildRequest({ ...wish, images: options.image ?? [], ...pick(options) });
  const attempt = randomUUID();
  if (options.dryRun) return printDryRun(request, attempt, options, io);
  const session = await openSession(options, io);
  options.defer(session.close);
  const earlier = options.reuse ? await findEarlier(session, request, options.output, io) : undefined;
  const naming = { prompt: request.prompt, model: request.model };
  const target =
    asked === undefined ? undefined : await claimBeforePaying(session, asked, { ...options, attempt, earlier, naming });
  const place = target?.place ?? asked;
  options.defer(async () => target?.release());
  const { id, document } =
    earlier ?? (await startOnce(session, request, { attempt, place, output: options.output }, io));
  if (!options.wait) return await printId(session, { id, document }, options.output, io);
  const collected = await session.collect(id, { ...times, isNew: !earlier, target, place, naming });
  const print = { place, extra: document, isHere: session.isHere(), output: options.output };
  await printCollected(collected, print, io).catch((error) => {
    throw session.explain(error, id, place);
  });
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
  const { id, at, status, remaining_credits } = found;
  output.note(`Going on with ${id}, which was started ${at.slice(0, 16)}Z; nothing is sent, nothing is charged.`);
  const { model, prompt } = request;
  return { id, document: { id, status, model, prompt, created_at: at, remaining_credits } };
}

function pick({ duration, resolution, callbackUrl, set = [] }: GenerateOptions) {
  return { duration, resolution, callbackUrl, set };
}

/** Where the video goes; `undefined` when it is not to be saved. */
function choosePlace(options: GenerateOptions, io: Io): string | undefined {
  const asked = options.save ?? (options.download ? "." : undefined);
  if (!options.wait && asked !== undefined)
    throw usage("--no-wait has nothing to save yet: leave -o to `vidgen wait <id> -o ...`.");
  checkPlace(asked, options.output, io);
  return asked ?? (options.local && options.wait ? "." : undefined);
}

/** The prompt, the model and the ratio: from the command line and the settings, or asked for at a terminal. */
async function resolveWish(options: GenerateOptions, io: Io): Promise<Pick<Wish, "prompt" | "model" | "aspectRatio">> {
  const prompt = await readPrompt(options.prompt, io);
  const model = options.model ?? (await findModelSetting(io)) ?? defaultModel;
  if (prompt !== undefined) return { prompt, model, aspectRatio: options.aspectRatio };
  if (!canAsk(options, io))
    throw usage("There is no prompt.", 'Give one: vidgen generate "...", or - for stdin, or @file.');
  const asked = {
    prompt: await askText("What should the video show?", (text) => text.trim() !== "" || "A few words, please.", io),
    model: options.model ?? (await askChoice("Which model?", choicesFor(options), model, io)),
    aspectRatio: options.aspectRatio ?? (await askChoice("Which aspect ratio?", ratioChoices, "16:9", io)),
  };
  const flags = flagWords({ ...options, ...asked });
  const words = asked.prompt.startsWith("-") ? [...flags, "--", asked.prompt] : [asked.prompt, ...flags];
  options.output.note(`The same as: ${programName(io.env)} generate ${words.map(quote).join(" ")}`);
  return asked;
}

/** The flags that say what these options say. */
function flagWords(options: GenerateOptions & { model: string; aspectRatio: string }): string[] {
  const named = {
    duration: options.duration,
    resolution: options.resolution,
    "callback-url": options.callbackUrl,
    "base-url": options.baseUrl,
  };
  const place = options.save ?? (options.download ? "." : undefined);
  return [
    ...["--model", options.model, "--aspect-ratio", options.aspectRatio],
    ...Object.entries(named).flatMap(([name, value]) => (value === undefined ? [] : [`--${name}`, value])),
    ...(options.image ?? []).flatMap((url) => ["--image", url]),
    ...(options.set ?? []).flatMap((setting) => ["--set", setting]),
    ...(options.local ? ["--local"] : []),
    ...(place === undefined ? [] : ["-o", place]),
    ...(options.overwrite ? ["--overwrite"] : []),
    ...(options.wait ? [] : ["--no-wait"]),
  ];
}

const ratioChoices: Choice[] = aspectRatios.map((ratio) => ({
  value: ratio,
  name: ratio,
}));

/** Models that want images only where there are some: the form does not ask for them. */
function choicesFor({ image = [] }: GenerateOptions): Choice[] {
  return models.filter((model) => !model.images || image.length > 0).map(modelChoice);
}

function modelChoice({ id, characteristic }: Model): Choice {
  return { value: id, name: `${id}: ${characteristic}` };
}

type ClaimOptions = {
  overwrite?: boolean;
  attempt: string;
  earlier: Begun | undefined;
  naming: { prompt: string; model: string };
};

/** A video that cannot be saved is not paid for. */
async function claimBeforePaying(session: Session, place: string, options: ClaimOptions): Promise<Target> {
  const { overwrite = false, attempt: unique, earlier, naming } = options;
  try {
    return await session.claim(place, { overwrite, unique, naming, ...(earlier ? { id: earlier.id } : {}) });
  } catch (error) {
    if (!(error instanceof VidgenError)) throw error;
    const message = `${error.message} Nothing was sent, nothing was charged.`;
    throw new VidgenError(error.code, message, { hint: error.hint, cause: error });
  }
}

type StartOnceOptions = { attempt: string; place: string | undefined; output: Output };

/** Sends the request, and says the id the moment it is known. */
async function startOnce(session: Session, request: StartRequest, options: StartOnceOptions, io: Io): Promise<Begun> {
  const { attempt, output } = options;
  const place = options.place === "-" ? undefined : options.place;
  const how = { attempt, place, journal: session.journal, signal: io.signal, leave: io.leave, onNote: output.note };
  const { generation, remaining_credits } = await start(session.client, request, how, io);
  const credits = remaining_credits === undefined ? "" : `, ${remaining_credits} credits left`;
  output.note(`Started ${generation.id} (${request.model}${credits}).`);
  return { id: generation.id, document: { ...generation, remaining_credits } };
}

/** `--dry-run`: the request as it would be sent, the key left out. Needs neither key nor base URL, and says when one is missing. */
async function printDryRun(request: StartRequest, attempt: string, options: GenerateOptions, io: Io): Promise<void> {
  const baseUrl = options.local ? "{local service}" : await findBaseUrl(options.baseUrl, io);
  if (baseUrl === undefined) options.output.note("No base URL is known; without --dry-run this would stop here.");
  const { method, headers, body } = startInit(request, attempt);
  const url = `${baseUrl ?? "{base_url}"}/api/generate`;
  const all = { Authorization: "Bearer [key left out]", ...headers };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  const text = [`${method} ${url}`, ...lines, "", JSON.stringify(JSON.parse(body), null, 2)].join("\n");
  await options.output.result(text, { method, url, headers: all, body: request });
}
