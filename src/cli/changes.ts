import { withEngineFlag } from "../connect/engines.ts";
import { openServices } from "../connect/services.ts";
import type { SessionOptions } from "../connect/session.ts";
import { asVidgenError, compareSeverity, usage, type VidgenError } from "../errors.ts";
import type { Context } from "./context.ts";
import { type LocatedGeneration, locateGenerations } from "./generations.ts";

/**
 * The generations that `cancel` or `delete` names, each once. Throws as `findForChange` does if one of them
 * cannot be resolved.
 */
export async function locateForChange(
  typed: readonly string[],
  flags: Pick<SessionOptions, "local" | "baseUrl"> & { engine?: string[] },
  { io, output, defer }: Context,
): Promise<LocatedGeneration[]> {
  const options = withEngineFlag(flags);
  if (typed.includes("")) throw usage("An id is empty.");
  const services = await openServices({ ...options, output }, io);
  defer(services.close);
  const { findForChange } = await locateGenerations(options, services, io);
  const located = await Promise.all(typed.map(findForChange));
  return [...new Map(located.map((each) => [each.id, each])).values()];
}

/**
 * Changes generations one after the other; `change` returns the `--json` document of one. Throws the worst
 * error, and prints the others.
 */
export async function changeEach<Each extends { id: string }>(
  found: readonly Each[],
  change: (each: Each) => Promise<object>,
  { io, output }: Pick<Context, "io" | "output">,
): Promise<void> {
  const documents: object[] = [];
  const errors: VidgenError[] = [];
  const isOne = found.length === 1;
  for (const each of found) {
    try {
      documents.push(await change(each));
    } catch (thrown) {
      io.signal.throwIfAborted();
      const error = asVidgenError(thrown);
      documents.push({ id: each.id, ...output.errorDocument(error) });
      errors.push(isOne || output.json ? error : error.about(each.id));
    }
  }
  const [worst, ...others] = errors.sort(compareSeverity);
  if (output.json && !(isOne && worst)) await output.result("", isOne ? documents[0] : documents);
  if (!output.json) for (const error of others) await output.fail(error);
  if (worst) throw worst;
}
