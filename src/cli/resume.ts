import { type NextCommand, VidgenError } from "../errors.ts";
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

/** The hint with the command that resumes these generations, or with "--all" all unfinished ones. */
export function resumeHint(ids: string[] | "--all", options: ResumeHintOptions, io: ShellIo): string {
  return `Resume with: ${waitCommand(ids, options, io)}`;
}

/** The command that waits for these generations at the service of the options, and saves them. */
export function waitCommand(ids: string[] | "--all", options: ResumeHintOptions, io: ShellIo): string {
  return `${programName(io.env)} ${commandLine(waitWords(ids, options), shellOf(io))}`;
}

type ProgramIo = ShellIo & Pick<Io, "program">;

/** The same command for a program. */
export function waitNext(ids: string[] | "--all", options: ResumeHintOptions, io: ProgramIo): NextCommand[] {
  return [{ argv: [...programWords(io), ...waitWords(ids, options)], pays: false }];
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

/** Adds the id, and the command to resume, to an error that came after a generation was paid for. */
export function withResumeHint(error: unknown, id: string, options: ResumeHintOptions, io: ProgramIo): unknown {
  if (!(error instanceof VidgenError)) return error;
  return withResume(error, id, options, io).with({
    hint: isFinalError(error) ? undefined : resumeHint([id], options, io),
  });
}

/**
 * As `withResumeHint`, but without a hint, for a command with one hint for several generations. A lost generation is followed by the same command, since
 * the service may know it again later.
 */
export function withResume(error: VidgenError, id: string, options: ResumeHintOptions, io: ProgramIo): VidgenError {
  const isLost = error.code === "not_found" && error.attempt !== undefined;
  const next = isFinalError(error) && !isLost ? undefined : waitNext([id], options, io);
  return error.with({ id, next });
}

/** Whether an error means that there is nothing to resume. */
export function isFinalError(error: VidgenError): boolean {
  return error.ended !== undefined || error.code === "not_found";
}
