import { hasKey } from "../connect/settings.ts";
import type { Context } from "./context.ts";
import { canAsk } from "./terminal/prompts.ts";
import { askSource } from "./video-source.ts";

type ServiceFlags = { local?: boolean; dryRun?: boolean; baseUrl?: string; engine?: string[] };

/**
 * The flags with a usable service. Without a login, asks at a terminal what should make the videos: the local
 * service, a provider, whose key is asked for, or a service, to which the user logs in here. If nobody can be
 * asked, returns the flags unchanged. Throws `interrupted` on Ctrl-C, and as `login` does.
 */
export async function withService<Flags extends ServiceFlags>(flags: Flags, context: Context): Promise<Flags> {
  const { io } = context;
  if (flags.local || flags.dryRun || !canAsk(context, io) || (await hasKey(flags.baseUrl, io))) return flags;
  const source = await askSource("You are not logged in. What should make it?", context);
  if (source === "service") {
    const { login } = await import("./commands/login.ts");
    await login(flags, context);
    return flags;
  }
  const { baseUrl: _, ...otherFlags } = flags;
  return { ...otherFlags, local: true, ...(source === "openrouter" && { engine: [source] }) } as Flags;
}
