import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { removeLogin, resolveBaseUrl } from "../../connect/settings.ts";
import { baseUrlOption, withDetails } from "../command.ts";
import type { Context } from "../context.ts";

export function addLogout(program: CommandUnknownOpts, context: Context): void {
  const command = program
    .command("logout")
    .helpGroup("Set up:")
    .summary("delete the saved API key")
    .description("Deletes the API key that was saved for the service.")
    .addOption(baseUrlOption("the service the key is for"))
    .action(({ baseUrl }) => logout(baseUrl, context));
  withDetails(command, { examples: ["vidgen logout"] });
}

/** Deletes the saved key for the origin of the base URL. Writes nothing to stdout; with `--json`, whether there was a key. */
async function logout(flag: string | undefined, { io, output }: Context): Promise<void> {
  const baseUrl = await resolveBaseUrl(flag, io);
  const { origin } = new URL(baseUrl);
  const wasSaved = await removeLogin(baseUrl, io);
  await output.result("", { ok: true, base_url: baseUrl, was_saved: wasSaved });
  output.note(wasSaved ? `Deleted the API key for ${origin}.` : `No API key was saved for ${origin}.`);
  if (io.env.VIDGEN_API_KEY) output.note("VIDGEN_API_KEY is still set and will still be used.");
}
