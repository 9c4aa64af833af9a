import type { Io } from "../io.ts";
import { readVariable, trimInvisible } from "../protocol/text.ts";

/** Not VIDGEN_HOME: a different folder has a different journal, so that what this one contains would be paid for again. */
const isCleaned = (name: string) => name.startsWith("VIDGEN_") && name !== "VIDGEN_HOME";

/**
 * Returns the environment without invisible characters around the values of vidgen's variables, such as the
 * carriage return of a file from Windows, and without one pair of quotes around such a value. `unquoted`
 * lists the names of the variables that had quotes.
 */
export function cleanEnv(env: Io["env"]): { env: Io["env"]; unquoted: string[] } {
  const unquoted: string[] = [];
  const cleaned = Object.entries(env).flatMap(([name, value]): [string, string][] => {
    if (value === undefined || !isCleaned(name)) return [];
    const text = readVariable(value);
    if (text !== trimInvisible(value)) unquoted.push(name);
    return text === value ? [] : [[name, text]];
  });
  // A copy of process.env is case-sensitive on Windows.
  return { env: cleaned.length === 0 ? env : { ...env, ...Object.fromEntries(cleaned) }, unquoted };
}
