import { systemCode, usage, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { serviceFolder } from "../local.ts";
import type { Output } from "../output.ts";
import { type Announcement, createKey, readAnnouncement, writeAnnouncement } from "../server/announcement.ts";
import type { Handler } from "../server/app.ts";
import { createPreviewEngine } from "../server/engines/preview/preview.ts";
import { type Listening, listen } from "../server/listen.ts";
import { createService } from "../server/service.ts";
import { isLoopback } from "../settings.ts";

export type ServeOptions = { host: string; port: string; mediaPort: string; credits: string; output: Output };

/** How long replies under way may take once the service is told to stop. */
const graceMs = 3_000;

/** Runs the local service until Ctrl-C or SIGTERM. Prints its address once it listens. */
export async function serve(options: ServeOptions, io: Io): Promise<void> {
  const { output, host } = options;
  if (host === "") throw usage("--host is empty.");
  const ports = {
    api: readNumber(options.port, "--port", 65_535),
    media: readNumber(options.mediaPort, "--media-port", 65_535),
  };
  const credits = readNumber(options.credits, "--credits", Number.MAX_SAFE_INTEGER);
  const folder = serviceFolder(io);
  const api_key = (await readAnnouncement(folder))?.api_key ?? createKey();
  let mediaUrl = "";
  const engine = createPreviewEngine();
  const service = await createService({
    ...{ engine, credits, apiKey: api_key, clock: io, fetch: io.fetch },
    mediaUrl: () => mediaUrl,
    onDelivery: output.note,
  });
  const open: Listening[] = [];
  try {
    const media = await listenAt(service.media, { host, port: ports.media, flag: "--media-port" }, io);
    open.push(media);
    mediaUrl = media.url;
    const api = await listenAt(service.api, { host, port: ports.api, flag: "--port" }, io);
    open.push(api);
    const announcement = { api_key, base_url: api.url, media_url: media.url, pid: io.pid };
    await announce(folder, announcement);
    await printAddress(announcement, options, io);
    await untilStopped(io);
    await takeBack(folder, announcement);
  } finally {
    await Promise.all(open.map((listening) => listening.close(graceMs)));
    await service.close();
  }
}

async function listenAt(
  handler: Handler,
  at: { host: string; port: number; flag: string },
  io: Io,
): Promise<Listening> {
  try {
    return await listen(handler, at, io);
  } catch (error) {
    const code = systemCode(error);
    const where = `${at.host}:${at.port}`;
    if (code === "EADDRINUSE")
      throw usage(`${where} is in use, perhaps by another vidgen serve.`, `${at.flag} 0 takes any free port.`);
    throw usage(`Cannot listen on ${where}: ${code ?? error}.`);
  }
}

async function announce(folder: string, announcement: Announcement): Promise<void> {
  try {
    await writeAnnouncement(folder, announcement);
  } catch (error) {
    throw new VidgenError("output", `Cannot write to ${folder}: ${systemCode(error) ?? error}.`, {
      hint: "VIDGEN_HOME names another folder.",
      cause: error,
    });
  }
}

async function printAddress(announcement: Announcement, { output, host }: ServeOptions, io: Io): Promise<void> {
  const { base_url, media_url, api_key } = announcement;
  await output.result(base_url ?? "", { base_url, media_url, api_key });
  if (!output.json) io.stderr.write(`export VIDGEN_BASE_URL=${base_url}\nexport VIDGEN_API_KEY=${api_key}\n`);
  if (!isLoopback(host.includes(":") ? `[${host}]` : host))
    output.note("Others on the network can reach this service.");
  output.note("Ctrl-C stops it.");
}

function untilStopped(io: Io): Promise<void> {
  return new Promise((resolve) => {
    if (io.signal.aborted) return resolve();
    io.signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/** The key stays for the next time; the addresses go, unless another `serve` has put its own there. */
async function takeBack(folder: string, mine: Announcement): Promise<void> {
  const { pid, api_key } = (await readAnnouncement(folder)) ?? {};
  if (pid === mine.pid && api_key !== undefined) await writeAnnouncement(folder, { api_key });
}

function readNumber(text: string, flag: string, most: number): number {
  const number = Number(text);
  if (/^\d+$/.test(text) && number <= most) return number;
  throw usage(`${flag} takes a whole number from 0 to ${most}, not "${text}".`);
}
