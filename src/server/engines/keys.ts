import { usage, VidgenError } from "../../errors.ts";
import type { EngineSpec, ServerSpec } from "./spec.ts";

/** Returns the key in a variable of the environment; `undefined` when it is not set. Throws `usage` for what is no key. */
export type ReadKey = (variable: string) => string | undefined;

/**
 * Returns what finds the key of a server: that of `VIDGEN_ENGINE_KEY_<HOST>`, with its port first, else at a provider's own address that of the
 * provider's usual variable, and elsewhere that of VIDGEN_ENGINE_KEY. Throws `usage` when one variable would go to two origins, and `auth` when
 * a provider has none.
 */
export function createKeyFinder(
  specs: readonly EngineSpec[],
  readKey: ReadKey,
): (server: ServerSpec) => string | undefined {
  const find = (server: ServerSpec) => {
    const name = variablesOf(server).find((variable) => readKey(variable) !== undefined);
    return name === undefined ? undefined : { name, key: readKey(name) };
  };
  const origins = new Map<string, string>();
  for (const { server } of specs) {
    const found = server && find(server);
    if (!found) continue;
    const { origin } = new URL(server.url);
    const other = origins.get(found.name) ?? origin;
    if (other !== origin)
      throw usage(
        `${found.name} is one key, but --engine names several servers, and a key must go to one server only.`,
        `Set the key of each: ${[other, origin].map((url) => ownVariablesOf(url)[0]).join(" and ")}.`,
      );
    origins.set(found.name, origin);
  }
  return (server) => {
    const key = find(server)?.key;
    const provider = providerAt(server);
    if (key !== undefined || !provider) return key;
    throw new VidgenError("auth", `${server.kind?.title} needs a key, and ${provider.keyVariable} is not set.`, {
      hint: `export ${provider.keyVariable}=...`,
    });
  };
}

/** The variables that may have a server's key, the first that is set has it. */
function variablesOf(server: ServerSpec): string[] {
  return [...ownVariablesOf(server.url), providerAt(server)?.keyVariable ?? "VIDGEN_ENGINE_KEY"];
}

function ownVariablesOf(url: string): string[] {
  const { host, hostname } = new URL(url);
  return [host, hostname].map((name) => `VIDGEN_ENGINE_KEY_${nameIn(name)}`);
}

function nameIn(host: string): string {
  return host
    .toUpperCase()
    .replace(/[^A-Z0-9]+/g, "_")
    .replace(/^_|_$/g, "");
}

/** The provider of a server's kind, at its own address alone: a proxy of the user's is another origin. */
function providerAt({ url, kind }: ServerSpec) {
  const provider = kind?.provider;
  return provider && new URL(provider.url).origin === new URL(url).origin ? provider : undefined;
}
