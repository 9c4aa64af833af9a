import { dirname } from "node:path";
import { checkApiKey } from "../client/http/redaction.ts";
import { systemCode, systemHint, systemReason, usage, VidgenError } from "../errors.ts";
import { expandHome, type Io } from "../io.ts";
import { toUtf8, trimInvisible } from "../protocol/text.ts";
import { checkBaseUrl, isPlainHttp, readAllowedOrigin } from "../protocol/url.ts";
import { configPath } from "./keys.ts";
import { hasFolder } from "./storage.ts";

type FolderIo = Pick<Io, "env" | "home" | "platform">;

type SettingsIo = FolderIo & Pick<Io, "disk">;

/** The schema of the saved file; unknown fields are kept, and `keys` has one key per origin. zod is loaded on demand. */
async function loadSavedSchema() {
  const { array, looseObject, optional, record, string } = await import("zod/mini");
  return looseObject({
    base_url: optional(string()),
    model: optional(string()),
    output: optional(string()),
    engine: optional(string()),
    keys: optional(record(string(), string())),
    /** The origins for which plain http is allowed, in a private network. */
    allow_http: optional(array(string())),
  });
}

type SavedSettings = ReturnType<Awaited<ReturnType<typeof loadSavedSchema>>["parse"]>;

/** The base URL: flag > VIDGEN_BASE_URL > saved file; `undefined` if none is set. Throws `usage` for an invalid one. */
export async function findBaseUrl(flag: string | undefined, io: SettingsIo): Promise<string | undefined> {
  const found = await readBaseUrl(flag, io);
  return found && checkUsableUrl(found.text, found.source, io);
}

/** The typed base URL and its source; `undefined` if none is set. */
export async function readBaseUrl(flag: string | undefined, io: SettingsIo) {
  if (flag !== undefined) return { text: flag, source: "--base-url" };
  if (io.env.VIDGEN_BASE_URL) return { text: io.env.VIDGEN_BASE_URL, source: "VIDGEN_BASE_URL" };
  const saved = (await readSaved(io)).base_url;
  return saved === undefined ? undefined : { text: saved, source: configPath(io) };
}

/**
 * Returns the base URL without a trailing slash. Throws `usage` unless it is https, loopback, or plain http
 * is allowed for its origin.
 */
export async function checkUsableUrl(text: string, source: string, io: SettingsIo): Promise<string> {
  const url = URL.canParse(text.trim()) ? text.trim() : undefined;
  const allowed = url !== undefined && isPlainHttp(url) ? await findAllowedHttp(url, io) : undefined;
  return checkBaseUrl(text, source, allowed && [allowed.origin]);
}

/** The origin of a URL, and what allows plain http for it: VIDGEN_ALLOW_HTTP or the saved file; `undefined` if neither does. */
export async function findAllowedHttp(url: string, io: SettingsIo) {
  const { origin } = new URL(url);
  if (readAllowedOrigin(io.env.VIDGEN_ALLOW_HTTP) === origin) return { origin, source: "VIDGEN_ALLOW_HTTP" };
  return (await readSaved(io)).allow_http?.includes(origin) ? { origin, source: configPath(io) } : undefined;
}

/** As `findBaseUrl`, but throws `auth` if none is set; `otherWays` extends the hint. */
export async function resolveBaseUrl(flag: string | undefined, io: SettingsIo, otherWays = ""): Promise<string> {
  const baseUrl = await findBaseUrl(flag, io);
  if (baseUrl !== undefined) return baseUrl;
  throw new VidgenError("auth", "Not logged in: no base URL is set.", {
    hint: `Pass --base-url <url>${otherWays === "" ? " or" : ","} set VIDGEN_BASE_URL${otherWays}.`,
  });
}

/** A key, and the hint for the case that the service rejects it. */
type FoundKey = { apiKey: string; keyHint: string };

/** The key for a base URL: VIDGEN_API_KEY > the key saved for its origin. Throws `auth` without a key. */
export async function resolveApiKey(baseUrl: string, io: SettingsIo): Promise<FoundKey> {
  const { VIDGEN_API_KEY } = io.env;
  const variableHint = "It came from VIDGEN_API_KEY, which overrides a saved key: set a valid one, or unset it.";
  if (VIDGEN_API_KEY) return { apiKey: checkApiKey(VIDGEN_API_KEY), keyHint: variableHint };
  const key = (await readSaved(io)).keys?.[new URL(baseUrl).origin];
  if (key) return { apiKey: checkApiKey(key), keyHint: savedKeyHint("vidgen login", io) };
  throw new VidgenError("auth", `No API key for ${new URL(baseUrl).origin}.`, {
    hint: "Save one with `vidgen login`, set VIDGEN_API_KEY, or use --local, which needs none.",
  });
}

/** Whether there is a base URL and a key for it. Throws `usage` for invalid settings. */
export async function hasKey(flag: string | undefined, io: SettingsIo): Promise<boolean> {
  const baseUrl = await findBaseUrl(flag, io);
  if (baseUrl === undefined) return false;
  return Boolean(io.env.VIDGEN_API_KEY || (await readSaved(io)).keys?.[new URL(baseUrl).origin]);
}

/**
 * The key for the service that started a generation in the journal. VIDGEN_API_KEY belongs to the configured
 * service, and is not sent to other services in the journal. Throws `auth` if there is none.
 */
export async function resolveKeyOfStart(baseUrl: string, io: SettingsIo): Promise<FoundKey> {
  const { origin } = new URL(baseUrl);
  await checkUsableUrl(baseUrl, "The base URL where it was started", io);
  const configured = await findBaseUrl(undefined, io);
  if (configured !== undefined && new URL(configured).origin === origin) return resolveApiKey(baseUrl, io);
  const key = (await readSaved(io)).keys?.[origin];
  const login = `vidgen login --base-url ${baseUrl}`;
  if (key) return { apiKey: checkApiKey(key), keyHint: savedKeyHint(login, io) };
  const alternative = io.env.VIDGEN_API_KEY ? `, or add --base-url ${baseUrl} to use VIDGEN_API_KEY there` : "";
  throw new VidgenError("auth", `No API key for ${origin}, where it was started.`, {
    hint: `Save one with \`${login}\`${alternative}.`,
  });
}

function savedKeyHint(login: string, io: FolderIo): string {
  return `It came from ${configPath(io)}: \`${login}\` saves another one there.`;
}

/**
 * The model without a flag: VIDGEN_MODEL > saved file; `undefined` if none is set. A corrupt saved file is
 * ignored here, because it is reported when its key or base URL is needed.
 */
export async function findModelSetting(io: SettingsIo): Promise<string | undefined> {
  const model = io.env.VIDGEN_MODEL || (await readSaved(io).catch(() => undefined))?.model;
  return model && trimInvisible(model);
}

/**
 * The output path without a flag: VIDGEN_OUTPUT > saved file; `undefined` if none is set. Throws `usage` for
 * an invalid path and for a corrupt saved file, because with another output path the same command would not
 * resume an interrupted run, and would pay again.
 */
export async function findOutputSetting(io: SettingsIo): Promise<string | undefined> {
  const { VIDGEN_OUTPUT } = io.env;
  const output = VIDGEN_OUTPUT || (await readSaved(io)).output;
  if (output === undefined) return undefined;
  return checkOutputSetting(
    expandHome(trimInvisible(output), io),
    VIDGEN_OUTPUT ? "VIDGEN_OUTPUT" : `output in ${configPath(io)}`,
  );
}

/**
 * Returns the output setting unchanged. Throws `usage` if it does not work for every video; `source` names
 * the setting in the message.
 */
export async function checkOutputSetting(output: string, source: string): Promise<string> {
  // Loaded on demand, because only `generate` and `wait` need it.
  const { checkTemplate } = await import("../video/naming.ts");
  if (output === "") throw usage(`${source} is empty.`);
  if (output === "-") throw usage(`${source} cannot be -: pass -o - to the one command that writes to stdout.`);
  checkTemplate(output, source);
  return output;
}

/**
 * The engines if no flag names a service: VIDGEN_ENGINE > saved file, separated by spaces; `undefined` if none is set, or
 * VIDGEN_BASE_URL overrides the saved ones. Throws `usage` if the same source also sets a base URL.
 */
export async function findEngineSetting(io: SettingsIo): Promise<string[] | undefined> {
  const { VIDGEN_BASE_URL } = io.env;
  const fromVariable = io.env.VIDGEN_ENGINE;
  const saved = fromVariable || VIDGEN_BASE_URL ? undefined : await readSaved(io);
  const text = (fromVariable || saved?.engine || "").trim();
  if (text === "") return undefined;
  const [source, baseUrl] = saved ? [configPath(io), saved.base_url] : ["The environment", VIDGEN_BASE_URL];
  if (baseUrl)
    throw usage(
      `${source} sets both an engine (${text}) and a base URL (${baseUrl}).`,
      "Choose one for this command with --engine or --base-url; `vidgen config` shows where each is set.",
    );
  return text.split(/\s+/);
}

/**
 * Saves a base URL and the key for its origin, and with `isHttpAllowed` that plain http is allowed there.
 * Removes a saved engine, since an engine and a base URL exclude each other. Returns the file's path and the
 * removed engine; throws `output` if the file cannot be written.
 */
export async function saveLogin(
  baseUrl: string,
  { key, isHttpAllowed = false }: { key: string; isHttpAllowed?: boolean },
  io: SettingsIo,
) {
  const { engine, ...saved } = await readSaved(io);
  const { origin } = new URL(baseUrl);
  const keys = { ...saved.keys, [origin]: key };
  const allowed = isHttpAllowed && { allow_http: [...new Set([...(saved.allow_http ?? []), origin])] };
  return { path: await writeSaved({ ...saved, base_url: baseUrl, keys, ...allowed }, io), engine };
}

/**
 * Saves an engine, and its key for an origin. Removes a saved base URL, as `saveLogin` removes an engine.
 * Returns the file's path.
 */
export async function saveEngineKey(
  engine: string,
  { origin, key }: { origin: string; key: string },
  io: SettingsIo,
): Promise<string> {
  const { base_url: _, ...saved } = await readSaved(io);
  return writeSaved({ ...saved, engine, keys: { ...saved.keys, [origin]: key } }, io);
}

/** The settings that `vidgen config` changes, by their names in the saved file. */
export const settingNames = ["base_url", "model", "output", "engine"] as const;

export type SettingName = (typeof settingNames)[number];

/** The variables that override the saved settings. */
export const settingVariables: Readonly<Record<SettingName, string>> = {
  base_url: "VIDGEN_BASE_URL",
  model: "VIDGEN_MODEL",
  output: "VIDGEN_OUTPUT",
  engine: "VIDGEN_ENGINE",
};

/** Saves a setting; `undefined` removes it. Returns the file's path; throws `output` if it cannot be written. */
export async function saveSetting(name: SettingName, value: string | undefined, io: SettingsIo): Promise<string> {
  const { [name]: _, ...otherSettings } = await readSaved(io);
  return writeSaved(value === undefined ? otherSettings : { ...otherSettings, [name]: value }, io);
}

/**
 * Removes the key saved for the origin of a base URL, and the permission for plain http there. Returns
 * `false` if there was no key.
 */
export async function removeLogin(baseUrl: string, io: SettingsIo): Promise<boolean> {
  const { allow_http = [], ...saved } = await readSaved(io);
  const { origin } = new URL(baseUrl);
  const { [origin]: key, ...keys } = saved.keys ?? {};
  const stillAllowed = allow_http.filter((allowed) => allowed !== origin);
  if (key === undefined && stillAllowed.length === allow_http.length) return false;
  await writeSaved({ ...saved, keys, ...(stillAllowed.length > 0 && { allow_http: stillAllowed }) }, io);
  return key !== undefined;
}

/** Reads the saved file; a missing file is empty. Throws `usage` for a corrupt file. Changes neither the file nor its mode. */
export async function readSaved(io: SettingsIo): Promise<SavedSettings> {
  const path = configPath(io);
  if (!hasFolder("config", io)) return {};
  let text = "";
  try {
    const { readChunks } = await import("../client/request/input.ts");
    const chunks: Buffer[] = [];
    for await (const chunk of readChunks(path, io.disk)) chunks.push(chunk);
    // Editors on Windows write a byte order mark, or UTF-16.
    text = String(toUtf8(Buffer.concat(chunks)));
    return (await loadSavedSchema()).parse(JSON.parse(text));
  } catch (error) {
    if (systemCode(error) === "ENOENT" || systemCode(error) === "ENOTDIR") return {};
    if (systemCode(error) !== undefined) throw usage(`Cannot read ${path}: ${systemReason(error)}.`);
    if (error instanceof SyntaxError) {
      const { describeJsonFault, jsonHint } = await import("../protocol/json-fault.ts");
      throw usage(`Cannot use ${path}: it is ${describeJsonFault(text)}.`, jsonHint);
    }
    throw usage(
      `Cannot use ${path}: it does not contain vidgen settings.`,
      "Fix or move it; vidgen does not change it.",
    );
  }
}

async function writeSaved(saved: SavedSettings, io: SettingsIo): Promise<string> {
  const path = configPath(io);
  if (!hasFolder("config", io))
    throw new VidgenError("output", "There is no home folder to save the settings in.", { hint: configHint });
  try {
    await io.disk.mkdir(dirname(path), { recursive: true, mode: 0o700 });
    (await openConf(path)).store = saved;
  } catch (error) {
    throw new VidgenError("output", `Cannot write ${path}: ${systemReason(error)}.`, {
      hint: systemHint(error) ?? configHint,
      cause: error,
    });
  }
  return path;
}

/** The hint if the settings cannot be read or saved. */
export const configHint = "Set VIDGEN_API_KEY and VIDGEN_BASE_URL instead, or set VIDGEN_HOME to use another folder.";

/**
 * conf writes the file, because conf replaces files atomically and follows links. `readSaved` and `findKeys`
 * read the file without conf, because opening its store at start-up costs 75 ms per command, throws for a
 * corrupt file before the path is known, and loads a dependency that raises SIGINT again, which would count
 * as the second Ctrl-C.
 */
async function openConf(path: string) {
  const { default: Conf } = await import("conf");
  const options = { projectName: "vidgen", projectSuffix: "", cwd: dirname(path), configName: "config" };
  return new Conf<SavedSettings>({ ...options, accessPropertiesByDotNotation: false, configFileMode: 0o600 });
}
