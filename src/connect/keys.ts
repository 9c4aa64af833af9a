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

/** The provider whose key `login` and the question before a first video can save. */
export const openRouter = { engine: "openrouter", variable: "OPENROUTER_API_KEY", origin: "https://openrouter.ai" };

/** The key of a provider: its variable, or the key saved for its origin. */
export function findEngineKey(variable: string, io: FolderIo): string | undefined {
  const saved = variable === openRouter.variable ? readSavedKeys(io)[openRouter.origin] : undefined;
  return io.env[variable] || (typeof saved === "string" ? saved : undefined);
}

/** All keys of the environment and the saved file, which are never printed. */
export function findKeys(io: FolderIo): string[] {
  const keys = [
    io.env.VIDGEN_API_KEY,
    ...engineKeyNames(io.env).map((name) => io.env[name]),
    ...Object.values(readSavedKeys(io)),
  ];
  return keys.flatMap((key) => (typeof key === "string" ? key.trim().replace(/^(["'])(.*)\1$/, "$2") : []));
}

/**
 * The saved keys by origin. Does not use `readSaved`, because an unreadable file has no keys, and a pipe
 * could be read only once.
 */
function readSavedKeys(io: FolderIo): Readonly<Record<string, unknown>> {
  try {
    const path = configPath(io);
    if (hasFolder("config", io) && statSync(path).isFile())
      return { ...JSON.parse(String(toUtf8(readFileSync(path)))).keys };
  } catch {}
  return {};
}
