import { isAbsolute, resolve } from "node:path";
import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { checkApiKey } from "../../client/http/redaction.ts";
import type { KeyCheck } from "../../connect/key-check.ts";
import { configPath } from "../../connect/keys.ts";
import {
  checkOutputSetting,
  checkUsableUrl,
  findOutputSetting,
  readBaseUrl,
  saveLogin,
  saveSetting,
} from "../../connect/settings.ts";
import { isPrivateFile } from "../../connect/storage.ts";
import { asVidgenError, type CommandErrorCode, usage, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { countCredits } from "../../protocol/text.ts";
import { checkBaseUrl, findApiPathHint, isPlainHttp, withScheme } from "../../protocol/url.ts";
import { baseUrlOption, withDetails } from "../command.ts";
import type { Context } from "../context.ts";
import { askSecret, askText, canAsk, checkedBy, readPath, readStdinKey } from "../terminal/prompts.ts";
import { askSource, firstCommand, type Source } from "../video-source.ts";

export function addLogin(program: CommandUnknownOpts, context: Context): void {
  const { io, output } = context;
  declare(program).action(async (options) => {
    const source = await chooseSource(options, context);
    if (source !== "service") return output.note(`Next: ${firstCommand(source, " -o fox.mp4", io)}`);
    const { baseUrl, credits } = await login(options, context);
    const outputPath = await chooseOutput(options, context);
    await output.result("", { ok: true, base_url: baseUrl, remaining_credits: credits });
    if (credits !== undefined) output.note(`${countCredits(credits)} left.`);
    const flag = outputPath === undefined ? " -o fox.mp4" : "";
    output.note(`Next: ${firstCommand(source, flag, io)}`);
  });
}

function declare(program: CommandUnknownOpts) {
  const command = program
    .command("login")
    .helpGroup("Set up:")
    .summary("check and save an API key")
    .description(
      "Asks for the service's base URL (its web address) and an API key, checks both, and saves them; asks where to save videos. The key is never passed on the command line.",
    )
    .option("--with-token", "read the key from stdin")
    .option("--allow-http", "allow plain http for this one service, while its address is in a private network")
    .addOption(baseUrlOption("the service the key is for"));
  return withDetails(command, {
    examples: [
      "vidgen login",
      "vidgen login --base-url https://video.example --with-token < key.txt",
      "vidgen login --base-url http://10.0.0.5:8787 --allow-http",
    ],
  });
}

type LoginFlags = ReturnType<ReturnType<typeof declare>["opts"]>;

/** Asks for a key, checks it with the service, and saves it. Returns the base URL, and the balance if the service states it. */
export async function login(options: LoginFlags, context: Context): Promise<{ baseUrl: string; credits?: number }> {
  const { io, output } = context;
  const baseUrl = await chooseBaseUrl(options, context);
  if (isPlainHttp(baseUrl))
    output.note(
      `Plain http is allowed for ${new URL(baseUrl).origin} while that is an address in a private network. The key is not encrypted on the way, and in another network, the machine with this address would receive it.`,
    );
  else if (options.allowHttp) output.note(`--allow-http was ignored: ${baseUrl} does not need it.`);
  const { key, verdictNote, ...known } = await findGoodKey(options, baseUrl, context);
  const isHttpAllowed = options.allowHttp === true && isPlainHttp(baseUrl);
  const { path, engine } = await saveLogin(baseUrl, { key, isHttpAllowed }, io);
  // On Windows, vidgen does not set who can read the file.
  const isPrivate = io.platform !== "win32" && (await isPrivateFile(path));
  output.note(`${verdictNote} Saved in plain text in ${path}${isPrivate ? ", which only you can read" : ""}.`);
  if (engine !== undefined)
    output.note(
      `Removed the saved engine (${engine}): commands now use ${baseUrl}. To use the engine again, add --engine ${engine}.`,
    );
  if (io.env.VIDGEN_ENGINE) output.note("VIDGEN_ENGINE is set and overrides the saved service.");
  if (io.env.VIDGEN_API_KEY) output.note("VIDGEN_API_KEY is set and overrides the saved key.");
  return { baseUrl, ...known };
}

/** What should make the videos: asked at a terminal if no service is named. */
async function chooseSource({ baseUrl, withToken }: LoginFlags, context: Context): Promise<Source> {
  const { io, output } = context;
  const isNamed = withToken || output.json || !canAsk(context, io) || (await readBaseUrl(baseUrl, io)) !== undefined;
  return isNamed ? "service" : askSource("What should make your videos?", context);
}

/** The maximum number of tries to type a key before the address must be typed again. */
const maxTries = 3;

/** A key that the service accepts. At a terminal, asks again after a rejected key. Throws as `checkKey` does. */
async function findGoodKey(options: LoginFlags, baseUrl: string, context: Context) {
  const { io, output } = context;
  const isAsked = !options.withToken && canAsk(context, io);
  if (isAsked) output.note(`The key will be stored in plain text in ${configPath(io)}.`);
  for (let tries = 1; ; tries++) {
    const key = await readKey(options, { baseUrl, tries }, context);
    output.hide(key);
    const checked = await checkKey(baseUrl, key, context).catch((error) => {
      if (!isAsked || tries === maxTries || asVidgenError(error).code !== "auth") throw error;
      output.note(asVidgenError(error).message);
    });
    if (checked) return { key, ...checked };
  }
}

const checkLimitMs = 30_000;
const tryAgain = "Check the base URL and your network, then try again.";

/** Checks a key with the service. `verdictNote` is the note to print; throws if the key must not be saved. */
async function checkKey(baseUrl: string, apiKey: string, context: Context) {
  const { verdict, replyText, httpStatus, ...known } = await tryService(baseUrl, apiKey, context);
  if (verdict === "denied") throw notSaved("auth", `The service rejected this key: ${replyText}.`, { httpStatus });
  const unusual = `The service did not reject the key, but its response is unusual: ${replyText}. If the key does not work, check the base URL.`;
  const verdictNote = verdict === "accepted" ? "The service accepted the key." : unusual;
  return { verdictNote: [verdictNote, findApiPathHint(baseUrl) ?? []].flat().join(" "), ...known };
}

/**
 * Sends one free request, with the key if there is one, to check that the address is a service. Throws if it
 * is not, or if it cannot be used now.
 */
async function tryService(baseUrl: string, apiKey: string | undefined, { io, output }: Context): Promise<KeyCheck> {
  const { tryKey } = await import("../../connect/key-check.ts");
  const { describeFailure } = await import("../../client/http/reply.ts");
  const { traceFetch } = await import("../../connect/trace.ts");
  const fetch = traceFetch(io.fetch, baseUrl, output, io);
  const trying = tryKey({ baseUrl, apiKey, limitMs: checkLimitMs }, { ...io, fetch });
  const check = await trying.catch((error) => {
    if (io.signal.aborted) throw error;
    throw notSaved("network", `Could not reach ${baseUrl}: ${describeFailure(error)}.`, { hint: tryAgain });
  });
  const { verdict, replyText, httpStatus } = check;
  if (verdict === "unavailable")
    throw notSaved("network", `The service is not available right now: ${replyText}.`, { httpStatus, hint: tryAgain });
  if (verdict === "foreign")
    throw notSaved("rejected", `${baseUrl} does not respond like the video service: ${replyText}.`, {
      httpStatus,
      hint: findApiPathHint(baseUrl) ?? tryAgain,
    });
  return check;
}

function notSaved(
  code: CommandErrorCode,
  message: string,
  details: { httpStatus?: number; hint?: string },
): VidgenError {
  return new VidgenError(code, `${message} Nothing was saved.`, details);
}

/** The base URL: the known one, or at a terminal an answer, which is tried before the key is asked for. */
async function chooseBaseUrl(options: LoginFlags, context: Context): Promise<string> {
  const { io } = context;
  const isAsked = !options.withToken && canAsk(context, io);
  const found = await readBaseUrl(options.baseUrl === undefined ? undefined : withScheme(options.baseUrl), io);
  if (found !== undefined) {
    const known = await checkLoginUrl(found.text, found.source, options, io);
    if (isAsked) await tryService(known, undefined, context);
    return known;
  }
  if (!isAsked) throw usage("The service's base URL is missing.", "Pass --base-url <url> or set VIDGEN_BASE_URL.");
  const checkTyped = (text: string) => checkLoginUrl(withScheme(text), "The base URL", options, io);
  const check = checkedBy(async (text) => tryService(await checkTyped(text), undefined, context));
  return checkTyped(await askText("The service's base URL:", check, io));
}

/** The folder for videos: the setting, or at a terminal an answer, which is saved too; `undefined` for none. */
async function chooseOutput({ withToken }: LoginFlags, context: Context): Promise<string | undefined> {
  const { io, output } = context;
  const known = await findOutputSetting(io);
  if (known !== undefined || withToken || !canAsk(context, io)) return known;
  const check = checkedBy((text) => text.trim() === "" || checkOutputSetting(readPath(text, io), "The path"));
  const question = "Where should videos be saved? (a folder, or . for the current one; Enter to print only the URL)";
  const path = readPath(await askText(question, check, io), io);
  if (path === "") return undefined;
  // Without its slash, the first video would become a file of this name.
  const answer = path === "." || path.includes("{") || /[/\\]$/.test(path) ? path : `${path}/`;
  await saveSetting("output", answer, io);
  output.note(`Videos are saved in ${answer}${isAbsolute(answer) ? "" : `, which is ${resolve(answer)} here`}.`);
  output.note("`vidgen config` shows the settings, and changes them.");
  return answer;
}

/** Checks a base URL. With --allow-http, plain http is accepted for this login only. */
async function checkLoginUrl(text: string, source: string, { allowHttp }: LoginFlags, io: Io): Promise<string> {
  if (!allowHttp || !URL.canParse(text.trim())) return checkUsableUrl(text, source, io);
  return checkBaseUrl(text, source, [new URL(text.trim()).origin]);
}

type KeyQuestion = { baseUrl: string; tries: number };

async function readKey({ withToken }: LoginFlags, { baseUrl, tries }: KeyQuestion, context: Context): Promise<string> {
  const { io, output } = context;
  if (withToken) return checkApiKey(await readStdinKey(context));
  if (!canAsk(context, io))
    throw usage("Cannot prompt for a key: not a terminal.", "Pipe it in: vidgen login --with-token < key.txt");
  const again = tries === 1 ? "" : ` (try ${tries} of ${maxTries})`;
  const question = output.redact(`API key for ${new URL(baseUrl).origin}${again}:`);
  return checkApiKey(await askSecret(question, checkedBy(checkApiKey), io));
}
