import { chmod, mkdir, readFile, stat } from "node:fs/promises";
import { dirname, isAbsolute, join } from "node:path";
import { checkApiKey, checkBaseUrl } from "../client/credentials.ts";
import { systemCode, systemReason, usage, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { folders } from "./storage.ts";

type World = Pick<Io, "env" | "home" | "platform">;

/** What the saved file holds; further fields are kept. A key belongs to the origin that it was saved for. zod is loaded when it is needed. */
async function loadSavedSchema() {
  const { looseObject, optional, record, string } = await import("zod/mini");
  return looseObject({
    base_url: optional(string()),
    model: optional(string()),
    keys: optional(record(string(), string())),
  });
}

type Saved = ReturnType<Awaited<ReturnType<typeof loadSavedSchema>>["parse"]>;

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
 * The model when no flag names one: VIDGEN_MODEL > saved file; `undefined` when there is none. A corrupt saved file is ignored here: it is
 * reported when its key or base URL is needed.
 */
export async function findModelSetting(world: World): Promise<string | undefined> {
  if (world.env.VIDGEN_MODEL) return world.env.VIDGEN_MODEL;
  const saved = await readSaved(world).catch(() => undefined);
  return saved?.model;
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
    const schema = await loadSavedSchema();
    return schema.parse(JSON.parse(await readFile(path, "utf8")));
  } catch (error) {
    const reason = error instanceof SyntaxError ? "it is no JSON" : "it does not hold what vidgen saves there";
    if (systemCode(error) !== undefined) throw usage(`Cannot read ${path}: ${systemReason(error)}.`);
    throw usage(`Cannot use ${path}: ${reason}.`, "Mend it or move it away; vidgen leaves it as it is.");
  }
}

async function writeSaved(saved: Saved, world: World): Promise<string> {
  const path = configPath(world);
  if (!hasConfig(world))
    throw new VidgenError("output", "There is no home folder to save it in.", { hint: configHint });
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await tighten(dirname(path), 0o700);
    (await openConf(path)).store = saved;
    await tighten(path, 0o600);
  } catch (error) {
    throw new VidgenError("output", `Cannot write ${path}: ${systemReason(error)}.`, {
      hint: configHint,
      cause: error,
    });
  }
  return path;
}

/** What to do where the settings cannot be read or saved. */
export const configHint = "VIDGEN_API_KEY and VIDGEN_BASE_URL do without it; VIDGEN_HOME names another folder.";

/** conf is loaded for writing alone: it uses a library that answers a SIGINT with another one, which would count as the second Ctrl-C. */
async function openConf(path: string) {
  const { default: Conf } = await import("conf");
  const options = { projectName: "vidgen", projectSuffix: "", cwd: dirname(path), configName: "config" };
  return new Conf<Saved>({ ...options, accessPropertiesByDotNotation: false, configFileMode: 0o600 });
}

/** Removes other users' permissions from a file or folder, except for a shared one such as /tmp; `false` when it does not exist. */
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
