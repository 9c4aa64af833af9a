import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Io } from "../io.ts";
import { toUtf8 } from "../protocol/text.ts";
import { folders, hasFolder } from "./storage.ts";

// Apart from the settings, since every command loads it.

type FolderIo = Pick<Io, "env" | "home" | "platform">;

/** The file with the saved settings and keys. */
export function configPath(io: FolderIo): string {
  return join(folders(io).config, "config.json");
}

/** The names of set variables with engine keys: vidgen's own, and those of known providers. */
export function engineKeyNames(env: Io["env"]): string[] {
  return Object.keys(env).filter(
    (name) => env[name] && (/^VIDGEN_ENGINE_KEY(_|$)/.test(name) || providerKeys.includes(name)),
  );
}

const providerKeys = [
  "OPENROUTER_API_KEY",
  // Read by packages of the AI SDK.
  "AI_GATEWAY_API_KEY",
  "ALIBABA_API_KEY",
  "ARK_API_KEY",
  "BFL_API_KEY",
  "FAL_API_KEY",
  "FAL_KEY",
  "GOOGLE_GENERATIVE_AI_API_KEY",
  "REPLICATE_API_TOKEN",
  "XAI_API_KEY",
];

/**
 * All keys of the environment and the saved file, which are never printed. Does not use `readSaved`, because an unreadable file has no keys, and a pipe
 * could be read only once.
 */
export function findKeys(io: FolderIo): string[] {
  const keys: unknown[] = [io.env.VIDGEN_API_KEY, ...engineKeyNames(io.env).map((name) => io.env[name])];
  try {
    const path = configPath(io);
    if (hasFolder("config", io) && statSync(path).isFile())
      keys.push(...Object.values(JSON.parse(String(toUtf8(readFileSync(path)))).keys));
  } catch {}
  return keys.flatMap((key) => (typeof key === "string" ? key.trim().replace(/^(["'])(.*)\1$/, "$2") : []));
}
