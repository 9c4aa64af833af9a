import { hasKey } from "../connect/settings.ts";
import { VidgenError } from "../errors.ts";
import type { Context } from "./context.ts";
import { askService, describeProviders } from "./service-choice.ts";
import { canAsk } from "./terminal/prompts.ts";

type ServiceFlags = { local?: boolean; dryRun?: boolean; baseUrl?: string; engine?: string[] };

/**
 * The options with a usable service. Without a login, asks at a terminal whether to log in, which happens here, to use a provider, or the local
 * service; elsewhere returns the options unchanged. Throws `interrupted` at Ctrl-C, `auth` for a provider without a key, and as `login` does.
 */
export async function withService<Given extends ServiceFlags>(given: Given, context: Context): Promise<Given> {
  const { io } = context;
  if (given.local || given.dryRun || !canAsk(context, io) || (await hasKey(given.baseUrl, io))) return given;
  const choice = await askService("You are not logged in. What do you have?", io);
  if (choice === "service") {
    const { login } = await import("./commands/login.ts");
    await login(given, context);
    return given;
  }
  const { baseUrl: _, ...others } = given;
  if (choice === "local") return { ...others, local: true } as Given;
  if (!io.env.OPENROUTER_API_KEY)
    throw new VidgenError("auth", "No key of a provider is set.", { hint: describeProviders(io) });
  return { ...others, local: true, engine: ["openrouter"] } as Given;
}
