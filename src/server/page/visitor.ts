import type { Context } from "hono";
import { isUuid } from "../../protocol/id.ts";
import { isLoopback, loginCommand } from "../../protocol/url.ts";
import { quote } from "../../shell.ts";
import { localAccount } from "../announcement.ts";
import type { ApiEnv } from "../http/message.ts";
import type { Store } from "../store/store.ts";

/** The context of a request for the page. */
export type PageContext = Context<ApiEnv>;

/** The account whose generations this visitor sees; `undefined` for the owner, who sees all. Throws in a route that requires no session. */
export function accountOf({ var: { account } }: PageContext): string | undefined {
  if (account === undefined) throw new Error("nobody is signed in");
  return account === localAccount ? undefined : account;
}

/** Whether this visitor may see what belongs to an account. */
export function maySee(c: PageContext, account: string): boolean {
  return (accountOf(c) ?? account) === account;
}

/** Resolves with the generation of an id, if this visitor may see it. */
export async function findVisible(c: PageContext, store: Pick<Store, "generation">, id: string) {
  const generation = isUuid(id) ? await store.generation(id) : undefined;
  return generation && maySee(c, generation.account) ? generation : undefined;
}

/** The URL by which the browser reaches the service: the public URL, if there is one. */
export function requestUrl(c: PageContext, { publicUrl = c.req.url }: { publicUrl?: string | undefined }): URL {
  return new URL(publicUrl);
}

/** How a visitor uses this service in a terminal. */
export type Terminal = {
  /** The program's name. */
  program: string;
  baseUrl: string;
  /** Whether `--local` finds this service: only for the owner, on the service's machine. */
  isLocal: boolean;
  /** The flag that names this service in other commands. */
  flag: string;
  /** The login command to type once, before other commands; `undefined` with `--local`. */
  login: string | undefined;
};

export function terminalOf(
  c: PageContext,
  options: { publicUrl?: string | undefined; store: Pick<Store, "isShared">; program?: string | undefined },
): Terminal {
  const { publicUrl, store, program = "vidgen" } = options;
  const { origin: baseUrl, hostname } = requestUrl(c, options);
  const isOwner = accountOf(c) === undefined;
  const isLocal = isOwner && publicUrl === undefined && !store.isShared && isLoopback(hostname);
  const common = { program, baseUrl, isLocal };
  if (isLocal) return { ...common, flag: "--local", login: undefined };
  const login = loginCommand(baseUrl, program).replace(baseUrl, quote(baseUrl, "posix"));
  return { ...common, flag: `--base-url ${quote(baseUrl, "posix")}`, login };
}

export const uuidLength = 36;
export const uuid = /^[0-9a-f-]{36}$/i;
