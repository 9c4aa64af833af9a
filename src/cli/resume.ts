import { VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { programName } from "./terminal/output.ts";
import { quote } from "./terminal/text.ts";

export type ResumeHintOptions = {
  local?: boolean;
  engine?: readonly string[];
  engineTimeout?: string;
  baseUrl?: string;
  overwrite?: boolean;
  writeInfoJson?: boolean;
  /** `-o` as it was typed. */
  outputPath: string | undefined;
};

/** The hint with the command that resumes these generations, or with "--all" all open ones. */
export function resumeHint(ids: string[] | "--all", options: ResumeHintOptions, io: Pick<Io, "env">): string {
  return `Resume with: ${waitCommand(ids, options, io)}`;
}

/** The command that waits for these generations at the service of the options, and saves them. */
export function waitCommand(ids: string[] | "--all", options: ResumeHintOptions, io: Pick<Io, "env">): string {
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
  const isOdd = typeof ids !== "string" && ids.some((id) => id.startsWith("-"));
  const all = isOdd ? [...flags, "--", ...words] : [...words, ...flags];
  return `${programName(io.env)} wait ${all.map(quote).join(" ")}`;
}

/** Adds the id, and the command to resume, to an error that came after a generation was paid for. */
export function withResumeHint(error: unknown, id: string, options: ResumeHintOptions, io: Pick<Io, "env">): unknown {
  if (!(error instanceof VidgenError)) return error;
  return error.with({ id, hint: isOver(error) ? undefined : resumeHint([id], options, io) });
}

/** Whether an error means that there is nothing to resume. */
export function isOver(error: VidgenError): boolean {
  return error.ended !== undefined || error.code === "not_found";
}
