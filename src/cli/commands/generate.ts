import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { type RunEvent, type RunOptions, run } from "../../client/generation/run.ts";
import type { AcceptedStart, StartRequest } from "../../client/http/schema.ts";
import { shorten } from "../../client/http/text.ts";
import type { Earlier } from "../../client/ledger/policy.ts";
import { defaultModel, guessModel } from "../../client/request/models.ts";
import type { RequestInput } from "../../client/request/request.ts";
import { withEngine } from "../../connect/engines.ts";
import { formatAge, formatPrice } from "../../connect/format.ts";
import { explainLocalCredits } from "../../connect/local.ts";
import type { Session } from "../../connect/session.ts";
import { findModelSetting, findOutputSetting } from "../../connect/settings.ts";
import { asVidgenError, beforePaying, usage, type VidgenError } from "../../errors.ts";
import {
  baseUrlOption,
  bellOption,
  engineOption,
  eventsOption,
  flagWords,
  infoJsonOption,
  intervalOption,
  localOption,
  openOption,
  readTimes,
  saveOption,
  setOption,
  timeoutOption,
  withDetails,
} from "../command.ts";
import type { Context } from "../context.ts";
import { readFieldFlags, withFieldFlags } from "../field-flags.ts";
import { withService } from "../onboarding.ts";
import { waitCommand, withResumeHint } from "../resume.ts";
import { createProgress, ringAfter, showStart } from "../terminal/progress.ts";
import { askWhether, canAsk, readPrompt } from "../terminal/prompts.ts";
import { createReporter, type Reporter, watch } from "../terminal/reporter.ts";
import {
  checkInfoPath,
  checkOutputPath,
  earlierDocument,
  noteOutputPath,
  printResult,
  resultOf,
} from "../terminal/result.ts";

export function addGenerate(program: CommandUnknownOpts, context: Context): void {
  const command = declare(program);
  const { io, output } = context;
  const reporter = createReporter(createProgress(output, io), output, io);
  command.action((prompt, options) => generate(prompt, options, { command, reporter, ...context }));
}

function declare(program: CommandUnknownOpts) {
  const bare = program
    .command("generate")
    .summary("start a generation, wait for it, save it")
    .description(
      "Starts a generation and waits for it. Prints the video's URL; with -o, saves the video and prints the path.",
    )
    .argument("[prompt]", 'what the video shows; "-" reads stdin, "@path" a file');
  const command = withFieldFlags(bare)
    .addOption(setOption())
    .addOption(saveOption())
    .option("--download", "the same as -o .")
    .option("--overwrite", "replace the file if it exists")
    .addOption(infoJsonOption())
    .option("--no-wait", "print the id and exit")
    .option("--again", "start a new generation instead of resuming an interrupted run")
    .option(
      "--reuse",
      "resume any generation of the same request (a finished one for 24 hours) instead of paying for another",
    )
    .addOption(timeoutOption())
    .addOption(intervalOption())
    .addOption(openOption())
    .addOption(bellOption())
    .addOption(eventsOption())
    .option("--dry-run", "print what would be done, or the request, and send nothing")
    .addOption(localOption("use the local service: no account, no credits; saves to the current folder"))
    .addOption(engineOption())
    .addOption(baseUrlOption());
  return withDetails(command, {
    examples: [
      'vidgen generate "a red fox runs through snow at dusk" -o fox.mp4',
      'vidgen generate "a red fox runs through snow at dusk" --local',
      'vidgen generate "a red fox runs through snow at dusk" -m veo-3.1 --engine openrouter -o fox.mp4',
      "vidgen generate @prompt.txt --model sora-2 --aspect-ratio 9:16 --duration 8 -o clips/",
      'id=$(vidgen generate "waves at night" --no-wait)',
      'vidgen generate "waves at night" --reuse -o waves.mp4',
    ],
  });
}

type Options = ReturnType<ReturnType<typeof declare>["opts"]>;

/** Starts a generation, waits for it, and saves it with `-o`. Prints the address, the saved file, or with `--no-wait` the id. */
async function generate(typed: string | undefined, given: Options, context: GenerateContext): Promise<void> {
  const { io, output, reporter, defer } = context;
  const stop = (error: unknown) => {
    throw beforePaying(error);
  };
  const options = await withEngine(given, io)
    .then((chosen) => withService(chosen, context))
    .catch(stop);
  const ready = await prepare(typed, options, context).catch(stop);
  if (!ready) return;
  const { session } = ready;
  const startedAt = io.now();
  const events = run(ready.request, ready.how, session.client);
  defer(async () => void (await events.return(undefined)));
  const started = await start(events, ready, { ...context, options });
  const { id, document, credits, isResumed } = started;
  let { outputPath } = ready.how;
  try {
    if (!options.wait) return await printId(session, { id, document, events }, context);
    const ended = await ringAfter(options.bell ?? false, () => watch(id, events, { session, reporter }), io);
    outputPath = ended.outputPath;
    if (ended.error) throw ended.error;
    const saveCommand = waitCommand([id], { ...options, outputPath: "." }, io);
    const tookMs = isResumed ? undefined : io.now() - startedAt;
    const print = { outputPath, extra: document, open: options.open ?? false, tookMs, credits, saveCommand, output };
    const result = resultOf(ended, id, session.isInProcess(), output);
    await printResult(result, print, io);
    reporter.ended(id, result);
    await output.printed();
    await events.next();
  } catch (error) {
    throw reporter.stopped(id, withResumeHint(error, id, { ...options, outputPath }, io));
  }
}

type GenerateContext = Context & { command: ReturnType<typeof declare>; reporter: Reporter };

/** Does everything that can fail before the paid request; `undefined` when nothing is left to do. */
async function prepare(typed: string | undefined, options: Options, context: GenerateContext) {
  const { io, output, defer } = context;
  if (options.dryRun && output.events) throw usage("--events and --dry-run cannot be combined: nothing is started.");
  const { buildRequest } = await import("../../client/request/request.ts");
  const { openServices } = await import("../../connect/services.ts");
  const { readImages } = await import("../../client/request/images.ts");
  const times = readTimes(options);
  const { overwrite = false } = options;
  const given = await chooseOutputPath(options, context);
  const { input, outputPath } = await resolveInput(typed, { ...options, given }, context);
  checkInfoPath(outputPath, options);
  const request = buildRequest({ ...input, images: await readImages(input.images, { onNote: output.note }) });
  const earlier = howEarlier(options);
  if (options.dryRun) {
    const { printDryRun } = await import("../dry-run.ts");
    return await printDryRun(request, { ...options, outputPath, earlier }, context);
  }
  const services = await openServices({ ...options, isStarting: true, output }, io);
  defer(services.close);
  const session = await services.open();
  const saving = { outputPath, overwrite, infoJson: options.writeInfoJson };
  const balance = session.isLocal ? undefined : session.client.balance;
  const { signal, leave } = io;
  const how: RunOptions = { ...saving, ...times, earlier, noWait: !options.wait, balance, signal, leave };
  return { session, request, how };
}

function howEarlier({ again, reuse }: Options): Earlier {
  if (again && reuse) throw usage("--again and --reuse cannot be combined.");
  if (again) return "again";
  return reuse ? "reuse" : "resume";
}

/** Where the video goes, by flag or setting; `undefined` when neither says it. */
async function chooseOutputPath(
  options: Options,
  { io, output, command }: GenerateContext,
): Promise<string | undefined> {
  const { wait, open = false } = options;
  const asked = options.output ?? (options.download ? "." : undefined);
  if (!wait && asked !== undefined)
    throw usage("--no-wait cannot be combined with -o: save the video later with `vidgen wait <id> -o ...`.");
  if (!wait && open)
    throw usage("--no-wait cannot be combined with --open: open the video later with `vidgen wait <id> --open`.");
  if (!wait && command.getOptionValueSource("timeout") === "cli")
    throw usage("--no-wait cannot be combined with --timeout: wait later with `vidgen wait <id> --timeout ...`.");
  checkOutputPath(asked, { open, output }, io);
  noteOutputPath(asked, output);
  return asked ?? (wait ? await findOutputSetting(io) : undefined);
}

/**
 * The fields of the request, and where the video goes: from the command line and the settings (`given`), or asked for at a terminal. A local
 * video is always saved: its URL may end with the command.
 */
async function resolveInput(
  typed: string | undefined,
  options: Options & { given: string | undefined },
  context: GenerateContext,
): Promise<{ input: RequestInput; outputPath: string | undefined }> {
  const { io } = context;
  const { set = [], given } = options;
  const defaultPath = options.local && options.wait ? "." : undefined;
  const { texts, images } = readFieldFlags(context.command);
  const prompt = await readPrompt(typed, io);
  const usualModel = texts.model ?? (await findModelSetting(io)) ?? defaultModel;
  if (prompt !== undefined) {
    const model = await confirmModel(usualModel, options, context);
    return { input: { texts: { ...texts, prompt, model }, images, set }, outputPath: given ?? defaultPath };
  }
  if (!canAsk(context, io))
    throw usage("A prompt is missing.", 'Use vidgen generate "a prompt", - for stdin, or @path for a file.');
  const { askForInput } = await import("../interactive.ts");
  const isSaved = options.wait && !options.dryRun;
  const flags = (values: object) => flagWords(context.command, { ...options, ...values });
  return askForInput(
    { texts, images, set, usualModel },
    { ...options, outputPath: given, defaultPath, isSaved, flags },
    context,
  );
}

/** The model, or at a terminal the one that was meant by a slip. An engine may have models that vidgen does not know. */
async function confirmModel(model: string, { dryRun, engine }: Options, context: GenerateContext): Promise<string> {
  const guess = guessModel(model);
  if (guess === undefined || dryRun || engine !== undefined || !canAsk(context, context.io)) return model;
  const isMeant = await askWhether(`Unknown model "${shorten(model)}". Did you mean ${guess}?`, true, context.io);
  return isMeant ? guess : model;
}

type Events = AsyncGenerator<RunEvent, undefined>;
type Starting = GenerateContext & { options: Options };
type Ready = { session: Session; request: StartRequest; how: RunOptions };

/** Sends the request, or finds the generation that is resumed, and prints the id as soon as it is known. */
async function start(events: Events, ready: Ready, context: Starting): Promise<StartResult> {
  const { session, request } = ready;
  const { io, output, reporter } = context;
  const { value: first } = await events.next().catch((error) => {
    throw stoppedBefore(error, ready, context);
  });
  if (first?.event === "resumed") return tellResumed(first, ready, context);
  const { value: second } = await events.next().finally(showStart(output, io));
  if (second?.event !== "accepted") throw notStarted(second, session, reporter);
  const { id, attempt, started } = second;
  const { generation, credits_charged, remaining_credits, balance_fell } = started;
  const credits = session.isLocal ? undefined : credits_charged;
  const told = { id, attempt, model: request.model, resumed: false, remaining_credits, credits, balance_fell };
  reporter.tell({ event: "started", ...told });
  const cost = session.isLocal ? localCost(session) : remoteCost(started);
  output.note(`Started ${id} (${request.model}${cost}).`);
  return { id, document: { ...generation, credits_charged, remaining_credits }, credits, isResumed: false };
}

/** The error of a run that has sent nothing; one that was about to resume a generation says which, and how to go on. */
function stoppedBefore(error: unknown, { how }: Ready, { io, reporter, options }: Starting): unknown {
  const { id, code } = asVidgenError(error);
  if (id === undefined || code === "unknown" || code === "not_found") return error;
  return reporter.stopped(id, withResumeHint(error, id, { ...options, outputPath: how.outputPath }, io));
}

function notStarted(event: RunEvent | undefined, session: Session, reporter: Reporter): VidgenError {
  const ended = event?.event === "ended" ? event : undefined;
  if (ended?.error === undefined) throw new Error("a start ends with an id or an error");
  const { status, error } = ended;
  return reporter.notStarted(status, session.isLocal ? explainLocalCredits(error) : error);
}

function tellResumed(
  { id, attempt, earlier, isSaved }: RunEvent & { event: "resumed" },
  { how }: Ready,
  { io, output, reporter }: GenerateContext,
): StartResult {
  reporter.tell({ event: "started", id, attempt, model: earlier.request.model, resumed: true });
  const outcome = how.earlier === "reuse" ? "nothing is charged" : "--again starts a new one";
  if (!isSaved) output.note(`Resuming ${id}, started ${formatAge(earlier, io)} ago; ${outcome}.`);
  return { id, document: earlierDocument(earlier), isResumed: true };
}

/** The price is what the service states alone: the balance falls also by what others spend. */
function remoteCost({ credits_charged, remaining_credits, balance_fell = 0 }: AcceptedStart): string {
  const price = formatPrice({ credits: credits_charged });
  const left = remaining_credits === undefined ? "" : `, ${remaining_credits} credits left`;
  if (price !== undefined) return `, ${price}${left}`;
  return balance_fell > 0 ? `${left}; the balance fell by ${balance_fell}` : left;
}

function localCost({ engine }: Session): string {
  return engine.length === 0 ? ", free" : `, by ${engine.join(" ")}`;
}

/** `--no-wait`. A Ctrl-C that came while the request was out takes effect here, once the id is printed. */
async function printId(
  session: Session,
  { id, document, events }: Pick<StartResult, "id" | "document"> & { events: Events },
  { io, output }: Context,
): Promise<void> {
  await output.result(id, document);
  await output.printed();
  // From here on the same line starts a new one: whoever reads stdout has the id.
  await events.next();
  if (session.isInProcess())
    output.note(`It is rendered when you run vidgen wait ${id}, or while vidgen serve is running.`);
  io.signal.throwIfAborted();
}

/** A generation that was started, now or earlier, the fields that `--json` prints of it, and what it cost where that is known. */
type StartResult = { id: string; document: object; credits?: number | undefined; isResumed: boolean };
