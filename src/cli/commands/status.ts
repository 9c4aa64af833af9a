import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import type { Entry } from "../../client/ledger/history.ts";
import { withEngineFlag } from "../../connect/engines.ts";
import { formatAge } from "../../connect/format.ts";
import { usage, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import type { WireGeneration } from "../../protocol/schema.ts";
import { shorten } from "../../protocol/text.ts";
import { isDataUrl } from "../../protocol/url.ts";
import { baseUrlOption, engineOption, localOption, withDetails } from "../command.ts";
import type { Context } from "../context.ts";
import { withResume } from "../resume.ts";
import { plainLine } from "../terminal/output.ts";
import { checkVideoUrl } from "../terminal/result.ts";
import { noteUnsaved } from "../unsaved.ts";

export function addStatus(program: CommandUnknownOpts, context: Context): void {
  declare(program).action(async (id, options) => {
    await status(id, options, context);
    await noteUnsaved(context);
  });
}

function declare(program: CommandUnknownOpts) {
  const command = program
    .command("status")
    .helpGroup("Get information:")
    .summary("show the status of a generation")
    .description(
      "Prints the id, the status and, once there is one, the URL of a generation: a sentence at a terminal, tab-separated otherwise.",
    )
    .argument(
      "[id]",
      'id of a generation, its saved file, "last" for the newest (default: the newest running one, else the newest)',
    )
    .option("--exit-status", "exit with 4 if it failed, with 5 if it is running, with 6 if the outcome is unknown")
    .addOption(localOption())
    .addOption(engineOption())
    .addOption(baseUrlOption());
  return withDetails(command, {
    examples: ["vidgen status <id>", "until vidgen status <id> --exit-status || [ $? -ne 5 ]; do sleep 10; done"],
  });
}

type StatusFlags = ReturnType<ReturnType<typeof declare>["opts"]>;

/** Polls a generation once. Prints its id, its status, and its URL when there is one. */
async function status(typed: string | undefined, flags: StatusFlags, { io, output, defer }: Context): Promise<void> {
  const options = withEngineFlag(flags);
  if (typed === "") throw usage("The id is empty.");
  const { openServices } = await import("../../connect/services.ts");
  const { locateGenerations } = await import("../generations.ts");
  const { failedError, readStage, readVideoUrl } = await import("../../client/generation/follow.ts");
  const { failureReason } = await import("../../protocol/schema.ts");
  const { chargedOf, withCharge } = await import("../../client/ledger/price.ts");
  const services = await openServices({ ...options, output }, io);
  defer(services.close);
  const generations = await locateGenerations(options, services, io);
  const located = await (typed === undefined ? generations.findRunningOrLast() : generations.find(typed));
  const { id, open } = located;
  const session = await open();
  const { readStatus } = await import("../../client/generation/status.ts");
  const generation = await readStatus(session.service, id, { signal: io.signal }).catch(async (error) => {
    throw await session.explainNotFound(error, id);
  });
  const { entry } = located;
  const isFree = entry !== undefined && chargedOf(entry) === "no";
  const failure = generation.status === "failed" ? failedError(generation.id, generation, { isFree }) : undefined;
  const urlsOutliveCommand = !session.service.isInProcess();
  const videoUrl = session.durableUrl(readVideoUrl(generation));
  if (videoUrl !== undefined) checkVideoUrl(videoUrl, generation.id, output);
  const videoText = isDataUrl(generation.video_url ?? "") ? generation.video_url : undefined;
  const fields = [generation.id, generation.status, videoUrl ?? videoText].filter((field) => typeof field === "string");
  const document = urlsOutliveCommand ? generation : { ...generation, video_url: null, thumbnail_url: null };
  const file = await findFile(entry, io);
  const text = io.stdout.isTTY
    ? describe(generation, { where: file === undefined ? videoUrl : `saved as ${file}`, entry }, io)
    : fields.map(plainLine).join("\t");
  await output.result(text, document);
  // A printed URL counts as delivered: the user has what they need to get the video.
  if (videoUrl !== undefined && entry?.state !== "delivered") {
    await output.printed();
    const { recordDelivered } = await import("../../client/generation/attempt.ts");
    await recordDelivered(session.service, id);
  }
  if (videoText !== undefined && file === undefined) output.note(`Save it with: vidgen wait ${id} -o <file>`);
  const isFilePrinted = io.stdout.isTTY && file !== undefined;
  if (!urlsOutliveCommand && generation.status === "completed" && !isFilePrinted)
    output.note(file === undefined ? `Save it with: vidgen wait ${id} -o <file>` : `Already saved: ${file}`);
  if (failure) output.note(failureReason(generation) ?? "The service gave no reason.");
  const stage = readStage(generation);
  if (!options.exitStatus && stage !== undefined) output.note(`${capitalize(stage)}.`);
  if (!options.exitStatus || generation.status === "completed") return;
  const progressText = capitalize(stage ?? "still generating");
  const error = withCharge(failure ?? new VidgenError("pending", `${progressText}.`), entry);
  throw withResume(error, generation.id, { ...options, outputPath: undefined }, io);
}

function capitalize(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The saved file, if it still exists. */
async function findFile(entry: Entry | undefined, { disk }: Pick<Io, "disk">): Promise<string | undefined> {
  if (entry?.file === undefined || entry.file === "-") return undefined;
  return (await disk.stat(entry.file).catch(() => undefined)) && entry.file;
}

type Known = { where: string | undefined; entry: Entry | undefined };

/** A generation in one line for a person. */
function describe({ id, status }: WireGeneration, { where, entry }: Known, io: Io): string {
  const about =
    entry && ` (${shorten(entry.request.prompt, 40)}, ${entry.request.model}), started ${formatAge(entry, io)} ago`;
  return plainLine(`${id}${about ?? ""}: ${status}${where === undefined ? "" : `, ${where}`}`);
}
