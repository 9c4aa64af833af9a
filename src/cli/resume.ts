import { asVidgenError, type NextCommand, VidgenError } from "../errors.ts";
import { commandLine, type ShellIo, shellOf } from "../shell.ts";

export type ResumeHintOptions = {
  local?: boolean;
  engine?: readonly string[];
  engineTimeout?: string;
  baseUrl?: string;
  overwrite?: boolean;
  writeInfoJson?: boolean;
  /** `-o` as typed. */
  outputPath: string | undefined;
};

/**
 * The command that waits for these generations at the service of the options, and saves them; with "--all"
 * for all unfinished ones.
 */
export function waitNext(ids: string[] | "--all", options: ResumeHintOptions): NextCommand {
  return { argv: ["vidgen", ...waitWords(ids, options)], pays: false };
}

/** A command of `next` as a person types it. */
export function lineOf({ argv }: NextCommand, io: ShellIo): string {
  return commandLine(argv, shellOf(io));
}

export function resumeHint(next: NextCommand, io: ShellIo): string {
  return `Resume with: ${lineOf(next, io)}`;
}

function waitWords(ids: string[] | "--all", options: ResumeHintOptions): string[] {
  const { local, engine = [], engineTimeout, baseUrl, outputPath, overwrite, writeInfoJson } = options;
  const flags = [
    ...engine.flatMap((spec) => ["--engine", spec]),
    ...(engineTimeout === undefined ? [] : ["--engine-timeout", engineTimeout]),
    ...(local && engine.length === 0 ? ["--local"] : []),
    ...(baseUrl === undefined ? [] : ["--base-url", baseUrl]),
    ...(outputPath === undefined ? [] : ["-o", outputPath]),
    ...(overwrite ? ["--overwrite"] : []),
    ...(writeInfoJson ? ["--write-info-json"] : []),
  ];
  const words = typeof ids === "string" ? [ids] : ids;
  const hasDashedId = typeof ids !== "string" && ids.some((id) => id.startsWith("-"));
  return ["wait", ...(hasDashedId ? [...flags, "--", ...words] : [...words, ...flags])];
}

/** Adds the id, and the command that resumes as a hint too, to an error that came after a generation was paid for. */
export function withResumeHint(thrown: unknown, id: string, options: ResumeHintOptions, io: ShellIo): VidgenError {
  const error = asVidgenError(thrown);
  const hasHint = isFinalError(error) || error.next !== undefined;
  return withResume(error, id, options, io).with({
    hint: hasHint ? undefined : resumeHint(waitNext([id], options), io),
  });
}

/**
 * As `withResumeHint`, but without a hint of its own, for a command with one hint for several generations. In
 * a hint of the client, `vidgen wait <id>` gets the same flags as in `next`. A lost generation is followed by
 * the same command, since the service may know it again later.
 */
export function withResume(error: VidgenError, id: string, options: ResumeHintOptions, io: ShellIo): VidgenError {
  const isLost = error.code === "not_found" && error.attempt !== undefined;
  if (error.next !== undefined || (isFinalError(error) && !isLost)) return error.with({ id });
  const next = waitNext([id], options);
  const hint = error.hint?.replaceAll(`\`vidgen wait ${id}\``, () => `\`${lineOf(next, io)}\``);
  return new VidgenError(error.code, error.message, { ...error, hint, next: [next], cause: error.cause }).with({ id });
}

/** Whether an error means that there is nothing to resume. */
export function isFinalError(error: VidgenError): boolean {
  return error.ended !== undefined || error.code === "not_found";
}
