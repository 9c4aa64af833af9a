import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import type { Deletable } from "../../client/generation/delete.ts";
import { formatAge } from "../../connect/format.ts";
import type { Session } from "../../connect/session.ts";
import { systemReason, usage, VidgenError } from "../../errors.ts";
import type { Disk, Io } from "../../io.ts";
import { shorten } from "../../protocol/text.ts";
import { baseUrlOption, engineOption, localOption, withDetails } from "../command.ts";
import type { Context } from "../context.ts";
import { displayPath } from "../terminal/result.ts";

export function addDelete(program: CommandUnknownOpts, context: Context): void {
  declare(program).action((ids, options) => deleteVideos(ids, options, context));
}

function declare(program: CommandUnknownOpts) {
  const command = program
    .command("delete")
    .helpGroup("Make videos:")
    .summary("delete videos, where their service can")
    .description(
      "Deletes the videos of generations that have ended, and their thumbnails, at the service where each was started. The local service can do that. The journal keeps what each cost. Your own files stay, unless you add --files.",
    )
    .argument("<id...>", 'ids of generations, or at least 8 characters of each; "last" for the newest')
    .option("--files", "also delete the saved file, unless it was changed")
    .option("--unclear", "delete a generation that may have been charged; the same line then pays for a new one")
    .option("-y, --yes", "do not ask; needed in a script")
    .option("--account <name>", "for the owner of a `vidgen serve`: the account of the generations (default: your own)")
    .addOption(localOption())
    .addOption(engineOption())
    .addOption(baseUrlOption());
  return withDetails(command, { examples: ["vidgen delete <id>", "vidgen delete <id> --files --yes"] });
}

type DeleteFlags = ReturnType<ReturnType<typeof declare>["opts"]>;

/** `account` is the account of the generation, if it is not the user's. */
type FoundVideo = Deletable & { session: Session; account: string | undefined };

/** Deletes each video. Prints nothing on stdout without `--json`. Throws the worst error. */
async function deleteVideos(typed: string[], flags: DeleteFlags, context: Context): Promise<void> {
  const { io, output } = context;
  const { changeEach, locateForChange } = await import("../changes.ts");
  const acknowledgesUnclear = flags.unclear ?? false;
  if (acknowledgesUnclear && typed.length > 1) throw usage("--unclear deletes one generation at a time.");
  const { deleteGeneration, findDeletable, findOtherAccount, forAccount } = await import(
    "../../client/generation/delete.ts"
  );
  const { canAsk } = await import("../terminal/prompts.ts");
  const found: FoundVideo[] = [];
  // Nothing is deleted if one of them cannot be deleted.
  for (const { id, open } of await locateForChange(typed, flags, context)) {
    const session = await open();
    const find = (account: string | undefined) =>
      findDeletable(forAccount(session.service, account), id, { ...io, acknowledgesUnclear });
    let { account } = flags;
    const deletable = await find(account).catch(async (error) => {
      // Another account is only searched if the user is asked, since the question names it. In a script, --account must name it.
      const isAsked = account === undefined && !flags.yes && canAsk(context, io);
      account = isAsked ? await findOtherAccount(session.service, id, io) : undefined;
      if (account === undefined) throw await session.explainNotFound(error, id);
      return find(account);
    });
    found.push({ ...deletable, session, account });
  }
  if (!flags.yes) await confirm(found, flags, context);
  const change = async (each: FoundVideo) => {
    const { id, isAtService, session, account } = each;
    await deleteGeneration(forAccount(session.service, account), each, io);
    output.note(isAtService ? `Deleted the video of ${id}.` : `The service no longer had a video of ${id}.`);
    const file = flags.files ? await deleteFile(each, io.disk) : undefined;
    if (flags.files) output.note(fileNote(each, file));
    return { id, deleted: true, was_there: isAtService, file_deleted: file ?? null };
  };
  await changeEach(found, change, context);
}

/** Throws `usage` if nobody can be asked, and `interrupted` if the answer is not yes. */
async function confirm(found: readonly FoundVideo[], { files, unclear }: DeleteFlags, context: Context): Promise<void> {
  const { io, output } = context;
  const { askWhether, canAsk } = await import("../terminal/prompts.ts");
  if (!canAsk(context, io))
    throw usage("Cannot ask for a confirmation here. Nothing was deleted.", "Add --yes to delete.");
  for (const each of found) output.note(describeVideo(each, io));
  const [what, theirs] =
    found.length === 1 ? ["this video", "its file"] : [`these ${found.length} videos`, "their files"];
  const hasFiles = found.some(({ file }) => file !== undefined);
  const stays =
    hasFiles && !files
      ? `${theirs} stay${found.length === 1 ? "s" : ""}, and the cost in the journal`
      : "the cost stays in the journal";
  const unclearNote = unclear ? " The same line then starts a new one, which is paid." : "";
  const question = `Delete ${what} at the service${accountsText(found)}${hasFiles && files ? `, and ${theirs}` : ""}? (${stays})${unclearNote}`;
  if (!(await askWhether(question, false, io))) throw new VidgenError("interrupted", "Nothing was deleted.");
}

/** Such as `7d562bbb-...: "a red fox", started 5 min ago, saved as fox.mp4`. */
function describeVideo({ id, entry, file, isAtService }: FoundVideo, io: Io): string {
  const about =
    entry === undefined ? [] : [`"${shorten(entry.request.prompt)}"`, `started ${formatAge(entry, io)} ago`];
  const place = file === undefined ? "never saved to a file here" : `saved as ${displayPath(file)}`;
  const isGone = isAtService ? [] : ["no longer at the service"];
  return `${id}: ${[...about, entry?.state === "failed" ? "failed" : place, ...isGone].join(", ")}`;
}

/** Such as ", of the account guest" or ", 2 of the account guest". */
function accountsText(found: readonly FoundVideo[]): string {
  const accounts = new Set(found.map(({ account }) => account).filter((account) => account !== undefined));
  const countOf = (name: string) => found.filter(({ account }) => account === name).length;
  const number = (name: string) => (found.length === countOf(name) ? "" : `${countOf(name)} `);
  return [...accounts].map((name) => `, ${number(name)}of the account ${name}`).join("");
}

/** Deletes the saved file if it still has the content that was saved. Returns its path, or `undefined` if it was not deleted. */
async function deleteFile({ entry, file }: Deletable, disk: Disk): Promise<string | undefined> {
  const { hasContent } = await import("../../client/ledger/content.ts");
  if (file === undefined || entry?.content === undefined) return undefined;
  if (!(await hasContent(file, entry.content, disk))) return undefined;
  await disk.rm(file).catch((error) => {
    throw new VidgenError("output", `Cannot delete ${file}: ${systemReason(error)}.`, { cause: error });
  });
  return file;
}

function fileNote({ id, file }: Deletable, deleted: string | undefined): string {
  if (deleted !== undefined) return `Deleted ${displayPath(deleted)}.`;
  if (file === undefined) return `No file of ${id} was saved here.`;
  return `${displayPath(file)} was not deleted: it is missing, or was changed since it was saved.`;
}
