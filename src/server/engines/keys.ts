import { usage, VidgenError } from "../../errors.ts";
import type { EngineSpec, ServerSpec } from "./spec.ts";

/** Returns the key in a variable of the environment; `undefined` when it is not set. Throws `usage` for what is no key. */
export type ReadKey = (variable: string) => string | undefined;

/** Where keys are read: in the environment, and in the files that `key_file` names. */
export type KeyReader = { readKey: ReadKey; readKeyFile?: ((path: string, label: string) => string) | undefined };

/**
 * Returns what finds the key of a server: where its owner says that it is, else that of `VIDGEN_ENGINE_KEY_<HOST>`, with its port first, else at a provider's own address that of the
 * provider's usual variable, and elsewhere that of VIDGEN_ENGINE_KEY. Throws `usage` when one variable would go to two origins, and `auth` when
 * a provider has none.
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
    // Where each engine names its key, several may have one: the owner said which servers get it.
    const found = server && !server.key && find(server);
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
  return ({ label, server }) => {
    const { key: source } = server;
    if (source && "file" in source) return readKeyFile?.(source.file, `${label}.key_file`);
    if (source) {
      const named = readKey(source.variable);
      if (named !== undefined) return named;
      // Not its name: what stands there may be a key that was put in the wrong place.
      throw new VidgenError("auth", `${label}.key_env: the variable that it names is not set.`, {
        hint: "It must be the name of a variable of the environment of `vidgen serve`, which has the key.",
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
