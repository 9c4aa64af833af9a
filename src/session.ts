import { createReadStream } from "node:fs";
import { pipeline } from "node:stream/promises";
import { type Client, createClient } from "./api/client.ts";
import { systemCode, usage, VidgenError } from "./errors.ts";
import { type Collected, collect } from "./generations/collect.ts";
import { localPace, remotePace } from "./generations/follow.ts";
import type { Naming, Target } from "./generations/target.ts";
import type { Io } from "./io.ts";
import { openLocal } from "./local.ts";
import type { Output } from "./output.ts";
import { createProgress } from "./progress.ts";
import { isLoopback, resolveApiKey, resolveBaseUrl } from "./settings.ts";

export type SessionOptions = { local?: boolean; baseUrl?: string; output: Output };

/** A command's dealings with one service. */
export type Session = {
  client: Client;
  /** The local service inside this process: nothing of it outlives the command. */
  isHere: boolean;
  /** Follows a generation to its end and saves its video; errors carry the id and the command to go on. */
  collect(id: string, options: CollectOptions): Promise<Collected>;
  /** The command that takes a generation up again. */
  commandToGoOn(id: string, place?: string): string;
  /** Waits for what is still to be sent, then ends; without `isDone` it ends at once. */
  close(isDone: boolean): Promise<void>;
};

export type CollectOptions = {
  timeoutMs: number;
  /** Between two looks; by default it depends on the service. */
  intervalMs: number | undefined;
  isNew: boolean;
  target: Target | undefined;
  /** `-o` as it was typed, for the command to go on. */
  place: string | undefined;
  naming: Omit<Naming, "id">;
};

/** Connects to the remote service of the settings, or with `--local` to the local one. Sends nothing to a remote one yet. */
export async function openSession(options: SessionOptions, io: Io): Promise<Session> {
  const { output } = options;
  if (options.local && options.baseUrl !== undefined) throw usage("--local and --base-url name two services.");
  const local = options.local ? await openLocal(io, output.note) : undefined;
  const baseUrl = local?.baseUrl ?? (await resolveBaseUrl(options.baseUrl, io));
  const apiKey = local?.apiKey ?? (await resolveApiKey(baseUrl, io));
  output.hide(apiKey);
  const world: Io = { ...io, fetch: traced(local?.fetch ?? io.fetch, baseUrl, output, io) };
  const client = createClient({ baseUrl, apiKey, fetch: world.fetch });
  const isHere = local?.isHere ?? false;
  const pace = local || isLoopback(new URL(baseUrl).hostname) ? localPace : remotePace;
  const flags = [
    options.local ? " --local" : "",
    options.baseUrl === undefined ? "" : ` --base-url ${quote(options.baseUrl)}`,
  ].join("");
  const commandToGoOn = (id: string, place?: string) =>
    `${programName(io.env)} wait ${quote(id)}${flags}${place === undefined ? "" : ` -o ${quote(place)}`}`;

  return {
    client,
    isHere,
    commandToGoOn,
    async collect(id, { intervalMs, place, ...rest }) {
      const progress = createProgress(id, output, io);
      const { onNote, onProgress } = progress;
      const interval = intervalMs === undefined ? pace : () => intervalMs;
      try {
        return await collect(
          client,
          id,
          { ...rest, intervalMs: interval, signal: io.signal, isLasting: !isHere, onNote, onProgress },
          world,
        );
      } catch (error) {
        if (!(error instanceof VidgenError)) throw error;
        throw error.with({ id, hint: hintToGoOn(error, isHere, commandToGoOn(id, place)) });
      } finally {
        progress.stop();
      }
    },
    async close(isDone) {
      if (isDone) await local?.settled();
      await local?.close();
    },
  };
}

function hintToGoOn(error: VidgenError, isHere: boolean, command: string): string | undefined {
  if (error.code === "failed" || error.code === "not_found") return undefined;
  if (!isHere) return `To go on: ${command}`;
  return "It ran inside this command and has ended with it; nothing was charged. Run it again, or let `vidgen serve` do it.";
}

/** Such as "npx vidgen", when that is how it was called: the next command has to work as it is printed. */
export function programName(env: Io["env"]): string {
  return env.npm_command === "exec" ? "npx vidgen" : "vidgen";
}

/** A word as a shell reads it. */
export function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** `--verbose`: each request and reply, without the query of an address other than the service's own, which may be a secret. */
export function traced(fetch: Io["fetch"], baseUrl: string, output: Output, io: Pick<Io, "now">): Io["fetch"] {
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

export type PrintOptions = {
  /** `-o` as it was typed. */
  place: string | undefined;
  isHere: boolean;
  /** What else `--json` shows. */
  extra?: object;
  output: Output;
};

/** The result on stdout: the video itself for `-o -`, else the saved file, else the address. */
export async function printCollected(collected: Collected, options: PrintOptions, io: Io): Promise<void> {
  const { file, videoUrl } = collected;
  if (options.place === "-" && file !== undefined) return streamTo(io.stdout, file);
  await options.output.result(file ?? videoUrl, { ...options.extra, ...describe(collected, options.isHere) });
}

/** A completed generation as `--json` shows it; an address that ends with this process is left out. */
export function describe({ generation, videoUrl, file }: Collected, isHere: boolean): object {
  return { ...generation, video_url: isHere ? null : videoUrl, ...(file === undefined ? {} : { file }) };
}

/** Throws `usage` when stdout cannot take the video that `-o -` sends there. */
export function checkPlace(place: string | undefined, output: Output, io: Io): void {
  if (place === "") throw usage("-o is empty.");
  if (place !== "-") return;
  if (output.json) throw usage("--json and -o - both want stdout.");
  if (io.stdout.isTTY) throw usage("-o - sends the video to stdout, which is a terminal: pipe it, or name a file.");
}

async function streamTo(stdout: Io["stdout"], file: string): Promise<void> {
  try {
    await pipeline(createReadStream(file), stdout, { end: false });
  } catch (error) {
    const code = systemCode(error);
    if (code === "EPIPE" || code === "ERR_STREAM_PREMATURE_CLOSE") return;
    throw new VidgenError("output", `Cannot write the video to stdout: ${code ?? error}.`, { cause: error });
  }
}
