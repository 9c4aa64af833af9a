import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { readBudget } from "../../connect/budget.ts";
import { withEngine } from "../../connect/engines.ts";
import { checkUsableUrl } from "../../connect/settings.ts";
import { readNumber } from "../../connect/values.ts";
import { usage } from "../../errors.ts";
import { expandHome } from "../../io.ts";
import { baseUrlOption, engineOption, engineTimeoutOption, localOption, withDetails } from "../command.ts";
import type { Context } from "../context.ts";

export function addMcp(program: CommandUnknownOpts, context: Context): void {
  declare(program).action((options) => mcp(options, context));
}

function declare(program: CommandUnknownOpts) {
  const command = program
    .command("mcp")
    .helpGroup("Run a service:")
    .summary("make videos for AI agents (MCP)")
    .description(
      "Runs a Model Context Protocol server on stdin and stdout, for AI agents. Its tools are generate_video, repeat_video, get_video, save_video, cancel_video, delete_video, list_videos, list_models and get_credits. A repeated call is not charged again. --max-credits and --max-cost limit what a session may spend.",
    )
    .option("--dir <folder>", "where videos are saved and images are read (default: the current folder)")
    .option("--max-credits <n>", "the most credits that a session may spend (default: VIDGEN_MCP_MAX_CREDITS)")
    .option("--max-cost <usd>", "the same in US dollars, at the provider of --engine")
    .addOption(localOption("use the local service: no account, no credits"))
    .addOption(engineOption())
    .addOption(engineTimeoutOption())
    .addOption(baseUrlOption());
  return withDetails(command, {
    examples: [
      "claude mcp add vidgen -- vidgen mcp",
      "vidgen mcp --dir ~/videos",
      "vidgen mcp --max-credits 500",
      "vidgen mcp --local",
    ],
  });
}

type McpFlags = ReturnType<ReturnType<typeof declare>["opts"]>;

/** Serves an AI agent until it closes stdin. Starts without a key: each tool reads it when needed. */
async function mcp({ dir, ...flags }: McpFlags, context: Context): Promise<void> {
  const { io, output, defer } = context;
  const { local, baseUrl, engine, engineTimeout } = await withEngine(flags, io);
  if (local && baseUrl !== undefined) throw usage("--local and --base-url cannot be combined.");
  if (baseUrl !== undefined) await checkUsableUrl(baseUrl, "--base-url", io);
  const limit = io.env.VIDGEN_MCP_MAX_CREDITS;
  const defaultCredits = limit === undefined ? undefined : readNumber(limit, "VIDGEN_MCP_MAX_CREDITS", { min: 1 });
  const { maxCredits = defaultCredits, maxCost } = readBudget(flags);
  const { openFolder } = await import("../../mcp/folder.ts");
  const { openServices } = await import("../../connect/services.ts");
  const { createStarts } = await import("../../mcp/starts.ts");
  const { createTools } = await import("../../mcp/tools.ts");
  const { serve } = await import("../../mcp/server.ts");
  const folder = await openFolder(dir && expandHome(dir, io), io);
  const target = { ...(local && { local }), ...(baseUrl !== undefined && { baseUrl }) };
  const serviceOptions = { ...target, ...(engine && { engine }), engineTimeout, isStarting: true };
  const services = await openServices({ ...serviceOptions, output }, io);
  defer(services.close);
  const ending = new AbortController();
  const start = createStarts({ services, budget: { maxCredits, maxCost }, ending: ending.signal }, io);
  const tools = createTools({ ...target, services, start, folder }, io);
  await serve({ tools, ending, redact: output.redact, onNote: output.note }, io);
}
