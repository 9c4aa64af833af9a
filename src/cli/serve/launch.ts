import { join } from "node:path";
import { findServiceFolder, folderError } from "../../connect/local.ts";
import { systemCode, usage, type VidgenError } from "../../errors.ts";
import type { HeldService, RunningService, ServiceFolderOptions, SharedService } from "../../server/serve.ts";
import type { Context } from "../context.ts";
import { databaseError } from "./database.ts";

type LaunchSettings = Omit<ServiceFolderOptions, "folder" | "resume">;

/** Opens the service of this machine's folder. */
export async function launchOnThisMachine(settings: LaunchSettings, { io }: Context): Promise<RunningService> {
  const { openService } = await import("../../server/serve.ts");
  const folder = findServiceFolder(io);
  const opened = await openService({ ...settings, folder, resume: "all" }, io).catch((error) => {
    throw listenError(error, settings.host) ?? folderError(error, folder);
  });
  if (opened.kind === "held") throw heldError(opened);
  return opened;
}

/** Opens the service of a database that other processes may share. */
export async function launchShared(
  settings: LaunchSettings & { database: string; media: string | undefined },
  { io, output }: Context,
): Promise<SharedService> {
  const { openSharedService } = await import("../../server/serve.ts");
  const { openMedia } = await import("../../server/media/open.ts");
  for (const name of ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"]) output.hide(io.env[name] ?? "");
  const mediaPlace = settings.media ?? join(findServiceFolder(io), "videos");
  const openVideos = (mark: string) => openMedia(mediaPlace, mark, io);
  const opened = await openSharedService({ ...settings, openVideos }, io).catch((error) => {
    throw listenError(error, settings.host) ?? databaseError(error);
  });
  if (settings.credits !== undefined && opened.address.api_key === null)
    output.note(
      "The account already exists, so --credits changed nothing. To add credits: vidgen accounts credits local <amount>",
    );
  return opened;
}

/** The error if the service cannot listen; `undefined` for any other failure. */
function listenError(error: unknown, host: string): VidgenError | undefined {
  if (!(error instanceof Error && "syscall" in error && /listen|getaddrinfo/.test(String(error.syscall))))
    return undefined;
  const code = systemCode(error);
  if (code !== "EADDRINUSE") return usage(`Cannot listen on ${host}: ${code}.`);
  return usage(
    `${host}:${"port" in error ? error.port : ""} is in use.`,
    "Choose another port with --port and --media-port, or 0 for any free port.",
  );
}

function heldError({ pid, announcement }: HeldService): VidgenError {
  const where = announcement?.base_url === undefined ? "" : `, at ${announcement.base_url}`;
  return usage(
    `The local service is already running: process ${pid}${where}.`,
    "--local uses it. To run a second one, set VIDGEN_HOME to another folder.",
  );
}
