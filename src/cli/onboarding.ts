import { hasKey } from "../connect/settings.ts";
import { VidgenError } from "../errors.ts";
import type { Context } from "./context.ts";
import { askService, describeProviders } from "./service-choice.ts";
import { canAsk } from "./terminal/prompts.ts";

type ServiceFlags = { local?: boolean; dryRun?: boolean; baseUrl?: string; engine?: string[] };

/**
 * The flags with a usable service. Without a login, asks at a terminal whether to log in, which happens here, to use a provider, or to use the local
 * service. If nobody can be asked, returns the flags unchanged. Throws `interrupted` on Ctrl-C, `auth` for a provider without a key, and as `login` does.
 */
export async function withService<Flags extends ServiceFlags>(flags: Flags, context: Context): Promise<Flags> {
  const { io } = context;
  if (flags.local || flags.dryRun || !canAsk(context, io) || (await hasKey(flags.baseUrl, io))) return flags;
  const choice = await askService("You are not logged in. What do you have?", io);
  if (choice === "service") {
    const { login } = await import("./commands/login.ts");
    await login(flags, context);
    return flags;
  }
  const { baseUrl: _, ...otherFlags } = flags;
  if (choice === "local") return { ...otherFlags, local: true } as Flags;
  if (!io.env.OPENROUTER_API_KEY)
    throw new VidgenError("auth", "No provider's key is set.", { hint: describeProviders(io) });
  return { ...otherFlags, local: true, engine: ["openrouter"] } as Flags;
}
