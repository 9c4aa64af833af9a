import { randomUUID } from "node:crypto";
import { createClient, type Reply } from "../../client/api.ts";
import { describeFailure, describeReply } from "../../client/look.ts";
import { isTransient } from "../../client/retry.ts";
import { isRecord } from "../../client/schema.ts";
import { asVidgenError, usage, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { traced } from "../context.ts";
import { checkApiKey, checkBaseUrl, configPath, findBaseUrl, resolveBaseUrl, saveLogin } from "../settings.ts";
import type { Output } from "../terminal/output.ts";
import { askSecret, askText, type Check, canAsk, readStdin } from "../terminal/prompts.ts";

export type LoginOptions = { baseUrl?: string; withToken?: boolean; output: Output; input: boolean };

/** Asks for a key, checks it with the service, and saves it. Prints nothing; with `--json` for which address that was. */
export async function login(options: LoginOptions, io: Io): Promise<void> {
  const { output } = options;
  const baseUrl = await chooseBaseUrl(options, io);
  const key = await readKey(options, baseUrl, io);
  output.hide(key);
  const verdict = await checkKey(baseUrl, key, { ...io, fetch: traced(io.fetch, baseUrl, output, io) });
  const path = await saveLogin(baseUrl, key, io);
  await output.result("", { ok: true, base_url: baseUrl });
  output.note(`${verdict} Saved in plain text in ${path}, which only you can read.`);
  if (io.env.VIDGEN_API_KEY) output.note("VIDGEN_API_KEY is set and goes before the saved key.");
}

const checkLimitMs = 30_000;

/** Asks for the status of a made-up id: all but a few answers mean that the key was let in. Returns what to say; throws to save nothing. */
async function checkKey(baseUrl: string, apiKey: string, io: Io): Promise<string> {
  const limit = io.limit(checkLimitMs, io.signal, new Error("no answer within 30 s"));
  try {
    const client = createClient({ baseUrl, apiKey, fetch: io.fetch });
    return judge(await client.status(randomUUID(), limit.signal), baseUrl);
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

function judge(reply: Reply, baseUrl: string): string {
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

async function chooseBaseUrl(options: LoginOptions, io: Io): Promise<string> {
  const known = await findBaseUrl(options.baseUrl, io);
  if (known !== undefined) return known;
  if (options.withToken || !canAsk(options, io)) return resolveBaseUrl(options.baseUrl, io);
  const answer = await askText("The service's base URL:", checked(checkBaseUrlAnswer), io);
  return checkBaseUrlAnswer(answer);
}

function checkBaseUrlAnswer(text: string): string {
  return checkBaseUrl(text, "the base URL");
}

async function readKey(options: LoginOptions, baseUrl: string, io: Io): Promise<string> {
  if (options.withToken) return checkApiKey((await readStdin(io)).toString("utf8"));
  if (!canAsk(options, io))
    throw usage("There is nobody to ask for the key here.", "Pipe it in: vidgen login --with-token < key.txt");
  options.output.note(`The key will be stored in plain text in ${configPath(io)}.`);
  return checkApiKey(await askSecret(`API key for ${new URL(baseUrl).origin}:`, checked(checkApiKey), io));
}

/** A check that throws, as one that answers with what is wrong. */
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
