import { resolve } from "node:path";
import { usage, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { traced } from "../context.ts";
import type { Check } from "../doctor/check.ts";
import { checkConfig, checkDisk, checkJournal, checkLocalService, checkNode } from "../doctor/machine.ts";
import { checkNetwork, checkSettings } from "../doctor/network.ts";
import type { Given } from "../program.ts";

export type DoctorOptions = Given & { local?: boolean; baseUrl?: string };

/**
 * Looks at the surroundings, from causes to effects, and prints each check with its fix. Throws when one has failed: with the code that the
 * first of them would end a command with, since the others may follow from it. Costs nothing.
 */
export async function doctor(options: DoctorOptions, io: Io): Promise<void> {
  const { output } = options;
  if (options.local && options.baseUrl !== undefined) throw usage("--local and --base-url name two services.");
  const checks = [checkNode(io), await checkConfig(io), await checkJournal(io)];
  if (!options.local) checks.push(...(await checkRemote(options, io)));
  checks.push(await checkLocalService(io), await checkDisk(resolve(".")));
  const failed = checks.filter(({ state }) => state === "fail");
  const documents = checks.map(({ code: _, fix = null, ...check }) => ({ ...check, fix }));
  await output.result(checks.map(formatCheck).join("\n"), { ok: failed.length === 0, checks: documents });
  const [first] = failed;
  if (first)
    throw new VidgenError(first.code ?? "bug", `Not all is well: ${failed.map(({ name }) => name).join(", ")}.`, {
      hint: "What to do stands under each line that says fail.",
    });
}

async function checkRemote({ baseUrl: flag, output }: DoctorOptions, io: Io): Promise<Check[]> {
  const { checks, baseUrl, apiKey } = await checkSettings(flag, io);
  if (apiKey !== undefined) output.hide(apiKey);
  if (baseUrl === undefined) return checks;
  return [
    ...checks,
    ...(await checkNetwork({ baseUrl, apiKey }, { ...io, fetch: traced(io.fetch, baseUrl, output, io) })),
  ];
}

function formatCheck({ name, state, says, fix }: Check): string {
  const line = `${state}  ${name.padEnd(13)}  ${says}`;
  return fix === undefined ? line : `${line}\n      ${fix.replaceAll("\n", "\n      ")}`;
}
