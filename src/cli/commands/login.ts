import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { checkApiKey, checkBaseUrl, withScheme } from "../../client/credentials.ts";
import { type ErrorCode, usage, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { baseUrlOption, withDetails } from "../command.ts";
import type { Context } from "../context.ts";
import { configPath, findBaseUrl, saveLogin } from "../settings.ts";
import { askSecret, askText, canAsk, checkedBy, readStdin } from "../terminal/prompts.ts";

export function addLogin(program: CommandUnknownOpts, context: Context): void {
  declare(program).action(async (options) => {
    const baseUrl = await login(options, context);
    await context.output.result("", { ok: true, base_url: baseUrl });
  });
}

function declare(program: CommandUnknownOpts) {
  const command = program
    .command("login")
    .summary("check and save an API key")
    .description(
      "Asks for an API key, checks it with the service, and saves it. The key is never passed on the command line.",
    )
    .option("--with-token", "read the key from stdin")
    .addOption(baseUrlOption("the service the key is for"));
  return withDetails(command, {
    examples: ["vidgen login", "vidgen login --base-url https://video.example --with-token < key.txt"],
  });
}

type Options = ReturnType<ReturnType<typeof declare>["opts"]>;

/** Asks for a key, checks it with the service, and saves it. Returns the base URL. */
export async function login(options: Options, context: Context): Promise<string> {
  const { io, output } = context;
  const baseUrl = await chooseBaseUrl(options, context);
  const key = await readKey(options, baseUrl, context);
  output.hide(key);
  const { traceFetch } = await import("../terminal/trace.ts");
  const verdict = await checkKey(baseUrl, key, { ...io, fetch: traceFetch(io.fetch, baseUrl, output, io) });
  const path = await saveLogin(baseUrl, key, io);
  output.note(`${verdict} Saved in plain text in ${path}, which only you can read.`);
  if (io.env.VIDGEN_API_KEY) output.note("VIDGEN_API_KEY is set and overrides the saved key.");
  return baseUrl;
}

const checkLimitMs = 30_000;
const tryAgain = "Check the base URL and your network, then try again.";

/** Checks a key with the service. Returns the note to print; throws when the key must not be saved. */
async function checkKey(baseUrl: string, apiKey: string, io: Io): Promise<string> {
  const { tryKey } = await import("../key-check.ts");
  const { describeFailure } = await import("../../client/reply.ts");
  const checking = tryKey({ baseUrl, apiKey, limitMs: checkLimitMs }, io);
  const { verdict, said, httpStatus } = await checking.catch((error) => {
    if (io.signal.aborted) throw error;
    throw notSaved("network", `Could not reach ${baseUrl}: ${describeFailure(error)}.`, { hint: tryAgain });
  });
  switch (verdict) {
    case "accepted":
      return "The service accepted the key.";
    case "unusual":
      return `The service did not reject the key, but its response is unusual: ${said}. If the key does not work, check the base URL.`;
    case "denied":
      throw notSaved("auth", `The service rejected this key: ${said}.`, { httpStatus });
    case "unavailable":
      throw notSaved("network", `The service cannot check the key right now: ${said}.`, { httpStatus, hint: tryAgain });
    case "foreign":
      throw notSaved("rejected", `${baseUrl} does not respond like the video service: ${said}.`, {
        httpStatus,
        hint: tryAgain,
      });
  }
}

function notSaved(code: ErrorCode, message: string, details: { httpStatus?: number; hint?: string }): VidgenError {
  return new VidgenError(code, `${message} Nothing was saved.`, details);
}

async function chooseBaseUrl(options: Options, context: Context): Promise<string> {
  const { io } = context;
  const known = await findBaseUrl(options.baseUrl === undefined ? undefined : withScheme(options.baseUrl), io);
  if (known !== undefined) return known;
  if (options.withToken || !canAsk(context, io))
    throw usage("The service's base URL is missing.", "Give --base-url <url> or set VIDGEN_BASE_URL.");
  const answer = await askText("The service's base URL:", checkedBy(checkBaseUrlAnswer), io);
  return checkBaseUrlAnswer(answer);
}

function checkBaseUrlAnswer(text: string): string {
  return checkBaseUrl(withScheme(text), "The base URL");
}

async function readKey({ withToken }: Options, baseUrl: string, context: Context): Promise<string> {
  const { io, output } = context;
  if (withToken) return checkApiKey((await readStdin(io)).toString("utf8"));
  if (!canAsk(context, io))
    throw usage("Cannot prompt for a key: not a terminal.", "Pipe it in: vidgen login --with-token < key.txt");
  output.note(`The key will be stored in plain text in ${configPath(io)}.`);
  return checkApiKey(
    await askSecret(output.redact(`API key for ${new URL(baseUrl).origin}:`), checkedBy(checkApiKey), io),
  );
}
