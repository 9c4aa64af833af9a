import { systemCode } from "../../errors.ts";
import type { Io } from "../../io.ts";
import type { Output } from "./output.ts";

/** Prints each request and reply with `--verbose`. The query of a media URL is left out: it may be a secret. */
export function traceFetch(fetch: Io["fetch"], baseUrl: string, output: Output, io: Pick<Io, "now">): Io["fetch"] {
  if (!output.verbose) return fetch;
  return async (url, init) => {
    const shown = `${init?.method ?? "GET"} ${url.startsWith(baseUrl) ? url : url.replace(/\?.*$/s, "?...")}`;
    const start = io.now();
    const report = (outcome: string | number) =>
      output.trace(`< ${outcome} ${shown} (${Math.round(io.now() - start)} ms)`);
    output.trace(`> ${shown}`);
    try {
      const response = await fetch(url, init);
      report(response.status);
      return response;
    } catch (error) {
      report(systemCode(error) ?? (error instanceof Error ? error.message : "failed"));
      throw error;
    }
  };
}
