import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { checkApiKey, checkBaseUrl } from "../../client/credentials.ts";
import type { Reply } from "../../client/reply.ts";
import { isTransient } from "../../client/retry.ts";
import { asVidgenError, usage, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { baseUrlOption, type Context, withDetails } from "../command.ts";
import { configPath, findBaseUrl, resolveBaseUrl, saveLogin } from "../settings.ts";
import { askSecret, askText, type Check, canAsk, readStdin } from "../terminal/prompts.ts";

export function addLogin(program: CommandUnknownOpts, context: Context): void {
  declare(program).action((options) => login(options, context));
}

function declare(program: CommandUnknownOpts) {
  const command = program
    .command("login")
    .summary("check and save an API key")
    .description("Asks for an API key, checks it with the service, and saves it. The key never goes on a command line.")
    .option("--with-token", "read the key from stdin")
    .addOption(baseUrlOption("the service the key is for"));
  return withDetails(command, {
    prints: "nothing; with `--json` the base URL",
    examples: ["vidgen login", "vidgen login --base-url https://video.example --with-token < key.txt"],
  });
}

type Options = ReturnType<ReturnType<typeof declare>["opts"]>;

/** Asks for a key, checks it with the service, and saves it. Prints nothing; with `--json` for which address that was. */
async function login(options: Options, context: Context): Promise<void> {
  const { io, output } = context;
  const baseUrl = await chooseBaseUrl(options, context);
  const key = await readKey(options, baseUrl, context);
  output.hide(key);
  const { traced } = await import("../context.ts");
  const verdict = await checkKey(baseUrl, key, { ...io, fetch: traced(io.fetch, baseUrl, output, io) });
  const path = await saveLogin(baseUrl, key, io);
  await output.result("", { ok: true, base_url: baseUrl });
  output.note(`${verdict} Saved in plain text in ${path}, which only you can read.`);
  if (io.env.VIDGEN_API_KEY) output.note("VIDGEN_API_KEY is set and goes before the saved key.");
}

const checkLimitMs = 30_000;

/** Asks for the status of a made-up id: all but a few answers mean that the key was let in. Returns what to say; throws to save nothing. */
async function checkKey(baseUrl: string, apiKey: string, io: Io): Promise<string> {
  const { createApi } = await import("../../client/api.ts");
  const { describeFailure } = await import("../../client/reply.ts");
  const limit = io.limit(checkLimitMs, io.signal, new Error("no answer within 30 s"));
  try {
    const api = createApi({ baseUrl, apiKey, fetch: io.fetch });
    return await judge(await api.status(crypto.randomUUID(), limit.signal), baseUrl);
  } catch (error) {
    if (io.signal.aborted) throw io.signal.reason;
    if (error instanceof VidgenError) throw error;
    throw new VidgenError("network", `Could not reach ${baseUrl}: ${describeFailure(error)}. Nothing was saved.`, {
      hint: tryAgain,
    });
  } finally {
    limit.clear();
  }
}

const tryAgain = "Check the base URL and the network, then run it again.";

async function judge(reply: Reply, baseUrl: string): Promise<string> {
  const { describeReply } = await import("../../client/reply.ts");
  const { isRecord } = await import("../../client/schema.ts");
  const { status: httpStatus } = reply;
  const said = describeReply(reply);
  if (httpStatus === 401 || httpStatus === 403) {
    throw new VidgenError("auth", `The service does not accept this key: ${said}. Nothing was saved.`, { httpStatus });
  }
  if (isTransient(httpStatus)) {
    throw new VidgenError("network", `The service cannot check the key now: ${said}. Nothing was saved.`, {
      httpStatus,
      hint: tryAgain,
    });
  }
  if (httpStatus < 300 ? !isRecord(reply.json) : httpStatus < 400) {
    throw new VidgenError("rejected", `${baseUrl} does not answer as the service does: ${said}. Nothing was saved.`, {
      httpStatus,
      hint: tryAgain,
    });
  }
  if (httpStatus < 300 || (httpStatus === 404 && isRecord(reply.json))) return "The service accepts the key.";
  return `The service did not turn the key away, but its answer is unusual: ${said}. If the key does not work, check the base URL.`;
}

async function chooseBaseUrl(options: Options, context: Context): Promise<string> {
  const { io } = context;
  const known = await findBaseUrl(options.baseUrl, io);
  if (known !== undefined) return known;
  if (options.withToken || !canAsk(context, io)) return resolveBaseUrl(options.baseUrl, io);
  const answer = await askText("The service's base URL:", checked(checkBaseUrlAnswer), io);
  return checkBaseUrlAnswer(answer);
}

function checkBaseUrlAnswer(text: string): string {
  return checkBaseUrl(text, "the base URL");
}

async function readKey({ withToken }: Options, baseUrl: string, context: Context): Promise<string> {
  const { io, output } = context;
  if (withToken) return checkApiKey((await readStdin(io)).toString("utf8"));
  if (!canAsk(context, io))
    throw usage("There is nobody to ask for the key here.", "Pipe it in: vidgen login --with-token < key.txt");
  output.note(`The key will be stored in plain text in ${configPath(io)}.`);
  return checkApiKey(await askSecret(`API key for ${new URL(baseUrl).origin}:`, checked(checkApiKey), io));
}

/** Makes a check that throws one that returns what is wrong, as a prompt wants it. */
function checked(check: (text: string) => unknown): Check {
  return (text) => {
    try {
      check(text);
      return true;
    } catch (error) {
      return asVidgenError(error).message;
    }
  };
}
