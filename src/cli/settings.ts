import { chmod, mkdir, readFile, stat } from "node:fs/promises";
import { isIP } from "node:net";
import { dirname, isAbsolute, join } from "node:path";
import { systemCode, systemReason, usage, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";

type World = Pick<Io, "env" | "home" | "platform">;

/** What the saved file holds. A key belongs to the origin it was saved for. */
type Saved = { base_url?: string | undefined; model?: string | undefined; keys?: Record<string, string> | undefined };

/** Where vidgen keeps its things: `VIDGEN_HOME` for all of them, else the platform's own folders. */
export function folders(world: World): { config: string; data: string; state: string } {
  const { env, home, platform } = world;
  if (env.VIDGEN_HOME) return { config: env.VIDGEN_HOME, data: env.VIDGEN_HOME, state: env.VIDGEN_HOME };
  if (platform === "darwin") {
    const data = join(home, "Library/Application Support/vidgen");
    return { config: join(home, "Library/Preferences/vidgen"), data, state: data };
  }
  if (platform === "win32") {
    const config = join(env.APPDATA ?? join(home, "AppData/Roaming"), "vidgen");
    const data = join(env.LOCALAPPDATA ?? join(home, "AppData/Local"), "vidgen");
    return { config, data, state: data };
  }
  const xdg = (name: string, otherwise: string) => {
    const value = env[name];
    return join(value && isAbsolute(value) ? value : join(home, otherwise), "vidgen");
  };
  const data = xdg("XDG_DATA_HOME", ".local/share");
  return { config: xdg("XDG_CONFIG_HOME", ".config"), data, state: xdg("XDG_STATE_HOME", ".local/state") };
}

/** The base URL: flag > VIDGEN_BASE_URL > saved file; `undefined` when there is none. Throws `usage` for one that cannot be used. */
export async function findBaseUrl(flag: string | undefined, world: World): Promise<string | undefined> {
  if (flag !== undefined) return checkBaseUrl(flag, "--base-url");
  if (world.env.VIDGEN_BASE_URL) return checkBaseUrl(world.env.VIDGEN_BASE_URL, "VIDGEN_BASE_URL");
  const saved = (await readSaved(world)).base_url;
  return saved === undefined ? undefined : checkBaseUrl(saved, configPath(world));
}

/** As `findBaseUrl`, and a usage error when there is none. */
export async function resolveBaseUrl(flag: string | undefined, world: World, otherWays = ""): Promise<string> {
  const baseUrl = await findBaseUrl(flag, world);
  if (baseUrl !== undefined) return baseUrl;
  throw usage(
    "No base URL is known: the service's address.",
    `Give --base-url <url>${otherWays === "" ? " or" : ","} set VIDGEN_BASE_URL${otherWays}.`,
  );
}

/** The key for a base URL: VIDGEN_API_KEY > the one saved for its origin. Throws `auth` when there is none. */
export async function resolveApiKey(baseUrl: string, world: World): Promise<string> {
  const key = world.env.VIDGEN_API_KEY || (await readSaved(world)).keys?.[new URL(baseUrl).origin];
  if (key) return checkApiKey(key);
  throw new VidgenError("auth", `No API key for ${new URL(baseUrl).origin}.`, {
    hint: "Save one with `vidgen login`, set VIDGEN_API_KEY, or use --local, which needs none.",
  });
}

/**
 * The model when no flag names one: VIDGEN_MODEL > saved file; `undefined` when there is none. A saved file that cannot be used stops
 * those who need its key or base URL, not those who have both from elsewhere.
 */
export async function findModelSetting(world: World): Promise<string | undefined> {
  if (world.env.VIDGEN_MODEL) return world.env.VIDGEN_MODEL;
  const saved = await readSaved(world).catch(() => undefined);
  return saved?.model;
}

/** A base URL without a slash at its end. It must be https, loopback excepted: the key travels with each request. */
export function checkBaseUrl(text: string, source: string): string {
  const url = URL.canParse(text.trim()) ? new URL(text.trim()) : undefined;
  if (url?.username || url?.password)
    throw usage(`${source} holds a user name or password; the key goes into \`vidgen login\`.`);
  if (!url || !/^https?:$/.test(url.protocol)) throw usage(`${source} is no http(s) address: ${text}`);
  if (/[?#]/.test(url.href)) throw usage(`${source} must not hold a ? or #: ${text}`);
  if (url.protocol === "http:" && !isLoopback(url.hostname)) {
    throw usage(`${source} must be https, or the key would travel in the open: ${text}`);
  }
  return url.href.replace(/\/+$/, "");
}

/** Whether a URL's host is this machine itself. */
export function isLoopback(hostname: string): boolean {
  if (hostname === "localhost" || hostname.endsWith(".localhost") || hostname === "[::1]") return true;
  return isIP(hostname) === 4 && hostname.startsWith("127.");
}

/** A key as it is typed or piped, without the white space around it; only characters that a header can hold. */
export function checkApiKey(text: string): string {
  const key = text.trim();
  if (/^[\x21-\x7e]+$/.test(key)) return key;
  throw usage(key === "" ? "The API key is empty." : "The API key holds a space or a character that no key can have.");
}

export function configPath(world: World): string {
  return join(folders(world).config, "config.json");
}

/** Whether there is a place for the saved file: without a home folder there is none. */
export function hasConfig(world: World): boolean {
  return Boolean(world.env.VIDGEN_HOME) || isAbsolute(configPath(world));
}

/** Saves a key for the origin of a base URL, and that base URL as the one to use. Returns where. */
export async function saveLogin(baseUrl: string, key: string, world: World): Promise<string> {
  const saved = await readSaved(world);
  const keys = { ...saved.keys, [new URL(baseUrl).origin]: key };
  return writeSaved({ ...saved, base_url: baseUrl, keys }, world);
}

/** Forgets the key saved for the origin of a base URL; `false` when there was none. */
export async function removeLogin(baseUrl: string, world: World): Promise<boolean> {
  const saved = await readSaved(world);
  const { [new URL(baseUrl).origin]: key, ...keys } = saved.keys ?? {};
  if (key === undefined) return false;
  await writeSaved({ ...saved, keys }, world);
  return true;
}

/** Reads the saved file; empty when there is none. An older, wider mode is tightened; a corrupt file is reported and left alone. */
export async function readSaved(world: World): Promise<Saved> {
  const path = configPath(world);
  // Without a home folder this would be a file of whatever folder one happens to be in.
  if (!hasConfig(world) || !(await tighten(path, 0o600))) return {};
  await tighten(dirname(path), 0o700);
  try {
    return asSaved(parseObject(await readFile(path, "utf8")));
  } catch (error) {
    const reason = error instanceof SyntaxError ? "it is no JSON" : "it does not hold what vidgen saves there";
    if (systemCode(error) !== undefined) throw usage(`Cannot read ${path}: ${systemReason(error)}.`);
    throw usage(`Cannot use ${path}: ${reason}.`, "Mend it or move it away; vidgen leaves it as it is.");
  }
}

async function writeSaved(saved: Saved, world: World): Promise<string> {
  const path = configPath(world);
  if (!hasConfig(world)) throw new VidgenError("output", "There is no home folder to save it in.", { hint: notSaved });
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await tighten(dirname(path), 0o700);
    (await openConf(path)).store = JSON.parse(JSON.stringify(saved));
    await tighten(path, 0o600);
  } catch (error) {
    throw new VidgenError("output", `Cannot write ${path}: ${systemReason(error)}.`, {
      hint: notSaved,
      cause: error,
    });
  }
  return path;
}

const notSaved = "VIDGEN_API_KEY and VIDGEN_BASE_URL do without it; VIDGEN_HOME names another folder.";

/** conf, for writing alone: what it is built on answers a SIGINT with another, which would count as the second Ctrl-C. */
async function openConf(path: string) {
  const { default: Conf } = await import("conf");
  const options = { projectName: "vidgen", projectSuffix: "", cwd: dirname(path), configName: "config" };
  const manner = { accessPropertiesByDotNotation: false, configFileMode: 0o600, deserialize: parseObject };
  return new Conf<Record<string, unknown>>({ ...options, ...manner });
}

/** A list or a bare value would be written over as if it were an empty store. */
function parseObject(text: string): Record<string, unknown> {
  const value = JSON.parse(text);
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new TypeError("not an object");
  return value;
}

/** What others have put there is kept. */
function asSaved(value: Record<string, unknown>): Saved {
  const { base_url, model, keys = {} } = value;
  const isMap = typeof keys === "object" && keys !== null && !Array.isArray(keys);
  const texts = [base_url ?? "", model ?? "", ...(isMap ? Object.values(keys) : [undefined])];
  if (base_url === null || model === null || texts.some((text) => typeof text !== "string"))
    throw new TypeError("not what is saved");
  return value;
}

/** Takes away what others may do with a file or folder, a shared one like /tmp excepted; `false` when there is none. */
async function tighten(path: string, mode: number): Promise<boolean> {
  try {
    const { mode: found } = await stat(path);
    if ((found & 0o077) !== 0 && (found & 0o1000) === 0) await chmod(path, mode).catch(() => {});
    return true;
  } catch (error) {
    if (systemCode(error) === "ENOENT" || systemCode(error) === "ENOTDIR") return false;
    throw usage(`Cannot read ${path}: ${systemReason(error)}.`);
  }
}

/** A time such as "90s", "5m", "1h30m" or plain seconds, in milliseconds. */
export function readTime(text: string, flag: string): number {
  const [whole, hours, minutes, seconds] = /^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?$/.exec(text) ?? [];
  const total = Number(hours ?? 0) * 3600 + Number(minutes ?? 0) * 60 + Number(seconds ?? 0);
  if (whole && total > 0 && total < 1e9) return total * 1000;
  throw usage(`${flag} takes a time such as 90s, 5m, 1h30m or plain seconds, not "${text}".`);
}

/** The time between two looks, from 1 s up. */
export function readInterval(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const ms = readTime(text, "--interval");
  if (ms < 1000) throw usage("--interval is 1s at the least.");
  return ms;
}
