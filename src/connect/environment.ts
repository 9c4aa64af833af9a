import type { Io } from "../io.ts";
import { trimInvisible } from "../protocol/text.ts";

/** VIDGEN_HOME is left as it is: in another folder there is another journal, and what that one has would be paid for again. */
const isCleaned = (name: string) => name.startsWith("VIDGEN_") && name !== "VIDGEN_HOME";

/**
 * The environment without invisible characters around the values of vidgen's variables, such as the carriage return of a file from Windows, and without
 * one pair of quotes around such a value. `unquoted` has the names of the variables that had quotes.
 */
export function cleanEnv(env: Io["env"]): { env: Io["env"]; unquoted: string[] } {
  const unquoted: string[] = [];
  const cleaned = Object.entries(env).flatMap(([name, value]): [string, string][] => {
    if (value === undefined || !isCleaned(name)) return [];
    const trimmed = trimInvisible(value);
    const [, , inside] = /^(["'])(.*)\1$/s.exec(trimmed) ?? [];
    if (inside !== undefined) unquoted.push(name);
    return [[name, inside === undefined ? trimmed : trimInvisible(inside)]];
  });
  return { env: { ...env, ...Object.fromEntries(cleaned) }, unquoted };
}
