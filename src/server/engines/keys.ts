import { usage, VidgenError } from "../../errors.ts";
import type { EngineSpec, ServerSpec } from "./spec.ts";

/** Returns the key in an environment variable; `undefined` when the variable is not set. Throws `usage` when the value cannot be a key. */
export type ReadKey = (variable: string) => string | undefined;

/** How keys are read: from the environment, and from the files that `key_file` names. */
export type KeyReader = { readKey: ReadKey; readKeyFile?: ((path: string, label: string) => string) | undefined };

/**
 * Returns a function that finds the key of a server: in the place that its owner named; else in `VIDGEN_ENGINE_KEY_<HOST>`, first with its port; else
 * in the provider's usual variable at a provider's own address, and in VIDGEN_ENGINE_KEY elsewhere. Throws `usage` when one variable would be sent to
 * two origins, and `auth` when a provider has no key.
 */
export function createKeyFinder(
  specs: readonly EngineSpec[],
  { readKey, readKeyFile }: KeyReader,
): (spec: { label: string; server: ServerSpec }) => string | undefined {
  const find = (server: ServerSpec) => {
    const name = variablesOf(server).find((variable) => readKey(variable) !== undefined);
    return name === undefined ? undefined : { name, key: readKey(name) };
  };
  const origins = new Map<string, string>();
  for (const { server } of specs) {
    // Engines that name their key may share one, because the owner said which servers get it.
    const found = server && !server.key && find(server);
    if (!found) continue;
    const { origin } = new URL(server.url);
    const earlierOrigin = origins.get(found.name) ?? origin;
    if (earlierOrigin !== origin)
      throw usage(
        `${found.name} is one key, but --engine names several servers, and a key must go to one server only.`,
        `Set the key of each: ${[earlierOrigin, origin].map((url) => hostVariablesOf(url)[0]).join(" and ")}.`,
      );
    origins.set(found.name, origin);
  }
  return ({ label, server }) => {
    const { key: source } = server;
    if (source && "file" in source) return readKeyFile?.(source.file, `${label}.key_file`);
    if (source) {
      const named = readKey(source.variable);
      if (named !== undefined) return named;
      // The name is not printed, because it may be a key that was put in the wrong place.
      throw new VidgenError("auth", `${label}.key_env: the variable that it names is not set.`, {
        hint: "key_env must be the name of an environment variable of `vidgen serve`, which has the key.",
      });
    }
    const key = find(server)?.key;
    const provider = providerAt(server);
    if (key !== undefined || !provider) return key;
    throw new VidgenError("auth", `${server.kind?.title} needs a key, and ${provider.keyVariable} is not set.`, {
      hint: `export ${provider.keyVariable}=...`,
    });
  };
}

/** Returns the variables that may contain a server's key; the first that is set is used. */
function variablesOf(server: ServerSpec): string[] {
  return [...hostVariablesOf(server.url), providerAt(server)?.keyVariable ?? "VIDGEN_ENGINE_KEY"];
}

function hostVariablesOf(url: string): string[] {
  const { host, hostname } = new URL(url);
  return [host, hostname].map((name) => `VIDGEN_ENGINE_KEY_${toVariablePart(name)}`);
}

function toVariablePart(host: string): string {
  return host
    .toUpperCase()
    .replace(/[^A-Z0-9]+/g, "_")
    .replace(/^_|_$/g, "");
}

/** Returns the provider of a server's kind, but only for the provider's own address, because a proxy must not get the provider's key. */
function providerAt({ url, kind }: ServerSpec) {
  const provider = kind?.provider;
  return provider && new URL(provider.url).origin === new URL(url).origin ? provider : undefined;
}
