import { usage } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { configPath, findBaseUrl, resolveApiKey } from "../settings.ts";
import { type Check, failBy, pass } from "./check.ts";

/** The service's address and the key for it, as any command would find them, and where they come from. */
export type Settings = { checks: Check[]; baseUrl: string | undefined; apiKey: string | undefined };

export async function checkSettings(flag: string | undefined, io: Io): Promise<Settings> {
  const address = await checkBaseUrl(flag, io);
  if (address.baseUrl === undefined) return { checks: [address.check], baseUrl: undefined, apiKey: undefined };
  const key = await checkKey(address.baseUrl, io);
  return { checks: [address.check, key.check], baseUrl: address.baseUrl, apiKey: key.apiKey };
}

async function checkBaseUrl(flag: string | undefined, io: Io): Promise<{ check: Check; baseUrl: string | undefined }> {
  try {
    const baseUrl = await findBaseUrl(flag, io);
    if (baseUrl === undefined)
      throw usage("none is known", "`vidgen login` saves one, VIDGEN_BASE_URL sets one; --local needs none.");
    const source = flag !== undefined ? "--base-url" : sourceOf("VIDGEN_BASE_URL", io);
    return { check: pass("base URL", `${baseUrl}, from ${source}`), baseUrl };
  } catch (error) {
    return {
      check: failBy("base URL", error, "Correct it: such as https://video.example, without a password, ? or #."),
      baseUrl: undefined,
    };
  }
}

async function checkKey(baseUrl: string, io: Io): Promise<{ check: Check; apiKey: string | undefined }> {
  try {
    const apiKey = await resolveApiKey(baseUrl, io);
    return { check: pass("key", `${tail(apiKey)}, from ${sourceOf("VIDGEN_API_KEY", io)}`), apiKey };
  } catch (error) {
    return {
      check: failBy("key", error, "Correct VIDGEN_API_KEY, or save the key anew with `vidgen login`."),
      apiKey: undefined,
    };
  }
}

function sourceOf(variable: "VIDGEN_API_KEY" | "VIDGEN_BASE_URL", io: Io): string {
  return io.env[variable] ? variable : configPath(io);
}

/** Enough to tell one key from another; of a short one nothing, since four characters would be too much of it. */
function tail(apiKey: string): string {
  return apiKey.length < 16 ? "set" : `ends in ${apiKey.slice(-4)}`;
}
