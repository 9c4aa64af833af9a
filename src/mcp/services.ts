import type { Context } from "../cli/command.ts";
import {
  createSession,
  openService,
  openServiceOf,
  openShared,
  type Session,
  type SessionOptions,
} from "../cli/context.ts";
import { localBaseUrl } from "../cli/local.ts";
import type { Journal } from "../client/journal.ts";
import { createTurns } from "../client/turns.ts";

/** The services that an MCP server uses, each opened when it is first needed. */
export type Services = {
  journal: Journal;
  /**
   * The session of a service by its name in the journal, else of the flags and settings, which are read each time: a login while the server
   * runs counts. Throws `usage` without a base URL, `auth` without a key.
   */
  open(baseUrl?: string): Promise<Session>;
};

/** With `--local` or `--base-url` there is that one service. */
export async function openServices(options: SessionOptions, { io, defer }: Context): Promise<Services> {
  const shared = await openShared(options, io);
  const isNamed = options.local || options.baseUrl !== undefined;
  const opened = new Map<string, { apiKey: string; session: Session }>();
  const inTurn = createTurns();

  async function open(baseUrl: string | undefined): Promise<Session> {
    const isUsual = isNamed || baseUrl === undefined;
    const local = opened.get(localBaseUrl);
    // Opening the local service again would run it a second time.
    if (local && (options.local || (!isUsual && baseUrl === localBaseUrl))) return local.session;
    const service = await (isUsual ? openService(options, io) : openServiceOf(baseUrl, options, io));
    const known = opened.get(service.baseUrl);
    if (known?.apiKey === service.apiKey) return known.session;
    const session = createSession(service, { ...options, ...shared }, io);
    opened.set(service.baseUrl, { apiKey: service.apiKey, session });
    defer(session.close);
    return session;
  }

  return { journal: shared.journal, open: (baseUrl) => inTurn(() => open(baseUrl)) };
}
