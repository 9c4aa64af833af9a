import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { createFolder } from "../../client/save/files.ts";
import { openServices } from "../../connect/services.ts";
import { beforePaying } from "../../errors.ts";
import type { StartRequest } from "../../protocol/schema.ts";
import { withDetails } from "../command.ts";
import type { Context } from "../context.ts";
import { type PreparedStart, printId, type StartContext, startAndReport } from "../making.ts";
import { lineOf, waitNext, withResumeHint } from "../resume.ts";
import { readCommand } from "../start-command.ts";
import { mainFlags, readTyped, type TypedStart, withStartFlags } from "../start-flags.ts";
import type { Takes } from "../takes.ts";
import { createProgress, ringAfter } from "../terminal/progress.ts";
import { createReporter } from "../terminal/reporter.ts";
import { noteUnsaved } from "../unsaved.ts";
import { deliver, watch } from "../watch.ts";

export function addGenerate(program: CommandUnknownOpts, context: Context): void {
  const command = withStartFlags(
    program
      .command("generate")
      .helpGroup("Make videos:")
      .summary("start a generation, wait for it, save it")
      .description(
        "Starts a generation and waits for it. Prints the video's URL; with -o, saves the video and prints the path.",
      )
      .argument("[prompt]", 'what the video shows; "-" reads stdin, "@path" a file'),
  );
  withDetails(command, {
    examples: [
      'vidgen generate "a red fox runs through snow at dusk" -o fox.mp4',
      'vidgen generate "a red fox runs through snow at dusk" --local',
      'vidgen generate "a red fox runs through snow at dusk" -m veo-3.1 --engine openrouter -o fox.mp4',
      "vidgen generate @prompt.txt --model sora-2 --aspect-ratio 9:16 --duration 8 -o clips/",
      'vidgen generate "a red fox runs through snow at dusk" -n 3 -o clips/',
      'magick fox.jpg -resize 1280x png:- | vidgen generate "the fox turns its head" -i - -o fox.mp4',
      "vidgen generate \"a red fox runs through snow at dusk\" -m veo-3.1,sora-2 -o 'fox-{model}.mp4'",
      'id=$(vidgen generate "waves at night" --no-wait)',
      'vidgen generate "waves at night" --reuse -o waves.mp4',
    ],
    mainFlags,
  });
  command.action((argument, flags) =>
    generate(readTyped({ generation: undefined, argument }, flags, command), context),
  );
}

/**
 * Starts a generation, or several with `-n` or several models, waits for it, and saves it with `-o`. Prints
 * the URL, the saved file, or with `--no-wait` the id.
 */
export async function generate(typed: TypedStart, context: Context): Promise<void> {
  const { io, output } = context;
  const opened = await readAndOpen(typed, context).catch((error) => {
    throw beforePaying(error);
  });
  if (opened) {
    const { command, session, startOptions } = opened;
    const { flags, requests, completeRequests } = command;
    const reporter = createReporter(createProgress(output, io), output, io);
    const startContext = { ...context, flags, reporter };
    const [request] = requests;
    // It is one request.
    const complete = completeRequests && (async () => (await completeRequests(session))[0] as StartRequest);
    if (requests.length === 1 && request)
      await makeOne({ session, request, startOptions: { ...startOptions, complete } }, startContext);
    else {
      const { makeTakes } = await import("../takes.ts");
      await ringAfter(flags.bell ?? false, () => makeTakes(opened, startContext), io);
    }
  }
  await noteUnsaved(context);
}

/** Reads the command and opens its service. `undefined` after a dry run. */
async function readAndOpen(typed: TypedStart, context: Context): Promise<Takes | undefined> {
  const command = await readCommand(typed, context);
  if (typed.flags.dryRun) {
    const { printDryRun } = await import("../dry-run.ts");
    return printDryRun(command, context);
  }
  const { io, output, defer } = context;
  const { earlier, origin, flags, parent, outputPath, newFolder, protectedPaths, times } = command;
  const services = await openServices({ ...flags, isStarting: true, output }, io);
  defer(services.close);
  const session = await services.open(parent?.base_url);
  if (newFolder !== undefined) await createFolder(newFolder, newFolder, io.disk);
  const [request, ...others] = command.requests;
  const { checkSingle } = await import("../../client/batch/spending.ts");
  const overrun =
    request && others.length === 0 && (await checkSingle(request, command.budget, session.service, io.signal));
  // `abandon` aborts on the second Ctrl-C, also while a start request is out.
  const { signal, abandon } = io;
  const { overwrite = false, writeInfoJson: infoJson, wait } = flags;
  const startOptions = {
    earlier,
    origin,
    save: { outputPath, overwrite, protectedPaths, infoJson },
    times,
    noWait: !wait,
    signal,
    abandon,
    // Several starts are checked one by one. To resume one costs nothing.
    check() {
      if (overrun) throw overrun;
    },
  };
  return { command, session, startOptions };
}

/** Starts one generation, or resumes it, follows it, and prints its result. */
async function makeOne(prepared: PreparedStart, context: StartContext): Promise<void> {
  const { io, output, reporter, flags } = context;
  const { session } = prepared;
  const startedAt = io.now();
  const started = await startAndReport(prepared, context);
  const { attempt, document, credits, accepted } = started;
  const { id, outputPath } = attempt;
  try {
    if (!flags.wait) return await printId(started, session, context);
    const finished = await ringAfter(flags.bell ?? false, () => watch(attempt, { session, reporter }), io);
    const saveCommand = lineOf(waitNext([id], { ...flags, outputPath: "." }), io);
    const tookMs = accepted && io.now() - startedAt;
    const print = { outputPath, extra: document, open: flags.open ?? false, tookMs, credits, saveCommand, output };
    await deliver(finished, print, { session, reporter, io });
  } catch (thrown) {
    const error = withResumeHint(thrown, id, { ...flags, outputPath }, io);
    reporter.stopped(id, error);
    throw error;
  }
}
