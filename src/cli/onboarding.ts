import { hasKey } from "../connect/settings.ts";
import type { Context } from "./context.ts";
import { askChoice, canAsk } from "./terminal/prompts.ts";

type Options = { local?: boolean; dryRun?: boolean; baseUrl?: string };

/**
 * The options with a service that can be used: without a login, a person at a terminal is asked to log in, which happens here, or to use the
 * local service. Elsewhere they are returned as they are. Throws `interrupted` at Ctrl-C, and as `login` does.
 */
export async function withService<Given extends Options>(given: Given, context: Context): Promise<Given> {
  const { io } = context;
  if (given.local || given.dryRun || !canAsk(context, io) || (await hasKey(given.baseUrl, io))) return given;
  const choices = [
    { value: "login", name: "log in, with the base URL and the key of your account" },
    { value: "local", name: "a local preview: no account, no credits" },
  ];
  if ((await askChoice("You are not logged in. What do you want to do?", choices, "login", io)) === "local") {
    const { baseUrl: _, ...others } = given;
    return { ...others, local: true } as Given;
  }
  const { login } = await import("./commands/login.ts");
  await login(given, context);
  return given;
}
