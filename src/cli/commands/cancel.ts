import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import type { cancelGeneration } from "../../client/generation/status.ts";
import { withEngineFlag } from "../../connect/engines.ts";
import { asVidgenError, compareSeverity, usage, type VidgenError } from "../../errors.ts";
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
async function cancel(typed: string[], flags: CancelFlags, { io, output, defer }: Context): Promise<void> {
  const options = withEngineFlag(flags);
  if (typed.includes("")) throw usage("An id is empty.");
  const { openServices } = await import("../../connect/services.ts");
  const { locateGenerations } = await import("../generations.ts");
  const services = await openServices({ ...options, output }, io);
  defer(services.close);
  const { findForChange } = await locateGenerations(options, services, io);
  // Nothing is cancelled if an id cannot be resolved.
  const located = await Promise.all(typed.map(findForChange));
  const found = [...new Map(located.map((each) => [each.id, each])).values()];
  const documents: object[] = [];
  const errors: VidgenError[] = [];
  for (const each of found) {
    try {
      const { generation, creditsReturned, wasCancelled } = await cancelOne(each, {
        account: options.account,
        signal: io.signal,
      });
      documents.push({ credits_returned: creditsReturned ?? null, ...generation });
      // A free video has no price to report.
      const isFree = each.entry?.credits === 0;
      const creditsNote = isFree ? "" : ", and no credits were returned now";
      output.note(
        wasCancelled
          ? `${each.id} was already cancelled. Nothing was changed${creditsNote}.`
          : `Cancelled ${each.id}${isFree ? "" : creditsText(creditsReturned)}.`,
      );
    } catch (thrown) {
      io.signal.throwIfAborted();
      const error = asVidgenError(thrown);
      documents.push({ id: each.id, ...output.errorDocument(error) });
      errors.push(found.length > 1 && !output.json ? error.about(each.id) : error);
    }
  }
  const [worst, ...others] = errors.sort(compareSeverity);
  if (output.json && (found.length > 1 || !worst)) await output.result("", found.length > 1 ? documents : documents[0]);
  if (!output.json) for (const error of others) await output.fail(error);
  if (worst) throw worst;
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
