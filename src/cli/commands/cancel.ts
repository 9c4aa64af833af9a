import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import type { cancelGeneration } from "../../client/generation/status.ts";
import { countCredits } from "../../protocol/text.ts";
import { baseUrlOption, engineOption, localOption, withDetails } from "../command.ts";
import type { Context } from "../context.ts";
import type { LocatedGeneration } from "../generations.ts";

export function addCancel(program: CommandUnknownOpts, context: Context): void {
  declare(program).action((ids, options) => cancel(ids, options, context));
}

function declare(program: CommandUnknownOpts) {
  const command = program
    .command("cancel")
    .helpGroup("Make videos:")
    .summary("cancel generations, where their service can")
    .description(
      "Cancels generations that have not ended, at the service where each was started, and prints how many credits were returned. The local service can cancel, unless an engine cannot stop the generation. If a service cannot cancel, the exit code is 1 and nothing is changed.",
    )
    .argument("<id...>", 'ids of generations, or at least 8 characters of each; "last" for the newest')
    .option("--account <name>", "for the owner of a `vidgen serve`: the account of the generations (default: your own)")
    .option("-y, --yes", "accepted and ignored: cancel does not ask")
    .addOption(localOption())
    .addOption(engineOption())
    .addOption(baseUrlOption());
  return withDetails(command, { examples: ["vidgen cancel <id>", "vidgen cancel last --local"] });
}

type CancelFlags = ReturnType<ReturnType<typeof declare>["opts"]>;

/** Cancels each generation. Prints nothing on stdout without `--json`. Throws the worst error. */
async function cancel(typed: string[], flags: CancelFlags, context: Context): Promise<void> {
  const { io, output } = context;
  const { changeEach, locateForChange } = await import("../changes.ts");
  const found = await locateForChange(typed, flags, context);
  const change = async (each: LocatedGeneration) => {
    const options = { account: flags.account, signal: io.signal };
    const { generation, creditsReturned, wasCancelled } = await cancelOne(each, options);
    // A free video has no price to report.
    const isFree = each.entry?.credits === 0;
    const creditsNote = isFree ? "" : ", and no credits were returned now";
    output.note(
      wasCancelled
        ? `${each.id} was already cancelled. Nothing was changed${creditsNote}.`
        : `Cancelled ${each.id}${isFree ? "" : creditsText(creditsReturned)}.`,
    );
    return { credits_returned: creditsReturned ?? null, ...generation };
  };
  await changeEach(found, change, context);
}

async function cancelOne(
  { id, open }: LocatedGeneration,
  { account, signal }: { account: string | undefined; signal: AbortSignal },
): ReturnType<typeof cancelGeneration> {
  const session = await open();
  const { forAccount } = await import("../../client/generation/delete.ts");
  const { cancelGeneration } = await import("../../client/generation/status.ts");
  return cancelGeneration(forAccount(session.service, account), id, { signal }).catch(async (error) => {
    throw await session.explainNotFound(error, id);
  });
}

function creditsText(returned: number | undefined): string {
  if (returned === undefined) return "";
  if (returned === 0) return "; no credits were returned";
  return `; ${countCredits(returned)} ${returned === 1 ? "was" : "were"} returned`;
}
