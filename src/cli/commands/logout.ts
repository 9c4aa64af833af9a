import type { Io } from "../../io.ts";
import { removeLogin, resolveBaseUrl } from "../settings.ts";
import type { Output } from "../terminal/output.ts";

/** Forgets the saved key of the base URL's origin. Prints nothing; with `--json` whether there was one. */
export async function logout({ output, baseUrl }: { output: Output; baseUrl?: string }, io: Io): Promise<void> {
  const resolved = await resolveBaseUrl(baseUrl, io);
  const { origin } = new URL(resolved);
  const wasThere = await removeLogin(resolved, io);
  await output.result("", { ok: true, base_url: resolved, was_saved: wasThere });
  output.note(wasThere ? `Forgot the API key for ${origin}.` : `There was no saved API key for ${origin}.`);
  if (io.env.VIDGEN_API_KEY) output.note("VIDGEN_API_KEY is still set and goes on being used.");
}
