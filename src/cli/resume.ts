import { asVidgenError, type NextCommand, type VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { commandLine, type ShellIo, shellOf } from "../shell.ts";
import { programWords } from "./next.ts";
import { programName } from "./terminal/output.ts";

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

type ProgramIo = ShellIo & Pick<Io, "program">;

/**
 * The command that waits for these generations at the service of the options, and saves them; with "--all"
 * for all unfinished ones.
 */
export function waitNext(ids: string[] | "--all", options: ResumeHintOptions, io: ProgramIo): NextCommand {
  return { argv: [...programWords(io), ...waitWords(ids, options)], pays: false };
}

/** A command of `next` as a person types it. */
export function lineOf({ argv }: NextCommand, io: ProgramIo): string {
  return `${programName(io.env)} ${commandLine(argv.slice(programWords(io).length), shellOf(io))}`;
}

export function resumeHint(next: NextCommand, io: ProgramIo): string {
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
export function withResumeHint(thrown: unknown, id: string, options: ResumeHintOptions, io: ProgramIo): VidgenError {
  const error = asVidgenError(thrown);
  const hint = isFinalError(error) ? undefined : resumeHint(waitNext([id], options, io), io);
  return withResume(error, id, options, io).with({ hint });
}

/**
 * As `withResumeHint`, but without a hint, for a command with one hint for several generations. A lost
 * generation is followed by the same command, since the service may know it again later.
 */
export function withResume(error: VidgenError, id: string, options: ResumeHintOptions, io: ProgramIo): VidgenError {
  const isLost = error.code === "not_found" && error.attempt !== undefined;
  const next = isFinalError(error) && !isLost ? undefined : [waitNext([id], options, io)];
  return error.with({ id, next });
}

/** Whether an error means that there is nothing to resume. */
export function isFinalError(error: VidgenError): boolean {
  return error.ended !== undefined || error.code === "not_found";
}
