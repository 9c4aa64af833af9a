import type { Io } from "../io.ts";

/** undici's parts, loaded with the first request. */
export function createFetch(env: Io["env"], { isOwnProcess }: { isOwnProcess: boolean }): Io["fetch"] {
  let loaded: Promise<Io["fetch"]> | undefined;
  const load = async (url: string) => {
    const http = await import("./undici-fetch.ts");
    if (isOwnProcess && process.versions.node.startsWith("20.")) await http.delayTiering(url);
    return http.createFetch(env);
  };
  // A program that was replaced while it ran has sent nothing.
  const onMissing = (error: unknown) => {
    loaded = undefined;
    throw Object.assign(error instanceof Error ? error : new Error(String(error)), { sent: false });
  };
  return async (url, init) => {
    loaded ??= load(url).catch(onMissing);
    return (await loaded)(url, init);
  };
}
