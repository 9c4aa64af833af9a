import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { usage, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { baseUrlOption, localOption, withDetails } from "../command.ts";
import type { Context } from "../context.ts";
import { type Check, pass } from "../doctor/check.ts";
import { asTyped } from "../terminal/output.ts";
import { wrapFor } from "../terminal/text.ts";

export function addDoctor(program: CommandUnknownOpts, context: Context): void {
  declare(program).action((options) => doctor(options, context));
}

function declare(program: CommandUnknownOpts) {
  const command = program
    .command("doctor")
    .helpGroup("Set up:")
    .summary("diagnose problems with your setup")
    .description(
      "Checks the settings, the API key, the connection to the service and this machine, and prints a fix for each problem. Costs nothing.\n" +
        "Exits with 0 if no check failed, else with the exit code of the first check that failed.",
    )
    .addOption(localOption("skip the checks of the remote service"))
    .addOption(baseUrlOption());
  return withDetails(command, {
    examples: ["vidgen doctor", "vidgen doctor --json"],
  });
}

type DoctorFlags = ReturnType<ReturnType<typeof declare>["opts"]>;

/**
 * Runs the checks, causes before effects, and prints each with its fix. If checks fail, throws with the code
 * of the first: the others may follow from it. Costs nothing.
 */
async function doctor(options: DoctorFlags, context: Context): Promise<void> {
  const { io, output } = context;
  if (options.local && options.baseUrl !== undefined) throw usage("--local and --base-url cannot be combined.");
  const { checkConfig, checkDatabase, checkDelivery, checkDisk, checkFfmpeg, checkJournal, checkLocalService } =
    await import("../doctor/machine.ts");
  const node = pass("node", `${io.nodeVersion} on ${io.platform}`);
  const limits = await checkDelivery(io);
  const checks = [node, ...limits, await checkConfig(io), await checkJournal(io)];
  // Where no reply can be read, every check of the service would fail for that reason.
  if (!options.local && limits.length === 0) checks.push(...(await checkRemote(options.baseUrl, context)));
  checks.push(...(limits.length === 0 ? await checkLocalService(io) : []), ...(await checkDatabase(context)));
  checks.push(await checkFfmpeg(io), await checkDisk());
  const failedChecks = checks.filter(({ state }) => state === "fail");
  const withProgramName = (text: string) => asTyped(text, io.env);
  const shownChecks = checks.map(({ name, state, says, fix }) => ({
    name,
    state,
    says: withProgramName(says),
    fix: fix === undefined ? null : withProgramName(fix),
  }));
  const text = shownChecks.map((check) => formatCheck(check, io)).join("\n");
  const document = { ok: failedChecks.length === 0, checks: shownChecks };
  await output.result(text, document, { states: /^(pass|warn|fail)(?= )/gm });
  const [first] = failedChecks;
  if (!first) return;
  const count = `${failedChecks.length} ${failedChecks.length === 1 ? "check" : "checks"} failed`;
  throw new VidgenError(
    first.code ?? "bug",
    `${count}: ${[...new Set(failedChecks.map(({ name }) => name))].join(", ")}.`,
    {
      hint: "See the fix below each failed check.",
    },
  );
}

async function checkRemote(flag: string | undefined, { io, output }: Context): Promise<Check[]> {
  const { traceFetch } = await import("../../connect/trace.ts");
  const { checkNetwork, checkSettings } = await import("../doctor/network.ts");
  const { checks, baseUrl, apiKey } = await checkSettings(flag, io);
  if (baseUrl === undefined) return checks;
  return [
    ...checks,
    ...(await checkNetwork({ baseUrl, apiKey }, { ...io, fetch: traceFetch(io.fetch, baseUrl, output, io) })),
  ];
}

function formatCheck({ name, state, says, fix }: Omit<Check, "fix"> & { fix: string | null }, { stdout }: Io): string {
  const head = `${state}  ${name.padEnd(13)}  `;
  const line = `${head}${wrapFor(stdout, `${" ".repeat(head.length)}${says}`).trimStart()}`;
  return fix === null ? line : `${line}\n${wrapFor(stdout, fix.replace(/^/gm, "      "))}`;
}
