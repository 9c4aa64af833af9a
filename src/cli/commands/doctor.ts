import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { usage, VidgenError } from "../../errors.ts";
import { baseUrlOption, type Context, localOption, withDetails } from "../command.ts";
import { type Check, pass } from "../doctor/check.ts";
import { asTyped } from "../terminal/output.ts";

export function addDoctor(program: CommandUnknownOpts, context: Context): void {
  declare(program).action((options) => doctor(options, context));
}

function declare(program: CommandUnknownOpts) {
  const command = program
    .command("doctor")
    .summary("look at what could be in the way")
    .description(
      "Looks at the settings, the key, the way to the service and this machine, and says what to do. Sends nothing that costs.\n" +
        "Ends with 0 when nothing has failed, else with the exit code of the first check that has.",
    )
    .addOption(localOption("leave the remote service out"))
    .addOption(baseUrlOption());
  return withDetails(command, {
    prints: "one line a check, with the fix",
    examples: ["vidgen doctor", "vidgen doctor --json"],
  });
}

type Options = ReturnType<ReturnType<typeof declare>["opts"]>;

/**
 * Runs the checks, causes before effects, and prints each with its fix. When checks failed, throws with the code of the first: the others may
 * follow from it. Costs nothing.
 */
async function doctor(options: Options, context: Context): Promise<void> {
  const { io, output } = context;
  if (options.local && options.baseUrl !== undefined) throw usage("--local and --base-url name two services.");
  const { checkConfig, checkDisk, checkJournal, checkLocalService } = await import("../doctor/machine.ts");
  const node = pass("node", `${io.nodeVersion} on ${io.platform}`);
  const checks = [node, await checkConfig(io), await checkJournal(io)];
  if (!options.local) checks.push(...(await checkRemote(options.baseUrl, context)));
  checks.push(await checkLocalService(io), await checkDisk());
  const failed = checks.filter(({ state }) => state === "fail");
  const typed = (text: string) => asTyped(text, io.env);
  const shown = checks.map(({ name, state, says, fix }) => ({
    ...{ name, state, says: typed(says), fix: fix === undefined ? null : typed(fix) },
  }));
  await output.result(shown.map(formatCheck).join("\n"), { ok: failed.length === 0, checks: shown });
  const [first] = failed;
  if (first)
    throw new VidgenError(first.code ?? "bug", `Not all is well: ${failed.map(({ name }) => name).join(", ")}.`, {
      hint: "What to do stands under each line that says fail.",
    });
}

async function checkRemote(flag: string | undefined, { io, output }: Context): Promise<Check[]> {
  const { traceFetch } = await import("../terminal/trace.ts");
  const { checkNetwork, checkSettings } = await import("../doctor/network.ts");
  const { checks, baseUrl, apiKey } = await checkSettings(flag, io);
  if (apiKey !== undefined) output.hide(apiKey);
  if (baseUrl === undefined) return checks;
  return [
    ...checks,
    ...(await checkNetwork({ baseUrl, apiKey }, { ...io, fetch: traceFetch(io.fetch, baseUrl, output, io) })),
  ];
}

function formatCheck({ name, state, says, fix }: Omit<Check, "fix"> & { fix: string | null }): string {
  const line = `${state}  ${name.padEnd(13)}  ${says}`;
  return fix === null ? line : `${line}\n      ${fix.replaceAll("\n", "\n      ")}`;
}
